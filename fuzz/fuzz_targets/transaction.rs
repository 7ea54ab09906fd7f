//! Fuzz target: transactions as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::transaction(bytes));
