//! Retention and reads, one test per case.

use std::ops::Bound;

use super::super::{Entries, Store};
use super::{DELETION, HIDING, VALUE, entry, ingest, open_small, options, purge, put, settle};

fn both(test: impl Fn(&Store)) {
    let dir = tempfile::tempdir().unwrap();
    test(&open_small(dir.path(), false));
    test(&Store::memory(std::sync::Arc::new(purge)));
}

fn keys(range: Entries) -> Vec<Vec<u8>> {
    range.map(|pair| pair.unwrap().0.to_vec()).collect()
}

#[test]
fn a_read_at_exactly_the_floor_sees_what_it_saw_before() {
    both(|store| {
        for revision in 1..=9 {
            put(store, b"k", revision, &[revision as u8]);
        }
        store.compact_all(5).unwrap();
        for at in 5..=9 {
            let found = store.get(b"k", at).unwrap().unwrap();
            assert_eq!(&found[..], entry(VALUE, at, &[at as u8]));
        }
        assert_eq!(store.get(b"k", 4).unwrap(), None);
        assert_eq!(store.entries(), 5);
        assert_eq!(store.highest(), Some(9));
    });
}

/// A compaction that reads the table list before an ingest and publishes it afterwards must not hide the new
/// tables.
#[test]
fn a_list_of_tables_from_before_an_ingest_replaces_no_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    put(&store, b"k", 1, b"old");
    let Store::Disk(disk) = &store else { unreachable!("it was opened on disk") };
    disk.refresh_late(|| put(&store, b"k", 2, b"new"));
    assert_eq!(&store.get(b"k", 2).unwrap().unwrap()[9..], b"new");
}

#[test]
fn a_deletion_at_the_floor_goes_with_all_it_shadows_and_a_hiding_one_stays() {
    both(|store| {
        let versions = [
            (b"a".to_vec(), 7, entry(DELETION, 7, b"")),
            (b"a".to_vec(), 3, entry(VALUE, 3, b"old")),
            (b"b".to_vec(), 6, entry(HIDING, 6, b"")),
            (b"b".to_vec(), 2, entry(VALUE, 2, b"old")),
            (b"c".to_vec(), 8, entry(DELETION, 8, b"")),
        ];
        ingest(store, &versions).unwrap();
        store.compact_all(6).unwrap();
        assert_eq!(store.entries(), 4);
        assert_eq!(&store.get(b"a", 6).unwrap().unwrap()[..], versions[1].2);
        store.compact_all(7).unwrap();
        assert_eq!(store.entries(), 2);
        assert_eq!(store.get(b"a", u64::MAX).unwrap(), None);
        assert_eq!(&store.get(b"b", 7).unwrap().unwrap()[..], versions[2].2);
        store.compact_all(8).unwrap();
        assert_eq!(keys(store.range(Bound::Unbounded, Bound::Unbounded, 9)), [b"b"]);
        ingest(store, &[(b"a".to_vec(), 9, entry(VALUE, 9, b"new"))]).unwrap();
        assert_eq!(&store.get(b"a", 9).unwrap().unwrap()[..], entry(VALUE, 9, b"new"));
    });
}

#[test]
fn a_purge_of_everything_leaves_an_empty_store_that_still_works() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    ingest(&store, &[(b"a".to_vec(), 1, entry(DELETION, 1, b""))]).unwrap();
    store.compact_all(1).unwrap();
    assert_eq!((store.entries(), store.highest()), (0, None));
    store.compact_all(1).unwrap();
    settle(&store, 1);
    drop(store);
    let store = open_small(dir.path(), true);
    put(&store, b"a", 2, b"back");
    assert!(store.get(b"a", 2).unwrap().is_some());
}

#[test]
fn bounds_are_honoured_at_both_ends() {
    both(|store| {
        let versions: Vec<_> = (b'a'..=b'f')
            .map(|key| (vec![key], u64::from(key), entry(VALUE, u64::from(key), b"")))
            .collect();
        ingest(store, &versions).unwrap();
        let (b, d): (&[u8], &[u8]) = (b"b", b"d");
        let range = |from, to| keys(store.range(from, to, u64::MAX)).concat();
        assert_eq!(range(Bound::Included(b), Bound::Included(d)), b"bcd");
        assert_eq!(range(Bound::Excluded(b), Bound::Excluded(d)), b"c");
        assert_eq!(range(Bound::Included(b), Bound::Included(b)), b"b");
        assert_eq!(range(Bound::Excluded(b), Bound::Excluded(b)), b"");
        assert_eq!(range(Bound::Included(d), Bound::Included(b)), b"");
        assert_eq!(range(Bound::Included(b""), Bound::Excluded(b)), b"a");
        assert_eq!(range(Bound::Excluded(d), Bound::Unbounded), b"ef");
        let below = store.range(Bound::Unbounded, Bound::Unbounded, u64::from(b'c'));
        assert_eq!(keys(below).concat(), b"abc");
    });
}

#[test]
fn a_range_goes_on_over_many_chunks_while_others_write_and_compact() {
    both(|store| {
        let key = |number: u64| format!("{number:06}").into_bytes();
        let versions: Vec<_> =
            (1..=2000).map(|number| (key(number), number, entry(VALUE, number, b"x"))).collect();
        ingest(store, &versions).unwrap();
        let mut range = store.range(Bound::Unbounded, Bound::Unbounded, 2000);
        assert_eq!(&range.next().unwrap().unwrap().0[..], key(1));
        let newer: Vec<_> = (1..=2000)
            .map(|number| (key(number), 2000 + number, entry(DELETION, 2000 + number, b"")))
            .collect();
        ingest(store, &newer).unwrap();
        store.compact_all(4000).unwrap();
        let rest: Vec<_> = range.map(|pair| pair.unwrap().1[0]).collect();
        assert_eq!(rest, vec![VALUE; 1999]);
        store.compact_all(4000).unwrap();
        assert_eq!(store.entries(), 0);
    });
}

#[test]
fn versions_ingested_again_change_nothing() {
    both(|store| {
        let versions = [
            (b"a".to_vec(), 2, entry(VALUE, 2, b"two")),
            (b"a".to_vec(), 1, entry(VALUE, 1, b"one")),
        ];
        ingest(store, &versions).unwrap();
        ingest(store, &versions).unwrap();
        assert_eq!(keys(store.range(Bound::Unbounded, Bound::Unbounded, 2)).len(), 1);
        store.compact_all(1).unwrap();
        assert_eq!(&store.get(b"a", 1).unwrap().unwrap()[..], versions[1].2);
        store.compact_all(2).unwrap();
        assert_eq!(store.entries(), 1);
    });
}

#[test]
fn an_ingest_survives_reopening_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/on/the/way");
    let store = Store::open(&path, &options(), false).unwrap();
    store.ingest(std::iter::empty()).unwrap();
    put(&store, b"k", 41, b"v");
    drop(store);
    let store = Store::open(&path, &options(), true).unwrap();
    assert_eq!(store.highest(), Some(41));
    assert_eq!(&store.get(b"k", 41).unwrap().unwrap()[..], entry(VALUE, 41, b"v"));
    assert_eq!(store.get(b"k", 40).unwrap(), None);
}
