//! Behaviour of the guard and of the client, against an upstream on loopback that misbehaves on request.

mod dial;
mod doors;
mod proxy;
mod request;
mod support;
mod tls;
mod upstream;
