//! Fuzz target: snapshots of keyed state.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::keyed(bytes));
