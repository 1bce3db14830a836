//! What can be wrong with a configuration that is to be edited.

/// The text is left as it is. Nothing of it is repeated here, since it may hold secrets of other servers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EditError {
    /// It cannot be parsed.
    #[error("it is not {language}: {reason}")]
    Syntax {
        /// What it should be.
        language: &'static str,
        /// The parser's words, and where.
        reason: String,
    },
    /// Something is there in another form than the client documents.
    #[error("`{0}` in it is not what {1} should be")]
    Shape(String, &'static str),
    /// A key that stands there twice: which one counts is for its owner to say.
    #[error("`{0}` stands in it twice")]
    Twice(String),
}
