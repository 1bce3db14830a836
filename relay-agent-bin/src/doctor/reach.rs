//! The way to the control plane, step by step: which of them fails says whose fault it is.

use super::{Finding, chain};
use crate::dial::{DialError, Dialer};
use crate::http::{HttpError, get};
use crate::identity::Identity;
use crate::link::prove;
use crate::proxy::Proxy;

const NAME: &str = "name lookup";
const PROXY: &str = "proxy";
const CONNECTION: &str = "connection";
const TLS: &str = "TLS";
const CONTROL_PLANE: &str = "control plane";
const AUTHENTICATION: &str = "authentication";

/// Walks the way up to the first step that fails.
pub(super) async fn reach(identity: &Identity, proxy: Option<Proxy>) -> Vec<Finding> {
    let (url, proxy) = (&identity.url, proxy.filter(|_| !identity.url.is_loopback()));
    let through = proxy.as_ref().map(Proxy::to_string);
    let dialer = match Dialer::new(url.clone(), &identity.trust, proxy) {
        Ok(dialer) => dialer,
        Err(error) => return vec![fault(TLS, chain(&error))],
    };
    let mut steps = vec![match through {
        // Then the proxy looks the name up, and connects.
        Some(proxy) => (PROXY, proxy),
        None => (NAME, url.host()),
    }];
    steps.push((CONNECTION, format!("port {}", url.port())));
    if url.is_encrypted() {
        steps.push((TLS, format!("the certificate is good for {}", url.host())));
    }
    steps.push((CONTROL_PLANE, url.to_string()));
    steps.push((AUTHENTICATION, format!("agent {} is accepted", identity.agent)));

    let failed = match get(&dialer, "/livez").await {
        Ok(answer) if answer.status == 200 => match prove(identity, &dialer).await {
            Ok(()) => None,
            Err(end) => Some((AUTHENTICATION, chain(&end))),
        },
        Ok(answer) => {
            Some((CONTROL_PLANE, format!("{url} answers HTTP {}; is it a control plane?", answer.status)))
        }
        Err(error) => Some((step_of(&error), format!("{url}: {}", chain(&error)))),
    };
    let reached = |step: &str| failed.as_ref().is_none_or(|(at, _)| *at != step);
    let passed = steps.into_iter().take_while(|(step, _)| reached(step));
    let mut findings: Vec<_> =
        passed.map(|(step, detail)| Finding { check: step.to_owned(), result: Ok(detail) }).collect();
    findings.extend(failed.map(|(step, reason)| fault(step, reason)));
    findings
}

fn step_of(error: &HttpError) -> &'static str {
    match error {
        HttpError::Dial(DialError::Lookup(_)) => NAME,
        HttpError::Dial(DialError::Proxy(_)) => PROXY,
        HttpError::Dial(DialError::Connect(_) | DialError::TimedOut) => CONNECTION,
        HttpError::Dial(DialError::Tls(_)) => TLS,
        HttpError::Broken(_) | HttpError::Body | HttpError::TimedOut => CONTROL_PLANE,
    }
}

fn fault(step: &str, reason: String) -> Finding {
    Finding { check: step.to_owned(), result: Err(reason) }
}
