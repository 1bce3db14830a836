//! How commands find the running control plane that they talk to.

use std::path::PathBuf;

use clap::Args;

use super::Context;
use crate::client::{Client, ClientError, Place};
use crate::data_dir::DataDir;

/// Where the control plane is. Without these, what `dev` left in the data directory.
#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// URL of the control plane.
    #[arg(long, env = "CORECI_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// File that holds an API key.
    #[arg(long, env = "CORECI_KEY_FILE", value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// PEM file of the authority that signed the server's certificate, when no public one did.
    #[arg(long, env = "CORECI_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

impl Remote {
    pub(crate) fn client(&self, context: &Context) -> Result<Client, ClientError> {
        let place = self.place(&context.data)?;
        Client::new(&place.url, place.key, self.ca_pem()?.as_deref())
    }

    /// The certificates in the named file.
    pub(crate) fn ca_pem(&self) -> Result<Option<Vec<u8>>, ClientError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| ClientError::CaFile { path: path.clone(), source })
        };
        self.ca_file.as_ref().map(read).transpose()
    }

    pub(crate) fn place(&self, data: &DataDir) -> Result<Place, ClientError> {
        Place::find(self.url.as_deref(), self.key_file.as_deref(), data)
    }
}
