//! Whatever is done to the rows of a chain, the verifier finds it.

use audit::chain::{ChainVerifier, Row};
use audit::memory::MemoryAudit;
use audit::verdict::{Tampering, Verdict, Why};
use futures_util::FutureExt as _;
use mcp_core::audit::{AuditError, AuditSink as _};
use mcp_core::id::{EventId, InstanceId, TenantId};
use proptest::prelude::*;
use ulid::Ulid;
use uuid::Uuid;

use crate::world::{call, fact, intent, outcome};

/// A chain with a call in it: `rows` facts, then an intent, a fact and its outcome.
pub(crate) fn chain(tenant: u128, rows: u32) -> Vec<Row> {
    let (tenant, call) = (TenantId::from_uuid(Uuid::from_u128(tenant)), call());
    let log = MemoryAudit::new([0; 32]);
    let instance = InstanceId::from_uuid(Uuid::from_u128(1));
    let call_rows = [intent(tenant, call, instance), fact(tenant, rows), outcome(tenant, call)];
    for event in (0..rows).map(|number| fact(tenant, number)).chain(call_rows) {
        log.append(event).now_or_never().unwrap().unwrap();
    }
    log.rows()
}

fn verify(rows: &[Row]) -> Verdict {
    let mut verifier = ChainVerifier::new(TenantId::from_uuid(Uuid::from_u128(1)));
    for row in rows {
        if let Err(tampering) = verifier.push(row) {
            return Verdict::Tampered(tampering);
        }
    }
    verifier.finish(None)
}

/// Makes the rows from `from` on consistent again, as somebody would who knows how hashes are made.
fn rehash(rows: &mut [Row], from: usize) {
    for at in from..rows.len() {
        if at > 0 {
            rows[at].prev_hash = rows[at - 1].hash;
        }
        rows[at].hash = rows[at].fields().hash(&rows[at].prev_hash);
    }
}

#[derive(Debug, Clone)]
enum Mutation {
    Body(usize, u8),
    Type(char),
    Event(u128),
    Time(i64),
    Seq(u64),
    Prev(usize, u8),
    Hash(usize, u8),
    Tenant(u128),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let bit = || (0..32usize, 1..=u8::MAX);
    prop_oneof![
        (any::<usize>(), 1..=u8::MAX).prop_map(|(at, bit)| Mutation::Body(at, bit)),
        any::<char>().prop_map(Mutation::Type),
        (1..u128::MAX).prop_map(Mutation::Event),
        (1..i64::MAX).prop_map(Mutation::Time),
        (1..u64::MAX).prop_map(Mutation::Seq),
        bit().prop_map(|(at, bit)| Mutation::Prev(at, bit)),
        bit().prop_map(|(at, bit)| Mutation::Hash(at, bit)),
        (2..u128::MAX).prop_map(Mutation::Tenant),
    ]
}

fn apply(row: &mut Row, mutation: &Mutation) {
    match mutation {
        Mutation::Body(at, bits) => {
            let at = at % row.body.len();
            row.body[at] ^= bits;
        }
        Mutation::Type(letter) => row.event_type.push(*letter),
        Mutation::Event(id) => {
            row.event_id = EventId::from_ulid(Ulid(row.event_id.as_ulid().0.wrapping_add(*id)))
        }
        Mutation::Time(by) => row.at_us = row.at_us.wrapping_add_signed(*by),
        Mutation::Seq(by) => row.seq = row.seq.wrapping_add(*by),
        Mutation::Prev(at, bits) => row.prev_hash[*at] ^= bits,
        Mutation::Hash(at, bits) => row.hash[*at] ^= bits,
        Mutation::Tenant(tenant) => row.tenant = TenantId::from_uuid(Uuid::from_u128(*tenant)),
    }
}

proptest! {
    // proves: AU-13, C-K02
    #[test]
    fn an_edit_is_found_at_its_row(at in 0..8usize, mutation in mutation()) {
        let mut rows = chain(1, 5);
        apply(&mut rows[at], &mutation);
        let Verdict::Tampered(Tampering { seq, .. }) = verify(&rows) else {
            panic!("not found: {mutation:?}")
        };
        // A wrong number leaves a gap at the place of the right one, or is itself the wrong thing there.
        let expected = at as u64 + 1;
        prop_assert!(seq == expected || (matches!(mutation, Mutation::Seq(_)) && seq == rows[at].seq));
    }

    // proves: AU-13, C-K02
    #[test]
    fn an_edit_with_a_fresh_hash_is_found_at_the_next_row(at in 0..7usize, letter in any::<char>()) {
        let mut rows = chain(1, 5);
        rows[at].event_type.push(letter);
        let expected = Tampering { seq: at as u64 + 2, why: Why::Link };
        rows[at].hash = rows[at].fields().hash(&rows[at].prev_hash);
        prop_assert_eq!(verify(&rows), Verdict::Tampered(expected));
    }

    // proves: C-K03
    #[test]
    fn a_deleted_row_is_found(at in 0..7usize) {
        let mut rows = chain(1, 5);
        rows.remove(at);
        let gap = Tampering { seq: at as u64 + 1, why: Why::Gap };
        prop_assert_eq!(verify(&rows), Verdict::Tampered(gap));
    }

    // proves: C-K04
    #[test]
    fn a_swap_is_found(one in 0..8usize, other in 0..8usize, renumber in any::<bool>()) {
        prop_assume!(one != other);
        let mut rows = chain(1, 5);
        rows.swap(one, other);
        if renumber {
            (0..).zip(&mut rows).for_each(|(at, row)| row.seq = at + 1);
        }
        let Verdict::Tampered(Tampering { seq, .. }) = verify(&rows) else { panic!("not found") };
        prop_assert_eq!(seq, one.min(other) as u64 + 1);
    }

    #[test]
    fn an_inserted_row_is_found(at in 0..8usize, from in 0..8usize, renumber in any::<bool>()) {
        let mut rows = chain(1, 5);
        rows.insert(at, rows[from].clone());
        if renumber {
            (0..).zip(&mut rows).for_each(|(at, row)| row.seq = at + 1);
        }
        prop_assert!(matches!(verify(&rows), Verdict::Tampered(_)));
    }

    // proves: C-K02
    #[test]
    fn a_foreign_chain_is_not_taken_for_ours(at in 0..8usize) {
        let (mut rows, foreign) = (chain(1, 5), chain(2, 5));
        rows[at] = foreign[at].clone();
        let expected = Tampering { seq: at as u64 + 1, why: Why::ForeignRow };
        prop_assert_eq!(verify(&rows), Verdict::Tampered(expected));
    }
}

/// Hashes that are right do not make a story right.
#[test]
fn a_consistent_chain_with_an_impossible_story_is_found() {
    let tamper = |change: fn(&mut Vec<Row>)| {
        let mut rows = chain(1, 2);
        change(&mut rows);
        (1..).zip(&mut rows).for_each(|(seq, row)| row.seq = seq);
        rehash(&mut rows, 0);
        match verify(&rows) {
            Verdict::Tampered(tampering) => (tampering.seq, tampering.why),
            other => panic!("not found: {other}"),
        }
    };
    // Rows 1 and 2 are facts, 3 is an intent, 4 a fact, 5 the outcome.
    assert_eq!(tamper(|rows| rows.push(rows[4].clone())), (6, Why::OutcomeWithoutIntent));
    assert_eq!(tamper(|rows| drop(rows.remove(2))), (4, Why::OutcomeWithoutIntent));
    assert_eq!(tamper(|rows| rows.insert(3, rows[2].clone())), (4, Why::SecondIntent));
    assert_eq!(tamper(|rows| rows[1].at_us -= 3_600_000_000), (2, Why::Time));
    for body in ["", "[]", "null", "{", "{} {}", "\u{0}"] {
        let mut rows = chain(1, 2);
        rows[1].body = body.as_bytes().to_vec();
        rehash(&mut rows, 1);
        assert_eq!(verify(&rows), Verdict::Tampered(Tampering { seq: 2, why: Why::Body }), "{body:?}");
    }
    assert_eq!(tamper(|rows| rows[1].body = b"{\"a\":\"\xff\"}".to_vec()), (2, Why::Body));
    assert_eq!(tamper(|rows| rows[2].body = b"{\"phase\":\"started\"}".to_vec()), (3, Why::Body));
}

#[test]
fn the_memory_log_fails_when_told_and_closes_once() {
    let log = MemoryAudit::new([0; 32]);
    let (tenant, call) = (TenantId::SYSTEM, call());
    let append = |event| log.append(event).now_or_never().unwrap();
    log.set_failing(true);
    assert_eq!(append(fact(tenant, 1)), Err(AuditError::Unavailable));
    log.set_failing(false);
    let instance = InstanceId::from_uuid(Uuid::from_u128(1));
    append(intent(tenant, call, instance)).unwrap();
    append(outcome(tenant, call)).unwrap();
    assert_eq!(append(outcome(tenant, call)), Err(AuditError::AlreadyClosed));
    assert_eq!(log.rows().len(), 2);
}
