//! What `egress` tells about a host that was not reached, in the words of the port.

use egress::{EgressError, TlsProbe};
use mcp_core::check::StepName;
use mcp_core::error::AdapterError;

/// What a probe failed with, if it did.
pub(crate) fn failure(probe: TlsProbe) -> Option<EgressError> {
    match probe {
        TlsProbe::Ok => None,
        TlsProbe::Refused(refusal) => Some(EgressError::Refused(refusal)),
        TlsProbe::Dns { retryable } => Some(EgressError::Dns { retryable }),
        TlsProbe::Untrusted { fingerprint_hex } => {
            Some(EgressError::TlsUntrusted { fingerprint: fingerprint_hex })
        }
        TlsProbe::PinMismatch { presented } => Some(EgressError::PinMismatch { presented }),
        TlsProbe::Unreachable(error) => Some(error),
        // What we do not know yet is not success.
        _ => Some(EgressError::TlsHandshake),
    }
}

/// What the pipeline is told.
pub(crate) fn report(error: &EgressError) -> AdapterError {
    match error {
        EgressError::Refused(_) => AdapterError::EgressDenied,
        EgressError::TlsUntrusted { .. } => AdapterError::TlsUntrusted,
        EgressError::PinMismatch { .. } => AdapterError::TlsPinMismatch,
        EgressError::Timeout => AdapterError::Timeout,
        EgressError::TooLarge => AdapterError::TooLarge,
        // These messages are egress's own: they hold no word of the upstream.
        EgressError::Dns { .. }
        | EgressError::Connect
        | EgressError::TlsHandshake
        | EgressError::Broken(_)
        | EgressError::Request(_) => AdapterError::Upstream(error.to_string()),
    }
}

/// The step of a check that it fails.
pub(crate) fn step(error: &EgressError) -> StepName {
    match error {
        EgressError::Refused(_) | EgressError::Request(_) => StepName::Egress,
        EgressError::Dns { .. } => StepName::Dns,
        EgressError::Connect
        | EgressError::TlsHandshake
        | EgressError::TlsUntrusted { .. }
        | EgressError::PinMismatch { .. }
        | EgressError::Timeout
        | EgressError::TooLarge
        | EgressError::Broken(_) => StepName::Tls,
    }
}

/// SHA-256 of a certificate that an admin would have to confirm.
pub(crate) fn fingerprint(error: &EgressError) -> Option<String> {
    match error {
        EgressError::TlsUntrusted { fingerprint: found } | EgressError::PinMismatch { presented: found } => {
            Some(found.clone())
        }
        EgressError::Refused(_)
        | EgressError::Dns { .. }
        | EgressError::Connect
        | EgressError::TlsHandshake
        | EgressError::Timeout
        | EgressError::TooLarge
        | EgressError::Broken(_)
        | EgressError::Request(_) => None,
    }
}

/// What to do about it.
pub(crate) fn fix(error: &EgressError) -> String {
    let words = match error {
        EgressError::Refused(refusal) => {
            return match refusal.hint() {
                Some(line) => format!("an operator can allow it in the egress policy: {line}"),
                None => "use an address that the egress policy allows".to_owned(),
            };
        }
        EgressError::TlsUntrusted { .. } => {
            "compare the fingerprint with the one under Node > Certificates (or: pvenode cert info) and confirm it, or \
             give the cluster's CA from /etc/pve/pve-root-ca.pem, which outlives renewals"
        }
        EgressError::PinMismatch { .. } => {
            "Proxmox VE renews its certificate within two years; if it did, confirm the new fingerprint, or give the \
             cluster's CA from /etc/pve/pve-root-ca.pem, which outlives renewals"
        }
        EgressError::Dns { retryable: true } => {
            "try again; if it stays so, check the resolver of this server"
        }
        EgressError::Dns { retryable: false } => "check the spelling of the host's name",
        EgressError::Connect | EgressError::Timeout => {
            "check that the host is up, that the port is right (usually 8006), and that no firewall lies between"
        }
        EgressError::TlsHandshake => "check that the port speaks TLS 1.2 or newer (usually 8006)",
        EgressError::TooLarge | EgressError::Broken(_) | EgressError::Request(_) => {
            "check that the address is the one of Proxmox VE, usually https://HOST:8006"
        }
    };
    words.to_owned()
}
