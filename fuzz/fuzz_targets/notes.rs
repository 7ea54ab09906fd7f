//! Fuzz target: notes of stream processing: orders, outputs, states, file names.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_streams::fuzz::notes(bytes));
