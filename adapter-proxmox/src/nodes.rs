//! The list of nodes, and what it says about a request that failed.

use mcp_core::error::AdapterError;
use serde::Deserialize;

use crate::client::PveClient;
use crate::endpoint::{Endpoint, NodeName};
use crate::error::Trouble;
use crate::lenient::Text;

/// Names shown in a message; a cluster has at most a few dozen.
const MAX_NAMES: usize = 20;

/// The nodes that the upstream names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nodes(Vec<Node>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Checked: it can stand in a message.
    pub(crate) name: NodeName,
    pub(crate) online: bool,
}

#[derive(Deserialize)]
struct NodeRow {
    #[serde(default)]
    node: Text,
    #[serde(default)]
    status: Text,
}

impl Nodes {
    pub(crate) async fn fetch(client: &PveClient<'_>) -> Result<Self, Trouble> {
        let rows: Vec<NodeRow> = client.get(Endpoint::Nodes).await?;
        let mut nodes: Vec<_> = rows
            .into_iter()
            .filter_map(|row| {
                let name = NodeName::parse(&row.node.into_option()?)?;
                Some(Node { name, online: row.status.into_option().is_none_or(|status| status != "offline") })
            })
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(nodes))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    /// The names, for a sentence.
    fn names(&self) -> String {
        let shown: Vec<_> = self.0.iter().take(MAX_NAMES).map(|node| node.name.as_str()).collect();
        let more = self.0.len().saturating_sub(MAX_NAMES);
        match (shown.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => shown.join(", "),
            (false, more) => format!("{} and {more} more", shown.join(", ")),
        }
    }
}

/// Turns a trouble with a node into what the caller is told. A wrong name, a node that is down and a failure of Proxmox VE
/// look alike from outside (500, 595, 596); the list of nodes tells them apart.
pub(crate) async fn explain(
    client: &PveClient<'_>,
    node: &NodeName,
    endpoint: Endpoint<'_>,
    trouble: &Trouble,
) -> AdapterError {
    let told = trouble.report(endpoint);
    if !trouble.refusal().is_some_and(|refusal| refusal.may_be_the_node()) {
        return told;
    }
    let Ok(nodes) = Nodes::fetch(client).await else { return told };
    match nodes.iter().find(|known| known.name == *node) {
        None => AdapterError::NotFound(format!(
            "there is no node {node}; the nodes here are: {}. Use the name that Proxmox VE shows, not the domain name",
            nodes.names()
        )),
        Some(known) if !known.online => {
            AdapterError::Upstream(format!("the node {node} is offline, as the cluster reports"))
        }
        Some(_) => told,
    }
}
