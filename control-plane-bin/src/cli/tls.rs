//! `tls init`: a private authority and a certificate, for those who have none.

use clap::Subcommand;
use serde_json::json;

use super::{CommandError, Context, say};
use crate::output::{self, Format};
use crate::private_ca::{PrivateCaError, issue};

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Make a certificate for this server, and the authority that signs it unless there is one. Run it again to renew the
    /// certificate; a running server takes it up by itself.
    Init {
        /// Name or address under which clients and agents reach this server.
        #[arg(long = "host", value_name = "HOST", required = true)]
        hosts: Vec<String>,
    },
}

pub(crate) fn run(command: TlsCommand, context: &Context) -> Result<(), CommandError> {
    let TlsCommand::Init { hosts } = command;
    let made = issue(&context.data, &hosts).map_err(|error| match error {
        PrivateCaError::Host(_) => CommandError::Usage(error.to_string()),
        other => CommandError::Failure(other.into()),
    })?;
    let (cert, key, ca) = (made.cert.display(), made.key.display(), made.ca.display());
    match context.output {
        Format::Json => {
            let made = json!({
                "cert": cert.to_string(), "key": key.to_string(), "ca": ca.to_string(),
                "newAuthority": made.new_authority,
            });
            output::print(context.output, &[], &made);
        }
        Format::Table => {
            if made.new_authority {
                say("made an authority; back up its key, and give ca.pem to clients (--ca-file)");
            }
            say("serve with:");
            output::line(&format!("--tls-cert {cert} --tls-key {key} --tls-ca {ca}"));
        }
    }
    Ok(())
}
