//! Missing capabilities: the store refuses with `Unsupported` and names the capability.
//!
//! It must not do something weaker instead.

use super::{TestSpace, merge};
use crate::assertions::unsupported;
use mainstay_model::{SpaceOptions, StateWrite};
use mainstay_streams::MemoryState;
use std::sync::Arc;

fn unchanged(s: &TestSpace<'_>, asked: impl FnOnce()) {
    s.put("k", "v", 1);
    s.unchanged(asked);
}

/// An empty snapshot of a space with these options.
fn snapshot_of(options: SpaceOptions) -> Vec<u8> {
    let space: Arc<dyn mainstay_model::KeyedState> = Arc::new(MemoryState::new());
    space.declare(options).unwrap();
    space.snapshot().unwrap()
}

/// Atomic batches of several writes.
/// Lacks: Atomic.
pub fn atomic(s: &TestSpace<'_>) {
    unchanged(s, || {
        let writes = vec![StateWrite::put("k", "w", 2), StateWrite::advance("source", 1)];
        unsupported(s.store().write(writes), "atomic");
    });
}

/// Ordered spaces, including snapshots of them.
/// Lacks: Ordered.
pub fn ordered(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().ordered();
    unsupported(s.store().declare(options), "ordered");
    s.is_undeclared();
    unchanged(s, || unsupported(s.store().restore(&snapshot_of(options)), "ordered"));
}

/// Merged spaces and merge writes, including snapshots of merged spaces.
/// Lacks: Merged.
pub fn merged(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().merged();
    unsupported(s.store().declare(options), "merged");
    s.is_undeclared();
    unchanged(s, || {
        unsupported(s.store().write(vec![merge("k", None, 2, Some(1), &[])]), "merged");
        unsupported(s.store().restore(&snapshot_of(options)), "merged");
    });
}

/// Logs of items.
/// Lacks: Appends.
pub fn appends(s: &TestSpace<'_>) {
    unchanged(s, || {
        unsupported(s.store().append_unique(b"k", b"1", b"item"), "appends");
        unsupported(s.store().items(b"k", None, 10), "appends");
    });
}
