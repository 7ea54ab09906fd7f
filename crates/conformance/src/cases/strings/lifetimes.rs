//! `Expire`, `Persist` and `Touch`: they change only the time to live.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, ExpireOnly, StringCommand, Ttl, Value};

fn expire(w: &TestDb, ms: u64, only: ExpireOnly) -> bool {
    let command = StringCommand::Expire { name: name("k"), ttl: Ttl::Millis(ms), only };
    text(w.db(), command).unwrap() == Answer::Did(true)
}

fn persist(w: &TestDb) -> bool {
    text(w.db(), StringCommand::Persist { name: name("k") }).unwrap() == Answer::Did(true)
}

fn touch(w: &TestDb, ttl: Ttl) -> mainstay::Result<Answer> {
    text(w.db(), StringCommand::Touch { name: name("k"), ttl })
}

fn expires(w: &TestDb) -> Option<u64> {
    w.cells().get_versioned("k").unwrap().unwrap().expires
}

/// Conditions on a cell without an expiry: no expiry counts as later than any.
pub fn conditions_without_an_expiry(w: &mut TestDb) {
    let cases = [
        (ExpireOnly::Always, true),
        (ExpireOnly::WithoutExpiry, true),
        (ExpireOnly::WithExpiry, false),
        (ExpireOnly::Later, false),
        (ExpireOnly::Earlier, true),
        (ExpireOnly::EarlierThanThere, false),
    ];
    for (only, holds) in cases {
        w.cells().set("k", 1).unwrap();
        assert_eq!(expire(w, 100, only), holds, "{only:?}");
        assert_eq!(expires(w).is_some(), holds, "{only:?}");
    }
}

/// Conditions on a cell with an expiry.
pub fn conditions_with_an_expiry(w: &mut TestDb) {
    let cases = [
        (ExpireOnly::Always, true, true),
        (ExpireOnly::WithoutExpiry, false, false),
        (ExpireOnly::WithExpiry, true, true),
        (ExpireOnly::Later, false, true),
        (ExpireOnly::Earlier, true, false),
        (ExpireOnly::EarlierThanThere, true, false),
    ];
    for (only, sooner, later) in cases {
        for (ms, holds) in [(50, sooner), (200, later)] {
            w.cells().set_with("k", 1, Ttl::Millis(100)).unwrap();
            let before = expires(w);
            assert_eq!(expire(w, ms, only), holds, "{only:?} {ms}");
            assert_eq!(expires(w) != before, holds, "{only:?} {ms}");
        }
    }
}

/// An equal expiry is neither later nor earlier.
pub fn same_moment_is_neither(w: &mut TestDb) {
    let at = w.wall_us() + 50_000;
    w.cells().set_with("k", 1, Ttl::Until(at)).unwrap();
    for only in [ExpireOnly::Later, ExpireOnly::Earlier] {
        let command = StringCommand::Expire { name: name("k"), ttl: Ttl::Until(at), only };
        let did = writes_nothing(w.db(), || text(w.db(), command).unwrap());
        assert_eq!(did, Answer::Did(false));
    }
}

/// `Expire` and `Persist` of an absent or expired cell return false, but invalid input is still refused.
pub fn absent_answers_false(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || expire(w, 10, ExpireOnly::Always)));
    assert!(!writes_nothing(w.db(), || persist(w)));
    let bad = Ttl::Millis(0);
    let only = ExpireOnly::Always;
    let command = StringCommand::Expire { name: name("k"), ttl: bad, only };
    refused(text(w.db(), command), Code::InvalidTtl);
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    w.pass_ms(11);
    assert!(!writes_nothing(w.db(), || expire(w, 10, ExpireOnly::Always)));
    assert!(!writes_nothing(w.db(), || persist(w)));
}

/// An expiry in the past ends the cell at once.
pub fn past_moment_ends_it(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let only = ExpireOnly::Always;
    let command = StringCommand::Expire { name: name("k"), ttl: Ttl::Until(1), only };
    assert_eq!(text(w.db(), command).unwrap(), Answer::Did(true));
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// `Persist` removes the time to live and returns whether one existed.
pub fn persist_ends_it(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    assert!(persist(w));
    assert!(!writes_nothing(w.db(), || persist(w)));
    w.pass_ms(20);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// `Touch` returns the value and changes the time to live.
pub fn touch_tells_and_changes(w: &mut TestDb) {
    w.cells().set("k", "v").unwrap();
    let told = Answer::Replaced { did: true, old: Some(Value::from("v")) };
    assert_eq!(touch(w, Ttl::Millis(10)).unwrap(), told);
    assert!(expires(w).is_some());
    assert_eq!(writes_nothing(w.db(), || touch(w, Ttl::Keep).unwrap()), told);
    assert_eq!(touch(w, Ttl::Clear).unwrap(), told);
    assert_eq!(expires(w), None);
    assert_eq!(touch(w, Ttl::Until(1)).unwrap(), told);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// `Touch` of an absent cell returns nothing and writes nothing.
pub fn touch_of_nothing(w: &mut TestDb) {
    let none = Answer::Replaced { did: false, old: None };
    assert_eq!(writes_nothing(w.db(), || touch(w, Ttl::Millis(10)).unwrap()), none);
    refused(touch(w, Ttl::Millis(0)), Code::InvalidTtl);
}
