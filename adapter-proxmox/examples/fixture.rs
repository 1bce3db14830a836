//! Reads one list as an old and as a new release of Proxmox VE send it, and prints what the tool shows.

use std::io::Write as _;

use adapter_proxmox::normalise;
use mcp_core::tool::proxmox::GuestType;

/// Numbers as texts, in no order.
const OLD: &str = r#"{"data": [
    {"vmid": "104", "name": "web", "status": "running", "cpu": "0.031", "cpus": "2", "mem": "812646400",
     "maxmem": "2147483648", "uptime": "86400", "pid": "1377"},
    {"vmid": "101", "name": "base", "status": "stopped", "cpus": "1", "maxmem": "1073741824", "template": "1"}
]}"#;

/// Numbers as numbers, and fields that did not exist before.
const NEW: &str = r#"{"data": [
    {"vmid": 104, "name": "web", "status": "running", "cpu": 0.031, "cpus": 2, "mem": 812646400, "memhost": 900000000,
     "maxmem": 2147483648, "uptime": 86400, "pid": 1377, "pressurecpusome": 0.1},
    {"vmid": 101, "name": "base", "status": "stopped", "cpus": 1, "maxmem": 1073741824, "template": 1}
]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let old = normalise(GuestType::Qemu, OLD)?;
    let new = normalise(GuestType::Qemu, NEW)?;
    assert_eq!(old, new);
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&new)?)?;
    Ok(())
}
