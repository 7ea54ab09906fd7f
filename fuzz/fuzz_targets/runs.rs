//! Fuzz target: stored events, run heads, snapshots and outbox messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::runs(bytes));
