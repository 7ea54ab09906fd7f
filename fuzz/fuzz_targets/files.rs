//! Small files of a database: its header, its mark, heads of segments, lists of tables.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::files(bytes));
