//! `proxmox.list_vms`: both kinds of guests of one node.

use mcp_core::error::AdapterError;
use mcp_core::tool::Extent;
use mcp_core::tool::proxmox::{GuestType, VmList};
use serde::de::DeserializeOwned;

use crate::client::PveClient;
use crate::endpoint::{Endpoint, NodeName};
use crate::envelope::{NoData, unwrap_data};
use crate::error::Trouble;
use crate::guest::{Containers, GuestRows, MAX_GUESTS, Machines};
use crate::nodes::explain;
use crate::permissions::{Permissions, Reach};

pub(crate) async fn run(client: &PveClient<'_>, node: &NodeName) -> Result<VmList, AdapterError> {
    let machines = fetch::<Machines>(client, Endpoint::Guests(node, GuestType::Qemu));
    let containers = fetch::<Containers>(client, Endpoint::Guests(node, GuestType::Lxc));
    let (Machines(machines), Containers(containers)) = match tokio::try_join!(machines, containers) {
        Ok(lists) => lists,
        Err((endpoint, trouble)) => return Err(explain(client, node, endpoint, &trouble).await),
    };
    let mut list = list_of(machines.merge(containers));
    if list.vms.is_empty() {
        list.warning = why_empty(client).await;
    }
    Ok(list)
}

/// What `proxmox.list_vms` makes of one list of the upstream, without asking for it: for examples, benchmarks and fuzzing.
///
/// # Errors
/// [`AdapterError::Malformed`] when the body is not a list of guests.
pub fn normalise(kind: GuestType, body: &str) -> Result<VmList, AdapterError> {
    let rows = match kind {
        GuestType::Qemu => unwrap_data(body).map(|Machines(rows)| rows),
        GuestType::Lxc => unwrap_data(body).map(|Containers(rows)| rows),
    };
    rows.map(list_of).map_err(|NoData| AdapterError::Malformed)
}

async fn fetch<'e, T: DeserializeOwned>(
    client: &PveClient<'_>,
    endpoint: Endpoint<'e>,
) -> Result<T, (Endpoint<'e>, Trouble)> {
    client.get(endpoint).await.map_err(|trouble| (endpoint, trouble))
}

/// Without VM.Audit the upstream answers with success and an empty list, which looks like a node without guests.
async fn why_empty(client: &PveClient<'_>) -> Option<String> {
    let words = match client.get::<Permissions>(Endpoint::Permissions).await.map(|held| held.guests()) {
        Ok(Reach::All) => return None,
        Ok(Reach::Some) => {
            "the token holds VM.Audit for some guests only; others on this node would not be listed"
        }
        Ok(Reach::Nowhere) => {
            "the token lacks VM.Audit, and Proxmox VE hides every guest from it; grant the role PVEAuditor on / to the \
             user and to the token"
        }
        Err(_) => "the token's permissions could not be read, so guests may be hidden from it",
    };
    Some(words.to_owned())
}

fn list_of(rows: GuestRows) -> VmList {
    let truncated = rows.omitted > 0;
    let hint = truncated.then(|| {
        format!("the {MAX_GUESTS} guests with the lowest numbers are shown; ask for others with proxmox.get_vm_status")
    });
    let extent = Extent { truncated, omitted: Some(rows.omitted), hint, cached_age_sec: None };
    VmList { vms: rows.guests, warning: None, extent }
}
