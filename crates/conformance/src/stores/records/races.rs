//! Races between concurrent callers. Each case names the bug that it detects.

use super::{RACERS, TestRecords};
use crate::assertions::{field, write};
use mainstay_model::{Condition, FieldValue};

const ROUNDS: usize = 10;

/// Detects a swap that does not compare and write atomically: two callers would succeed.
/// Requires: FieldConditions.
pub fn one_swap_wins(s: &TestRecords<'_>) {
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        s.ok(s.set_field(&key, "state", "pending".into()));
        only_one_won(
            s,
            &key,
            "state",
            &s.together(|n| {
                s.ok(s.compare_and_swap(&key, "state", b"pending", n.to_string().into()))
            }),
        );
    }
}

/// Detects a conditional creation that is not atomic: two callers would succeed.
/// Requires: CounterConditions.
pub fn one_maker_wins(s: &TestRecords<'_>) {
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let make = |n: usize| {
            let make = write(&key, &[("owner", &n.to_string())]).when_counter(None);
            s.ok(s.write(make)).is_some()
        };
        only_one_won(s, &key, "owner", &s.together(make));
    }
}

/// Detects a conditional deletion that is not atomic.
/// Requires: CounterConditions.
pub fn one_deletion_wins(s: &TestRecords<'_>) {
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        s.ok(s.set_field(&key, "a", "1".into()));
        let won = s.together(|_| s.ok(s.delete_when(&key, vec![Condition::Exists])));
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
    }
}

#[track_caller]
fn only_one_won(s: &TestRecords<'_>, key: &str, of: &str, won: &[bool]) {
    let winners: Vec<usize> = (0..RACERS).filter(|n| won[*n]).collect();
    assert_eq!(winners.len(), 1, "{won:?}");
    assert_eq!(s.ok(s.get_field(key, of)), Some(winners[0].to_string().into_bytes()));
}

/// Detects a field write that reads and rewrites the whole record: fields would be lost.
pub fn fields_of_others_stay(s: &TestRecords<'_>) {
    const EACH: usize = 10;
    s.together(|n| {
        for i in 0..EACH {
            s.ok(s.set_field("k", &format!("f{n}.{i}"), "1".into()));
        }
    });
    assert_eq!(s.ok(s.get("k")).unwrap().fields.len(), RACERS * EACH);
}

/// Detects a counter condition that does not compare the newest counter: increments would be lost.
/// Requires: CounterConditions.
pub fn swap_loops_lose_nothing(s: &TestRecords<'_>) {
    const EACH: usize = 10;
    s.ok(s.set_field("k", "n", "0".into()));
    s.together(|_| (0..EACH).for_each(|_| add_by_counter(s)));
    s.holds("k", &[("n", &(RACERS * EACH).to_string())]);
}

fn add_by_counter(s: &TestRecords<'_>) {
    loop {
        let seen = s.ok(s.get("k")).unwrap();
        let next = seen.fields.text("n").unwrap().parse::<u64>().unwrap() + 1;
        let write = write("k", &[("n", &next.to_string())]).when_counter(Some(seen.counter));
        if s.ok(s.write(write)).is_some() {
            return;
        }
    }
}

/// Detects a sum that is not read and written atomically.
/// Requires: Sums.
pub fn sums_lose_nothing(s: &TestRecords<'_>) {
    const EACH: usize = 20;
    s.together(|_| {
        for _ in 0..EACH {
            s.ok(s.set_field("k", "n", FieldValue::Sum { by: 1 }));
        }
    });
    s.holds("k", &[("n", &(RACERS * EACH).to_string())]);
}

/// Detects a revision that two writes share.
/// Requires: Revisions.
pub fn revisions_are_not_shared(s: &TestRecords<'_>) {
    s.together(|n| {
        s.ok(s.set_field(&format!("k{n}"), "token", FieldValue::Revision));
    });
    let page = s.ok(s.scan("k", &[], None, 100));
    let token = |record: &mainstay_model::Record| record.fields.get("token").unwrap().to_vec();
    let mut tokens: Vec<Vec<u8>> = page.records.iter().map(|(_, record)| token(record)).collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), RACERS, "{:?}", field("token"));
}
