//! Layout of tables on disk, and the parts of them that are pinned in memory.
//!
//! The options are fjall's defaults, except for pinning. When a table is written, policies count levels from
//! the first one in use. When a store is opened, they use the level's fixed number, and the level of a small
//! store is the last one. Pinning everything and deciding by partitioning alone gives the same memory use
//! before and after a restart. The parts of a partitioned index or filter live in the block cache, and only
//! its top level (about 1 %) is pinned.
//!
//! Pinned are the filters of levels 0 to 2, about 1.25 bytes per key (1.8 in level 0), and the block indexes
//! of levels 0 and 1, about 50 bytes per block of 4 KiB. Level 2 ends at 2.5 GiB, so the growth stops there.
//! Keys that only ever ascend are the exception: their tables move down as they were written for level 0,
//! with the whole filter and index pinned. The worst case of 10 million keys of 30 bytes with values of 100
//! bytes is then 18 MiB + 17 MiB.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use lsm_tree::{CompressionType, Config, SequenceNumberCounter};

use super::StoreOptions;
use super::compaction_filter::RetentionFilterFactory;

/// The size at which a table is finished and the next one started.
pub(super) const TABLE_BYTES: u64 = 64 * 1024 * 1024;

/// The size of the first level below level 0, in tables.
pub(super) const LEVEL_TABLES: u64 = 4;

/// The configuration of the tree in `dir`.
pub(super) fn config(
    dir: &Path,
    options: &StoreOptions,
    factory: RetentionFilterFactory,
) -> Config {
    // The tree numbers its own states with these counters. Revisions never mix with them.
    let states = SequenceNumberCounter::default();
    let visible = SequenceNumberCounter::default();
    Config::new(dir, states, visible)
        .use_cache(options.block_cache.clone())
        .use_descriptor_table(options.descriptors.clone())
        .data_block_size_policy(BlockSizePolicy::all(4 * 1024))
        .data_block_restart_interval_policy(RestartIntervalPolicy::new([10, 16]))
        .data_block_hash_ratio_policy(HashRatioPolicy::all(0.0))
        .data_block_compression_policy(compression())
        .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .filter_policy(filters())
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, false, false, true]))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .with_compaction_filter_factory(Some(Arc::new(factory)))
}

/// Level 0 and 1 tables are read most and rewritten soon, so they are not compressed.
fn compression() -> CompressionPolicy {
    CompressionPolicy::new([CompressionType::None, CompressionType::None, CompressionType::Lz4])
}

/// Every read checks the tables of level 0, so these get a lower false positive rate: one in a thousand.
/// (fjall uses one in ten thousand, which costs a third more memory.)
fn filters() -> FilterPolicy {
    FilterPolicy::new([
        FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.001)),
        FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
    ])
}
