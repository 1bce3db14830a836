//! The adapter against a fake Proxmox VE behind real TLS.

mod checks;
mod faults;
mod guests;
mod paths;
mod releases;
mod tls;
mod world;
