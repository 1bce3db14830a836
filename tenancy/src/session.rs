//! One plain connection, for work that is not a tenant's: migrations, checks, the embedded server's first steps.

use std::time::Duration;

use tokio_postgres::{Client, Config, NoTls};

/// Connects within `limit` and drives the connection in the background. Dropping the client ends the session.
pub(crate) async fn open(config: &Config, limit: Duration) -> Result<Client, OpenError> {
    let (client, connection) = tokio::time::timeout(limit, config.connect(NoTls))
        .await
        .map_err(|_| OpenError::TimedOut)?
        .map_err(OpenError::Refused)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a database session ended with an error");
        }
    });
    Ok(client)
}

/// The session could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the database did not answer in time")]
    TimedOut,
    #[error("the database refused the connection")]
    Refused(#[source] tokio_postgres::Error),
}
