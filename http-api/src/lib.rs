#![doc = include_str!("../README.md")]

mod adapters;
mod api;
mod cursor;
mod error;
mod gate;
mod idempotency;
mod json;
mod network;
mod request_id;
mod router;
mod routes;
mod server;
mod sse;
mod tls;

pub use self::adapters::Adapters;
pub use self::api::{Api, ApiSettings, Readiness, ReadyCheck};
pub use self::cursor::CursorKey;
pub use self::network::{AllowedHosts, AllowedOrigins, BadOrigin};
pub use self::router::{Access, Route, internal_router, public_router, route_table};
pub use self::server::{Server, ServerLimits};
pub use self::tls::{ServerTls, TlsFileError, TlsFiles};
