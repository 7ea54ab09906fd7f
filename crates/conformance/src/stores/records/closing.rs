//! `ping` and `close`.

use super::TestRecords;
use crate::assertions::{fields, name, write};
use mainstay_model::{Code, Ttl};

/// `ping` returns true while the store is open.
pub fn ping_is_true_while_open(s: &TestRecords<'_>) {
    assert!(s.ok(s.ping()));
    s.ok(s.set_field("k", "a", "1".into()));
    assert!(s.ok(s.ping()));
}

/// After `close`, every operation fails with `Closed`, but `ping` returns false without an error.
pub fn closed_says_so(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    s.ok(s.close());
    assert!(!s.ok(s.ping()));
    s.refused(s.get("k"), Code::Closed);
    s.refused(s.get_some(&name("k"), Some(&[])), Code::Closed);
    s.refused(s.write(write("k", &[("a", "2")])), Code::Closed);
    s.refused(s.put("k", &fields(&[("a", "2")]), None), Code::Closed);
    s.refused(s.delete("k"), Code::Closed);
    s.refused(s.expire("k", Ttl::Keep), Code::Closed);
    s.refused(s.scan("", &[], None, 1), Code::Closed);
    s.refused(s.count("", &[]), Code::Closed);
}

/// Closing twice succeeds.
pub fn closing_again_is_nothing(s: &TestRecords<'_>) {
    s.ok(s.close());
    s.ok(s.close());
}
