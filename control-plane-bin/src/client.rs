//! A client of a running control plane, for commands that go over HTTP.

use std::path::Path;

use mcp_core::secret::SecretValue;
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::data_dir::{DataDir, DataDirError};

/// The file in the data directory that says how to reach a control plane that `dev` runs.
pub const DEV_JSON: &str = "dev.json";

/// What `dev` leaves for other programs on this machine, with mode 0600.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DevJson {
    /// URL of the control plane.
    pub url: String,
    /// URL of its MCP endpoint.
    pub mcp_url: String,
    /// An admin key of the demo tenant.
    pub api_key: String,
    /// The demo tenant.
    pub tenant_id: String,
    /// This machine as a target.
    pub target_id: String,
    /// A one-time login link; null until there is a console.
    pub login_url: Option<String>,
}

/// Where a control plane is, and with which key to talk to it.
pub struct Place {
    /// Its URL.
    pub url: String,
    /// A key.
    pub key: SecretValue,
}

impl Place {
    /// What the flags name, or else what `dev` left in the data directory.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn find(url: Option<&str>, key_file: Option<&Path>, data: &DataDir) -> Result<Self, ClientError> {
        match (url, key_file) {
            (Some(url), Some(path)) => {
                let key = std::fs::read_to_string(path)
                    .map_err(|source| ClientError::KeyFile { path: path.to_owned(), source })?;
                Ok(Self { url: url.to_owned(), key: SecretValue::new(key.trim().to_owned()) })
            }
            (None, None) => {
                let text = data.read_text(DEV_JSON)?.ok_or(ClientError::Unknown)?;
                let dev: DevJson = serde_json::from_str(&text).map_err(|_| ClientError::Unknown)?;
                Ok(Self { url: dev.url, key: SecretValue::new(dev.api_key) })
            }
            (Some(_), None) | (None, Some(_)) => Err(ClientError::Incomplete),
        }
    }
}

/// Talks to one control plane with one key.
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: SecretValue,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody said where the control plane is.
    #[error(
        "no control plane is known here: start one with `control-plane dev`, or name one with --url and --key-file"
    )]
    Unknown,
    /// A URL without a key, or the other way round.
    #[error("--url and --key-file go together")]
    Incomplete,
    /// The key's file, or `dev.json`, cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The key's file cannot be read.
    #[error("the key file {path} cannot be read: {source}")]
    KeyFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The authority's file cannot be read.
    #[error("the authority's file {path} cannot be read: {source}")]
    CaFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The authority's file holds no certificates.
    #[error("--ca-file holds no certificate in PEM")]
    Ca,
    /// No answer.
    #[error("the control plane at {url} does not answer; is it running?")]
    Unreachable {
        /// Its URL.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// An answer that is a refusal.
    #[error("{message} ({code})")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The stable code.
        code: String,
        /// The sentence.
        message: String,
        /// The whole refusal.
        body: Value,
    },
    /// An answer that makes no sense.
    #[error("the control plane's answer is not what its API promises")]
    Malformed,
}

/// One event of a call's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// Its id, `<ulid>-<seq>`; empty when it has none.
    pub id: String,
    /// Its name.
    pub event: String,
    /// Its data.
    pub data: String,
}

impl Client {
    /// A client for this URL and key. Authorities in `ca_pem` are trusted beside those of the system.
    ///
    /// # Errors
    /// [`ClientError::Ca`] when `ca_pem` holds no certificates.
    pub fn new(url: &str, key: SecretValue, ca_pem: Option<&[u8]>) -> Result<Self, ClientError> {
        // Our own server is meant, whatever proxy the environment names.
        let mut http = reqwest::Client::builder().no_proxy();
        if let Some(pem) = ca_pem {
            let found = reqwest::Certificate::from_pem_bundle(pem).map_err(|_| ClientError::Ca)?;
            if found.is_empty() {
                return Err(ClientError::Ca);
            }
            for certificate in found {
                http = http.add_root_certificate(certificate);
            }
        }
        let http = http.build().map_err(|_| ClientError::Malformed)?;
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), key })
    }

    /// Sends a request and reads a JSON answer (null when there is none).
    ///
    /// # Errors
    /// [`ClientError`]; a refusal of the server is [`ClientError::Refused`].
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let text = self.text(request).await?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|_| ClientError::Malformed)
    }

    /// Reads the events of a call to its end.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn stream(&self, stream_url: &str) -> Result<Vec<StreamEvent>, ClientError> {
        let text = self.text(self.request(Method::GET, stream_url)).await?;
        Ok(parse_events(&text))
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        #[expect(clippy::disallowed_methods, reason = "the key enters the request that it authenticates")]
        let key = self.key.reveal();
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(key)
    }

    async fn text(&self, request: reqwest::RequestBuilder) -> Result<String, ClientError> {
        let unreachable = |source: reqwest::Error| ClientError::Unreachable {
            url: self.url.clone(),
            source: source.without_url(),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        if status.is_success() {
            return Ok(text);
        }
        let refusal: Value = serde_json::from_str(&text).unwrap_or_default();
        let word = |name: &str| refusal[name].as_str().map(str::to_owned);
        Err(ClientError::Refused {
            status,
            code: word("error").unwrap_or_else(|| status.as_u16().to_string()),
            message: word("message").unwrap_or_else(|| "the control plane refused".to_owned()),
            body: refusal,
        })
    }
}

fn parse_events(text: &str) -> Vec<StreamEvent> {
    let blocks = text.split("\n\n").filter(|block| block.lines().any(|line| line.starts_with("event:")));
    blocks
        .map(|block| {
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.unwrap_or_default().trim_start().to_owned()
            };
            StreamEvent { id: field("id"), event: field("event"), data: field("data") }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_skipped_and_fields_are_read() {
        let events = parse_events(
            ": keep-alive\n\nid: X-0\nevent: tool_result\ndata: {\"a\":1}\n\nevent: done\ndata: {}\n\n",
        );
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].id, "X-0");
        assert_eq!(events[0].data, "{\"a\":1}");
        assert_eq!(events[1].event, "done");
    }
}
