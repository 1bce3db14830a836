#![doc = include_str!("../README.md")]

pub mod lenient;
pub mod reach;
pub mod redact;
