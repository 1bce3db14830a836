//! The hub over sockets in memory, with agents that really sign.

mod hub;
mod world;
