//! Fuzz target: frames between the remote client and the server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::wire(bytes));
