//! Fuzz target: records of jobs, their names and their objects.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_jobs::fuzz::jobs(bytes));
