#![doc = include_str!("../README.md")]

mod memory;

pub use self::memory::MemorySecrets;
