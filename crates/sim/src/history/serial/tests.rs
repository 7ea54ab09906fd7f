//! Handwritten histories: the checker names each anomaly and accepts unusual but valid histories.

use super::Step::{List, Read, Write};
use super::{Fate, History, Range, Recorded, Saw, Step, Version, check};
use std::collections::BTreeMap;

fn saw(key: &str, value: i64) -> Step {
    Read(key.to_owned(), Saw::Value(value))
}

fn absent(key: &str) -> Step {
    Read(key.to_owned(), Saw::Absent)
}

fn put(key: &str, value: i64) -> Step {
    Write(key.to_owned(), Some(value))
}

fn delete(key: &str) -> Step {
    Write(key.to_owned(), None)
}

fn list(prefix: &str, seen: &[&str]) -> Step {
    let range = Range { prefix: prefix.to_owned(), after: None, upto: None };
    List(range, seen.iter().map(|key| ((*key).to_owned(), Saw::Present)).collect())
}

/// A transaction between two moments.
fn at(invoked: u64, returned: u64, steps: Vec<Step>) -> Recorded {
    let thread = invoked % 3;
    let fate = Fate::Committed;
    Recorded { thread, invoked, returned, fate, read_at: None, steps }
}

fn with(fate: Fate, mut transaction: Recorded) -> Recorded {
    transaction.fate = fate;
    transaction
}

fn at_revision(revision: u64, mut transaction: Recorded) -> Recorded {
    transaction.read_at = Some(revision);
    transaction
}

/// A key and its versions: revisions and values.
type Past<'p> = (&'p str, &'p [(u64, Option<i64>)]);

/// A history with these versions of its keys.
fn history(transactions: Vec<Recorded>, keys: &[Past<'_>]) -> History {
    let chain = |(key, values): &Past<'_>| {
        let version = |(place, (revision, value)): (usize, &(u64, Option<i64>))| {
            let counter = place as u64 + 1;
            let writes = 1;
            Version { counter, writes, value: *value, revision: *revision }
        };
        ((*key).to_owned(), values.iter().enumerate().map(version).collect())
    };
    let versions: BTreeMap<_, _> = keys.iter().map(chain).collect();
    History { transactions, versions }
}

#[track_caller]
fn fine(history: &History) {
    check(history).unwrap();
}

#[track_caller]
fn wrong(history: &History, name: &str) -> String {
    let said = check(history).unwrap_err();
    assert!(said.contains(name), "{name} was told as: {said}");
    said
}

#[test]
fn one_after_the_other_is_fine() {
    fine(&history(
        vec![
            at(0, 1, vec![absent("a"), put("a", 1), saw("a", 1)]),
            at(2, 3, vec![saw("a", 1), put("a", 2), put("b", 3)]),
            at(4, 5, vec![saw("a", 2), saw("b", 3), list("", &["a", "b"])]),
        ],
        &[("a", &[(1, Some(1)), (2, Some(2))]), ("b", &[(2, Some(3))])],
    ));
}

#[test]
fn a_lost_update_is_named() {
    let said = wrong(
        &history(
            vec![
                at(0, 1, vec![put("a", 1)]),
                at(2, 8, vec![saw("a", 1), put("a", 2)]),
                at(3, 9, vec![saw("a", 1), put("a", 3)]),
            ],
            &[("a", &[(1, Some(1)), (2, Some(2)), (3, Some(3))])],
        ),
        "a lost update",
    );
    assert!(said.contains("ww: its write to `a`") && said.contains("rw: what it saw of `a`"));
}

#[test]
fn write_skew_is_named() {
    wrong(
        &history(
            vec![
                at(0, 1, vec![put("a", 1), put("b", 2)]),
                at(2, 8, vec![saw("a", 1), saw("b", 2), put("a", 3)]),
                at(3, 9, vec![saw("a", 1), saw("b", 2), put("b", 4)]),
            ],
            &[("a", &[(1, Some(1)), (2, Some(3))]), ("b", &[(1, Some(2)), (3, Some(4))])],
        ),
        "G2, write skew",
    );
}

#[test]
fn read_skew_is_named() {
    wrong(
        &history(
            vec![
                at(0, 1, vec![put("a", 1), put("b", 2)]),
                at(2, 8, vec![put("a", 3), put("b", 4)]),
                at(3, 9, vec![saw("a", 1), saw("b", 4)]),
            ],
            &[("a", &[(1, Some(1)), (2, Some(3))]), ("b", &[(1, Some(2)), (2, Some(4))])],
        ),
        "G-single, read skew",
    );
}

#[test]
fn reading_one_key_twice_in_two_ways_is_found() {
    wrong(
        &history(
            vec![
                at(0, 1, vec![put("a", 1)]),
                at(2, 8, vec![put("a", 2)]),
                at(3, 9, vec![saw("a", 1), saw("a", 2)]),
            ],
            &[("a", &[(1, Some(1)), (2, Some(2))])],
        ),
        "G-single",
    );
}

#[test]
fn phantoms_are_named() {
    // Each transaction lists the room, finds it empty, and takes a seat.
    let rooms: &[Past<'_>] = &[("r/1", &[(1, Some(1))]), ("r/2", &[(2, Some(2))])];
    let both = |first: &[&str], second: &[&str]| {
        let take = |invoked, seen: &[&str], key, value| {
            at(invoked, invoked + 5, vec![list("r/", seen), put(key, value)])
        };
        history(vec![take(0, first, "r/1", 1), take(1, second, "r/2", 2)], rooms)
    };
    wrong(&both(&[], &[]), "a phantom");
    fine(&both(&[], &["r/1"]));
    fine(&both(&["r/2"], &[]));
}

#[test]
fn a_page_says_nothing_of_what_is_behind_it() {
    let page = |upto: Option<&str>| {
        let range = Range { prefix: "r/".into(), after: None, upto: upto.map(str::to_owned) };
        let seen = vec![("r/1".to_owned(), Saw::Present)];
        let first = at(0, 1, vec![put("r/1", 1)]);
        let second = at(2, 3, vec![put("r/2", 2)]);
        let third = at(4, 5, vec![List(range, seen)]);
        let rooms: &[Past<'_>] = &[("r/1", &[(1, Some(1))]), ("r/2", &[(2, Some(2))])];
        history(vec![first, second, third], rooms)
    };
    fine(&page(Some("r/1")));
    wrong(&page(None), "a stale read");
}

#[test]
fn an_aborted_read_is_named() {
    let aborted = with(Fate::Aborted, at(0, 5, vec![put("a", 1)]));
    wrong(&history(vec![aborted.clone(), at(1, 4, vec![saw("a", 1)])], &[]), "G1a");
    wrong(&history(vec![aborted], &[("a", &[(1, Some(1))])]), "G1a");
}

#[test]
fn an_intermediate_read_is_named() {
    let twice = at(0, 5, vec![put("a", 1), put("a", 2)]);
    let mut both = history(vec![twice, at(1, 4, vec![saw("a", 1)])], &[("a", &[(1, Some(2))])]);
    let version = both.versions.get_mut("a").and_then(|versions| versions.first_mut()).unwrap();
    version.counter = 2;
    version.writes = 2;
    wrong(&both, "G1b");
    both.transactions[1].steps = vec![saw("a", 2)];
    fine(&both);
}

#[test]
fn a_flow_in_a_circle_is_named() {
    wrong(
        &history(
            vec![
                at(0, 8, vec![put("a", 1), saw("b", 2)]),
                at(1, 9, vec![put("b", 2), saw("a", 1)]),
            ],
            &[("a", &[(1, Some(1))]), ("b", &[(2, Some(2))])],
        ),
        "G1c",
    );
}

#[test]
fn writes_in_two_orders_are_named() {
    wrong(
        &history(
            vec![
                at(0, 8, vec![put("a", 1), put("b", 1)]),
                at(1, 9, vec![put("a", 2), put("b", 2)]),
            ],
            &[("a", &[(1, Some(1)), (2, Some(2))]), ("b", &[(1, Some(2)), (2, Some(1))])],
        ),
        "G0",
    );
}

#[test]
fn time_that_runs_backwards_is_named() {
    let two: &[Past<'_>] = &[("a", &[(1, Some(1)), (2, Some(2))])];
    let first = at(0, 1, vec![put("a", 1)]);
    let second = at(2, 3, vec![put("a", 2)]);
    let stale = at(4, 5, vec![saw("a", 1)]);
    wrong(&history(vec![first.clone(), second.clone(), stale], two), "a stale read");
    let beside = at(3, 5, vec![saw("a", 1)]);
    let slow = at(2, 4, vec![put("a", 2)]);
    fine(&history(vec![first.clone(), slow, beside], two));
    let early = at(2, 3, vec![saw("a", 2)]);
    let late = at(4, 5, vec![put("a", 2)]);
    wrong(&history(vec![first, early, late], two), "a read of the future");
    let back: &[Past<'_>] = &[("a", &[(1, Some(2)), (2, Some(1))])];
    let first = at(0, 1, vec![put("a", 1)]);
    let second = at(2, 3, vec![put("a", 2)]);
    wrong(&history(vec![first, second], back), "an inversion of real time");
}

#[test]
fn time_is_seen_over_many_moments() {
    let mut transactions = Vec::new();
    let mut versions = Vec::new();
    for n in 0..1_000 {
        let key = format!("k{}", n % 7);
        transactions.push(at(n * 2, n * 2 + 1, vec![put(&key, n as i64)]));
        versions.push((key, n + 1, n as i64));
    }
    let mut all = History { transactions, versions: BTreeMap::new() };
    for (key, revision, value) in versions {
        let chain = all.versions.entry(key).or_default();
        let counter = chain.len() as u64 + 1;
        let value = Some(value);
        chain.push(Version { counter, writes: 1, value, revision });
    }
    fine(&all);
    all.transactions.push(at(3_000, 3_001, vec![saw("k0", 0)]));
    let said = wrong(&all, "a stale read");
    assert!(said.contains("nobody of 2 can"), "{said}");
}

#[test]
fn a_lost_write_is_named() {
    wrong(&history(vec![at(0, 1, vec![put("a", 1)])], &[]), "a lost write");
    let half = with(Fate::Unknown, at(0, 1, vec![put("a", 1), put("b", 2)]));
    wrong(&history(vec![half], &[("a", &[(1, Some(1))])]), "a lost write");
    wrong(&history(vec![], &[("a", &[(1, Some(1))])]), "nobody wrote");
}

#[test]
fn counters_with_gaps_are_found() {
    let mut gap = history(vec![at(0, 1, vec![put("a", 1)])], &[("a", &[(1, Some(1))])]);
    fine(&gap);
    gap.versions.get_mut("a").unwrap()[0].counter = 2;
    wrong(&gap, "counts 2 where 1 writes were made");
}

#[test]
fn what_is_not_known_may_happen_late_or_never() {
    let lost = with(Fate::Unknown, at(0, 1, vec![put("a", 1), put("b", 1)]));
    let before = at(2, 3, vec![absent("a")]);
    let after = at(4, 5, vec![saw("a", 1), saw("b", 1)]);
    let kept: &[Past<'_>] = &[("a", &[(1, Some(1))]), ("b", &[(1, Some(1))])];
    fine(&history(vec![lost.clone(), before.clone(), after.clone()], kept));
    fine(&history(vec![lost.clone(), before.clone()], &[]));
    wrong(&history(vec![lost.clone(), after.clone()], &[]), "G1a");
    // Once it was seen, it must stay visible.
    let again = at(6, 7, vec![absent("b")]);
    wrong(&history(vec![lost.clone(), after, again], kept), "a stale read");
    // Not before it began.
    let mut later = lost;
    later.invoked = 10;
    let early = at(2, 3, vec![saw("a", 1)]);
    wrong(&history(vec![later, early], kept), "a read of the future");
}

#[test]
fn what_is_aborted_has_read_a_snapshot_too() {
    let kept: &[Past<'_>] = &[("a", &[(1, Some(1))]), ("b", &[(1, Some(1))])];
    let write = at(0, 9, vec![put("a", 1), put("b", 1)]);
    let whole = with(Fate::Aborted, at(1, 8, vec![saw("a", 1), saw("b", 1), put("c", 7)]));
    fine(&history(vec![write.clone(), whole], kept));
    let torn = with(Fate::Aborted, at(1, 8, vec![saw("a", 1), absent("b"), put("c", 7)]));
    wrong(&history(vec![write, torn], kept), "G-single");
}

#[test]
fn own_writes_are_seen() {
    let kept: &[Past<'_>] = &[("r/1", &[(1, Some(1))])];
    let own = |steps: Vec<Step>| {
        let all = [vec![put("r/1", 1)], steps].concat();
        history(vec![at(0, 1, all)], kept)
    };
    fine(&own(vec![saw("r/1", 1), list("r/", &["r/1"])]));
    wrong(&own(vec![absent("r/1")]), "did not see its own write");
    wrong(&own(vec![list("r/", &[])]), "did not see its own write");
    let early = history(vec![at(0, 1, vec![saw("r/1", 1), put("r/1", 1)])], kept);
    wrong(&early, "before it wrote it");
}

#[test]
fn absence_between_deletions_is_told_by_the_revision() {
    let chain: &[Past<'_>] = &[
        ("a", &[(1, Some(1)), (2, None), (3, Some(3)), (4, None)]),
        ("mark", &[(2, Some(20)), (4, Some(40))]),
    ];
    let writers = vec![
        at(0, 1, vec![put("a", 1)]),
        at(2, 3, vec![delete("a"), put("mark", 20)]),
        at(4, 5, vec![put("a", 3)]),
        at(6, 7, vec![delete("a"), put("mark", 40)]),
    ];
    let seen = |reader: Recorded| history([writers.clone(), vec![reader]].concat(), chain);
    let look = |invoked, returned| at(invoked, returned, vec![absent("a"), saw("mark", 20)]);
    // Without a revision the absence is ambiguous, so only the mark counts.
    fine(&seen(look(4, 8)));
    fine(&seen(at_revision(2, look(4, 8))));
    wrong(&seen(at_revision(4, look(4, 8))), "G-single");
    wrong(&seen(at_revision(3, look(4, 8))), "which it was not at 3");
    wrong(&seen(at_revision(2, at(8, 9, vec![absent("a")]))), "a stale read");
}

#[test]
fn reads_beside_a_write_may_be_on_either_side() {
    let kept: &[Past<'_>] = &[("a", &[(1, Some(1)), (2, Some(2))])];
    for (first, second) in [(1, 2), (2, 1), (1, 1), (2, 2)] {
        let transactions = vec![
            at(0, 1, vec![put("a", 1)]),
            at(2, 9, vec![put("a", 2)]),
            at(3, 7, vec![saw("a", first)]),
            at(4, 8, vec![saw("a", second)]),
        ];
        fine(&history(transactions, kept));
    }
}
