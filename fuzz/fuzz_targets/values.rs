//! Values, fields and what users write as text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::values(bytes));
