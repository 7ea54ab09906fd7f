//! Fuzz target: manifests of checkpoints.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay_streams::fuzz::manifest(bytes));
