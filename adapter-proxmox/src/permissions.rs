//! What the token may do, by its own account: `/access/permissions` (REQ-025).
//!
//! The answer is the token's *effective* map, with the separation of privileges and the user's own rights applied. A
//! privilege that is listed for a path is held there; the number beside it says whether it reaches below.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::lenient::Number;

/// What PVEAuditor holds in some release from 7 to 9. Nothing in here changes anything.
const READING: &[&str] = &[
    "Datastore.Audit",
    "Mapping.Audit",
    "Pool.Audit",
    "SDN.Audit",
    "Sys.Audit",
    "VM.Audit",
    "VM.GuestAgent.Audit",
];

/// The token's effective permissions: path, then privilege.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Permissions(BTreeMap<String, BTreeMap<String, Number>>);

/// How far a privilege reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not held where it would help.
    Nowhere,
    /// Held for some only.
    Some,
    /// Held for all of them.
    All,
}

/// A privilege that allows more than reading, and where it is held.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) privilege: String,
    pub(crate) paths: Vec<String>,
}

impl Permissions {
    /// True for a token that was given nothing, as a new one with separated privileges is.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// How far `VM.Audit` reaches.
    pub(crate) fn guests(&self) -> Reach {
        self.reach("VM.Audit", "/vms")
    }

    /// How far `Sys.Audit` reaches.
    pub(crate) fn nodes(&self) -> Reach {
        self.reach("Sys.Audit", "/nodes")
    }

    /// Every privilege that is not one of reading, in alphabetical order. An unknown privilege counts as one too many.
    pub(crate) fn excess(&self) -> Vec<Excess> {
        let mut paths_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (path, privileges) in &self.0 {
            for privilege in privileges.keys().filter(|held| !READING.contains(&held.as_str())) {
                paths_of.entry(privilege).or_default().push(shown(path, "/"));
            }
        }
        let excess = |(privilege, paths)| Excess { privilege: shown(privilege, "."), paths };
        paths_of.into_iter().map(excess).collect()
    }

    fn reach(&self, privilege: &str, root: &str) -> Reach {
        let held = |path: &str| self.0.get(path).and_then(|privileges| privileges.get(privilege));
        let reaches_below = |number: &Number| number.flag().unwrap_or(false);
        if ["/", root].into_iter().filter_map(held).any(reaches_below) {
            return Reach::All;
        }
        let below = |path: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        let some = self.0.iter().any(|(path, privileges)| below(path) && privileges.contains_key(privilege));
        if some { Reach::Some } else { Reach::Nowhere }
    }
}

impl Excess {
    /// For a sentence: the privilege and where it is held.
    pub(crate) fn describe(&self) -> String {
        let first = self.paths.first().map_or("/", String::as_str);
        match self.paths.len() {
            0 | 1 => format!("{} on {first}", self.privilege),
            several => format!("{} on {first} and {} more", self.privilege, several - 1),
        }
    }
}

/// Names of the upstream stand in our messages, so they are held to the characters that such names have.
fn shown(name: &str, extra: &str) -> String {
    let taken = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c) || extra.contains(c);
    if (1..=128).contains(&name.len()) && name.chars().all(taken) {
        name.to_owned()
    } else {
        "(a name that cannot be shown)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn permissions(map: serde_json::Value) -> Permissions {
        serde_json::from_value(map).expect("a map")
    }

    // proves: REQ-025, X2-05
    #[test]
    fn the_auditor_of_each_release_is_not_too_much() {
        for more in
            [json!({}), json!({"Mapping.Audit": 1}), json!({"Mapping.Audit": 1, "VM.GuestAgent.Audit": "1"})]
        {
            let mut role =
                json!({"Datastore.Audit": 1, "Pool.Audit": 1, "SDN.Audit": 1, "Sys.Audit": 1, "VM.Audit": 1});
            role.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
            let held = permissions(json!({"/": role, "/vms": role, "/nodes": role}));
            assert_eq!(held.excess(), []);
            assert_eq!((held.guests(), held.nodes()), (Reach::All, Reach::All));
        }
    }

    // proves: REQ-025, X2-05
    #[test]
    fn every_other_privilege_on_any_path_is_named_even_where_it_does_not_reach_below() {
        let held = permissions(json!({
            "/": {"Sys.Audit": 1},
            "/storage/local": {"Datastore.AllocateSpace": 0},
            "/vms": {"VM.Audit": 1, "VM.PowerMgmt": 1},
            "/vms/100": {"VM.PowerMgmt": null},
        }));
        let described: Vec<_> = held.excess().iter().map(Excess::describe).collect();
        assert_eq!(
            described,
            ["Datastore.AllocateSpace on /storage/local", "VM.PowerMgmt on /vms and 1 more"]
        );
    }

    #[test]
    fn reach_follows_the_path_and_the_propagation() {
        for (map, guests) in [
            (json!({}), Reach::Nowhere),
            (json!({"/": {"VM.Audit": 1}}), Reach::All),
            (json!({"/": {"VM.Audit": "1"}}), Reach::All),
            (json!({"/": {"VM.Audit": 0}}), Reach::Nowhere),
            (json!({"/vms": {"VM.Audit": 1}}), Reach::All),
            (json!({"/vms": {"VM.Audit": 0}, "/vms/100": {"VM.Audit": 0}}), Reach::Some),
            (json!({"/vms/100": {"VM.Audit": 1}}), Reach::Some),
            (json!({"/vmsx": {"VM.Audit": 1}, "/storage": {"VM.Audit": 1}}), Reach::Nowhere),
        ] {
            assert_eq!(permissions(map.clone()).guests(), guests, "{map}");
        }
    }

    #[test]
    fn no_acl_is_an_empty_map() {
        assert!(permissions(json!({})).is_empty());
        assert!(permissions(json!({"/": {}, "/vms": {}})).is_empty());
        assert!(!permissions(json!({"/": {"Sys.Audit": 0}})).is_empty());
    }

    proptest! {
        // proves: REQ-025
        #[test]
        fn whatever_is_not_reading_is_excess_and_can_be_shown(path in ".{0,20}", privilege in ".{0,20}") {
            let held = permissions(json!({path.as_str(): {privilege.as_str(): 1}}));
            let excess = held.excess();
            prop_assert_eq!(excess.is_empty(), READING.contains(&privilege.as_str()));
            for one in excess {
                prop_assert!(one.describe().bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
            }
        }
    }
}
