//! Stores with one time to live for all records.
//!
//! Requires: StoreTtl.

use super::TestRecords;
use mainstay_model::Lifetimes;

fn life_ms(s: &TestRecords<'_>) -> u64 {
    match s.can().lifetimes {
        Lifetimes::PerStore { ttl_ms } => ttl_ms,
        other => panic!("{other:?} is no life of all"),
    }
}

/// A record that is not written again expires after the store's time to live.
pub fn left_alone_is_gone(s: &TestRecords<'_>) {
    s.fill(&[("k", "1")]);
    s.pass_ms(life_ms(s) / 2);
    s.holds("k", &[("f", "1")]);
    s.pass_ms(life_ms(s) / 2 + 1);
    s.is_gone("k");
    assert_eq!(s.found("", &[]), [] as [&str; 0]);
}

/// A write restarts the time to live.
pub fn write_begins_it_anew(s: &TestRecords<'_>) {
    s.fill(&[("k", "1")]);
    s.pass_ms(life_ms(s) / 4 * 3);
    s.fill(&[("k", "2")]);
    s.pass_ms(life_ms(s) / 4 * 3);
    s.holds("k", &[("f", "2")]);
}
