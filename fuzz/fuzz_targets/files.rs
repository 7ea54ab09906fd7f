//! Fuzz target: small files of a database: the database header, the flush mark, segment headers, lists of
//! tables.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::files(bytes));
