//! The API token, parsed once: what is not of its form is refused in words before it can reach a header.

use std::fmt;

use mcp_core::secret::SecretValue;
use zeroize::Zeroizing;

/// An API token of Proxmox VE: `USER@REALM!TOKENID=SECRET`. It prints as `[REDACTED]` and is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PveToken {
    header: Zeroizing<String>,
    secret_at: usize,
}

/// Why a text is no API token. The messages are for the person who pasted it and never repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFormError {
    /// Nothing, or only blanks.
    #[error("the credential is empty; paste an API token of the form USER@REALM!TOKENID=SECRET")]
    Empty,
    /// A ticket or cookie, which lives for two hours and allows writing.
    #[error("this is a login ticket; create an API token under Datacenter > Permissions > API Tokens")]
    Ticket,
    /// No `=`.
    #[error("the secret is missing; an API token has the form USER@REALM!TOKENID=SECRET")]
    SecretMissing,
    /// No `!`.
    #[error("the token's name is missing; an API token has the form USER@REALM!TOKENID=SECRET")]
    TokenIdMissing,
    /// No `@`.
    #[error("the user's realm is missing; write USER@pam or USER@pve before the '!'")]
    RealmMissing,
    /// The user has a character that Proxmox VE or a header does not take.
    #[error("the user's name is not one of Proxmox VE; it has no blanks, ':', '/', ';' or '%'")]
    User,
    /// The realm is not of its form.
    #[error(
        "the realm is not one of Proxmox VE; it starts with a letter and has letters, digits, '.', '_', '-'"
    )]
    Realm,
    /// The token's name is not of its form.
    #[error(
        "the token's name is not one of Proxmox VE; it starts with a letter and has letters, digits, '.', '_', '-'"
    )]
    TokenId,
    /// The secret is not a UUID.
    #[error(
        "the secret after the last '=' is not a UUID, as Proxmox VE shows it once when it creates the token"
    )]
    Secret,
}

const SCHEME: &str = "PVEAPIToken";

impl PveToken {
    /// Reads a token as people paste it: blanks around it and a leading `Authorization:` or `PVEAPIToken=` are dropped.
    ///
    /// # Errors
    /// [`TokenFormError`] names the part that is not of its form.
    pub fn parse(pasted: &str) -> Result<Self, TokenFormError> {
        let text = strip_header(pasted.trim());
        if text.is_empty() {
            return Err(TokenFormError::Empty);
        }
        if text.starts_with("PVE:") || text.starts_with("PVEAuthCookie") {
            return Err(TokenFormError::Ticket);
        }
        let (id, secret) = text.rsplit_once('=').ok_or(TokenFormError::SecretMissing)?;
        let (user_and_realm, token_id) = id.rsplit_once('!').ok_or(TokenFormError::TokenIdMissing)?;
        let (user, realm) = user_and_realm.rsplit_once('@').ok_or(TokenFormError::RealmMissing)?;
        if !is_user(user) {
            return Err(TokenFormError::User);
        }
        if !is_config_id(realm) {
            return Err(TokenFormError::Realm);
        }
        if !is_config_id(token_id) {
            return Err(TokenFormError::TokenId);
        }
        if !is_uuid(secret) {
            return Err(TokenFormError::Secret);
        }
        let header = Zeroizing::new(format!("{SCHEME}={text}"));
        Ok(Self { secret_at: header.len() - secret.len(), header })
    }

    /// Reads the token that a call is lent.
    pub(crate) fn parse_secret(credential: &SecretValue) -> Result<Self, TokenFormError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the token goes from here into the Authorization header only"
        )]
        Self::parse(credential.reveal())
    }

    /// The value of the `Authorization` header.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// The secret alone, to look for its echo.
    pub(crate) fn secret(&self) -> &str {
        self.header.get(self.secret_at..).unwrap_or_default()
    }
}

impl fmt::Debug for PveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

fn strip_header(text: &str) -> &str {
    let text = text.strip_prefix("Authorization:").map_or(text, str::trim_start);
    text.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix(['=', ' '])).map_or(text, str::trim_start)
}

/// Proxmox VE takes anything but blanks, `:` and `/`. Its token parser ends at `;` and unescapes `%`, and a header is
/// ASCII, so a name with one of these would arrive as another name.
fn is_user(text: &str) -> bool {
    let taken = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b'/' | b';' | b'%');
    (1..=64).contains(&text.len()) && text.bytes().all(taken)
}

fn is_config_id(text: &str) -> bool {
    let taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (2..=128).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(taken)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "0f4e6a52-7a1f-4c0d-9b57-3c1f4be2a9d1";

    // proves: P-01
    #[test]
    fn a_token_is_read_as_people_paste_it() {
        let expected = format!("PVEAPIToken=ops@pve!broker={SECRET}");
        for pasted in [
            format!("ops@pve!broker={SECRET}"),
            format!("  ops@pve!broker={SECRET}\n"),
            format!("PVEAPIToken=ops@pve!broker={SECRET}"),
            format!("PVEAPIToken ops@pve!broker={SECRET}"),
            format!("Authorization: PVEAPIToken=ops@pve!broker={SECRET}"),
        ] {
            let token = PveToken::parse(&pasted).expect("a token");
            assert_eq!(token.header(), expected);
            assert_eq!(token.secret(), SECRET);
        }
    }

    #[test]
    fn a_user_may_look_like_a_mail_address_and_hold_an_equals_sign() {
        let token = PveToken::parse(&format!("a=b!c@example.com@ldap!t-1={SECRET}")).expect("a token");
        assert_eq!(token.header(), format!("PVEAPIToken=a=b!c@example.com@ldap!t-1={SECRET}"));
    }

    #[test]
    fn what_is_not_a_token_is_named_by_its_part() {
        for (pasted, expected) in [
            (String::new(), TokenFormError::Empty),
            ("   ".to_owned(), TokenFormError::Empty),
            ("PVE:root@pam:65A1::sig=".to_owned(), TokenFormError::Ticket),
            (SECRET.to_owned(), TokenFormError::SecretMissing),
            (format!("ops@pve={SECRET}"), TokenFormError::TokenIdMissing),
            (format!("ops!broker={SECRET}"), TokenFormError::RealmMissing),
            (format!("@pve!broker={SECRET}"), TokenFormError::User),
            (format!("o;s@pve!broker={SECRET}"), TokenFormError::User),
            (format!("o%41@pve!broker={SECRET}"), TokenFormError::User),
            (format!("o\r\nx: y@pve!broker={SECRET}"), TokenFormError::User),
            (format!("ops@p!broker={SECRET}"), TokenFormError::Realm),
            (format!("ops@pve!9broker={SECRET}"), TokenFormError::TokenId),
            (format!("ops@pve!broker={SECRET}0"), TokenFormError::Secret),
            ("ops@pve!broker=hunter2".to_owned(), TokenFormError::Secret),
        ] {
            assert_eq!(PveToken::parse(&pasted).err(), Some(expected), "{pasted}");
        }
    }

    #[test]
    fn no_formatting_shows_a_token() {
        let token = PveToken::parse(&format!("ops@pve!broker={SECRET}")).expect("a token");
        assert_eq!(format!("{token:?}"), "[REDACTED]");
    }

    proptest! {
        #[test]
        fn whatever_is_taken_is_a_safe_header(user in ".{0,12}", realm in ".{0,6}", id in "\\PC{0,6}") {
            if let Ok(token) = PveToken::parse(&format!("{user}@{realm}!{id}={SECRET}")) {
                prop_assert!(token.header().bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(!token.header().contains([';', '%']));
            }
        }
    }
}
