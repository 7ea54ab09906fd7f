//! Fuzz target: RESP commands, executed on an in-memory database.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::commands(bytes));
