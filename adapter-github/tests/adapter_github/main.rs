//! The adapter against a fake GitHub.

mod check;
mod faults;
mod limits;
mod refusals;
mod tools;
mod world;
