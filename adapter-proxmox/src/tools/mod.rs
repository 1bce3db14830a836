//! One file per tool: which endpoints it asks, and what it makes of the answers.

pub(crate) mod get_node_metrics;
pub(crate) mod get_vm_status;
pub(crate) mod list_vms;
