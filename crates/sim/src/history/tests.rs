//! Real histories pass the checkers, and each kind of corruption is detected.

use super::linear::{Cell, CellAnswered, CellAsked, check};
use super::recorder::{Setting, Taken, record};
use super::serial::{self, Fate, History, Recorded, Saw, Step, Version};
use super::{CallTo, Tally};
use mainstay_conformance::random::Random;
use std::collections::BTreeSet;

const SEEDS: u64 = 12;
const OPERATIONS: u64 = 700;

type Cells = Vec<CallTo<Cell>>;

fn taken(seed: u64) -> Taken {
    let settings = [Setting::Slow, Setting::Memory, Setting::Failing, Setting::Full];
    let mut random = Random::of(&[seed]);
    record(settings[seed as usize % settings.len()], &mut random, OPERATIONS).unwrap()
}

/// Returns the counter after an unconditional write.
fn written(call: &CallTo<Cell>) -> Option<u64> {
    match (&call.asked, &call.answer) {
        (CellAsked::Set(_), Some((_, CellAnswered::Counter(counter)))) => Some(*counter),
        (CellAsked::Incr(_), Some((_, CellAnswered::Sum(_, counter)))) => Some(*counter),
        _ => None,
    }
}

/// Swaps the counters of two writes that ran one after the other.
fn swap_counters(calls: &mut Cells) -> bool {
    let sets = |call: &CallTo<Cell>| matches!(call.asked, CellAsked::Set(_));
    let places: Vec<usize> = (0..calls.len())
        .filter(|place| sets(&calls[*place]) && written(&calls[*place]).is_some())
        .collect();
    let pairs = places.iter().flat_map(|a| places.iter().map(move |b| (*a, *b)));
    let mut apart = pairs.filter(|(a, b)| calls[*a].returned() < calls[*b].invoked);
    let Some((a, b)) = apart.next() else { return false };
    let first = written(&calls[a]);
    let second = written(&calls[b]);
    for (place, counter) in [(a, second), (b, first)] {
        let returned = calls[place].returned();
        calls[place].answer = counter.map(|counter| (returned, CellAnswered::Counter(counter)));
    }
    true
}

/// Makes a read return the state before a write that had already ended.
fn read_stale(calls: &mut Cells) -> bool {
    let version = |call: &CallTo<Cell>| match &call.answer {
        Some((_, CellAnswered::Version(version))) => *version,
        _ => None,
    };
    let over = |call: &CallTo<Cell>| {
        let counter = written(call)?;
        Some((call.returned(), counter))
    };
    for place in (0..calls.len()).rev().filter(|place| version(&calls[*place]).is_some()) {
        let invoked = calls[place].invoked;
        let before = calls.iter().filter_map(over).filter(|(returned, _)| *returned < invoked);
        let Some(least) = before.map(|(_, counter)| counter).max() else { continue };
        let old = calls.iter().filter_map(version).find(|(_, counter)| *counter < least);
        if let Some(old) = old {
            calls[place].answer = Some((calls[place].returned(), CellAnswered::Version(Some(old))));
            return true;
        }
    }
    false
}

/// Removes an acknowledged write. The cell's counter reveals it, if no call is left without an answer.
fn drop_write(calls: &mut Cells) -> bool {
    let is_open =
        |call: &CallTo<Cell>| call.answer.is_none() || matches!(call.asked, CellAsked::Init(_));
    let last = calls.iter().max_by_key(|call| call.invoked).and_then(|call| call.answer.as_ref());
    let is_counted = matches!(last, Some((_, CellAnswered::Version(Some(_)))));
    let place = calls.iter().position(|call| written(call).is_some());
    match place {
        Some(place) if is_counted && !calls.iter().any(is_open) => {
            calls.remove(place);
            true
        }
        _ => false,
    }
}

#[test]
fn bent_calls_are_found_out() {
    let ways: [fn(&mut Cells) -> bool; 3] = [swap_counters, read_stale, drop_write];
    let mut found = [0; 3];
    for seed in 0..SEEDS {
        for (key, calls) in taken(seed).cells {
            check::<Cell>(&calls).unwrap_or_else(|what| panic!("seed {seed}, `{key}`: {what}"));
            for (way, bend) in ways.iter().enumerate() {
                let mut bent = calls.clone();
                if bend(&mut bent) {
                    let said = check::<Cell>(&bent);
                    assert!(said.is_err(), "seed {seed}, `{key}`, way {way} was not found out");
                    found[way] += 1;
                }
            }
        }
    }
    assert!(found.iter().all(|found| *found > SEEDS), "hardly bent at all: {found:?}");
}

/// Returns the places of values that a transaction read from other transactions.
fn sights(transaction: &Recorded) -> Vec<(usize, &str, i64)> {
    let mut own = BTreeSet::new();
    let mut sights = Vec::new();
    for (place, step) in transaction.steps.iter().enumerate() {
        match step {
            Step::Write(key, _) => drop(own.insert(key.as_str())),
            Step::Read(key, Saw::Value(value)) if !own.contains(key.as_str()) => {
                sights.push((place, key.as_str(), *value));
            }
            _ => {}
        }
    }
    sights
}

/// Swaps the reads of two transactions that ran one after the other.
fn swap_reads(all: &mut [Recorded]) -> bool {
    for a in 0..all.len() {
        for b in 0..all.len() {
            let apart = all[a].returned < all[b].invoked;
            if !apart || [a, b].iter().any(|one| all[*one].fate != Fate::Committed) {
                continue;
            }
            let second = sights(&all[b]);
            let meets = |one: &(usize, &str, i64)| {
                let other = second.iter().find(|other| other.1 == one.1 && other.2 != one.2);
                other.map(|other| ((one.0, one.2), (other.0, other.2), one.1.to_owned()))
            };
            let met = sights(&all[a]).iter().find_map(meets);
            if let Some(((place, value), (other_place, other_value), key)) = met {
                all[a].steps[place] = Step::Read(key.clone(), Saw::Value(other_value));
                all[b].steps[other_place] = Step::Read(key, Saw::Value(value));
                return true;
            }
        }
    }
    false
}

fn a_writer(all: &[Recorded]) -> Option<usize> {
    let last = all
        .iter()
        .filter(|one| one.fate == Fate::Committed && one.writes().next().is_some())
        .map(|one| one.invoked)
        .max()?;
    all.iter().position(|one| one.invoked == last)
}

#[test]
fn bent_transactions_are_found_out() {
    let mut swapped = 0;
    for seed in 0..SEEDS {
        let mut history = taken(seed).history;
        serial::check(&history).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        let writer = a_writer(&history.transactions).unwrap();
        let mut dropped = history.clone();
        dropped.transactions.remove(writer);
        let said = serial::check(&dropped).unwrap_err();
        assert!(said.contains("nobody wrote"), "seed {seed}: {said}");
        let mut aborted = history.clone();
        aborted.transactions[writer].fate = Fate::Aborted;
        let said = serial::check(&aborted).unwrap_err();
        assert!(said.contains("G1a"), "seed {seed}: {said}");
        if swap_reads(&mut history.transactions) {
            let said = serial::check(&history);
            assert!(said.is_err(), "seed {seed}: swapped reads were not found out");
            swapped += 1;
        }
    }
    assert!(swapped > SEEDS / 2, "hardly swapped at all: {swapped}");
}

/// Returns a key whose newest version was acknowledged.
fn acknowledged(history: &History) -> Option<String> {
    let newest = |(key, chain): (&String, &Vec<Version>)| {
        let value = chain.last().and_then(|version| version.value)?;
        let author = history
            .transactions
            .iter()
            .find(|one| one.writes().any(|write| write == (key, Some(value))))?;
        (author.fate == Fate::Committed).then(|| key.clone())
    };
    history.versions.iter().find_map(newest)
}

#[test]
fn a_write_that_the_engine_forgot_is_found_out() {
    for seed in 0..SEEDS {
        let mut history = taken(seed).history;
        let key = acknowledged(&history).unwrap();
        // The newest version is missing, as after a log that was cut too early.
        let gone = history.versions.get_mut(&key).and_then(Vec::pop);
        let said = serial::check(&history).unwrap_err();
        let is_named = said.contains("a lost write") || said.contains("nobody wrote the deletion");
        assert!(is_named, "seed {seed}, `{key}` without {gone:?}: {said}");
    }
}

#[test]
fn what_is_checked_is_counted() {
    let mut tally = Tally::default();
    super::check(&taken(0), &mut tally).unwrap();
    assert!(tally.operations >= OPERATIONS, "{tally:?}");
    assert!(tally.keys > 20 && tally.transactions > 20 && tally.beside > 20, "{tally:?}");
}
