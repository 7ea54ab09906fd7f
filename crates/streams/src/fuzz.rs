//! What fuzzers feed: any bytes to the reader of manifests. None may panic, and what is taken for whole says the same when
//! it is written again.

use crate::checkpoint::Manifest;

/// The manifest of a checkpoint, as it is and with its hash made right.
pub fn manifest(bytes: &[u8]) {
    for bytes in [bytes, &mended(bytes)] {
        let Ok(manifest) = Manifest::decode("fuzzed", bytes) else { continue };
        assert!(manifest.files().all(|file| file.bytes <= manifest.bytes()));
        let written = manifest.encode().expect("what was read can be written");
        assert_eq!(Manifest::decode("again", &written).as_ref(), Ok(&manifest));
    }
}

/// The first line with its right hash behind it: what fuzzers change would otherwise never get past it.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = [&bytes[..end], b"\n"].concat();
    let hash = blake3::hash(&line).to_hex();
    [&line[..], hash.as_bytes(), b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoints, Job, MemoryState, Shelf};
    use mainstay_model::{KeyedState, StateWrite};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn seeds() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/manifest")
    }

    /// All seeds there are.
    fn all() -> Vec<Vec<u8>> {
        let files = fs::read_dir(seeds()).unwrap().map(|file| file.unwrap().path());
        files.map(|file| fs::read(file).unwrap()).collect()
    }

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        assert!(all().len() > 1);
        all().iter().for_each(|bytes| manifest(bytes));
    }

    /// What is whole is read, and written byte for byte; a number of bytes that is beyond all numbers is no panic.
    #[test]
    fn seeds_are_whole_and_mended_ones_get_past_the_hash() {
        for bytes in all() {
            let read = Manifest::decode("seed", &bytes).unwrap();
            assert_eq!(read.encode().as_ref(), Ok(&bytes));
            assert_eq!(mended(&bytes), bytes);
            let size = format!("\"bytes\":{}", read.shards[0].files[0].bytes);
            let text = String::from_utf8(bytes).unwrap();
            let changed = text.replacen(&size, &format!("\"bytes\":{}", u64::MAX), 1);
            assert!(Manifest::decode("changed", changed.as_bytes()).is_err());
            let changed = Manifest::decode("mended", &mended(changed.as_bytes())).unwrap();
            assert_eq!(changed.bytes(), u64::MAX);
        }
    }

    proptest! {
        /// What a fuzzer does, a little of it with every run of the tests.
        #[test]
        fn changed_seeds_are_refused_and_nobody_falls_over_them(
            changes in vec((any::<Index>(), 1..=255_u8), 1..2),
            cut in option::of(any::<Index>()),
        ) {
            for mut bytes in all() {
                changes.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) ^= *byte);
                bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
                prop_assert!(Manifest::decode("changed", &bytes).is_err());
                manifest(&bytes);
            }
        }

        #[test]
        fn any_bytes_are_no_manifest(bytes in vec(any::<u8>(), 0..256)) {
            prop_assert!(Manifest::decode("any", &bytes).is_err());
            manifest(&bytes);
        }
    }

    /// Writes the seeds: run with `--ignored` when their format changes.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_seeds() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::directory(directory.path()).unwrap();
        let checkpoints = Checkpoints::open(shelf, Job::new("orders", "count")).unwrap();
        let state = MemoryState::new();
        fs::create_dir_all(seeds()).unwrap();
        for (name, version) in [("full", 1), ("later", 2)] {
            let writes = vec![
                StateWrite::put("user-7", "1", version),
                StateWrite::advance("orders", version),
            ];
            state.write(writes).unwrap();
            let manifest = checkpoints.take(&state).unwrap();
            fs::write(seeds().join(name), manifest.encode().unwrap()).unwrap();
        }
    }
}
