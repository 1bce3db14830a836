//! The passwords of an embedded server's roles, in a file that only its owner may read.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio_postgres::Config;

use super::error::EmbeddedError;
use super::layout::{Layout, unwritable, write_private};
use crate::connections::{Connections, harden};
use crate::migrate::RolePasswords;

pub(crate) const SUPERUSER: &str = "coreci_admin";
pub(crate) const DATABASE: &str = "coreci";

#[derive(Serialize, Deserialize)]
pub(crate) struct Passwords {
    pub(crate) superuser: String,
    migrator: String,
    app: String,
    audit: String,
}

impl Passwords {
    /// The passwords of an existing cluster.
    pub(crate) fn read(layout: &Layout) -> Result<Self, EmbeddedError> {
        let path = layout.passwords();
        let read = std::fs::read(&path).and_then(|bytes| {
            // The parse error is not passed on: it could quote a password.
            serde_json::from_slice(&bytes)
                .map_err(|_| std::io::Error::other("it is not the JSON that was written"))
        });
        read.map_err(|source| EmbeddedError::Passwords { path, source })
    }

    /// Passwords for a cluster that is about to be created. Those of an attempt that was cut short are used again.
    pub(crate) fn read_or_create(layout: &Layout) -> Result<Self, EmbeddedError> {
        if let Ok(kept) = Self::read(layout) {
            return Ok(kept);
        }
        let fresh = Self {
            superuser: random_password()?,
            migrator: random_password()?,
            app: random_password()?,
            audit: random_password()?,
        };
        let path = layout.passwords();
        let text =
            serde_json::to_vec_pretty(&fresh).map_err(|error| EmbeddedError::Prepare(Box::new(error)))?;
        write_private(&path, &text).map_err(unwritable("write", &path))?;
        Ok(fresh)
    }

    pub(crate) fn roles(&self) -> RolePasswords {
        RolePasswords { migrator: self.migrator.clone(), app: self.app.clone(), audit: self.audit.clone() }
    }

    pub(crate) fn connections(&self, socket_dir: &Path, port: u16) -> Connections {
        let config = |user: &str, password: &str| {
            let mut config = Config::new();
            config.host_path(socket_dir).port(port).dbname(DATABASE).user(user).password(password);
            harden(&mut config);
            config
        };
        Connections {
            admin: Some(config(SUPERUSER, &self.superuser)),
            migrator: Some(config("coreci_migrator", &self.migrator)),
            app: config("coreci_app", &self.app),
            audit: config("coreci_audit", &self.audit),
        }
    }
}

fn random_password() -> Result<String, EmbeddedError> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| EmbeddedError::Prepare("the system gives no randomness".into()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
