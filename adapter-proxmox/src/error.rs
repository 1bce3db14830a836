//! What can go wrong with one request, told apart by what an admin would do about it.
//!
//! Texts of the upstream are looked at, because before late 8.x the reason phrase is all there is, but never repeated.

use egress::EgressError;
use mcp_core::error::AdapterError;

use crate::dial;
use crate::endpoint::Endpoint;
use crate::envelope::NoData;

/// Why a request brought no data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// No answer was had.
    #[error("the request did not get an answer")]
    Egress(#[source] EgressError),
    /// An answer that is no data.
    #[error("Proxmox VE refused the request")]
    Refused(Refusal),
    /// Success, but not of the promised shape.
    #[error(transparent)]
    NoData(#[from] NoData),
}

/// The answers that are no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 3xx. Never followed: a credential stays with the host it was given for.
    Redirect,
    /// 400 with a message per parameter.
    Parameters,
    /// 401. The words differ between releases, so the number alone decides.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404, which Proxmox VE itself does not answer below `/api2/json`.
    NoApiHere,
    /// 429, from a proxy in front.
    TooMany(u64),
    /// 500 because the guest's configuration file is not on this node.
    GuestMissing,
    /// 500 because the node's name has no address.
    NodeUnknown,
    /// 501: this release does not have the endpoint.
    NotImplemented,
    /// 502 to 504, from a proxy in front.
    Gateway,
    /// 595: the host that answered cannot reach the node.
    NodeUnreachable,
    /// 596: TLS between the nodes failed, mostly because the name is no node's.
    NodeTls,
    /// 599: an old defect of the proxy between nodes, gone at the next try.
    NodeProxy,
    /// Any other failure.
    Other(u16),
}

impl Refusal {
    /// Sorts an answer by its status and, for 500, by what its text contains. None for success.
    pub(crate) fn of(status: u16, text: &str, retry_after_sec: Option<u64>) -> Option<Self> {
        Some(match status {
            200..=299 => return None,
            300..=399 => Self::Redirect,
            400 => Self::Parameters,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NoApiHere,
            429 => Self::TooMany(retry_after_sec.unwrap_or(60).clamp(1, 3600)),
            500 if text.contains(".conf") && text.contains("does not exist") => Self::GuestMissing,
            500 if text.contains("hostname lookup") => Self::NodeUnknown,
            501 => Self::NotImplemented,
            502..=504 => Self::Gateway,
            595 => Self::NodeUnreachable,
            596 => Self::NodeTls,
            599 => Self::NodeProxy,
            other => Self::Other(other),
        })
    }

    /// Whether the list of nodes may explain it better than the status does.
    pub(crate) fn may_be_the_node(self) -> bool {
        match self {
            Self::NodeUnknown
            | Self::NodeUnreachable
            | Self::NodeTls
            | Self::NodeProxy
            | Self::Other(500) => true,
            Self::Redirect
            | Self::Parameters
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NoApiHere
            | Self::TooMany(_)
            // Only a node that is there can say so.
            | Self::GuestMissing
            | Self::NotImplemented
            | Self::Gateway
            | Self::Other(_) => false,
        }
    }

    fn report(self, endpoint: Endpoint<'_>) -> AdapterError {
        match self {
            Self::Unauthorized => AdapterError::UpstreamAuth,
            Self::Forbidden => match endpoint.privilege() {
                Some(permission) => AdapterError::InsufficientScope { permission },
                None => upstream(
                    "403 where any valid token may read: a proxy or firewall in front of Proxmox VE refuses us",
                ),
            },
            Self::TooMany(retry_after_sec) => AdapterError::UpstreamRateLimited { retry_after_sec },
            Self::GuestMissing => match endpoint {
                Endpoint::GuestStatus(node, _, vmid) => AdapterError::NotFound(format!(
                    "there is no VM or container {} on node {node}; proxmox.list_vms shows those that are, and it may have \
                     moved to another node",
                    vmid.get()
                )),
                Endpoint::Version
                | Endpoint::Permissions
                | Endpoint::Nodes
                | Endpoint::Guests(..)
                | Endpoint::NodeStatus(_) => upstream("Proxmox VE misses one of its own files (500)"),
            },
            Self::NodeUnknown => AdapterError::NotFound("there is no such node".to_owned()),
            Self::Redirect => upstream(
                "a redirect, which is never followed; configure the address of Proxmox VE itself, usually port 8006",
            ),
            Self::Parameters => upstream("Proxmox VE refused the parameters (400)"),
            Self::NoApiHere => {
                upstream("no Proxmox VE API at the configured address (404); it is usually https://HOST:8006")
            }
            Self::NotImplemented => {
                upstream("this release of Proxmox VE does not have what the tool reads (501)")
            }
            Self::Gateway => upstream("a proxy in front of Proxmox VE cannot reach it"),
            Self::NodeUnreachable => {
                upstream("the host that answered cannot reach the node (595): it is down or cut off")
            }
            Self::NodeTls => upstream(
                "TLS between the host that answered and the node failed (596): check the node's name, which is not its \
                 domain name, and its certificate",
            ),
            Self::NodeProxy => upstream("the proxy between the nodes failed twice (599); try again"),
            Self::Other(status) => AdapterError::Upstream(format!("Proxmox VE failed with status {status}")),
        }
    }
}

impl Trouble {
    /// The refusal, if it is one.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Egress(_) | Self::NoData(_) => None,
        }
    }

    /// What the pipeline is told.
    pub(crate) fn report(&self, endpoint: Endpoint<'_>) -> AdapterError {
        match self {
            Self::Egress(error) => dial::report(error),
            Self::Refused(refusal) => refusal.report(endpoint),
            Self::NoData(NoData) => AdapterError::Malformed,
        }
    }
}

fn upstream(message: &str) -> AdapterError {
    AdapterError::Upstream(message.to_owned())
}
