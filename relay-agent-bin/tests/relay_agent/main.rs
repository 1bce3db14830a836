//! The whole agent, as a library and as a program, against a control plane of the test's own on a real socket.
#![expect(clippy::unwrap_used, reason = "helpers of tests; the configuration exempts test functions only")]

mod control_plane;
mod daemon;
mod enrolling;
mod program;
