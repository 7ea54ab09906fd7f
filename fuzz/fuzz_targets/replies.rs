//! Replies of a server, as our client reads them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::replies(bytes));
