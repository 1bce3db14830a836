# shellcheck shell=bash
# Sourced by scripts/dev and scripts/test: messages, and a check of what a build needs.
# Everything is said on stderr, because stdout belongs to the program that is run.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# True when version $1 is at least version $2.
version_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# check_toolchain REPO: one sentence with the way out when something is missing.
check_toolchain() {
    local repo=$1 wanted found
    if ! command -v cargo >/dev/null 2>&1 && [ -x "${CARGO_HOME:-${HOME:-}/.cargo}/bin/cargo" ]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
        export PATH
    fi
    wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$repo/Cargo.toml" | head -n 1)
    if ! command -v cargo >/dev/null 2>&1 || ! command -v rustc >/dev/null 2>&1; then
        die "Rust is not installed; install version $wanted or newer with rustup (https://rustup.rs), then run this again."
    fi
    found=$(cd "$repo" && rustc --version | cut -d ' ' -f 2 | cut -d - -f 1) ||
        die "rustc does not start; repair it with 'rustup toolchain install stable', then run this again."
    version_at_least "$found" "$wanted" ||
        die "Rust $found is too old, $wanted or newer is needed; run 'rustup update stable', then run this again."
    command -v cc >/dev/null 2>&1 ||
        die "There is no C compiler, which Rust needs for linking; install one (Debian: 'apt-get install gcc libc6-dev'), then run this again."
}
