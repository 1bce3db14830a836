//! A guest as the upstream describes it, and as we do.

use std::fmt;

use mcp_core::tool::proxmox::{Guest, GuestType};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use crate::endpoint::Vmid;
use crate::lenient::{Number, Text};

/// Guests kept of one list. A result of 512 KiB holds fewer.
pub(crate) const MAX_GUESTS: usize = 5000;

/// The fields we read, of both kinds and all releases. Everything else is skipped without being stored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GuestRow {
    vmid: Number,
    name: Text,
    pub(crate) status: Text,
    cpu: Number,
    cpus: Number,
    mem: Number,
    maxmem: Number,
    uptime: Number,
    template: Number,
    tags: Text,
}

/// A list of guests with the lowest numbers first, cut while it is read, so that a list of any length costs the same.
#[derive(Debug, Default)]
pub(crate) struct GuestRows {
    pub(crate) guests: Vec<Guest>,
    pub(crate) omitted: u64,
}

impl GuestRow {
    /// The number, when the row has a possible one.
    pub(crate) fn vmid(&self) -> Option<Vmid> {
        Vmid::parse(self.vmid.whole()?)
    }

    /// The guest as the tools show it.
    pub(crate) fn into_guest(self, kind: GuestType, vmid: Vmid) -> Guest {
        let name = self.name.into_option().unwrap_or_else(|| default_name(kind, vmid));
        let tags = self.tags.into_option().unwrap_or_default();
        Guest {
            vmid: vmid.get(),
            name,
            guest_type: kind,
            status: self.status.into_option().unwrap_or_else(|| "unknown".to_owned()),
            cpu: self.cpu.float(),
            cpus: self.cpus.float(),
            mem: self.mem.whole(),
            maxmem: self.maxmem.whole(),
            uptime: self.uptime.whole(),
            template: self.template.flag().unwrap_or(false),
            tags: tags.split([';', ',', ' ']).filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
        }
    }
}

impl GuestRows {
    /// Puts two lists together.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.guests.extend(other.guests);
        self.omitted += other.omitted;
        self.cut();
        self
    }

    fn push(&mut self, guest: Guest) {
        self.guests.push(guest);
        if self.guests.len() >= 2 * MAX_GUESTS {
            self.cut();
        }
    }

    fn cut(&mut self) {
        // Rows arrive in the order of a hash.
        self.guests.sort_by_key(|guest| (guest.vmid, guest.guest_type == GuestType::Lxc));
        self.omitted += self.guests.len().saturating_sub(MAX_GUESTS) as u64;
        self.guests.truncate(MAX_GUESTS);
    }
}

/// The names that Proxmox VE itself shows for guests without one.
fn default_name(kind: GuestType, vmid: Vmid) -> String {
    match kind {
        GuestType::Qemu => format!("VM {}", vmid.get()),
        GuestType::Lxc => format!("CT{}", vmid.get()),
    }
}

/// Virtual machines.
#[derive(Debug)]
pub(crate) struct Machines(pub(crate) GuestRows);

/// Containers.
#[derive(Debug)]
pub(crate) struct Containers(pub(crate) GuestRows);

impl<'de> Deserialize<'de> for Machines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RowsVisitor(GuestType::Qemu)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Containers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RowsVisitor(GuestType::Lxc)).map(Self)
    }
}

struct RowsVisitor(GuestType);

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = GuestRows;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of guests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<GuestRows, A::Error> {
        let mut rows = GuestRows::default();
        while let Some(row) = seq.next_element::<GuestRow>()? {
            let vmid = row.vmid().ok_or_else(|| A::Error::custom("a guest without a number"))?;
            rows.push(row.into_guest(self.0, vmid));
        }
        rows.cut();
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::envelope::unwrap_data;

    fn list(rows: usize) -> String {
        // Backwards, and filled up to what a row takes in reality, so that 50 000 rows are about 4 MiB.
        let rows: Vec<_> = (0..rows)
            .rev()
            .map(|at| {
                format!(
                    r#"{{"vmid":"{}","name":"vm-{at}","status":"running","cpu":"0.5","pid":"7"}}"#,
                    100 + at
                )
            })
            .collect();
        format!(r#"{{"data":[{}]}}"#, rows.join(","))
    }

    // proves: T-01, P-08
    #[test]
    fn rows_are_sorted_and_named() {
        let body =
            r#"{"data":[{"vmid":"110","tags":"b;a","template":1,"lock":null},{"vmid":101,"name":"db"}]}"#;
        let Machines(rows) = unwrap_data(body).expect("rows");
        let shown: Vec<_> = rows.guests.iter().map(|guest| (guest.vmid, guest.name.as_str())).collect();
        assert_eq!(shown, [(101, "db"), (110, "VM 110")]);
        assert_eq!(rows.guests[1].tags, ["b", "a"]);
        assert!(rows.guests[1].template && !rows.guests[0].template);
        let Containers(rows) = unwrap_data(body).expect("rows");
        assert_eq!(rows.guests[1].name, "CT110");
    }

    // proves: C-N13
    #[test]
    fn a_row_without_a_possible_number_makes_no_list() {
        for row in
            ["{}", r#"{"vmid":null}"#, r#"{"vmid":99}"#, r#"{"vmid":-1}"#, r#"{"vmid":"1e30"}"#, "7", "null"]
        {
            assert!(unwrap_data::<Machines>(&format!(r#"{{"data":[{row}]}}"#)).is_err(), "{row}");
        }
    }

    // proves: C-N13
    #[test]
    fn a_long_list_keeps_the_lowest_numbers_and_counts_the_rest() {
        for count in [0, 1, MAX_GUESTS, MAX_GUESTS + 1, 2 * MAX_GUESTS, 23_456] {
            let Machines(rows) = unwrap_data(&list(count)).expect("rows");
            assert_eq!(rows.guests.len() + usize::try_from(rows.omitted).expect("small"), count);
            let first: Vec<_> = rows.guests.iter().take(2).map(|guest| guest.vmid).collect();
            assert_eq!(first, [100, 101][..count.min(2)]);
            assert!(rows.guests.is_sorted_by_key(|guest| guest.vmid));
        }
    }

    #[test]
    fn fifty_thousand_rows_are_read_in_no_time() {
        let body = list(50_000);
        let begun = Instant::now();
        let Machines(rows) = unwrap_data(&body).expect("rows");
        // About 25 ms when optimised. The bound allows for a build that is not, on a busy machine, and still catches
        // work that grows with the square of the rows.
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        assert_eq!(rows.omitted, 45_000);
    }
}
