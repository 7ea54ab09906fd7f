//! What a store cannot do it refuses, and names what it lacks: never something weaker instead.

use crate::check::unsupported;
use crate::keyed_stand::{KeyedStand, merge};
use mainstay_model::{SpaceOptions, StateWrite};
use mainstay_streams::MemoryState;
use std::sync::Arc;

fn unchanged(s: &KeyedStand<'_>, asked: impl FnOnce()) {
    s.put("k", "v", 1);
    s.unchanged(asked);
}

/// A snapshot of a space that is declared like this.
fn snapshot_of(options: SpaceOptions) -> Vec<u8> {
    let space: Arc<dyn mainstay_model::KeyedState> = Arc::new(MemoryState::new());
    space.declare(options).unwrap();
    space.snapshot().unwrap()
}

/// Several writes that are all made or none.
pub fn atomic(s: &KeyedStand<'_>) {
    unchanged(s, || {
        let writes = vec![StateWrite::put("k", "w", 2), StateWrite::advance("source", 1)];
        unsupported(s.space().write(writes), "atomic");
    });
}

/// Spaces in order, also those that a snapshot is of.
pub fn ordered(s: &KeyedStand<'_>) {
    let options = SpaceOptions::default().ordered();
    unsupported(s.space().declare(options), "ordered");
    s.is_undeclared();
    unchanged(s, || unsupported(s.space().restore(&snapshot_of(options)), "ordered"));
}

/// Merge functions, also in spaces that a snapshot is of.
pub fn merged(s: &KeyedStand<'_>) {
    let options = SpaceOptions::default().merged();
    unsupported(s.space().declare(options), "merged");
    s.is_undeclared();
    unchanged(s, || {
        unsupported(s.space().write(vec![merge("k", None, 2, Some(1), &[])]), "merged");
        unsupported(s.space().restore(&snapshot_of(options)), "merged");
    });
}

/// Logs.
pub fn appends(s: &KeyedStand<'_>) {
    unchanged(s, || {
        unsupported(s.space().append_unique(b"k", b"1", b"item"), "appends");
        unsupported(s.space().items(b"k", None, 10), "appends");
    });
}
