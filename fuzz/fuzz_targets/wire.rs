//! Frames of the remote client and of its server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::wire(bytes));
