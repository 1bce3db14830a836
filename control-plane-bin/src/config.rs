//! Settings: flags, then the environment, then a TOML file, then defaults. Parsed in full before anything starts.
//!
//! Secrets of tenants never come this way. A setting's one place is its field here; `docs/CONFIG.md` lists them
//! all.

mod environment;
mod oauth;
mod tls;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use egress::{EgressPolicy, ProxyUrl};
use http_api::{AllowedHosts, AllowedOrigins, BadOrigin, TlsFiles};
use ipnet::IpNet;
use mcp_broker::memory::Limits;
use mcp_core::tool::budget;
use serde::Deserialize;
use url::Url;

pub use self::environment::{ClientHomes, Environment};
pub use self::oauth::{OAuth, OAuthSettings};
pub use self::tls::TlsSettings;

/// Where the public listener listens unless told otherwise.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);
/// Where metrics are served unless told otherwise.
pub const DEFAULT_INTERNAL_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7421);

/// Settings as flags, environment variables or keys of the TOML file. Absent means: the next source, then the default.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Address of the public listener [default: 127.0.0.1:7420].
    #[arg(long, env = "CORECI_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Address of the internal listener, for metrics [default: 127.0.0.1:7421].
    #[arg(long, env = "CORECI_INTERNAL_LISTEN", value_name = "ADDR:PORT")]
    pub internal_listen: Option<SocketAddr>,
    /// URL under which clients and agents reach this server [default on loopback: http://LISTEN].
    #[arg(long, env = "CORECI_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// TLS ends at a proxy in front; needed for a listener that is not loopback and has no certificate of its own.
    #[arg(long, env = "CORECI_BEHIND_PROXY", num_args = 0..=1, default_missing_value = "true")]
    pub behind_proxy: Option<bool>,
    /// Networks of proxies whose X-Forwarded-For is believed.
    #[arg(long, env = "CORECI_TRUSTED_PROXIES", value_name = "CIDR", value_delimiter = ',')]
    pub trusted_proxies: Option<Vec<IpNet>>,
    /// Further host names that requests may carry, beside that of the public URL.
    #[arg(long, env = "CORECI_ALLOWED_HOSTS", value_name = "HOST", value_delimiter = ',')]
    pub allowed_hosts: Option<Vec<String>>,
    /// Origins of web pages that may talk to this server, beside its own: https://HOST, or http://localhost:* for any port.
    #[arg(long, env = "CORECI_ALLOWED_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub allowed_origins: Option<Vec<String>>,
    /// The certificate of the public listener.
    #[command(flatten)]
    #[serde(default)]
    pub tls: TlsSettings,
    /// Rate limits.
    #[command(flatten)]
    #[serde(default)]
    pub limits: LimitSettings,
    /// Whose access tokens are taken beside API keys.
    #[command(flatten)]
    #[serde(default)]
    pub oauth: OAuthSettings,
    /// Which hosts adapters may reach.
    #[command(flatten)]
    #[serde(default)]
    pub egress: EgressSettings,
}

/// How much one caller and one tenant may ask.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    /// Calls per minute of one user [default: 60].
    #[arg(long = "limits-user-per-min", env = "CORECI_LIMITS_USER_PER_MIN", value_name = "N")]
    pub user_per_min: Option<NonZeroU32>,
    /// Calls per minute of one tenant [default: 300].
    #[arg(long = "limits-tenant-per-min", env = "CORECI_LIMITS_TENANT_PER_MIN", value_name = "N")]
    pub tenant_per_min: Option<NonZeroU32>,
    /// Calls of one tenant in flight at once [default: 32].
    #[arg(long = "limits-in-flight", env = "CORECI_LIMITS_IN_FLIGHT", value_name = "N")]
    pub in_flight: Option<NonZeroU32>,
    /// Most bytes of a result on MCP, where a model reads it; 2048 to 524288 [default: 32768].
    #[arg(long = "limits-mcp-result-bytes", env = "CORECI_LIMITS_MCP_RESULT_BYTES", value_name = "BYTES")]
    pub mcp_result_bytes: Option<usize>,
}

/// Which hosts adapters may reach. What is never reached (metadata services, link-local addresses, this server itself) no
/// setting opens.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressSettings {
    /// saas when customers of yours configure adapters; self_hosted when the hosts are your own [default: self_hosted].
    #[arg(long = "egress-mode", env = "CORECI_EGRESS_MODE", value_enum)]
    pub mode: Option<EgressMode>,
    /// Private networks that may be reached, in self-hosted mode.
    #[arg(
        long = "egress-allow-cidrs",
        env = "CORECI_EGRESS_ALLOW_CIDRS",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub allow_cidrs: Option<Vec<IpNet>>,
    /// Hosts that are refused: a name, an address, or *.name.
    #[arg(
        long = "egress-deny-hosts",
        env = "CORECI_EGRESS_DENY_HOSTS",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub deny_hosts: Option<Vec<String>>,
    /// Ports that may be reached [default: 443,8006,3000,8443].
    #[arg(long = "egress-ports", env = "CORECI_EGRESS_PORTS", value_name = "PORT", value_delimiter = ',')]
    pub ports: Option<Vec<u16>>,
    /// Allow plain http, and then only to loopback or an allowed private address.
    #[arg(long = "egress-allow-http", env = "CORECI_EGRESS_ALLOW_HTTP", num_args = 0..=1, default_missing_value = "true")]
    pub allow_http: Option<bool>,
    /// Allow this machine's own loopback addresses. For trying things out.
    #[arg(long = "egress-allow-loopback", env = "CORECI_EGRESS_ALLOW_LOOPBACK", num_args = 0..=1, default_missing_value = "true")]
    pub allow_loopback: Option<bool>,
    /// HTTP proxy through which adapters reach their hosts. It must vet addresses itself: names are not resolved here.
    #[arg(
        long = "egress-proxy",
        env = "CORECI_EGRESS_PROXY",
        value_name = "http://HOST:PORT",
        hide_env_values = true
    )]
    pub proxy: Option<String>,
}

/// Who owns the network that this process stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum EgressMode {
    /// Customers configure adapters: nothing private is theirs.
    Saas,
    /// The hosts are the operator's own.
    SelfHosted,
}

impl EgressSettings {
    fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            allow_cidrs: self.allow_cidrs.or(other.allow_cidrs),
            deny_hosts: self.deny_hosts.or(other.deny_hosts),
            ports: self.ports.or(other.ports),
            allow_http: self.allow_http.or(other.allow_http),
            allow_loopback: self.allow_loopback.or(other.allow_loopback),
            proxy: self.proxy.or(other.proxy),
        }
    }

    fn policy(self) -> Result<EgressPolicy, ConfigError> {
        let defaults = EgressPolicy::default();
        let proxy = self.proxy.as_deref().map(ProxyUrl::parse).transpose();
        Ok(EgressPolicy {
            mode: match self.mode {
                Some(EgressMode::Saas) => egress::Mode::Saas,
                Some(EgressMode::SelfHosted) | None => egress::Mode::SelfHosted,
            },
            allow_cidrs: self.allow_cidrs.unwrap_or(defaults.allow_cidrs),
            deny_hosts: self.deny_hosts.unwrap_or(defaults.deny_hosts),
            ports: self.ports.unwrap_or(defaults.ports),
            allow_http: self.allow_http.unwrap_or(defaults.allow_http),
            allow_loopback: self.allow_loopback.unwrap_or(defaults.allow_loopback),
            own_addresses: defaults.own_addresses,
            proxy: proxy.map_err(|_| ConfigError::EgressProxy)?,
        })
    }
}

/// Settings that fit together.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of the public listener.
    pub listen: SocketAddr,
    /// Address of the internal listener.
    pub internal_listen: SocketAddr,
    /// The public URL; absent when it follows from the address that the listener gets (port 0).
    pub public_url: Option<PublicUrl>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Further hosts that requests may name.
    pub allowed_hosts: Vec<String>,
    /// Further web pages that may talk to this server.
    pub allowed_origins: Vec<String>,
    /// Where the public listener's certificate lies; without one it speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Rate limits.
    pub limits: Limits,
    /// Calls of one tenant in flight at once.
    pub in_flight: usize,
    /// Most bytes of a result on MCP.
    pub mcp_result_bytes: usize,
    /// Whose access tokens are taken beside API keys, if anybody's.
    pub oauth: Option<OAuth>,
    /// Which hosts adapters may reach, without this server's own addresses.
    pub egress: EgressPolicy,
}

/// Settings that do not fit. Each text names the setting and says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not of the expected form. The text quotes the offending line of the file.
    #[error("the configuration file {path} is refused: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        reason: String,
    },
    /// The public URL is not a plain one.
    #[error("public_url must be http:// or https:// with a host, without user, path, query or fragment")]
    PublicUrl,
    /// A public address without a public URL.
    #[error(
        "{0} is not a loopback address, so public_url is needed: the URL under which clients reach this server"
    )]
    PublicUrlMissing(SocketAddr),
    /// A public address without TLS.
    #[error(
        "{0} is not a loopback address, so TLS is needed: name a certificate with --tls-cert and --tls-key \
         (`control-plane tls init` makes one), put a TLS proxy in front and say --behind-proxy, or listen on a loopback \
         address"
    )]
    PlainText(SocketAddr),
    /// Half a certificate.
    #[error("tls.cert and tls.key go together, and tls.ca needs both")]
    TlsIncomplete,
    /// A certificate that no client would look at.
    #[error("public_url must begin with https:// when the listener has a certificate")]
    TlsUrl,
    /// The internal listener would be open to the world.
    #[error(
        "internal_listen must be a loopback address, since metrics are served there without authentication"
    )]
    InternalNotLoopback,
    /// An origin is none.
    #[error("allowed_origins: {0}")]
    Origin(#[from] BadOrigin),
    /// A result could be too small to hold anything, or larger than any door lets through.
    #[error("limits.mcp_result_bytes must lie between 2048 and 524288")]
    McpResultBytes,
    /// An issuer's URL is not one that can be trusted.
    #[error("{0} is refused for oauth: write https:// and a host, without user, query or fragment")]
    OAuthUrl(String),
    /// Something is said about tokens, but not whose.
    #[error("oauth.issuer is needed when oauth.audience or oauth.jwks_url is set")]
    OAuthIssuerMissing,
    /// The egress proxy is not one. The text is not repeated, since it may hold a password.
    #[error("egress.proxy must be http://host:port, without user, password and path")]
    EgressProxy,
}

impl Settings {
    /// Fills what is absent from a TOML file.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, or holds a key that is not known.
    pub fn or_file(self, path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(self) };
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let file: Self = toml::from_str(&text)
            .map_err(|error| ConfigError::Malformed { path: path.to_owned(), reason: error.to_string() })?;
        Ok(self.or(file))
    }

    fn or(self, other: Self) -> Self {
        Self {
            listen: self.listen.or(other.listen),
            internal_listen: self.internal_listen.or(other.internal_listen),
            public_url: self.public_url.or(other.public_url),
            behind_proxy: self.behind_proxy.or(other.behind_proxy),
            trusted_proxies: self.trusted_proxies.or(other.trusted_proxies),
            allowed_hosts: self.allowed_hosts.or(other.allowed_hosts),
            allowed_origins: self.allowed_origins.or(other.allowed_origins),
            tls: self.tls.or(other.tls),
            limits: LimitSettings {
                user_per_min: self.limits.user_per_min.or(other.limits.user_per_min),
                tenant_per_min: self.limits.tenant_per_min.or(other.limits.tenant_per_min),
                in_flight: self.limits.in_flight.or(other.limits.in_flight),
                mcp_result_bytes: self.limits.mcp_result_bytes.or(other.limits.mcp_result_bytes),
            },
            oauth: self.oauth.or(other.oauth),
            egress: self.egress.or(other.egress),
        }
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// [`ConfigError`] for a combination that would be unsafe.
    pub fn check(self) -> Result<Config, ConfigError> {
        let listen = self.listen.unwrap_or(DEFAULT_LISTEN);
        let internal_listen = self.internal_listen.unwrap_or(DEFAULT_INTERNAL_LISTEN);
        let public_url = self.public_url.as_deref().map(PublicUrl::parse).transpose()?;
        let tls = self.tls.check()?;
        if !internal_listen.ip().is_loopback() {
            return Err(ConfigError::InternalNotLoopback);
        }
        if !listen.ip().is_loopback() {
            if public_url.is_none() {
                return Err(ConfigError::PublicUrlMissing(listen));
            }
            if tls.is_none() && !self.behind_proxy.unwrap_or(false) {
                return Err(ConfigError::PlainText(listen));
            }
        }
        if tls.is_some() && public_url.as_ref().is_some_and(|url| !url.is_encrypted()) {
            return Err(ConfigError::TlsUrl);
        }
        let allowed_origins = self.allowed_origins.unwrap_or_default();
        // Read once more when the public URL is known; a bad one is told before anything starts.
        AllowedOrigins::parse(allowed_origins.iter().map(String::as_str))?;
        let mcp_result_bytes = self.limits.mcp_result_bytes.unwrap_or(budget::MCP_BYTES);
        if !(2048..=budget::REST_BYTES).contains(&mcp_result_bytes) {
            return Err(ConfigError::McpResultBytes);
        }
        let defaults = Limits::default();
        Ok(Config {
            listen,
            internal_listen,
            public_url,
            trusted_proxies: self.trusted_proxies.unwrap_or_default(),
            allowed_hosts: self.allowed_hosts.unwrap_or_default(),
            allowed_origins,
            tls,
            mcp_result_bytes,
            limits: Limits {
                user_per_min: self.limits.user_per_min.unwrap_or(defaults.user_per_min),
                tenant_per_min: self.limits.tenant_per_min.unwrap_or(defaults.tenant_per_min),
            },
            in_flight: self
                .limits
                .in_flight
                .map_or(mcp_broker::DEFAULT_IN_FLIGHT_LIMIT, |limit| limit.get() as usize),
            oauth: self.oauth.check()?,
            egress: self.egress.policy()?,
        })
    }
}

impl Config {
    /// The public URL once the listener has its address.
    ///
    /// # Errors
    /// [`ConfigError::PublicUrl`] never in practice: the address of a listener makes a plain URL.
    pub fn public_url_at(&self, bound: SocketAddr) -> Result<PublicUrl, ConfigError> {
        match &self.public_url {
            Some(url) => Ok(url.clone()),
            None => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                PublicUrl::parse(&format!("{scheme}://{bound}"))
            }
        }
    }

    /// The hosts that a request may name: that of the public URL, those of the settings, and the loopback names when only
    /// this machine can connect.
    #[must_use]
    pub fn hosts(&self, public_url: &PublicUrl) -> AllowedHosts {
        let loopback: &[&str] =
            if self.listen.ip().is_loopback() { &["localhost", "127.0.0.1", "[::1]"] } else { &[] };
        let own = std::iter::once(public_url.host().to_owned());
        let named = loopback.iter().map(|name| (*name).to_owned());
        AllowedHosts::new(own.chain(named).chain(self.allowed_hosts.iter().cloned()))
    }
}

impl Config {
    /// The web pages that a request may come from: this server's own, those of the settings, and any of this machine's when
    /// only this machine can connect.
    ///
    /// # Errors
    /// [`ConfigError::Origin`] never in practice: the settings were read before.
    pub fn origins(&self, public_url: &PublicUrl) -> Result<AllowedOrigins, ConfigError> {
        let loopback: &[&str] = if self.listen.ip().is_loopback() {
            &["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]
        } else {
            &[]
        };
        let named = self.allowed_origins.iter().map(String::as_str);
        Ok(AllowedOrigins::parse(
            std::iter::once(public_url.as_str()).chain(loopback.iter().copied()).chain(named),
        )?)
    }
}

/// Scheme, host and perhaps port of this server as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(Url);

impl PublicUrl {
    /// Reads a URL that names a server and nothing else.
    ///
    /// # Errors
    /// [`ConfigError::PublicUrl`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let url = Url::parse(text).map_err(|_| ConfigError::PublicUrl)?;
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        if is_plain { Ok(Self(url)) } else { Err(ConfigError::PublicUrl) }
    }

    /// The URL without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Whether clients speak TLS to it.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The host, lower case; an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The host, and the port unless it is the scheme's own: what agents sign.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.0.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(listen: &str) -> Settings {
        Settings { listen: Some(listen.parse().expect("an address")), ..Settings::default() }
    }

    // proves: C-Q23, C-O11
    #[test]
    fn a_listener_that_is_not_loopback_needs_a_public_url_and_tls_in_front() {
        assert!(matches!(settings("0.0.0.0:80").check(), Err(ConfigError::PublicUrlMissing(_))));
        let named = Settings { public_url: Some("https://c.example".into()), ..settings("0.0.0.0:80") };
        assert!(matches!(named.clone().check(), Err(ConfigError::PlainText(_))));
        assert!(Settings { behind_proxy: Some(true), ..named.clone() }.check().is_ok());
        let pair = TlsSettings { cert: Some("c.pem".into()), key: Some("k.pem".into()), ca: None };
        assert!(Settings { tls: pair.clone(), ..named.clone() }.check().is_ok());
        let half = TlsSettings { key: None, ..pair.clone() };
        assert!(matches!(Settings { tls: half, ..named.clone() }.check(), Err(ConfigError::TlsIncomplete)));
        let plain = Settings { tls: pair, public_url: Some("http://c.example".into()), ..named };
        assert!(matches!(plain.check(), Err(ConfigError::TlsUrl)));
        assert!(settings("[::1]:80").check().is_ok());
        let internal = Settings { internal_listen: "0.0.0.0:1".parse().ok(), ..settings("127.0.0.1:80") };
        assert!(matches!(internal.check(), Err(ConfigError::InternalNotLoopback)));
    }

    // proves: S-15
    #[test]
    fn flags_win_over_the_file_and_an_unknown_key_is_refused() {
        let directory = std::env::temp_dir().join(format!("coreci-config-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).expect("a directory");
        let path = directory.join("coreci.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            settings("127.0.0.1:1").or_file(Some(&path))
        };
        let merged = read("listen = \"127.0.0.1:2\"\n[limits]\nuser_per_min = 7\n").expect("read");
        assert_eq!(merged.listen, "127.0.0.1:1".parse().ok());
        assert_eq!(merged.limits.user_per_min, NonZeroU32::new(7));
        let refused = read("lisen = \"127.0.0.1:2\"\n").expect_err("refused").to_string();
        assert!(refused.contains("lisen"), "{refused}");
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn an_egress_proxy_is_named_by_the_settings_or_refused_by_its_key() {
        let named = |proxy: &str| {
            let file: Settings = toml::from_str(&format!("[egress]\nproxy = \"{proxy}\"\n")).expect("TOML");
            settings("127.0.0.1:1").or(file).check().map(|config| config.egress.proxy)
        };
        let proxy = named("http://proxy.corp:3128").expect("taken").expect("one");
        assert_eq!(proxy.to_string(), "http://proxy.corp:3128");
        assert_eq!(settings("127.0.0.1:1").check().expect("taken").egress.proxy, None);
        for text in ["", "proxy.corp:3128", "https://proxy.corp:3128", "http://u:s3cret@proxy.corp:3128"] {
            let refused = named(text).expect_err(text).to_string();
            assert!(refused.contains("egress.proxy") && !refused.contains("s3cret"), "{refused}");
        }
    }

    #[test]
    fn a_public_url_names_a_server_and_nothing_else() {
        for (text, authority) in [
            ("https://C.example/", "c.example"),
            ("http://127.0.0.1:7420", "127.0.0.1:7420"),
            ("https://c:443", "c"),
        ] {
            assert_eq!(PublicUrl::parse(text).expect("a URL").authority(), authority);
        }
        for text in ["", "c.example", "ftp://c", "https://u@c", "https://c/x", "https://c?x", "https://c#x"] {
            assert!(PublicUrl::parse(text).is_err(), "{text}");
        }
    }
}
