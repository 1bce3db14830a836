//! Names of secrets, and the references made of them.

use std::fmt::Write as _;

use mcp_core::id::TenantId;
use mcp_core::secret::SecretRef;
use ring::digest::{Context, SHA256};

const SCHEME: &str = "local:";
const MAX_LEN: usize = 128;

/// A name within a tenant, such as `proxmox:pve-1`: 1 to 128 letters, digits, `.`, `_`, `-` and `:`, the first a letter
/// or digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretName(String);

/// The text is not a name that a secret can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a name of a secret: 1 to {MAX_LEN} letters, digits, '.', '_', '-' or ':', the first a letter or digit"
)]
pub(crate) struct InvalidName;

/// What a reference asks of this provider.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A secret that may be ours.
    Named(SecretName),
    /// Our scheme, and a name that no secret of ours can have.
    Impossible,
    /// A reference of another provider.
    Foreign,
}

impl SecretName {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidName> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
        if starts_well && text.len() <= MAX_LEN && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidName)
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn reference(&self) -> SecretRef {
        SecretRef::new(format!("{SCHEME}{}", self.0))
    }

    /// The first part of the secret's file name. A digest cannot climb out of a directory, differs for names that a
    /// file system would fold together, and has one length.
    pub(crate) fn file_stem(&self, tenant: TenantId) -> String {
        let mut digest = Context::new(&SHA256);
        digest.update(tenant.as_uuid().as_bytes());
        digest.update(self.0.as_bytes());
        hex(digest.finish().as_ref())
    }
}

/// Reads a reference that somebody stored.
pub(crate) fn asked(reference: &SecretRef) -> Asked {
    match reference.as_str().strip_prefix(SCHEME).map(SecretName::parse) {
        Some(Ok(name)) => Asked::Named(name),
        Some(Err(InvalidName)) => Asked::Impossible,
        None => Asked::Foreign,
    }
}

/// Lower-case hexadecimal, for what is not secret.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    // proves: AD-03
    #[test]
    fn a_name_is_a_short_word_of_plain_characters() {
        let longest = "a".repeat(MAX_LEN);
        for good in
            ["proxmox:0197a7b4-3c00-7000-8000-000000000001", "byom", "ssh.host_1", "0", longest.as_str()]
        {
            assert_eq!(SecretName::parse(good).map(|name| name.0).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(MAX_LEN + 1);
        let bad = [
            "",
            ":x",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "a b",
            "a\n",
            "a\0",
            "ä",
            "-x",
            "a%2f",
            too_long.as_str(),
        ];
        for bad in bad {
            assert_eq!(SecretName::parse(bad), Err(InvalidName), "{bad:?}");
        }
    }

    #[test]
    fn a_reference_leads_back_to_its_name() {
        let name = SecretName::parse("proxmox:pve-1").unwrap();
        assert_eq!(name.reference().as_str(), "local:proxmox:pve-1");
        assert_eq!(asked(&name.reference()), Asked::Named(name));
        assert_eq!(asked(&SecretRef::new("local:../../etc/shadow")), Asked::Impossible);
        assert_eq!(asked(&SecretRef::new("aws-sm:coreci/x/byom")), Asked::Foreign);
    }

    #[test]
    fn file_names_depend_on_tenant_and_name() {
        let tenant = |n| TenantId::from_uuid(Uuid::from_u128(n));
        let (one, two) = (SecretName::parse("one").unwrap(), SecretName::parse("One").unwrap());
        assert_ne!(one.file_stem(tenant(1)), two.file_stem(tenant(1)));
        assert_ne!(one.file_stem(tenant(1)), one.file_stem(tenant(2)));
        assert!(one.file_stem(tenant(1)).chars().all(|c| c.is_ascii_hexdigit()));
    }
}
