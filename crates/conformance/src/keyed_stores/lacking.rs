//! Missing capabilities: the store refuses with `Unsupported` and names the capability.
//!
//! It must not do something weaker instead.

use crate::check::unsupported;
use crate::keyed_stand::{KeyedStand, merge};
use mainstay_model::{SpaceOptions, StateWrite};
use mainstay_streams::MemoryState;
use std::sync::Arc;

fn unchanged(s: &KeyedStand<'_>, asked: impl FnOnce()) {
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
pub fn atomic(s: &KeyedStand<'_>) {
    unchanged(s, || {
        let writes = vec![StateWrite::put("k", "w", 2), StateWrite::advance("source", 1)];
        unsupported(s.space().write(writes), "atomic");
    });
}

/// Ordered spaces, including snapshots of them.
pub fn ordered(s: &KeyedStand<'_>) {
    let options = SpaceOptions::default().ordered();
    unsupported(s.space().declare(options), "ordered");
    s.is_undeclared();
    unchanged(s, || unsupported(s.space().restore(&snapshot_of(options)), "ordered"));
}

/// Merged spaces and merge writes, including snapshots of merged spaces.
pub fn merged(s: &KeyedStand<'_>) {
    let options = SpaceOptions::default().merged();
    unsupported(s.space().declare(options), "merged");
    s.is_undeclared();
    unchanged(s, || {
        unsupported(s.space().write(vec![merge("k", None, 2, Some(1), &[])]), "merged");
        unsupported(s.space().restore(&snapshot_of(options)), "merged");
    });
}

/// Logs of items.
pub fn appends(s: &KeyedStand<'_>) {
    unchanged(s, || {
        unsupported(s.space().append_unique(b"k", b"1", b"item"), "appends");
        unsupported(s.space().items(b"k", None, 10), "appends");
    });
}
