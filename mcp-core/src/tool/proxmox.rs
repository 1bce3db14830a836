//! Arguments and results of the Proxmox VE tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Extent;

/// Arguments of `proxmox.list_vms`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListVmsArgs {
    /// Id or name of the Proxmox target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// Name of the node as Proxmox shows it (not its domain name).
    #[schemars(regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$"))]
    pub node: String,
}

/// Arguments of `proxmox.get_vm_status`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetVmStatusArgs {
    /// Id or name of the Proxmox target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// Name of the node as Proxmox shows it (not its domain name).
    #[schemars(regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$"))]
    pub node: String,
    /// Number of the virtual machine or container.
    #[schemars(range(min = 100, max = 999_999_999))]
    pub vmid: u32,
}

/// Arguments of `proxmox.get_node_metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetNodeMetricsArgs {
    /// Id or name of the Proxmox target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// Name of the node as Proxmox shows it (not its domain name).
    #[schemars(regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$"))]
    pub node: String,
}

/// What kind of guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuestType {
    /// A virtual machine.
    Qemu,
    /// A container.
    Lxc,
}

/// One virtual machine or container in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guest {
    /// Its number.
    pub vmid: u32,
    /// Its name.
    pub name: String,
    /// `qemu` or `lxc`.
    #[serde(rename = "type")]
    pub guest_type: GuestType,
    /// `running` or `stopped`.
    pub status: String,
    /// Fraction of its CPUs in use; may slightly exceed 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Number of CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory in use, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem: Option<u64>,
    /// Memory assigned, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maxmem: Option<u64>,
    /// Seconds since start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<u64>,
    /// True for a template.
    pub template: bool,
    /// Tags.
    pub tags: Vec<String>,
}

/// Result of `proxmox.list_vms`, sorted by number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmList {
    /// The guests.
    pub vms: Vec<Guest>,
    /// Says why a list may be shorter than expected, such as a missing privilege.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// What was left out.
    #[serde(flatten)]
    pub extent: Extent,
}

/// Result of `proxmox.get_vm_status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmStatus {
    /// The guest as in a list.
    #[serde(flatten)]
    pub guest: Guest,
    /// The emulator's own state, which tells paused from running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qmpstatus: Option<String>,
    /// True when high availability manages it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ha_managed: Option<bool>,
}

/// Result of `proxmox.get_node_metrics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeMetrics {
    /// The node.
    pub node: String,
    /// Fraction of all CPUs in use, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Number of CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Load averages over 1, 5 and 15 minutes.
    pub loadavg: Vec<f64>,
    /// Memory in use, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<u64>,
    /// Memory in all, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<u64>,
    /// Root file system in use, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs_used: Option<u64>,
    /// Root file system in all, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs_total: Option<u64>,
    /// Seconds since start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<u64>,
    /// Version of Proxmox VE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pveversion: Option<String>,
    /// Version of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kversion: Option<String>,
}
