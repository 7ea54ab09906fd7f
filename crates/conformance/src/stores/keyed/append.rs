//! `append_unique`: a log per key, deduplicated by item ID.
//!
//! Requires: Appends.

use super::TestSpace;
use crate::assertions::refused;
use mainstay_model::{Code, Item, StateWrite, Wrote};

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(id, item)| ((*id).to_owned(), (*item).to_owned())).collect()
}

/// The first item with an ID is kept; later ones with the same ID are ignored.
pub fn first_of_an_id_stays(s: &TestSpace<'_>) {
    assert!(s.append("k", "1", "first"));
    assert!(!s.unchanged(|| s.append("k", "1", "first")));
    assert!(!s.unchanged(|| s.append("k", "1", "second")));
    assert_eq!(s.items("k"), pairs(&[("1", "first")]));
}

/// A log is sorted by the bytes of its IDs, not by arrival.
pub fn goes_in_order_of_ids(s: &TestSpace<'_>) {
    for id in ["b", "a", "ab", "B", "10", "9"] {
        assert!(s.append("k", id, id));
    }
    let ids = ["10", "9", "B", "a", "ab", "b"];
    assert_eq!(s.items("k"), pairs(&ids.map(|id| (id, id))));
}

/// IDs are scoped to a key, even if one key is a prefix of another.
pub fn keys_have_logs_of_their_own(s: &TestSpace<'_>) {
    assert!(s.append("a", "bc", "1"));
    assert!(s.append("ab", "c", "2"));
    assert!(s.append("b", "bc", "3"));
    assert_eq!(s.items("a"), pairs(&[("bc", "1")]));
    assert_eq!(s.items("ab"), pairs(&[("c", "2")]));
    assert_eq!(s.items("abc"), []);
}

/// A log can be read in pages, after an ID that need not exist.
pub fn pages_give_everything_once(s: &TestSpace<'_>) {
    for n in 0..10 {
        s.append("k", &format!("{n:02}"), "item");
    }
    let mut seen = Vec::new();
    let mut after = None::<Vec<u8>>;
    loop {
        let page = s.store().items(b"k", after.as_deref(), 3).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        seen.extend(page.into_iter().map(|item| String::from_utf8(item.id).unwrap()));
    }
    assert_eq!(seen, (0..10).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    let behind = s.store().items(b"k", Some(b"08x"), 3).unwrap();
    assert_eq!(behind, [Item { id: b"09".to_vec(), item: b"item".to_vec() }]);
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(s: &TestSpace<'_>) {
    for limit in [0, 100_001] {
        refused(s.store().items(b"k", None, limit), Code::InvalidLimit);
    }
    assert_eq!(s.store().items(b"k", None, 100_000), Ok(vec![]));
}

/// A key's log and its state are independent.
pub fn log_and_state_are_apart(s: &TestSpace<'_>) {
    s.append("k", "1", "item");
    s.is_absent("k");
    assert_eq!(s.states(), []);
    s.put("k", "v", 3);
    s.delete("k", 4);
    assert_eq!(s.items("k"), pairs(&[("1", "item")]));
    assert!(!s.append("k", "1", "again"));
}

/// An append has no version, so the version kind of the space stays open.
pub fn leaves_the_kind_open(s: &TestSpace<'_>) {
    s.append("k", "1", "item");
    assert_eq!(s.info().options.versions, None);
}

/// Item IDs and items can be any bytes; an item can be empty.
pub fn any_bytes_survive(s: &TestSpace<'_>) {
    let ids: [&[u8]; 4] = [&[0], &[0, 0], &[0, 0xff], &[0xff]];
    for id in ids {
        assert_eq!(s.store().append_unique(&[0, 0xff], id, id), Ok(true));
    }
    assert_eq!(s.store().append_unique(&[0, 0xff], b"empty", b""), Ok(true));
    let found = s.store().items(&[0, 0xff], None, 10).unwrap();
    let item = |id: &[u8], item: &[u8]| Item { id: id.to_vec(), item: item.to_vec() };
    let [a, b, c, d] = ids.map(|id| item(id, id));
    assert_eq!(found, [a, b, c, item(b"empty", b""), d]);
}

/// A write in a batch sees earlier appends of the batch.
/// Requires: Atomic.
pub fn batch_sees_what_is_before(s: &TestSpace<'_>) {
    let append = |item: &str| StateWrite::append("k", "1", item);
    assert_eq!(s.write(vec![append("a"), append("b")]), [Wrote::Applied, Wrote::Stale]);
    assert_eq!(s.items("k"), pairs(&[("1", "a")]));
}
