//! Every path that this crate can ask for. There is no other constructor of a path, and none of a method.

use std::fmt;

use mcp_core::tool::proxmox::GuestType;

/// The name of a node: one label of a host name, so it is a single safe path segment whatever an encoder does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeName(String);

/// The number of a guest, 100 to 999999999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vmid(u32);

/// One thing to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint<'a> {
    /// Product and version; any valid token.
    Version,
    /// The token's own effective permissions; any valid token.
    Permissions,
    /// The nodes of the cluster; any valid token.
    Nodes,
    /// The guests of one kind on a node, filtered to those with VM.Audit.
    Guests(&'a NodeName, GuestType),
    /// One guest's state.
    GuestStatus(&'a NodeName, GuestType, Vmid),
    /// One node's state.
    NodeStatus(&'a NodeName),
}

impl NodeName {
    /// The schema has the same pattern; holding to it here as well keeps a path safe on its own.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let taken = (1..=63).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        taken.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Vmid {
    pub(crate) fn parse(number: u64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        (100..=999_999_999).contains(&number).then_some(Self(number))
    }

    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

impl Endpoint<'_> {
    /// The segments of the path, in order.
    pub(crate) fn segments(self) -> Vec<String> {
        let mut segments = vec!["api2".to_owned(), "json".to_owned()];
        let mut add = |more: &[&str]| segments.extend(more.iter().map(|segment| (*segment).to_owned()));
        match self {
            Self::Version => add(&["version"]),
            Self::Permissions => add(&["access", "permissions"]),
            Self::Nodes => add(&["nodes"]),
            Self::Guests(node, kind) => add(&["nodes", node.as_str(), kind_segment(kind)]),
            Self::GuestStatus(node, kind, vmid) => {
                let vmid = vmid.get().to_string();
                add(&["nodes", node.as_str(), kind_segment(kind), &vmid, "status", "current"]);
            }
            Self::NodeStatus(node) => add(&["nodes", node.as_str(), "status"]),
        }
        segments
    }

    /// The privilege that a refusal with 403 is about. None where any valid token may ask.
    pub(crate) fn privilege(self) -> Option<String> {
        match self {
            Self::Version | Self::Permissions | Self::Nodes | Self::Guests(..) => None,
            Self::GuestStatus(_, _, vmid) => Some(format!("VM.Audit on /vms/{}", vmid.get())),
            Self::NodeStatus(node) => Some(format!("Sys.Audit on /nodes/{node}")),
        }
    }
}

fn kind_segment(kind: GuestType) -> &'static str {
    match kind {
        GuestType::Qemu => "qemu",
        GuestType::Lxc => "lxc",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // proves: T-01, T-02, T-03, P-02
    #[test]
    fn the_table_of_paths_is_this() {
        let node = NodeName::parse("pve1").expect("a node");
        let vmid = Vmid::parse(100).expect("a number");
        let paths = [
            Endpoint::Version,
            Endpoint::Permissions,
            Endpoint::Nodes,
            Endpoint::Guests(&node, GuestType::Qemu),
            Endpoint::Guests(&node, GuestType::Lxc),
            Endpoint::GuestStatus(&node, GuestType::Qemu, vmid),
            Endpoint::GuestStatus(&node, GuestType::Lxc, vmid),
            Endpoint::NodeStatus(&node),
        ]
        .map(|endpoint| endpoint.segments().join("/"));
        assert_eq!(
            paths,
            [
                "api2/json/version",
                "api2/json/access/permissions",
                "api2/json/nodes",
                "api2/json/nodes/pve1/qemu",
                "api2/json/nodes/pve1/lxc",
                "api2/json/nodes/pve1/qemu/100/status/current",
                "api2/json/nodes/pve1/lxc/100/status/current",
                "api2/json/nodes/pve1/status",
            ]
        );
    }

    // proves: C-F04
    #[test]
    fn a_name_that_could_leave_its_segment_is_no_node() {
        for name in [
            "",
            "-a",
            "a-",
            ".",
            "..",
            "pve/../../access/ticket",
            "pve%2e%2e",
            "pve?full=1",
            "pve#",
            "pve;x",
            "pve\r\nx",
            "pve\u{2215}x",
            "pve.example.com",
            "\u{ff50}ve",
            &"a".repeat(64),
        ] {
            assert_eq!(NodeName::parse(name), None, "{name:?}");
        }
    }

    // proves: C-F05
    #[test]
    fn a_number_out_of_range_is_no_guest() {
        for number in [0, 1, 99, 1_000_000_000, u64::from(u32::MAX) + 100, 1 << 63, u64::MAX] {
            assert_eq!(Vmid::parse(number), None, "{number}");
        }
        assert!(Vmid::parse(100).is_some() && Vmid::parse(999_999_999).is_some());
    }

    proptest! {
        // proves: C-F04, C-F05
        #[test]
        fn no_argument_adds_or_changes_a_segment(name in "\\PC{0,70}|[a-zA-Z0-9./%-]{0,70}", number: u64) {
            let (Some(node), Some(vmid)) = (NodeName::parse(&name), Vmid::parse(number % 1_100_000_000)) else {
                return Ok(());
            };
            let segments = Endpoint::GuestStatus(&node, GuestType::Lxc, vmid).segments();
            let vmid = vmid.get().to_string();
            let expected = ["api2", "json", "nodes", name.as_str(), "lxc", &vmid, "status", "current"];
            prop_assert_eq!(&segments, &expected);
            let plain = |segment: &String| segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            prop_assert!(segments.iter().all(plain));
        }
    }
}
