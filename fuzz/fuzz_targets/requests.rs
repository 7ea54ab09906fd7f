//! Requests of RESP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::requests(bytes));
