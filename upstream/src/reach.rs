//! Getting to the upstream: what a failure on the way means, and the steps of a check before any credential is sent.

use egress::{EgressError, Get, Refusal, Response, TlsProbe, UpstreamClient};
use mcp_core::check::{CheckReport, CheckStep, StepName};
use mcp_core::error::{AdapterError, ErrorCode};
use tokio::time::{Instant, timeout_at};

/// Renamed owners and repositories answer with one redirect each; two renames make two.
pub const MAX_REDIRECTS: usize = 3;

/// What a call reports when no answer came.
fn unreached(error: EgressError) -> AdapterError {
    let failed = |what: &str| AdapterError::Upstream(what.to_owned());
    match error {
        EgressError::Refused(_) => AdapterError::EgressDenied,
        EgressError::Dns { .. } => failed("the upstream's name could not be resolved"),
        EgressError::Connect => failed("the upstream does not take connections"),
        EgressError::TlsHandshake => failed("the TLS handshake with the upstream failed"),
        EgressError::TlsUntrusted { .. } => AdapterError::TlsUntrusted,
        EgressError::PinMismatch { .. } => AdapterError::TlsPinMismatch,
        EgressError::Timeout => AdapterError::Timeout,
        EgressError::TooLarge => AdapterError::TooLarge,
        EgressError::Broken(_) => failed("the connection broke before the answer was complete; try again"),
        EgressError::Request(_) => failed("the request could not be sent as it is"),
    }
}

/// Asks, and follows redirects within the origin, where the credential is at home.
///
/// After [`MAX_REDIRECTS`] of them the last answer is returned as it is. Dropping the future ends the request.
///
/// # Errors
/// The kind of what failed on the way, and [`AdapterError::Upstream`] when a redirect leads elsewhere.
pub async fn get_following(http: &UpstreamClient, mut get: Get) -> Result<Response, AdapterError> {
    let mut response = http.get(get.clone()).await.map_err(unreached)?;
    for _ in 0..MAX_REDIRECTS {
        let location = match response.status {
            301 | 302 | 307 | 308 => header(&response, "location"),
            _ => None,
        };
        let Some(location) = location else { break };
        get = get.follow_same_origin(location, http).map_err(led_away)?;
        response = http.get(get.clone()).await.map_err(unreached)?;
    }
    Ok(response)
}

/// A header of an answer, when it is there and is text.
#[must_use]
pub fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers.get(name).and_then(|value| value.to_str().ok())
}

/// What a call reports when a redirect leads where the credential may not go.
fn led_away(_: Refusal) -> AdapterError {
    AdapterError::Upstream("the upstream redirects to another place, and that is not followed".to_owned())
}

/// Takes the steps egress, dns and tls. False when one of them failed, which ends the check.
pub async fn take_steps(http: &UpstreamClient, deadline: Instant, report: &mut CheckReport) -> bool {
    let host = http.base().host();
    let probed = timeout_at(deadline, http.probe_tls()).await;
    let probe = probed.unwrap_or(TlsProbe::Unreachable(EgressError::Timeout));
    let (failed, message, fix, code) = match probe {
        TlsProbe::Ok => {
            passed(report, http, 3);
            return true;
        }
        TlsProbe::Refused(refusal) => {
            let fix = match refusal.hint() {
                Some(line) => format!("an operator can allow it: {line}"),
                None => "give an address that the egress policy allows".to_owned(),
            };
            (StepName::Egress, format!("the egress policy refuses: {refusal}"), fix, ErrorCode::EgressDenied)
        }
        TlsProbe::Dns { retryable } => {
            let message = if retryable { "could not be resolved just now" } else { "has no address" };
            let fix = if retryable { "try again shortly" } else { "correct the base URL" };
            (StepName::Dns, format!("{host} {message}"), fix.to_owned(), ErrorCode::UpstreamError)
        }
        TlsProbe::Untrusted { fingerprint_hex } => {
            let message =
                format!("the certificate of {host} is not trusted; its SHA-256 is {fingerprint_hex}");
            report.fingerprint = Some(fingerprint_hex);
            let fix = "give its CA, or compare the fingerprint on the host itself and pin it";
            (StepName::Tls, message, fix.to_owned(), ErrorCode::TlsUntrusted)
        }
        TlsProbe::PinMismatch { presented } => {
            let message =
                format!("the certificate of {host} is not the pinned one; its SHA-256 is {presented}");
            report.fingerprint = Some(presented);
            let fix = "if it was renewed, compare the fingerprint on the host itself and pin the new one";
            (StepName::Tls, message, fix.to_owned(), ErrorCode::TlsPinMismatch)
        }
        TlsProbe::Unreachable(error) => {
            let code = unreached(error.clone()).code();
            let fix = "check the port, and that the host can be reached from here";
            (StepName::Tls, format!("{host} cannot be reached: {error}"), fix.to_owned(), code)
        }
        // The probe may learn to tell more; what it tells then is a failure until it is read here.
        _ => (StepName::Tls, format!("{host} cannot be reached"), String::new(), ErrorCode::UpstreamError),
    };
    let before = [StepName::Egress, StepName::Dns, StepName::Tls].iter().position(|step| *step == failed);
    passed(report, http, before.unwrap_or(0));
    report.steps.push(CheckStep::fail(failed, message, fix));
    report.code = Some(code);
    false
}

/// Records the first `count` steps as passed.
fn passed(report: &mut CheckReport, http: &UpstreamClient, count: usize) {
    let host = http.base().host();
    let connection = if http.base().to_string().starts_with("http://") {
        format!("the connection to {host} is plain http, which the operator allows")
    } else {
        format!("the connection to {host} is trusted")
    };
    let steps = [
        CheckStep::ok(StepName::Egress, format!("the egress policy allows {host}")),
        CheckStep::ok(StepName::Dns, format!("{host} has an address that may be dialled")),
        CheckStep::ok(StepName::Tls, connection),
    ];
    report.steps.extend(steps.into_iter().take(count));
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: AD-04, AD-05, C-N10, C-N12
    #[test]
    fn what_happens_on_the_way_keeps_its_kind() {
        let untrusted = EgressError::TlsUntrusted { fingerprint: "ab".to_owned() };
        let mismatch = EgressError::PinMismatch { presented: "ab".to_owned() };
        for (error, wanted) in [
            (EgressError::Refused(Refusal::Scheme), ErrorCode::EgressDenied),
            (EgressError::Dns { retryable: true }, ErrorCode::UpstreamError),
            (EgressError::Connect, ErrorCode::UpstreamError),
            (EgressError::TlsHandshake, ErrorCode::UpstreamError),
            (untrusted, ErrorCode::TlsUntrusted),
            (mismatch, ErrorCode::TlsPinMismatch),
            (EgressError::Timeout, ErrorCode::UpstreamTimeout),
            (EgressError::TooLarge, ErrorCode::UpstreamTooLarge),
            (EgressError::Broken("reset"), ErrorCode::UpstreamError),
            (EgressError::Request("x"), ErrorCode::UpstreamError),
        ] {
            assert_eq!(unreached(error).code(), wanted);
        }
    }
}
