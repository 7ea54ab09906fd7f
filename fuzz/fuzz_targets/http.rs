//! Fuzz target: HTTP requests, executed by the router.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::http(bytes));
