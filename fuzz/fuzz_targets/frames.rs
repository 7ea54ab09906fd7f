//! Fuzz target: frames of the write-ahead log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::frames(bytes));
