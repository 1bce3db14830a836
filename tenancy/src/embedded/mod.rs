//! A Postgres server that this process starts, watches and stops, for those who run none of their own.

mod binaries;
mod error;
mod initdb;
mod layout;
mod postmaster;
mod secrets_file;
mod server;
mod supervised;
mod supervisor;
mod user;

pub use binaries::PgBinaries;
pub use error::EmbeddedError;
pub use server::{EmbeddedConfig, EmbeddedServer};
pub use supervised::{SuperviseCommand, supervised_main};
pub use supervisor::EmbeddedStatus;

#[cfg(feature = "testing")]
pub(crate) use postmaster::PidFile;
#[cfg(feature = "testing")]
pub(crate) use user::{ServerUser, give_to, run_as};
