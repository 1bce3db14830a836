//! The control plane as a process: real binary, real Postgres, real WebSocket, real commands.

mod agent;
mod bad_starts;
mod canaries;
mod command_line;
mod connect;
mod dev;
mod kill;
mod mcp_stdio;
mod server;
mod spine;
mod stalling_agent;
