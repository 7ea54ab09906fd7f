//! What is stored of sessions, and snapshots of session machines.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::sessions(bytes));
