//! What an answer that is not a success means. Bodies are looked into for one phrase and never quoted.

use mcp_core::error::AdapterError;

/// How long a limit lasts that does not say; reverse proxies set limits, the forges themselves do not.
const UNSAID_SEC: u64 = 60;

/// The scopes that a 403 says are missing, such as `read:user`. What stands in the brackets is held to the form of
/// scopes before it may enter a message.
pub(crate) fn missing_scopes(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(8 * 1024)]);
    let (_, rest) = text.split_once("required scope(s): [")?;
    let (scopes, _) = rest.split_once(']')?;
    let of_their_form = (1..=200).contains(&scopes.len())
        && scopes.bytes().all(|byte| byte.is_ascii_lowercase() || b":-_, ".contains(&byte));
    of_their_form
        .then(|| scopes.split([' ', ',']).filter(|scope| !scope.is_empty()).collect::<Vec<_>>().join(", "))
}

/// Says what a status means that no rung of a ladder has a use for.
pub(crate) fn explain(status: u16, retry_after: Option<&str>) -> AdapterError {
    match status {
        401 => AdapterError::UpstreamAuth,
        429 => {
            let told = retry_after.and_then(|text| text.trim().parse::<u64>().ok());
            let retry_after_sec = told.unwrap_or(UNSAID_SEC).clamp(1, 3600);
            AdapterError::UpstreamRateLimited { retry_after_sec }
        }
        300..=399 => {
            AdapterError::Upstream("the forge redirects to another place, and that is not followed".into())
        }
        status => AdapterError::Upstream(format!("the forge failed with status {status}; try again later")),
    }
}

/// A 403 that names scopes, or none.
pub(crate) fn forbidden(scopes: Option<String>, otherwise: &str) -> AdapterError {
    AdapterError::InsufficientScope { permission: scopes.unwrap_or_else(|| otherwise.to_owned()) }
}

/// A 404 where no feature is in question.
pub(crate) fn no_api() -> AdapterError {
    AdapterError::NotFound("there is no Gitea or Forgejo API at this address; check the base URL".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: GT-04, C-N14
    #[test]
    fn missing_scopes_are_read_from_the_servers_words_and_nothing_else_is() {
        let read =
            |message: &str| missing_scopes(format!(r#"{{"message":"{message}","url":"x"}}"#).as_bytes());
        let words = "token does not have at least one of required scope(s): ";
        assert_eq!(read(&format!("{words}[read:user]")).as_deref(), Some("read:user"));
        assert_eq!(
            read(&format!("{words}[read:user write:user,read:repository]")).as_deref(),
            Some("read:user, write:user, read:repository")
        );
        for odd in ["[<script>]", "[]", "[canary CANARY]", "read:user", "[read:user"] {
            assert_eq!(read(&format!("{words}{odd}")), None, "{odd}");
        }
        assert_eq!(missing_scopes(b"user should have specific read permission"), None);
    }

    // proves: AD-05, C-E09
    #[test]
    fn statuses_have_their_own_errors() {
        assert_eq!(explain(401, None), AdapterError::UpstreamAuth);
        assert_eq!(explain(429, Some("7")), AdapterError::UpstreamRateLimited { retry_after_sec: 7 });
        assert_eq!(explain(429, None), AdapterError::UpstreamRateLimited { retry_after_sec: 60 });
        for status in [302, 400, 418, 500, 503] {
            assert!(matches!(explain(status, None), AdapterError::Upstream(_)), "{status}");
        }
    }
}
