#![doc = include_str!("../README.md")]

pub mod app;
pub mod cli;
pub mod client;
pub mod config;
pub mod data_dir;
pub mod database;
mod dev;
mod logging;
mod output;
mod ports;
mod private_ca;

pub use self::app::{App, AppError};
