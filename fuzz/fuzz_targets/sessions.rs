//! Fuzz target: stored session state, and snapshots of session state machines.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::sessions(bytes));
