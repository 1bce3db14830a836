#![doc = include_str!("../README.md")]

mod authenticator;
mod key;
pub mod oauth;
pub mod pg;
mod role;

pub use self::authenticator::{AuthError, Authenticator};
pub use self::key::{ApiKey, MalformedKey};
pub use self::role::{Role, UnknownRole};
