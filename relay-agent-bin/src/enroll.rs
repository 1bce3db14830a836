//! Enrolling: a key is made here, and a single-use token buys it a place at the control plane.

use std::path::PathBuf;

use mcp_core::id::{AgentId, TargetId};
use mcp_core::relay::HostFacts;
use mcp_core::secret::SecretValue;
use serde::{Deserialize, Serialize};

use crate::capture::strip_controls;
use crate::dial::{Dialer, TlsError};
use crate::facts::host_facts;
use crate::http::{HttpError, post_json};
use crate::identity::{IdentityError, PendingKey};
use crate::proxy::Proxy;
use crate::server_url::ServerUrl;
use crate::trust::Trust;

const ENDPOINT: &str = "/api/relay/enroll";
/// Most characters of the control plane's own words that are shown.
const LONGEST_MESSAGE: usize = 200;

/// What enrolling needs.
#[derive(Debug)]
pub struct EnrollRequest {
    /// The control plane's public URL.
    pub url: ServerUrl,
    /// Whom to trust to be that control plane, now and ever after.
    pub trust: Trust,
    /// The token that an administrator made: good once, for an hour.
    pub token: SecretValue,
    /// Where the agent keeps its key. Made (0700) when it is not there.
    pub state_dir: PathBuf,
    /// What the agent says of its host.
    pub facts: HostFacts,
    /// The proxy on the way, if any.
    pub proxy: Option<Proxy>,
}

impl EnrollRequest {
    /// Enrols this host, trusts the authorities that it trusts, and goes through no proxy.
    #[must_use]
    pub fn new(url: ServerUrl, token: SecretValue, state_dir: impl Into<PathBuf>) -> Self {
        let state_dir = state_dir.into();
        Self { url, trust: Trust::default(), token, state_dir, facts: host_facts(), proxy: None }
    }
}

/// The new agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enrolled {
    /// Its id.
    pub agent: AgentId,
    /// The host that it stands for.
    pub target: TargetId,
}

/// The agent was not enrolled. Nothing of the attempt stays on the host.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// No key could be made or kept.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No secure connection can be made from this host.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The control plane did not answer.
    #[error("the control plane cannot be reached")]
    Unreachable(#[source] HttpError),
    /// The token was used before, has expired, or never existed. Ask for another one.
    #[error("the control plane does not accept the token: it was used, has expired or is mistyped")]
    TokenRefused,
    /// The control plane refused for another reason.
    #[error("the control plane refused ({status}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its own words, cut to 200 characters.
        message: String,
    },
    /// The answer is none that a control plane gives. Is the URL right?
    #[error("what answered is no control plane; is the URL right?")]
    NotAControlPlane,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    token: &'a str,
    public_key: String,
    #[serde(flatten)]
    facts: HostFacts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    agent_id: AgentId,
    target_id: TargetId,
}

#[derive(Deserialize)]
struct Complaint {
    message: String,
}

/// Makes a key, shows its public half to the control plane together with the token, and keeps the answer.
///
/// # Errors
/// [`EnrollError`]; the state directory is then as it was.
///
/// # Cancellation
/// Dropping the future removes the key. The control plane may have spent the token by then.
pub async fn enroll(request: EnrollRequest) -> Result<Enrolled, EnrollError> {
    let EnrollRequest { url, trust, token, state_dir, facts, proxy } = request;
    let dialer = Dialer::new(url, &trust, proxy)?;
    let key = PendingKey::generate(&state_dir)?;
    #[expect(clippy::disallowed_methods, reason = "the token enters the one request that it was made for")]
    let body = Body { token: token.reveal(), public_key: key.public_key_hex(), facts: facts.bounded() };
    let body = serde_json::to_vec(&body).expect("texts always have a JSON form");

    let answer = post_json(&dialer, ENDPOINT, body).await.map_err(EnrollError::Unreachable)?;
    match answer.status {
        201 => {
            let Accepted { agent_id: agent, target_id: target } =
                serde_json::from_slice(&answer.body).map_err(|_| EnrollError::NotAControlPlane)?;
            key.keep(agent, target, dialer.url(), &trust)?;
            Ok(Enrolled { agent, target })
        }
        401 => Err(EnrollError::TokenRefused),
        status @ 400..=599 => {
            let message = match serde_json::from_slice(&answer.body) {
                Ok(Complaint { message }) => strip_controls(&message).chars().take(LONGEST_MESSAGE).collect(),
                Err(_) => "it gave no reason".to_owned(),
            };
            Err(EnrollError::Refused { status, message })
        }
        _ => Err(EnrollError::NotAControlPlane),
    }
}
