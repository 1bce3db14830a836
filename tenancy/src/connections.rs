//! Who connects to the database, and how.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Sent and not acknowledged for this long: the connection is gone. A caller has its answer within 3 s (C-L04).
const TCP_USER_TIMEOUT: Duration = Duration::from_millis(2500);

/// Connection settings, one per role. `admin` and `migrator` are there only where this process may use them.
#[derive(Clone)]
pub struct Connections {
    /// A role that may create roles; runs `sql/roles.sql`.
    pub admin: Option<Config>,
    /// `coreci_migrator`, which owns the schema.
    pub migrator: Option<Config>,
    /// `coreci_app`: all tenant work.
    pub app: Config,
    /// `coreci_audit`: the audit writer.
    pub audit: Config,
}

impl Connections {
    /// Settings for a database that somebody else runs, from one URL per role.
    ///
    /// # Errors
    /// When a URL is malformed (the URL itself is never quoted: it holds a password), or asks for TLS, which this
    /// version does not speak.
    pub fn from_urls(
        app_url: &str,
        audit_url: &str,
        migrator_url: Option<&str>,
        admin_url: Option<&str>,
    ) -> Result<Self, ConnectionsError> {
        Ok(Self {
            admin: admin_url.map(|url| parse("admin", url)).transpose()?,
            migrator: migrator_url.map(|url| parse("migrator", url)).transpose()?,
            app: parse("app", app_url)?,
            audit: parse("audit", audit_url)?,
        })
    }
}

/// A database URL cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionsError {
    /// Not a Postgres URL or key-value string.
    #[error("the {role} database URL is not valid: {problem}")]
    Malformed {
        /// Which of the URLs.
        role: &'static str,
        /// What is wrong, without the URL.
        problem: &'static str,
    },
    /// The URL asks for TLS.
    #[error(
        "the {role} database URL asks for TLS, which is not supported yet: use a Unix socket, a loopback address or \
         a private network with sslmode=disable"
    )]
    TlsNotSupported {
        /// Which of the URLs.
        role: &'static str,
    },
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("admin", &self.admin.as_ref().map(Endpoint))
            .field("migrator", &self.migrator.as_ref().map(Endpoint))
            .field("app", &Endpoint(&self.app))
            .field("audit", &Endpoint(&self.audit))
            .finish()
    }
}

/// Shows where a configuration leads and as whom, never with what password.
struct Endpoint<'a>(&'a Config);

impl fmt::Debug for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.0.get_user().unwrap_or_default();
        let name = self.0.get_dbname().unwrap_or_default();
        write!(f, "{user}@{:?}/{name}", self.0.get_hosts())
    }
}

fn parse(role: &'static str, url: &str) -> Result<Config, ConnectionsError> {
    let malformed = |problem| ConnectionsError::Malformed { role, problem };
    // `verify-ca` and `verify-full` are unknown to the parser; say what is missing rather than "malformed".
    if url.contains("sslmode=verify") {
        return Err(ConnectionsError::TlsNotSupported { role });
    }
    let mut config: Config =
        url.parse().map_err(|_| malformed("expected postgres://user:password@host/name"))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(malformed("it names no host"));
    }
    if config.get_user().is_none() {
        return Err(malformed("it names no user"));
    }
    if config.get_ssl_mode() == SslMode::Require {
        return Err(ConnectionsError::TlsNotSupported { role });
    }
    config.ssl_mode(SslMode::Disable);
    harden(&mut config);
    Ok(config)
}

/// A silent network must be noticed within seconds, not after the kernel's two hours.
pub(crate) fn harden(config: &mut Config) {
    config.application_name("coreci").connect_timeout(Duration::from_secs(2));
    if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
        && config.get_hostaddrs().is_empty()
    {
        return;
    }
    config
        .tcp_user_timeout(TCP_USER_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3);
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "postgres://coreci_app:canary-4711@db/coreci";

    // proves: C-L04
    #[test]
    fn a_silent_network_is_noticed_within_seconds() {
        let connections = Connections::from_urls(APP, APP, None, None).unwrap();

        assert_eq!(connections.app.get_tcp_user_timeout(), Some(&TCP_USER_TIMEOUT));
        assert_eq!(connections.app.get_connect_timeout(), Some(&Duration::from_secs(2)));
        assert!(connections.app.get_keepalives());
    }

    // proves: S-05
    #[test]
    fn no_password_is_shown() {
        let connections = Connections::from_urls(APP, APP, Some(APP), Some(APP)).unwrap();
        assert!(!format!("{connections:?}").contains("canary"));

        let broken = Connections::from_urls("postgres://a:canary-4711@[db/x", APP, None, None).unwrap_err();
        assert!(!format!("{broken} {broken:?}").contains("canary"));
    }

    #[test]
    fn tls_is_refused_in_words() {
        for mode in ["require", "verify-full"] {
            let url = format!("{APP}?sslmode={mode}");
            let error = Connections::from_urls(&url, APP, None, None).unwrap_err();
            assert!(error.to_string().contains("asks for TLS"), "{error}");
        }
    }
}
