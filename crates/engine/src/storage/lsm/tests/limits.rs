//! Size limits and impossible input.

use std::fs::{self, File};
use std::ops::Bound;
use std::thread;
use std::time::Duration;

use mainstay_model::Code;

use super::super::disk::MOST_RUNS;
use super::super::{KEY_LIMIT_BYTES, REVISION_LIMIT, Store};
use super::{VALUE, entry, ingest, open_small, options, purge, put};

fn both(test: impl Fn(&Store)) {
    let dir = tempfile::tempdir().unwrap();
    test(&open_small(dir.path(), false));
    test(&Store::memory(std::sync::Arc::new(purge)));
}

#[test]
fn values_of_17_mib_come_back_whole_after_compaction_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &options(), false).unwrap();
    let payload: Vec<u8> = (0..17 * 1024 * 1024u32).map(|i| (i >> 3) as u8).collect();
    let big = entry(VALUE, 2, &payload);
    let small = entry(VALUE, 1, b"small");
    ingest(&store, &[(b"k".to_vec(), 2, big.clone()), (b"k".to_vec(), 1, small)]).unwrap();
    assert!(store.get(b"k", 2).unwrap().unwrap()[..] == big[..]);
    store.compact_all(1).unwrap();
    drop(store);
    let store = Store::open(dir.path(), &options(), true).unwrap();
    assert!(store.get(b"k", 2).unwrap().unwrap()[..] == big[..]);
    assert_eq!(&store.get(b"k", 1).unwrap().unwrap()[9..], b"small");
}

/// With `discard`, a file system delays commits while it reports the blocks of a whole table to the device.
#[test]
fn the_space_of_compacted_tables_is_freed_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    for revision in 1..=9 {
        put(&store, b"k", revision, b"value");
    }
    let tables = fs::read_dir(dir.path().join("tables")).unwrap();
    let watched: Vec<File> =
        tables.map(|table| File::open(table.unwrap().path()).unwrap()).collect();
    store.compact_all(9).unwrap();
    let left = || watched.iter().filter(|table| table.metadata().unwrap().len() > 0).count();
    for _ in 0..1_000 {
        if left() == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!(
        "{} removed tables are still whole: they were freed at once when they were closed",
        left()
    );
}

/// A large table that is synced only when complete would delay all concurrent commits.
#[test]
fn tables_are_synced_while_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &options(), false).unwrap();
    let mebibytes = |revision: u64| {
        ingest(
            &store,
            &[1, 2, 3].map(|n| (vec![n], revision, entry(VALUE, revision, &[n; 1 << 20]))),
        )
    };
    // Syncing this file fails, so every attempt to sync it shows as an error.
    let unsyncable = || {
        std::os::unix::fs::symlink("/dev/null", dir.path().join("tables/1000000")).unwrap();
    };
    mebibytes(1).unwrap();
    unsyncable();
    put(&store, b"small", 2, b"is synced once");
    mebibytes(3).unwrap_err();
    // The failure has removed the file.
    mebibytes(3).unwrap();
    unsyncable();
    store.compact_all(0).unwrap_err();
    store.compact_all(0).unwrap();
    assert_eq!(&store.get(&[3], 3).unwrap().unwrap()[9..], [3; 1 << 20]);
}

/// lsm-tree's manifest would count the runs wrongly, and the store could not be opened again.
#[test]
fn no_more_layers_are_taken_than_can_be_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    let put = |store: &Store, revision: u64| {
        let ends = [b"a", b"z"].map(|key| (key.to_vec(), revision, entry(VALUE, revision, b"")));
        ingest(store, &ends)
    };
    for revision in 1..=MOST_RUNS as u64 {
        put(&store, revision).unwrap();
    }
    let refused = put(&store, 1_000).unwrap_err();
    assert_eq!(refused.code(), Code::QueueFull, "{refused}");
    drop(store);
    let store = open_small(dir.path(), true);
    assert_eq!((store.l0_runs(), store.entries()), (MOST_RUNS, 2 * MOST_RUNS as u64));
    assert!(put(&store, 1_000).is_err());
    store.compact(0, 4).unwrap();
    put(&store, 1_000).unwrap();
}

/// Incompressible bytes.
fn noise(n: u64) -> Vec<u8> {
    (0..256)
        .flat_map(|at| (n * 256 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
}

/// If one compaction strategy finds nothing to do and the next one fails, the compaction counts as failed.
#[test]
fn failures_behind_a_key_that_is_too_large_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    for revision in 1..=36 {
        put(&store, b"hot", revision, &noise(revision));
        if revision < 36 && store.l0_runs() >= 12 {
            store.compact(0, 12).unwrap();
        }
    }
    drop(store);
    for table in std::fs::read_dir(dir.path().join("tables")).unwrap() {
        let path = table.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let store = open_small(dir.path(), true);
    for failures in 1..=3 {
        assert_eq!(store.compact(0, 12).unwrap_err().code(), Code::CorruptIndex);
        assert_eq!(store.failed_compactions(), failures);
    }
}

/// All versions of a key are in one table, however large.
#[test]
fn a_key_with_more_versions_than_fit_into_tables_is_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    for revision in 1..=400 {
        put(&store, b"hot", revision, &noise(revision));
        for _ in 0..10 {
            if store.l0_runs() >= 12 {
                store.compact(0, 12).unwrap();
            }
        }
        assert!(store.l0_runs() < 12, "revision {revision}: {} layers", store.l0_runs());
    }
    for revision in [1, 200, 400] {
        let found = store.get(b"hot", revision).unwrap().unwrap();
        assert!(found[..] == entry(VALUE, revision, &noise(revision))[..], "revision {revision}");
    }
}

#[test]
fn the_longest_key_works_and_longer_or_empty_ones_are_refused() {
    both(|store| {
        let longest = vec![7; KEY_LIMIT_BYTES];
        ingest(store, &[(longest.clone(), 1, entry(VALUE, 1, b""))]).unwrap();
        assert!(store.get(&longest, 1).unwrap().is_some());
        for key in [vec![], vec![7; KEY_LIMIT_BYTES + 1]] {
            let refused = ingest(store, &[(key.clone(), 2, entry(VALUE, 2, b""))]).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert_eq!(store.get(&key, 2).unwrap_err().code(), Code::InvalidArgument);
        }
        assert_eq!(store.entries(), 1);
    });
}

#[test]
fn bounds_longer_than_any_key_lie_just_above_their_prefix() {
    both(|store| {
        let longest = vec![7; KEY_LIMIT_BYTES];
        ingest(store, &[(longest, 1, entry(VALUE, 1, b""))]).unwrap();
        let longer = &[7; KEY_LIMIT_BYTES + 1][..];
        let count = |from, to| store.range(from, to, 1).count();
        assert_eq!(count(Bound::Included(longer), Bound::Unbounded), 0);
        assert_eq!(count(Bound::Excluded(longer), Bound::Unbounded), 0);
        assert_eq!(count(Bound::Unbounded, Bound::Excluded(longer)), 1);
        assert_eq!(count(Bound::Unbounded, Bound::Included(longer)), 1);
        assert_eq!(count(Bound::Included(longer), Bound::Included(longer)), 0);
    });
}

#[test]
fn the_highest_revision_works_and_one_more_is_refused() {
    both(|store| {
        let top = REVISION_LIMIT;
        ingest(store, &[(b"k".to_vec(), top, entry(VALUE, top, b""))]).unwrap();
        assert!(store.get(b"k", top).unwrap().is_some());
        assert!(store.get(b"k", u64::MAX).unwrap().is_some());
        assert!(store.get(b"k", top - 1).unwrap().is_none());
        assert_eq!(store.highest(), Some(top));
        let above = (b"l".to_vec(), top + 1, entry(VALUE, top + 1, b""));
        assert_eq!(ingest(store, &[above]).unwrap_err().code(), Code::InvalidArgument);
    });
}

#[test]
fn versions_out_of_order_or_without_their_revision_are_refused_as_a_whole() {
    both(|store| {
        let version = |key: &[u8], revision| (key.to_vec(), revision, entry(VALUE, revision, b""));
        let wrong = [
            vec![version(b"b", 1), version(b"a", 2)],
            vec![version(b"a", 1), version(b"a", 2)],
            vec![version(b"a", 1), version(b"a", 1)],
            vec![version(b"a", 1), (b"b".to_vec(), 2, entry(VALUE, 3, b""))],
            vec![version(b"a", 1), (b"b".to_vec(), 2, vec![0; 8])],
        ];
        for versions in wrong {
            assert_eq!(ingest(store, &versions).unwrap_err().code(), Code::InvalidArgument);
        }
        assert_eq!(store.entries(), 0);
        ingest(store, &[version(b"a", 1)]).unwrap();
        assert_eq!(store.entries(), 1);
    });
}

#[test]
fn on_disk_fresh_tables_are_waited_for_and_in_memory_nothing_is() {
    let directory = tempfile::tempdir().unwrap();
    let stores = [open_small(directory.path(), false), Store::memory(std::sync::Arc::new(purge))];
    for store in &stores {
        assert!(!store.is_ripe(1));
    }
    let [disk, memory] = stores;
    for revision in 1..=5 {
        put(&disk, b"key", revision, b"value");
    }
    assert!(disk.is_ripe(5) && !disk.is_ripe(6));
    for revision in 1..=2_000 {
        put(&memory, b"key", revision, b"value");
    }
    assert!(memory.is_ripe(u8::MAX), "it has no tables to wait for");
    memory.compact(2_000, 4).unwrap();
    assert!(!memory.is_ripe(1));
}
