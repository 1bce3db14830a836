//! What a version string says. Versions go into messages and are never decided upon: a Forgejo 10 is not a Gitea 10,
//! and a build from source may name a commit only (go-gitea#33122).

use std::fmt;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Gitea.
    Gitea,
    /// Forgejo, which names the Gitea that it is compatible with.
    Forgejo,
    /// The string does not tell.
    Unknown,
}

/// A version string, taken apart as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVersion {
    /// Which product.
    pub product: Product,
    /// Its version, such as `1.27.0-rc0` or a commit; at most 64 characters of a version's character set.
    pub version: String,
    /// The Gitea version that a Forgejo says it is compatible with.
    pub gitea: Option<String>,
}

/// Longest version that is shown; the text is the upstream's.
const MAX_SHOWN: usize = 64;

impl ServerVersion {
    /// Reads what `/version` answers. Every text is a version of some kind.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text: String = text
            .trim()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || ".-+~_".contains(*c))
            .take(MAX_SHOWN)
            .collect();
        if let Some((version, gitea)) = text.split_once("+gitea-") {
            let (version, gitea) = (version.to_owned(), Some(gitea.to_owned()));
            return Self { product: Product::Forgejo, version, gitea };
        }
        let numbered = numbers(&text).is_some();
        Self { product: if numbered { Product::Gitea } else { Product::Unknown }, version: text, gitea: None }
    }

    /// The first two numbers of the Gitea version that it is, or is compatible with.
    #[must_use]
    pub fn gitea_major_minor(&self) -> Option<(u32, u32)> {
        match self.product {
            Product::Forgejo => self.gitea.as_deref().and_then(numbers),
            Product::Gitea => numbers(&self.version),
            Product::Unknown => None,
        }
    }
}

/// `1.22` of `1.22.0+dev-123-gabc` or of `1.27~rc1`; nothing of a commit such as `1234567`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.strip_prefix('v').unwrap_or(text).split_once('.')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    Some((major.parse().ok()?, rest[..digits].parse().ok()?))
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.version.is_empty() { "of unknown version" } else { &self.version };
        match (self.product, &self.gitea) {
            (Product::Forgejo, Some(gitea)) => write!(f, "Forgejo {version} (compatible with Gitea {gitea})"),
            (Product::Forgejo, None) => write!(f, "Forgejo {version}"),
            (Product::Gitea, _) => write!(f, "Gitea {version}"),
            (Product::Unknown, _) => write!(f, "Gitea or Forgejo {version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // proves: GT-03
    #[test]
    fn every_known_form_of_version_is_read() {
        let table = [
            ("1.25.2", Product::Gitea, Some((1, 25)), "Gitea 1.25.2"),
            ("1.22.0+dev-123-gabc", Product::Gitea, Some((1, 22)), "Gitea 1.22.0+dev-123-gabc"),
            ("1.27.0-rc0", Product::Gitea, Some((1, 27)), "Gitea 1.27.0-rc0"),
            ("1.27~rc1", Product::Gitea, Some((1, 27)), "Gitea 1.27~rc1"),
            ("v1.24.7", Product::Gitea, Some((1, 24)), "Gitea v1.24.7"),
            (
                "10.0.0-93-60eedb9+gitea-1.22.0",
                Product::Forgejo,
                Some((1, 22)),
                "Forgejo 10.0.0-93-60eedb9 (compatible with Gitea 1.22.0)",
            ),
            (
                "7.0.3+gitea-1.21.11",
                Product::Forgejo,
                Some((1, 21)),
                "Forgejo 7.0.3 (compatible with Gitea 1.21.11)",
            ),
            ("d64e081bf6", Product::Unknown, None, "Gitea or Forgejo d64e081bf6"),
            ("b5757a6", Product::Unknown, None, "Gitea or Forgejo b5757a6"),
            ("1234567", Product::Unknown, None, "Gitea or Forgejo 1234567"),
            ("", Product::Unknown, None, "Gitea or Forgejo of unknown version"),
        ];
        for (text, product, numbers, shown) in table {
            let version = ServerVersion::parse(text);
            assert_eq!((version.product, version.gitea_major_minor()), (product, numbers), "{text}");
            assert_eq!(version.to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_version_that_is_safe_to_show(text in ".{0,200}") {
            let shown = ServerVersion::parse(&text).to_string();
            prop_assert!(shown.len() < 150);
            prop_assert!(shown.chars().all(|c| c.is_ascii_graphic() || c == ' '));
            prop_assert!(!shown.contains(['<', '>', '"', '\'', '&']));
        }
    }
}
