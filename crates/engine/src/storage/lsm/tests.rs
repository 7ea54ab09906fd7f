//! Tests of both stores, and of how the one on disk handles damage.

mod damage;
mod limits;
mod model;
mod reads;

use std::path::Path;
use std::sync::Arc;

use mainstay_model::Revision;

use super::{DiskStore, Store, StoreOptions};

/// Entry flags of these tests: a value, a tombstone that may be purged, a tombstone that must stay.
const VALUE: u8 = 0;
const DELETION: u8 = 1;
const HIDING: u8 = 2;

fn purge(_key: &[u8], entry: &[u8]) -> bool {
    entry[0] == DELETION
}

fn options() -> StoreOptions {
    StoreOptions {
        block_cache: Arc::new(lsm_tree::Cache::with_capacity_bytes(1024 * 1024)),
        descriptors: Some(Arc::new(lsm_tree::DescriptorTable::new(16))),
        delete_scheduler: Some(Arc::default()),
        purge: Arc::new(purge),
    }
}

fn entry(flags: u8, revision: Revision, payload: &[u8]) -> Vec<u8> {
    [&[flags][..], &revision.to_le_bytes(), payload].concat()
}

/// Opens with tables of one block, so that a few kilobytes fill several levels.
fn open_small(dir: &Path, expect_existing: bool) -> Store {
    Store::Disk(DiskStore::open_sized(dir, &options(), expect_existing, 1024).unwrap())
}

type Version = (Vec<u8>, Revision, Vec<u8>);

fn ingest(store: &Store, versions: &[Version]) -> mainstay_model::Result<()> {
    store.ingest(versions.iter().map(|(key, revision, entry)| (&key[..], *revision, &entry[..])))
}

fn put(store: &Store, key: &[u8], revision: Revision, payload: &[u8]) {
    ingest(store, &[(key.to_vec(), revision, entry(VALUE, revision, payload))]).unwrap();
}

/// Compacts until nothing is due.
fn settle(store: &Store, floor: Revision) {
    for _ in 0..1000 {
        if !store.compaction_due() {
            return;
        }
        store.compact(floor, 4).unwrap();
    }
    panic!("compaction never comes to an end");
}
