//! Every input that a fuzzer found worth keeping, tried again.

use std::path::Path;

use conformance_tests::fuzz::TARGETS;

// proves: M-03
#[test]
fn what_must_hold_for_any_bytes_holds_for_all_that_were_kept() {
    for (name, check) in TARGETS {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        let files =
            std::fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
        let mut tried = 0;
        for file in files {
            let path = file.expect("a file").path();
            let bytes = std::fs::read(&path).expect("readable");
            let broken = std::panic::catch_unwind(|| check(&bytes)).is_err();
            assert!(!broken, "{name} breaks on {}", path.display());
            tried += 1;
        }
        assert!(tried > 20, "{name} has a corpus of {tried} files");
    }
}
