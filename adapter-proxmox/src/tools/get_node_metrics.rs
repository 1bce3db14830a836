//! `proxmox.get_node_metrics`: the state of one node.

use mcp_core::error::AdapterError;
use mcp_core::tool::proxmox::NodeMetrics;
use serde::Deserialize;

use crate::client::PveClient;
use crate::endpoint::{Endpoint, NodeName};
use crate::lenient::{Number, Text};
use crate::nodes::explain;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
struct StatusRow {
    #[serde(default)]
    cpu: Number,
    cpuinfo: Option<CpuInfo>,
    loadavg: Option<Vec<Number>>,
    memory: Option<Usage>,
    rootfs: Option<Usage>,
    #[serde(default)]
    uptime: Number,
    #[serde(default)]
    pveversion: Text,
    #[serde(default)]
    kversion: Text,
}

#[derive(Deserialize)]
struct CpuInfo {
    #[serde(default)]
    cpus: Number,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    used: Number,
    #[serde(default)]
    total: Number,
}

pub(crate) async fn run(client: &PveClient<'_>, node: &NodeName) -> Result<NodeMetrics, AdapterError> {
    let endpoint = Endpoint::NodeStatus(node);
    match client.get(endpoint).await {
        Ok(row) => metrics(row, node),
        Err(trouble) => Err(explain(client, node, endpoint, &trouble).await),
    }
}

fn metrics(row: StatusRow, node: &NodeName) -> Result<NodeMetrics, AdapterError> {
    let used = |usage: &Option<Usage>| usage.as_ref().and_then(|usage| usage.used.whole());
    let total = |usage: &Option<Usage>| usage.as_ref().and_then(|usage| usage.total.whole());
    let metrics = NodeMetrics {
        node: node.to_string(),
        cpu: row.cpu.float(),
        cpus: row.cpuinfo.and_then(|info| info.cpus.whole()),
        loadavg: row.loadavg.unwrap_or_default().into_iter().filter_map(Number::float).take(3).collect(),
        memory_used: used(&row.memory),
        memory_total: total(&row.memory),
        rootfs_used: used(&row.rootfs),
        rootfs_total: total(&row.rootfs),
        uptime: row.uptime.whole(),
        pveversion: row.pveversion.into_option(),
        kversion: row.kversion.into_option(),
    };
    // Every release sends these three; an answer with none of them is the answer to another question.
    if metrics.cpu.is_none() && metrics.memory_total.is_none() && metrics.uptime.is_none() {
        return Err(AdapterError::Malformed);
    }
    Ok(metrics)
}
