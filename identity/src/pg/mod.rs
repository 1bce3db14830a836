//! Keys, people and services in Postgres. Each state change puts its audit event into the outbox of its own transaction.

mod identities;
mod keys;
mod members;

pub use self::identities::{
    IdentityRecord, NewIdentity, identity_link, identity_list, identity_unlink, subject_authenticate,
};
pub use self::keys::{KeyRecord, NewKey, key_authenticate, key_create, key_list, key_revoke};
