//! Frames of the log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::frames(bytes));
