//! Fuzz target: backups, full and incremental.
#![no_main]

use std::sync::LazyLock;
use tempfile::NamedTempFile;

static SCRATCH: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().expect("a scratch file"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::fuzz::backup(bytes, SCRATCH.path()));
