//! The process that outlives the tests just long enough to clean up after them.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

/// Ends the server and removes its directory when nobody has held the lease for 20 s. The rename comes first, so that a
/// test process which arrives in between starts afresh beside it and never inside what is being removed.
const SCRIPT: &str = r#"
dir=$1
exec 9>"$dir/keeper" && flock -n 9 || exit 0
last=$(date +%s)
while [ -e "$dir/lease" ]; do
    sleep 2
    exec 8<"$dir/lease" || exit 0
    if flock -n -x 8; then
        seen=$(stat -c %Y "$dir/lease") || exit 0
        [ "$seen" -gt "$last" ] && last=$seen
        if [ $(($(date +%s) - last)) -ge 20 ]; then
            pid=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null)
            if [ -n "$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir/data"; then
                kill -QUIT "$pid"
                tries=0
                while kill -0 "$pid" 2>/dev/null && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
            fi
            mv "$dir" "$dir.gone.$$" && rm -rf "$dir.gone.$$"
            exit 0
        fi
        flock -u 8
    else
        last=$(date +%s)
    fi
done
"#;

/// Starts a keeper for `dir` unless one is there. A second one ends by itself.
pub(super) fn ensure(dir: &Path) {
    let path = dir.join("keeper");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .expect("open the keeper's lock");
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return;
    }
    drop(file);
    let started = Command::new("setsid")
        .args(["--fork", "sh", "-c", SCRIPT, "coreci-test-keeper"])
        .arg(dir)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(
        started.is_ok_and(|status| status.success()),
        "the keeper needs `setsid` and `flock` (util-linux)"
    );
}
