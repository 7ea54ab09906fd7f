//! Commands of RESP, done on a database in memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_server::fuzz::commands(bytes));
