//! Fuzz target: values, fields, and their text form.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::values(bytes));
