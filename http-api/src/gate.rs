//! Authentication and role, in front of every route (INV-1).

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use identity::AuthError;
use mcp_core::error::{CallError, ErrorCode};
use mcp_core::principal::{Action, Principal};

use crate::api::Api;
use crate::error::{ApiError, chain};
use crate::routes::protected_resource;

/// The authenticated caller, as a handler sees it. Only the gate makes one.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // A handler behind a public route that asks for a caller is a defect; it must not become an open door.
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::unauthenticated)
    }
}

/// What the gate of one route needs.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) api: Arc<Api>,
    pub(crate) action: Action,
}

/// Lets a request through if its credential is good and the role carries the route's action.
pub(crate) async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    match gate.check(request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => {
            let mut response = error.into_response();
            if response.status() == StatusCode::UNAUTHORIZED
                && let Some(challenge) = gate.challenge(request.headers())
            {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

impl Gate {
    async fn check(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let key = bearer(headers).ok_or_else(ApiError::unauthenticated)?;
        let authenticated = if self.takes_tokens() {
            self.api.authenticator.authenticate_key_or_token(key).await
        } else {
            self.api.authenticator.authenticate(key).await
        };
        let principal = authenticated.map_err(|error| match &error {
            AuthError::Unauthenticated => {
                metrics::counter!("coreci_unauthenticated_total").increment(1);
                ApiError::unauthenticated()
            }
            AuthError::Unavailable(cause) => {
                tracing::error!(error = %chain(cause), "a credential could not be checked");
                CallError::DatabaseUnavailable.into()
            }
            AuthError::IssuerUnavailable(cause) => {
                tracing::error!(error = %chain(cause), "an access token could not be checked");
                let message = "the issuer of access tokens cannot be asked for its keys; try again shortly, or use an API key";
                ApiError::new(ErrorCode::UpstreamError, message)
            }
        })?;
        if !principal.grants.cover_action(self.action) {
            self.api.broker.deny(&principal, self.action).await?;
            return Err(CallError::Forbidden.into());
        }
        Ok(Caller(principal))
    }

    /// Access tokens are issued for the MCP endpoint and are good for nothing else.
    fn takes_tokens(&self) -> bool {
        self.action == Action::McpConnect && self.api.settings.token_issuer.is_some()
    }

    /// Where a client that was turned away learns whose tokens are taken (RFC 9728 §5.1), and whether it was for the token
    /// that it sent (RFC 6750 §3).
    fn challenge(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if !self.takes_tokens() {
            return None;
        }
        let metadata = protected_resource::url(&self.api.settings);
        let error =
            if headers.contains_key(header::AUTHORIZATION) { r#", error="invalid_token""# } else { "" };
        let challenge = format!(r#"Bearer realm="coreci", resource_metadata="{metadata}"{error}"#);
        HeaderValue::from_str(&challenge).ok()
    }
}

/// The bearer credential; none when there is no header, more than one, or one of another form.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: C-P05
    #[test]
    fn anything_but_one_bearer_credential_is_none() {
        let found = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().expect("a value"));
            }
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(found(&["Bearer cck_x"]).as_deref(), Some("cck_x"));
        assert_eq!(found(&["bearer cck_x"]).as_deref(), Some("cck_x"));
        for values in [&["cck_x"][..], &["Basic cck_x"], &["Bearer"], &[], &["Bearer a", "Bearer b"]] {
            assert_eq!(found(values), None, "{values:?}");
        }
    }
}
