//! Fuzz target: entries of the index, for every key space.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::stored(bytes));
