//! `scan`: live keys in byte order, in pages.

use super::{TestSpace, text};
use crate::assertions::refused;
use mainstay_model::{Code, SpaceOptions, State};

fn fill(s: &TestSpace<'_>, keys: &[&str]) {
    for key in keys {
        s.put(key, key, 1);
    }
}

/// Keys are sorted by bytes, not by language rules.
pub fn goes_in_byte_order(s: &TestSpace<'_>) {
    fill(s, &["b", "a", "é", "B", "ab", "10", "9"]);
    assert_eq!(s.page("", None, 10).0, ["10", "9", "B", "a", "ab", "b", "é"]);
}

/// A page has the value and the version of each key.
pub fn has_states_and_versions(s: &TestSpace<'_>) {
    s.put("a", "1", 3);
    s.put("b", "2", 9);
    let page = s.store().scan(b"", None, 10).unwrap();
    let state = |value: &str, version: u64| State { value: value.into(), version: version.into() };
    assert_eq!(page.states, [(b"a".to_vec(), state("1", 3)), (b"b".to_vec(), state("2", 9))]);
    assert_eq!(page.next, None);
}

/// Only keys with the prefix are returned.
pub fn keeps_to_the_prefix(s: &TestSpace<'_>) {
    fill(s, &["a", "user-1", "user-2", "user", "usex", "z"]);
    assert_eq!(s.page("user", None, 10).0, ["user", "user-1", "user-2"]);
    assert_eq!(s.page("user-", None, 10).0, ["user-1", "user-2"]);
    assert_eq!(s.page("none", None, 10), (vec![], None));
}

/// A scan with a prefix of `0xff` bytes, which has no next prefix, returns all keys with it.
pub fn highest_prefix_ends_nowhere(s: &TestSpace<'_>) {
    let keys: [&[u8]; 4] = [&[0xfe], &[0xff], &[0xff, 0], &[0xff, 0xff]];
    for key in keys {
        s.store().put(key, b"v", 1.into()).unwrap();
    }
    let page = s.store().scan(&[0xff], None, 10).unwrap();
    assert_eq!(page.states.len(), 3);
    let page = s.store().scan(&[0xff, 0xff], None, 10).unwrap();
    assert_eq!(page.states.len(), 1);
}

/// A scan continues after a key that need not exist.
pub fn goes_on_behind_a_key(s: &TestSpace<'_>) {
    fill(s, &["a", "b", "c"]);
    assert_eq!(s.page("", Some("a"), 10).0, ["b", "c"]);
    assert_eq!(s.page("", Some("aa"), 10).0, ["b", "c"]);
    assert_eq!(s.page("", Some("c"), 10), (vec![], None));
    assert_eq!(s.page("b", Some("a"), 10).0, ["b"]);
    assert_eq!(s.page("b", Some("c"), 10).0, [""; 0]);
}

/// Following the cursor returns each key exactly once.
pub fn cursor_gives_everything_once(s: &TestSpace<'_>) {
    let keys: Vec<String> = (0..25).map(|n| format!("k{n:02}")).collect();
    for key in &keys {
        s.put(key, "v", 1);
    }
    for limit in [1, 4, 5, 24, 25, 26] {
        let mut seen = Vec::new();
        let mut after = None::<String>;
        loop {
            let (page, next) = s.page("k", after.as_deref(), limit);
            assert!(page.len() <= limit);
            assert!(next.is_none() || next.as_ref() == page.last(), "{next:?} of {page:?}");
            seen.extend(page);
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, keys, "pages of {limit}");
    }
}

/// The last page has no cursor.
pub fn end_is_told(s: &TestSpace<'_>) {
    fill(s, &["a", "b", "c"]);
    assert_eq!(s.page("", None, 3).1, None);
    assert_eq!(s.page("", None, 2).1, Some("b".to_owned()));
    s.delete("c", 2);
    assert_eq!(s.page("", None, 2).1, None, "what was deleted does not follow");
}

/// Deleted keys are skipped and do not count towards the limit.
pub fn skips_deleted_keys(s: &TestSpace<'_>) {
    fill(s, &["a", "b", "c", "d", "e"]);
    for key in ["a", "c", "d"] {
        s.delete(key, 2);
    }
    assert_eq!(s.page("", None, 10).0, ["b", "e"]);
    assert_eq!(s.page("", None, 1), (vec!["b".to_owned()], Some("b".to_owned())));
    assert_eq!(s.page("", Some("b"), 1), (vec!["e".to_owned()], None));
}

/// Waiting writes are not part of a scan.
/// Requires: Ordered.
pub fn does_not_show_what_waits(s: &TestSpace<'_>) {
    let s = s.declared("ordered", SpaceOptions::default().ordered());
    fill(&s, &["a", "b"]);
    assert_eq!(s.page("", None, 10), (vec![], None));
    s.seal(2);
    assert_eq!(s.page("", None, 10).0, ["a", "b"]);
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(s: &TestSpace<'_>) {
    for limit in [0, 100_001] {
        refused(s.store().scan(b"", None, limit), Code::InvalidLimit);
    }
    s.put("k", "v", 1);
    assert_eq!(s.page("", None, 100_000).0, ["k"]);
}

/// A page that would become too large ends early and has a cursor.
pub fn large_pages_end_early(s: &TestSpace<'_>) {
    let large = vec![7; 15 << 20];
    for key in [b"a", b"b", b"c", b"d"] {
        s.store().put(key, &large, 1.into()).unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    let mut pages = 0;
    loop {
        let page = s.store().scan(b"", after.as_deref(), 100).unwrap();
        assert!((1..4).contains(&page.states.len()), "{} states", page.states.len());
        assert!(page.states.iter().all(|(_, state)| state.value == large));
        seen.extend(page.states.iter().map(|(key, _)| text(key)));
        after = page.next;
        pages += 1;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d"]);
    assert!(pages > 1);
}
