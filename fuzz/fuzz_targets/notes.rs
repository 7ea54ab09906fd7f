//! Notes of stream processing: orders, outputs, states, names of files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_streams::fuzz::notes(bytes));
