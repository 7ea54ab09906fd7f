//! Fuzz targets: arbitrary bytes for the decoders of manifests, coordination messages, outputs, states and file
//! names. No input may panic, and decoded content must round-trip.

#[cfg(test)]
#[path = "../../../fuzz/feeding.rs"]
mod feeding;

use crate::checkpoint::Manifest;
use crate::coordination::{self, CheckpointStatus, ShardStatus};
use crate::operator::WindowState;
use crate::pipeline::batch_states::read_state;
use crate::sink::reformat_name;
use crate::{Output, OutputId, StateKeyCodec};
use mainstay_model::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Fuzzes the manifest decoder, with the bytes as they are and with a corrected hash.
pub fn manifest(bytes: &[u8]) {
    for bytes in [bytes, &with_correct_hash(bytes)] {
        let Ok(manifest) = Manifest::decode("fuzzed", bytes) else { continue };
        assert!(manifest.files().all(|file| file.bytes <= manifest.bytes()));
        let encoded = manifest.encode().expect("what was read can be written");
        assert_eq!(Manifest::decode("again", &encoded).as_ref(), Ok(&manifest));
    }
}

/// Fuzzes the decoders of coordination messages, outputs and their ids, window states, keys and sink file names.
pub fn notes(bytes: &[u8]) {
    check_round_trip(bytes, |bytes| read_state::<WindowState<u64>>(b"k", bytes).ok());
    check_round_trip(bytes, |bytes| serde_json::from_slice::<Output<u64>>(bytes).ok());
    check_round_trip(bytes, decode_message::<CheckpointStatus>);
    check_round_trip(bytes, decode_message::<ShardStatus>);
    if let Ok(key) = u64::from_key(bytes) {
        assert_eq!(key.to_key(), bytes);
    }
    if let Ok(key) = String::from_key(bytes) {
        assert_eq!(key.to_key(), bytes);
        text_forms(&key);
    }
}

fn text_forms(text: &str) {
    if let Ok(id) = text.parse::<OutputId>() {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    if let Some(name) = reformat_name(text) {
        assert_eq!(name, text, "a file has one name");
    }
}

/// Decodes a coordination message.
fn decode_message<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    coordination::decode(&Value::from(std::str::from_utf8(bytes).ok()?)).ok()
}

fn check_round_trip<T: Serialize + PartialEq + Debug>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
) {
    if let Some(first) = read(bytes) {
        let encoded = serde_json::to_vec(&first).expect("what was read can be written");
        assert_eq!(read(&encoded), Some(first));
    }
}

/// Replaces the hash by the correct one. Otherwise a fuzzer would never get past the hash check.
fn with_correct_hash(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = [&bytes[..end], b"\n"].concat();
    let hash = blake3::hash(&line).to_hex();
    [&line[..], hash.as_bytes(), b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::feeding::{changes, check_targets, feed, seeds};
    use super::*;
    use crate::coordination::Phase;
    use crate::operator::Window;
    use crate::{Cause, CheckpointStore, Checkpoints, Job, MemoryState};
    use mainstay_model::{KeyedState, LogicalTime, StateWrite};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;

    /// All seeds of manifests.
    fn all() -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        feed("manifest", |bytes| all.push(bytes.to_vec()));
        all
    }

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        check_targets("mainstay_streams::fuzz", &["manifest", "notes"]);
        feed("manifest", manifest);
        feed("notes", notes);
    }

    /// Seeds decode and encode to the same bytes, and a byte count near the integer limit does not panic.
    #[test]
    fn seeds_are_whole_and_mended_ones_get_past_the_hash() {
        for bytes in all() {
            let read = Manifest::decode("seed", &bytes).unwrap();
            assert_eq!(read.encode().as_ref(), Ok(&bytes));
            assert_eq!(with_correct_hash(&bytes), bytes);
            let size = format!("\"bytes\":{}", read.shards[0].files[0].bytes);
            let text = String::from_utf8(bytes).unwrap();
            let changed = text.replacen(&size, &format!("\"bytes\":{}", u64::MAX), 1);
            assert!(Manifest::decode("changed", changed.as_bytes()).is_err());
            let changed =
                Manifest::decode("mended", &with_correct_hash(changed.as_bytes())).unwrap();
            assert_eq!(changed.bytes(), u64::MAX);
        }
    }

    proptest! {
        #[test]
        fn changed_notes_are_taken_without_a_panic(change in changes()) {
            feed("notes", |bytes| notes(&change.of(bytes)));
        }

        /// A short run of the fuzzer with every test run.
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

    /// Writes the seeds. Run it with `--ignored` after a format change.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_seeds() {
        let directory = tempfile::tempdir().unwrap();
        let store = CheckpointStore::directory(directory.path()).unwrap();
        let checkpoints = Checkpoints::open(store, Job::new("orders", "count")).unwrap();
        let state = MemoryState::new();
        fs::create_dir_all(seeds("manifest")).unwrap();
        for (name, version) in [("full", 1), ("later", 2)] {
            let writes = vec![
                StateWrite::put("user-7", "1", version),
                StateWrite::advance("orders", version),
            ];
            state.write(writes).unwrap();
            let manifest = checkpoints.create(&state).unwrap();
            fs::write(seeds("manifest").join(name), manifest.encode().unwrap()).unwrap();
        }
    }

    /// Writes the seeds. Run it with `--ignored` after a format change.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_notes() {
        fs::create_dir_all(seeds("notes")).unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(seeds("notes").join(name), bytes).unwrap();
        let output =
            |key: &[u8]| Output::new("totals", key, Cause::Item(LogicalTime::new(0, 17)), 0, 3_u64);
        write("output", &serde_json::to_vec(&output(b"user-7")).unwrap());
        write("output-hex", &serde_json::to_vec(&output(b"\xff\x00")).unwrap());
        write("id", output(b"user-7").id.to_string().as_bytes());
        let phase = Phase::Aborted { why: "shard 1 began again".into() };
        write(
            "order",
            &serde_json::to_vec(&CheckpointStatus {
                checkpoint: 7,
                epoch: 1,
                shards: 2,
                patience_ms: Some(9),
                phase,
            })
            .unwrap(),
        );
        write("failed", &serde_json::to_vec(&ShardStatus::Failed("no room".into())).unwrap());
        let window = Window { start_ms: 0, end_ms: 60_000, value: 7_u64 };
        write("windows", &serde_json::to_vec(&WindowState { windows: vec![window] }).unwrap());
        write("part", b"part-00000000000000000120");
        write("staged", b"staged-00000000000000000300");
        write("shard", b"shard-00000000000000000001-2");
        write("from", b"from-00000000000000000300");
    }
}
