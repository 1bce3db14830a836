//! As whom Postgres runs. It refuses root, so root hands it to a user that may do less.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::EmbeddedError;

/// The user that owns the data and runs the server, when that is not simply ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUser {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl ServerUser {
    /// `None` for an ordinary user, who runs the server as itself.
    pub(crate) fn choose() -> Result<Option<Self>, EmbeddedError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| find_in(&accounts, name))
            .map(Some)
            .ok_or(EmbeddedError::NoServerUser)
    }

    /// The first directory on the way to `path` that this user may not enter.
    pub(crate) fn stopped_at(&self, path: &Path) -> Option<PathBuf> {
        let mut ancestors: Vec<&Path> = path.ancestors().filter(|one| !one.as_os_str().is_empty()).collect();
        ancestors.reverse();
        let stops =
            |one: &&Path| fs::metadata(one).is_ok_and(|found| found.is_dir() && !self.may_enter(&found));
        ancestors.into_iter().find(stops).map(Path::to_owned)
    }

    fn may_enter(&self, metadata: &fs::Metadata) -> bool {
        let bit = if metadata.uid() == self.uid {
            0o100
        } else if metadata.gid() == self.gid {
            0o010
        } else {
            0o001
        };
        metadata.mode() & bit != 0
    }
}

/// Makes `command` run as `user`; supplementary groups of root are dropped with it.
pub(crate) fn run_as(command: &mut Command, user: Option<&ServerUser>) {
    use std::os::unix::process::CommandExt as _;
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
}

/// Gives `path` to `user`.
pub(crate) fn give_to(path: &Path, user: Option<&ServerUser>) -> std::io::Result<()> {
    match user {
        Some(user) => std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

/// The uid that files of the server have to have.
pub(crate) fn server_uid(user: Option<&ServerUser>) -> u32 {
    user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid)
}

/// `name:password:uid:gid:comment:home:shell`. Root is never an answer, whatever the file says.
fn find_in(accounts: &str, name: &str) -> Option<ServerUser> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (uid != 0).then(|| ServerUser { name: name.to_owned(), uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name_and_never_as_root() {
        let accounts =
            "root:x:0:0::/:/bin/sh\npostgres2:x:7:7::/:/x\npostgres:x:101:104:a,b:/var:/x\nnobody:x:0:0:::\n";

        let postgres = ServerUser { name: "postgres".into(), uid: 101, gid: 104 };
        assert_eq!(find_in(accounts, "postgres"), Some(postgres));
        assert_eq!(find_in(accounts, "nobody"), None);
        assert_eq!(find_in(accounts, "somebody"), None);
    }
}
