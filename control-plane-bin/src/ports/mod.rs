//! The ports that only the binary can fill, because only it knows every crate.

mod adapters;
mod agents;
mod directory;
mod issuer;
mod readiness;

pub(crate) use self::adapters::GuardedFactory;
pub(crate) use self::agents::PgAgents;
pub(crate) use self::directory::PgDirectory;
pub(crate) use self::issuer::GuardedDocuments;
pub(crate) use self::readiness::SystemReadiness;
