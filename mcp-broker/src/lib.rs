#![doc = include_str!("../README.md")]

mod broker;
mod cache;
mod cancel;
mod in_flight;
pub mod memory;
mod once;
mod record;
mod registry;
mod run;
pub mod transport;

pub use self::broker::{Broker, BrokerBuilder, BuildError, CallRequest, Ports, StreamMode};
pub use self::cancel::CancelReason;
pub use self::in_flight::DEFAULT_IN_FLIGHT_LIMIT;
pub use self::once::OncePerMinute;
pub use self::run::{CALL_DEADLINE, FinishedCall, RunningCall};
