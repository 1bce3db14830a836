//! Who this agent is: a key that never leaves the host, and what the control plane called it.
//!
//! The state directory (0700) holds `agent.key` (Ed25519, PKCS #8, 0600) and `agent.json`.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mcp_core::id::{AgentId, TargetId};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::files::{bits_of_others, make_private_dir, write_durably};
use crate::server_url::ServerUrl;
use crate::trust::{CaSha256, Trust};

const KEY_FILE: &str = "agent.key";
const PENDING_KEY_FILE: &str = "agent.key-pending";
const RECORD_FILE: &str = "agent.json";
/// Far more than a key or a record needs, bytes.
const LARGEST_FILE: u64 = 16 * 1024;

/// An enrolled agent.
pub struct Identity {
    /// Its id.
    pub agent: AgentId,
    /// The host that it stands for.
    pub target: TargetId,
    /// The control plane that it belongs to.
    pub url: ServerUrl,
    /// Whom it trusts to be that control plane.
    pub trust: Trust,
    key: Ed25519KeyPair,
}

/// The state directory does not make an agent.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no agent in it.
    #[error("this agent is not enrolled")]
    NotEnrolled,
    /// There is one already, and its key is not thrown away for another.
    #[error("an agent is enrolled here already; remove its files first if it is to be replaced")]
    AlreadyEnrolled,
    /// Others than the owner may read or write the key.
    #[error("{path} has mode {mode:04o}, so others can use the key; set it to 0600")]
    KeyNotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Others than the owner may put another key there.
    #[error("{path} has mode {mode:04o}, so others can replace the key; set it to 0700")]
    DirectoryNotPrivate {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("the state directory cannot be written")]
    Unwritable(#[source] io::Error),
    /// A file does not contain what it should.
    #[error("{path} is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The operating system has no randomness to offer.
    #[error("no key could be generated")]
    Randomness,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    agent_id: AgentId,
    target_id: TargetId,
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_sha256: Option<CaSha256>,
}

impl Record {
    fn trust(&self) -> Option<Trust> {
        match (&self.ca_file, self.ca_sha256) {
            (None, None) => Some(Trust::System),
            (Some(path), None) => Some(Trust::CaFile(path.clone())),
            (None, Some(hash)) => Some(Trust::CaSha256(hash)),
            (Some(_), Some(_)) => None,
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("agent", &self.agent).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads the agent that was enrolled in this directory.
    ///
    /// # Errors
    /// [`IdentityError::NotEnrolled`] when there is none; the other variants when its files cannot be trusted.
    pub fn load(state_dir: &Path) -> Result<Self, IdentityError> {
        let record_path = state_dir.join(RECORD_FILE);
        let record = match read(&record_path) {
            Ok((bytes, _)) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(IdentityError::NotEnrolled),
            Err(source) => return Err(IdentityError::Unreadable { path: record_path, source }),
        };
        let damaged = || IdentityError::Damaged { path: record_path.clone() };
        let record: Record = serde_json::from_slice(&record).map_err(|_| damaged())?;
        let url = record.url.parse().map_err(|_| damaged())?;
        let trust = record.trust().ok_or_else(damaged)?;

        check_directory(state_dir)?;
        let path = state_dir.join(KEY_FILE);
        let (bytes, mode) =
            read(&path).map_err(|source| IdentityError::Unreadable { path: path.clone(), source })?;
        if mode & 0o077 != 0 {
            return Err(IdentityError::KeyNotPrivate { path, mode });
        }
        let key = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| IdentityError::Damaged { path })?;
        Ok(Self { agent: record.agent_id, target: record.target_id, url, trust, key })
    }

    pub(crate) fn sign(&self, message: &[u8]) -> impl AsRef<[u8]> + use<> {
        self.key.sign(message)
    }
}

/// A key that the control plane has not accepted yet. Dropping it leaves no trace.
pub(crate) struct PendingKey<'a> {
    state_dir: &'a Path,
    made_directory: bool,
    public_key: Vec<u8>,
}

impl<'a> PendingKey<'a> {
    /// Makes a key and writes it down, so that a directory that cannot be written is found out before a single-use token
    /// is spent.
    pub(crate) fn generate(state_dir: &'a Path) -> Result<Self, IdentityError> {
        let made_directory = make_private_dir(state_dir).map_err(IdentityError::Unwritable)?;
        let mut pending = Self { state_dir, made_directory, public_key: Vec::new() };
        check_directory(state_dir)?;
        if state_dir.join(RECORD_FILE).exists() {
            return Err(IdentityError::AlreadyEnrolled);
        }
        let key =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| IdentityError::Randomness)?;
        let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).map_err(|_| IdentityError::Randomness)?;
        pending.public_key = pair.public_key().as_ref().to_vec();
        write_durably(&state_dir.join(PENDING_KEY_FILE), key.as_ref()).map_err(IdentityError::Unwritable)?;
        Ok(pending)
    }

    #[cfg(test)]
    pub(crate) fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    pub(crate) fn public_key_hex(&self) -> String {
        self.public_key.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Makes the key this agent's own. The record is written last: without it the directory counts as not enrolled.
    pub(crate) fn keep(
        self,
        agent: AgentId,
        target: TargetId,
        url: &ServerUrl,
        trust: &Trust,
    ) -> Result<(), IdentityError> {
        let (ca_file, ca_sha256) = match trust {
            Trust::System => (None, None),
            Trust::CaFile(path) => (Some(path.clone()), None),
            Trust::CaSha256(hash) => (None, Some(*hash)),
        };
        let record = Record { agent_id: agent, target_id: target, url: url.to_string(), ca_file, ca_sha256 };
        let record = serde_json::to_vec_pretty(&record).expect("ids and a URL always have a JSON form");
        fs::rename(self.state_dir.join(PENDING_KEY_FILE), self.state_dir.join(KEY_FILE))
            .and_then(|()| write_durably(&self.state_dir.join(RECORD_FILE), &record))
            .map_err(IdentityError::Unwritable)
    }
}

impl Drop for PendingKey<'_> {
    fn drop(&mut self) {
        // After `keep` there is no such file any more, and the directory is not empty; both calls then do nothing.
        let _ = fs::remove_file(self.state_dir.join(PENDING_KEY_FILE));
        if self.made_directory {
            let _ = fs::remove_dir(self.state_dir);
        }
    }
}

/// Refuses a directory in which others than its owner can put files.
pub(crate) fn check_directory(path: &Path) -> Result<(), IdentityError> {
    let metadata =
        fs::metadata(path).map_err(|source| IdentityError::Unreadable { path: path.to_owned(), source })?;
    let others = bits_of_others(&metadata);
    if others & 0o022 != 0 {
        return Err(IdentityError::DirectoryNotPrivate { path: path.to_owned(), mode: 0o700 | others });
    }
    Ok(())
}

/// Contents and permission bits, taken from the one open file, so that nobody can swap it in between. Links are not
/// followed.
fn read(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    use std::os::unix::fs::PermissionsExt;

    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(no_follow).open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut bytes)?;
    Ok((bytes, mode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use uuid::Uuid;

    use super::*;

    fn enrolled() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let url = "https://cp.example".parse().unwrap();
        let (agent, target) =
            (AgentId::from_uuid(Uuid::from_u128(1)), TargetId::from_uuid(Uuid::from_u128(2)));
        PendingKey::generate(dir.path()).unwrap().keep(agent, target, &url, &Trust::System).unwrap();
        dir
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn an_enrolled_agent_signs_with_the_key_it_showed() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let pending = PendingKey::generate(&state).unwrap();
        let public = pending.public_key.clone();
        assert_eq!(pending.public_key_hex().len(), 64);
        let url: ServerUrl = "https://cp.example".parse().unwrap();
        let (agent, target) =
            (AgentId::from_uuid(Uuid::from_u128(1)), TargetId::from_uuid(Uuid::from_u128(2)));
        let trust = Trust::CaSha256("a5".repeat(32).parse().unwrap());
        pending.keep(agent, target, &url, &trust).unwrap();

        let identity = Identity::load(&state).unwrap();
        assert_eq!(identity.trust, trust);
        assert_eq!((identity.agent, identity.target, &identity.url), (agent, target, &url));
        let verifier = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public);
        verifier.verify(b"message", identity.sign(b"message").as_ref()).unwrap();
        assert!(!format!("{identity:?}").contains("key"));
        assert_eq!(fs::read_dir(&state).unwrap().count(), 2);
    }

    #[test]
    fn a_key_that_was_not_accepted_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        drop(PendingKey::generate(&dir.path().join("made/for/it")).unwrap());
        assert!(!dir.path().join("made/for/it").exists());

        let state = dir.path().join("was/there");
        make_private_dir(&state).unwrap();
        drop(PendingKey::generate(&state).unwrap());
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        assert!(matches!(Identity::load(&state), Err(IdentityError::NotEnrolled)));
    }

    // proves: C-M22, C-O11
    #[test]
    fn files_that_others_can_touch_are_refused_with_the_reason() {
        let dir = enrolled();
        let key = dir.path().join(KEY_FILE);
        for mode in [0o640, 0o604, 0o620, 0o644] {
            set_mode(&key, mode);
            let error = Identity::load(dir.path()).unwrap_err();
            assert!(matches!(error, IdentityError::KeyNotPrivate { mode: found, .. } if found == mode));
            assert!(error.to_string().contains("set it to 0600"), "{error}");
        }
        set_mode(&key, 0o600);
        for mode in [0o770, 0o702] {
            set_mode(dir.path(), mode);
            assert!(matches!(Identity::load(dir.path()), Err(IdentityError::DirectoryNotPrivate { .. })));
        }
        set_mode(dir.path(), 0o755);
        assert!(Identity::load(dir.path()).is_ok());

        fs::rename(&key, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &key).unwrap();
        assert!(matches!(Identity::load(dir.path()), Err(IdentityError::Unreadable { .. })));
    }

    #[test]
    fn damaged_files_and_a_second_agent_are_refused() {
        let dir = enrolled();
        assert!(matches!(PendingKey::generate(dir.path()), Err(IdentityError::AlreadyEnrolled)));
        assert!(Identity::load(dir.path()).is_ok());

        fs::write(dir.path().join(KEY_FILE), "junk").unwrap();
        assert!(matches!(Identity::load(dir.path()), Err(IdentityError::Damaged { .. })));
        let plaintext = serde_json::json!({
            "agentId": Uuid::nil(), "targetId": Uuid::nil(), "url": "http://cp.example",
        });
        fs::write(dir.path().join(RECORD_FILE), plaintext.to_string()).unwrap();
        assert!(matches!(Identity::load(dir.path()), Err(IdentityError::Damaged { .. })));
    }
}
