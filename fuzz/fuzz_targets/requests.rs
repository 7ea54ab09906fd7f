//! Fuzz target: the RESP request parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::requests(bytes));
