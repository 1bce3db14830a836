//! The adapter against a fake forge.

mod check;
mod faults;
mod ladder;
mod repos;
mod world;
