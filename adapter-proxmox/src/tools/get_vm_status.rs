//! `proxmox.get_vm_status`: one guest, of whichever kind it is.

use mcp_core::error::AdapterError;
use mcp_core::tool::proxmox::{GuestType, VmStatus};
use serde::Deserialize;
use serde_json::Value;

use crate::client::PveClient;
use crate::endpoint::{Endpoint, NodeName, Vmid};
use crate::error::{Refusal, Trouble};
use crate::guest::GuestRow;
use crate::lenient::{Number, Text};
use crate::nodes::explain;

#[derive(Deserialize)]
struct StatusRow {
    #[serde(flatten)]
    guest: GuestRow,
    #[serde(default)]
    qmpstatus: Text,
    #[serde(default)]
    ha: Value,
}

pub(crate) async fn run(
    client: &PveClient<'_>,
    node: &NodeName,
    vmid: Vmid,
) -> Result<VmStatus, AdapterError> {
    let machine = Endpoint::GuestStatus(node, GuestType::Qemu, vmid);
    let container = Endpoint::GuestStatus(node, GuestType::Lxc, vmid);
    // The number does not tell the kind. Most guests are virtual machines, so these are tried first.
    let trouble = match client.get(machine).await {
        Ok(row) => return status(row, GuestType::Qemu, vmid),
        Err(trouble) => trouble,
    };
    if !may_be_a_container(&trouble) {
        return Err(explain(client, node, machine, &trouble).await);
    }
    match client.get(container).await {
        Ok(row) => status(row, GuestType::Lxc, vmid),
        // "Not here" as a container says nothing about a virtual machine that failed in another way.
        Err(Trouble::Refused(Refusal::GuestMissing)) => Err(explain(client, node, machine, &trouble).await),
        Err(other) => Err(explain(client, node, container, &other).await),
    }
}

/// The words for a missing guest could change, so any plain failure is worth the second question.
fn may_be_a_container(trouble: &Trouble) -> bool {
    matches!(trouble.refusal(), Some(Refusal::GuestMissing | Refusal::Other(500)))
}

fn status(row: StatusRow, kind: GuestType, vmid: Vmid) -> Result<VmStatus, AdapterError> {
    let StatusRow { guest, qmpstatus, ha } = row;
    let guest = guest.into_guest(kind, vmid);
    // A guest without a state is none: this is the answer to another question.
    if guest.status == "unknown" {
        return Err(AdapterError::Malformed);
    }
    let managed = ha.get("managed").and_then(|managed| Number::deserialize(managed).ok());
    Ok(VmStatus { guest, qmpstatus: qmpstatus.into_option(), ha_managed: managed.and_then(Number::flag) })
}
