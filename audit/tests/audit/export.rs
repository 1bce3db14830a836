//! Exports: out of the database, verified without it, and hostile ones.

use std::io::{BufReader, Read};

use audit::export::{ExportError, MAX_LINE_BYTES, export_tenant, read_rows, verify_export, write_row};
use audit::verdict::{Tampering, Verdict, Why};
use proptest::prelude::*;

use crate::mutation::chain;
use crate::world::{World, call, intent, tenant};
use mcp_core::audit::AuditSink as _;

fn lines(rows: &[audit::chain::Row]) -> Vec<u8> {
    let mut out = Vec::new();
    rows.iter().for_each(|row| write_row(&mut out, row).unwrap());
    out
}

#[tokio::test]
async fn an_export_is_the_same_chain() {
    let world = World::new().await;
    let (acme, globex) = (tenant(), tenant());
    world.chain_of(acme, 30).await;
    let writer = world.writer();
    writer.append(intent(globex, call(), writer.instance())).await.unwrap();

    let mut file = Vec::new();
    let auditor = world.auditor().await;
    assert_eq!(export_tenant(&auditor, acme, &mut file, |_| {}).await.unwrap(), 30);
    assert_eq!(export_tenant(&auditor, globex, &mut file, |_| {}).await.unwrap(), 1);

    let rows: Vec<_> = read_rows(file.as_slice()).map(Result::unwrap).collect();
    let (of_acme, of_globex) = rows.split_at(30);
    assert_eq!((of_acme, of_globex), (&world.rows(acme).await[..], &world.rows(globex).await[..]));
    let verdicts = verify_export(file.as_slice()).unwrap();
    for (tenant, verdict) in &verdicts {
        assert_eq!(*verdict, world.verdict(*tenant).await);
    }
    assert_eq!(verdicts.len(), 2);
}

// proves: C-K11
#[test]
fn a_damaged_line_is_tampering_where_it_names_its_row_and_no_export_otherwise() {
    let text = String::from_utf8(lines(&chain(1, 4))).unwrap();
    let third = text.lines().nth(2).unwrap();
    let with = |line: &str| verify_export(text.replace(third, line).as_bytes());
    let field = |name: &str, value: &str| {
        let mut line: serde_json::Value = serde_json::from_str(third).unwrap();
        line[name] = value.into();
        line.to_string()
    };
    let damaged = Verdict::Tampered(Tampering { seq: 3, why: Why::Unreadable });
    for (name, value) in [
        ("body", "e30"),
        ("body", "!"),
        ("time", "yesterday"),
        ("time", "2025-12-01T02:37:00+00:00"),
        ("hash", "AB"),
        ("prev", ""),
        ("eventId", "0"),
    ] {
        assert_eq!(with(&field(name, value)).unwrap()[0].1, damaged, "{name}");
    }
    let array = r#"["a",3,"","","","","",""]"#;
    for line in ["", "{", "null", array, &field("tenant", "me"), &field("seq", "3"), &field("note", "x")] {
        let error = with(line).unwrap_err();
        assert!(matches!(error, ExportError::NotARow { line: 3 }), "{line}: {error:?}");
        assert_eq!(error.exit_code(), 3);
    }
    let twice = third.replace("{\"tenant\"", "{\"seq\":3,\"tenant\"");
    assert!(matches!(with(&twice), Err(ExportError::NotARow { line: 3 })));
    assert!(matches!(verify_export(&b""[..]), Err(ExportError::Empty)));
}

// proves: C-K11
#[test]
fn an_endless_line_is_given_up() {
    let mut read = 0;
    let endless = BufReader::new(std::io::repeat(b'{'));
    let counted = Counted { inner: endless, read: &mut read };
    let error = verify_export(BufReader::new(counted)).unwrap_err();
    assert!(matches!(error, ExportError::NotARow { line: 1 }));
    assert!(read < MAX_LINE_BYTES * 2);
}

struct Counted<'a, R> {
    inner: R,
    read: &'a mut usize,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        *self.read += read;
        Ok(read)
    }
}

proptest! {
    // proves: C-K11, AU-13
    #[test]
    fn no_changed_byte_of_an_export_passes(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut file = lines(&chain(1, 5));
        let at = at.index(file.len());
        prop_assume!(file[at] != to);
        file[at] = to;
        // The newline at the very end separates it from nothing.
        prop_assume!(at + 1 < file.len() || !to.is_ascii_whitespace());
        let passes = verify_export(file.as_slice())
            .is_ok_and(|verdicts| verdicts.iter().all(|(_, verdict)| verdict.is_intact()));
        prop_assert!(!passes, "byte {at} set to {to}");
    }

    // proves: C-K11
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = verify_export(bytes.as_slice());
    }
}
