//! Fuzz target: RESP replies of a server, as the Rust client decodes them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::replies(bytes));
