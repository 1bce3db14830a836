//! How commands find the running control plane that they talk to.

use std::path::PathBuf;

use clap::Args;

use super::Context;
use crate::client::{Client, ClientError};

/// Where the control plane is. Without these, what `dev` left in the data directory.
#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// URL of the control plane.
    #[arg(long, env = "CORECI_URL", value_name = "URL")]
    url: Option<String>,
    /// File that holds an API key.
    #[arg(long, env = "CORECI_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Remote {
    pub(crate) fn client(&self, context: &Context) -> Result<Client, ClientError> {
        Client::find(self.url.as_deref(), self.key_file.as_deref(), &context.data)
    }
}
