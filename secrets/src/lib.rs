#![doc = include_str!("../README.md")]

mod local;
mod memory;

pub use self::local::{FileError, KeyError, KeyId, LocalConfig, LocalSecrets, MasterKey, OpenError};
pub use self::memory::MemorySecrets;
