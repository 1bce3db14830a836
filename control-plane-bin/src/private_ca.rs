//! A certificate authority of this installation's own, for those who have none (SPEC §16).
//!
//! It lies in the data directory under `tls/`: `ca.pem` and `ca.key`, made once, and `server.pem` and `server.key`, which
//! can be made anew at any time. Agents are told the authority's SHA-256, so a new server certificate costs them nothing.

use std::net::IpAddr;

use mcp_core::secret::SecretValue;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::data_dir::{DataDir, DataDirError};

/// The directory below the data directory.
const DIR: &str = "tls";
const CA_PEM: &str = "tls/ca.pem";
const CA_KEY: &str = "tls/ca.key";
const SERVER_PEM: &str = "tls/server.pem";
const SERVER_KEY: &str = "tls/server.key";
/// How long the authority is good.
const CA_DAYS: i64 = 3650;
/// How long a server's certificate is good; browsers and TLS libraries of today refuse much more.
const SERVER_DAYS: i64 = 397;
/// Clocks of hosts go wrong; a certificate is good a little before it was made.
const EARLIER: Duration = Duration::hours(24);

/// Where everything lies now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// `server.pem`.
    pub(crate) cert: std::path::PathBuf,
    /// `server.key`.
    pub(crate) key: std::path::PathBuf,
    /// `ca.pem`.
    pub(crate) ca: std::path::PathBuf,
    /// Whether the authority was made by this very call.
    pub(crate) new_authority: bool,
}

/// Why no certificate was made. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateCaError {
    /// Not a name or address that a certificate can be for.
    #[error("{0:?} is no host name or address that a certificate can be for")]
    Host(String),
    /// One half of the authority is missing.
    #[error(
        "only one of tls/ca.pem and tls/ca.key is there: restore the other from a backup, or remove both and enrol \
         the agents anew"
    )]
    HalfAuthority,
    /// The authority's key is no key.
    #[error(
        "tls/ca.key is damaged: restore it from a backup, or remove it and tls/ca.pem and enrol the agents anew"
    )]
    Damaged,
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The library could not make one.
    #[error("a certificate could not be made")]
    Make(#[source] rcgen::Error),
}

/// Makes the authority if there is none, and a certificate for these hosts.
///
/// # Errors
/// [`PrivateCaError`].
pub(crate) fn issue(data: &DataDir, hosts: &[String]) -> Result<Made, PrivateCaError> {
    // What is typed wrongly must not leave an authority behind.
    let params = server_params(hosts)?;
    data.private_dir(DIR)?;
    let (issuer, new_authority) = authority(data)?;
    let key = KeyPair::generate().map_err(PrivateCaError::Make)?;
    let cert = params.signed_by(&key, &issuer).map_err(PrivateCaError::Make)?;
    // Two files cannot be replaced at one moment. A server that looks in between sees that they do not fit and waits.
    write_key(data, SERVER_KEY, &key)?;
    let made = data.write_text(SERVER_PEM, &cert.pem())?;
    let path = |name: &str| data.path().join(name);
    Ok(Made { cert: made, key: path(SERVER_KEY), ca: path(CA_PEM), new_authority })
}

fn authority(data: &DataDir) -> Result<(Issuer<'static, KeyPair>, bool), PrivateCaError> {
    let key = data.read_text(CA_KEY)?.map(SecretValue::new);
    match (data.read_text(CA_PEM)?, key) {
        (Some(_), Some(key)) => {
            #[expect(clippy::disallowed_methods, reason = "the authority's key signs a certificate")]
            let key = KeyPair::from_pem(key.reveal()).map_err(|_| PrivateCaError::Damaged)?;
            // Its name is always the same and its key identifier follows from the key, so there is nothing to parse.
            Ok((Issuer::new(ca_params(), key), false))
        }
        (None, None) => {
            let key = KeyPair::generate().map_err(PrivateCaError::Make)?;
            let cert = ca_params().self_signed(&key).map_err(PrivateCaError::Make)?;
            write_key(data, CA_KEY, &key)?;
            data.write_text(CA_PEM, &cert.pem())?;
            Ok((Issuer::new(ca_params(), key), true))
        }
        (Some(_), None) | (None, Some(_)) => Err(PrivateCaError::HalfAuthority),
    }
}

fn write_key(data: &DataDir, name: &str, key: &KeyPair) -> Result<(), DataDirError> {
    data.write_text(name, &key.serialize_pem()).map(drop)
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("CoreCI private authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    good_for(&mut params, CA_DAYS);
    params
}

fn server_params(hosts: &[String]) -> Result<CertificateParams, PrivateCaError> {
    for host in hosts {
        let is_name = !host.is_empty()
            && host.len() <= 253
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        if !is_name && host.parse::<IpAddr>().is_err() {
            return Err(PrivateCaError::Host(host.clone()));
        }
    }
    let mut params = CertificateParams::new(hosts).map_err(PrivateCaError::Make)?;
    params.distinguished_name = named("CoreCI control plane");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    good_for(&mut params, SERVER_DAYS);
    Ok(params)
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn good_for(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - EARLIER;
    params.not_after = now + Duration::days(days);
}

#[cfg(test)]
mod tests {
    use http_api::{ServerTls, TlsFiles};

    use super::*;

    fn data() -> (tempfile::TempDir, DataDir) {
        let dir = tempfile::tempdir().expect("a directory");
        let data = DataDir::choose(Some(&dir.path().join("data")), None, None).expect("a data directory");
        (dir, data)
    }

    fn files(made: &Made) -> TlsFiles {
        TlsFiles { cert: made.cert.clone(), key: made.key.clone(), ca: Some(made.ca.clone()) }
    }

    #[test]
    fn the_certificate_serves_its_hosts_and_the_authority_stays() {
        let (_dir, data) = data();
        let first = issue(&data, &["cp.example".into(), "192.0.2.7".into()]).expect("made");
        assert!(first.new_authority);
        for host in ["cp.example", "192.0.2.7"] {
            ServerTls::load(files(&first), host).expect(host);
        }
        ServerTls::load(files(&first), "other.example").expect_err("another host");
        let ca = std::fs::read(&first.ca).expect("read");
        let second = issue(&data, &["new.example".into()]).expect("made");
        assert!(!second.new_authority);
        assert_eq!(std::fs::read(&second.ca).expect("read"), ca);
        ServerTls::load(files(&second), "new.example").expect("signed by the same authority");
    }

    #[test]
    fn what_cannot_be_leaves_nothing_and_half_an_authority_is_not_replaced() {
        let (_dir, data) = data();
        for host in ["", "a b", "https://cp.example", "*"] {
            assert!(matches!(issue(&data, &[host.into()]), Err(PrivateCaError::Host(_))), "{host}");
        }
        assert!(!data.path().exists());
        let made = issue(&data, &["cp.example".into()]).expect("made");
        data.remove(CA_KEY);
        assert!(matches!(issue(&data, &["cp.example".into()]), Err(PrivateCaError::HalfAuthority)));
        data.write_text(CA_KEY, "junk").expect("written");
        assert!(matches!(issue(&data, &["cp.example".into()]), Err(PrivateCaError::Damaged)));
        ServerTls::load(files(&made), "cp.example").expect("the certificate is as it was");
    }
}
