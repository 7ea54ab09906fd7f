//! Bulk load of sorted versions (keys ascending, revisions of a key descending) into the stores.
//!
//! ```text
//!   versions --class of the key--> chunk per class --ingest--> store per class
//! ```

use crate::key::version::Version;
use crate::storage::lsm::Store;
use crate::storage::retention_class::RetentionClasses;
use mainstay_model::Result;

/// Maximum size of a chunk per class, not counting further versions of its last key.
const CHUNK_BYTES: usize = 32 << 20;

pub struct BulkLoader<'a> {
    targets: &'a [Store],
    classes: &'a RetentionClasses,
    chunks: Vec<BulkChunk>,
}

#[derive(Clone, Default)]
struct BulkChunk {
    versions: Vec<Version>,
    bytes: usize,
}

impl<'a> BulkLoader<'a> {
    /// `targets` has one store per class.
    pub fn new(targets: &'a [Store], classes: &'a RetentionClasses) -> BulkLoader<'a> {
        BulkLoader { targets, classes, chunks: vec![BulkChunk::default(); targets.len()] }
    }

    /// Adds the next version. A chunk ends only between two keys, because a store does not accept an older
    /// version of a key after a newer one.
    pub fn version(&mut self, key: &[u8], entry: &[u8]) -> Result<()> {
        let class = self.classes.of(key);
        let chunk = &self.chunks[class];
        let begins = chunk.versions.last().is_none_or(|last| last.key() != key);
        if begins && chunk.bytes >= CHUNK_BYTES {
            self.empty(class)?;
        }
        let version = Version::new(key, entry);
        let chunk = &mut self.chunks[class];
        chunk.bytes += version.cost_bytes();
        chunk.versions.push(version);
        Ok(())
    }

    /// Ingests the remaining chunks. All versions are durable when this returns.
    pub fn finish(mut self) -> Result<()> {
        (0..self.targets.len()).try_for_each(|class| self.empty(class))
    }

    fn empty(&mut self, class: usize) -> Result<()> {
        let chunk = std::mem::take(&mut self.chunks[class]);
        let versions = chunk.versions.iter();
        self.targets[class]
            .ingest(versions.map(|version| (version.key(), version.revision(), version.entry())))
    }
}
