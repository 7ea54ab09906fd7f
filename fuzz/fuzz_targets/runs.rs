//! Events, heads, snapshots and messages as they are kept.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::runs(bytes));
