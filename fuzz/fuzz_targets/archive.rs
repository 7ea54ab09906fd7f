//! Fuzz target: files of the archive of runs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_runs::fuzz::archive(bytes));
