//! Fuzz target: configuration files, environment variables and their values.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::settings(bytes));
