#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| conformance_tests::fuzz::envelope(input));
