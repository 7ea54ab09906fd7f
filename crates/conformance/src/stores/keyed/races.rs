//! Races between concurrent callers. Each case names the bug that it detects.

use super::{TestSpace, text, time};
use crate::assertions::done;
use mainstay_model::{
    Code, KeyedState, Merging, SpaceOptions, StateWrite, Version, VersionKind, Wrote,
};
use mainstay_streams::MemoryState;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROUNDS: usize = 10;
const EACH: usize = 20;

/// Detects a version check and a write that are not atomic: an older version would stay.
pub fn highest_version_wins(s: &TestSpace<'_>) {
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let answers = s.together(|n| {
            let version = (n * 7 + round) as u64 % 8;
            (version, s.put(&key, &version.to_string(), version))
        });
        let highest = answers.iter().find(|(version, _)| *version == 7).unwrap();
        assert_eq!(highest.1, Wrote::Applied, "{answers:?}");
        s.holds(&key, "7", 7);
    }
}

/// Detects two callers that both succeed with the same version.
pub fn one_of_a_version_wins(s: &TestSpace<'_>) {
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let answers = s.together(|n| s.put(&key, &n.to_string(), 5));
        let winners: Vec<usize> =
            (0..answers.len()).filter(|n| answers[*n] == Wrote::Applied).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        assert!(
            answers.iter().filter(|wrote| **wrote == Wrote::Stale).count() == answers.len() - 1
        );
        s.holds(&key, &winners[0].to_string(), 5);
    }
}

/// Detects two waiting writes that both succeed with the same version.
/// Requires: Ordered.
pub fn one_that_waits_wins(s: &TestSpace<'_>) {
    let s = s.declared("ordered", SpaceOptions::default().ordered());
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let answers = s.together(|n| s.put(&key, &n.to_string(), 5));
        let winners: Vec<usize> =
            (0..answers.len()).filter(|n| answers[*n] == Wrote::Waiting).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        let waiting = s.waiting().into_iter().find(|entry| entry.key == key.as_bytes());
        assert_eq!(text(&waiting.unwrap().value.unwrap()), winners[0].to_string());
    }
}

/// Detects an ID check and an append that are not atomic.
/// Requires: Appends.
pub fn one_item_of_an_id(s: &TestSpace<'_>) {
    for round in 0..ROUNDS {
        let id = format!("{round:02}");
        let added = s.together(|n| s.append("k", &id, &n.to_string()));
        let winners: Vec<usize> = (0..added.len()).filter(|n| added[*n]).collect();
        assert_eq!(winners.len(), 1, "{added:?}");
        assert_eq!(s.items("k")[round], (id, winners[0].to_string()));
    }
}

/// Detects a position that falls.
pub fn furthest_position_stands(s: &TestSpace<'_>) {
    for round in 0..ROUNDS as u64 {
        let answers = s.together(|n| {
            let position = round * 8 + (n as u64 * 7 + round) % 8;
            (position, s.advance("source", position))
        });
        let furthest = round * 8 + 7;
        assert!(answers.contains(&(furthest, Wrote::Applied)), "{answers:?}");
        assert_eq!(s.positions()["source"], furthest);
    }
}

/// Detects a merge with a state that is no longer current: values would be lost.
/// Requires: Merged.
pub fn merging_loses_nothing(s: &TestSpace<'_>) {
    let s = s.declared("merged", SpaceOptions::default().merged());
    let versions = AtomicU64::new(0);
    let joined = Merging::new(s.store().clone(), |_, old, new| {
        Ok([old.unwrap_or_default(), new, b" "].concat())
    });
    let put = |value: String| {
        // A put that another thread has overtaken is repeated with a later version.
        while let Wrote::Stale = {
            let version = versions.fetch_add(1, Ordering::Relaxed);
            joined.put(b"k", value.as_bytes(), version.into()).unwrap()
        } {}
    };
    s.together(|n| (0..EACH).for_each(|i| put(format!("{n}.{i}"))));
    let state = text(&s.store().get(b"k").unwrap().unwrap().value);
    let all: Vec<&str> = state.split_whitespace().collect();
    let different: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!((all.len(), different.len()), (8 * EACH, 8 * EACH), "{state}");
}

/// Number of times the frontier rises, and number of puts per writer between two rises.
const SEALS: u64 = 8;
const PUTS: u64 = 10;

/// One thread raises the frontier while seven put versions around it. Returns the versions that were
/// answered with `Waiting`.
fn while_sealing(
    s: &TestSpace<'_>,
    put: impl Fn(u64) -> Wrote + Sync,
    seal: impl Fn(u64) + Sync,
) -> Vec<u64> {
    let sealed = AtomicU64::new(0);
    let puts = AtomicU64::new(0);
    let broken = AtomicBool::new(false);
    let until = |count: &AtomicU64, least: u64| {
        // Pairs with the `Release` operations on the counters and on `Broken`: the operations they count
        // happened before.
        while count.load(Ordering::Acquire) < least && !broken.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    let told = s.together(|n| {
        let _broken = Broken(&broken);
        let n = n as u64;
        let mut waits = Vec::new();
        for round in 0..SEALS {
            if n == 0 {
                // The seal starts after half of the puts, so that the other half runs concurrently with
                // it.
                until(&puts, 7 * PUTS * round + 7 * PUTS / 2);
                seal((round + 1) * 40);
                // Pairs with the `Acquire` load in `until`: the seal happens before the puts of the next
                // round.
                sealed.store(round + 1, Ordering::Release);
                continue;
            }
            until(&sealed, round);
            for i in 0..PUTS {
                let version = round * 40 + (i % 8) * 8 + n;
                if put(version) == Wrote::Waiting {
                    waits.push(version);
                }
                // Pairs with the `Acquire` load in `until`: the counted puts happen before the next
                // seal.
                puts.fetch_add(1, Ordering::Release);
                // Yields, so that this thread is often between two puts when the frontier rises.
                std::thread::yield_now();
            }
        }
        waits
    });
    seal(SEALS * 100);
    let told: BTreeSet<u64> = told.into_iter().flatten().collect();
    told.into_iter().collect()
}

/// On a panic, sets a flag so that the other threads stop waiting.
struct Broken<'b>(&'b AtomicBool);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Pairs with the `Acquire` loads of the waiting threads.
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Detects waiting writes that are not sealed, and stale writes that are applied.
/// Requires: Ordered.
pub fn sealing_loses_nothing(s: &TestSpace<'_>) {
    let s = s.declared("ordered", SpaceOptions::default().ordered());
    let told = while_sealing(
        &s,
        |version| s.put(&format!("{version:06}"), "v", version),
        |frontier| done(s.seal(frontier)),
    );
    let applied: Vec<u64> =
        s.states().into_iter().map(|(key, _)| key.parse().expect("a version")).collect();
    assert_eq!(applied, told);
    assert_eq!(s.waiting(), []);
}

/// Detects writes that start to wait during a merge and are then lost or merged twice.
/// Requires: Merged, Ordered.
pub fn sealing_merges_lose_nothing(s: &TestSpace<'_>) {
    let s = s.declared("merged in order", SpaceOptions::default().merged().ordered());
    let joined = Merging::new(s.store().clone(), |_, old, new| {
        Ok([old.unwrap_or_default(), new, b" "].concat())
    });
    let put =
        |version: u64| joined.put(b"k", version.to_string().as_bytes(), version.into()).unwrap();
    let told = while_sealing(&s, put, |frontier| done(joined.seal(frontier.into()).unwrap()));
    let state = s.store().get(b"k").unwrap().map_or_else(Vec::new, |state| state.value);
    let merged: Vec<u64> =
        text(&state).split_whitespace().map(|one| one.parse().expect("a version")).collect();
    assert_eq!(merged, told);
}

/// One thread writes pairs while three threads read and assert that they always see a complete pair.
fn look_at_pairs(s: &TestSpace<'_>, write: impl Fn(u64) + Sync, look: impl Fn() + Sync) {
    const LOOKS: u64 = 300;
    const WRITES: u64 = 25;
    let written = AtomicU64::new(0);
    let looked = AtomicU64::new(0);
    let broken = AtomicBool::new(false);
    let goes_on = || {
        // Pairs with the `Release` operations below and in `Broken`.
        let is_little =
            looked.load(Ordering::Acquire) < LOOKS || written.load(Ordering::Acquire) < WRITES;
        is_little && !broken.load(Ordering::Acquire)
    };
    s.together(|n| {
        let _broken = Broken(&broken);
        if n == 0 {
            while goes_on() {
                // Writes are limited by the number of reads, because surplus old versions would only
                // slow the reads down.
                if written.load(Ordering::Acquire) < looked.load(Ordering::Acquire) + WRITES {
                    // `Release` covers the earlier writes; this write itself runs after the increment.
                    write(1 + written.fetch_add(1, Ordering::Release));
                }
                std::thread::yield_now();
            }
        } else if n <= 3 {
            while goes_on() {
                look();
                // Pairs with the `Acquire` loads above: the counted read has finished.
                looked.fetch_add(1, Ordering::Release);
                std::thread::yield_now();
            }
        }
    });
}

fn pair(version: u64) -> Vec<StateWrite> {
    vec![
        StateWrite::put("a", version.to_string(), version),
        StateWrite::put("b", version.to_string(), version),
        StateWrite::advance("source", version),
    ]
}

fn is_pair(space: &dyn KeyedState) {
    let kept = space.look(&[b"a", b"b"]).unwrap();
    assert!(kept[0].is_some(), "nothing is there");
    assert_eq!(kept[0], kept[1], "two moments at once");
}

/// Detects a batch that is partly visible.
/// Requires: Atomic.
pub fn batches_are_seen_whole(s: &TestSpace<'_>) {
    s.write(pair(0));
    look_at_pairs(s, |n| done(s.write(pair(n))), || is_pair(&**s.store()));
}

/// Detects a snapshot that mixes two points in time.
/// Requires: Atomic.
pub fn snapshots_are_of_one_moment(s: &TestSpace<'_>) {
    s.write(pair(0));
    let look = || {
        let copy = MemoryState::new();
        copy.restore(&s.snapshot()).unwrap();
        is_pair(&copy);
        let position = copy.positions().unwrap()["source"];
        assert_eq!(copy.get(b"a").unwrap().unwrap().version, Version::from(position));
    };
    look_at_pairs(s, |n| done(s.write(pair(n))), look);
}

/// Detects a restore that is partly visible.
pub fn restores_are_seen_whole(s: &TestSpace<'_>) {
    let snapshots: Vec<Vec<u8>> = [5_u64, 9]
        .into_iter()
        .map(|version| {
            let from = s.other(&format!("from {version}"));
            for key in ["a", "b"] {
                from.put(key, &version.to_string(), version);
            }
            from.snapshot()
        })
        .collect();
    s.restore(&snapshots[0]);
    look_at_pairs(s, |n| done(s.restore(&snapshots[(n % 2) as usize])), || is_pair(&**s.store()));
}

/// Detects two conflicting declarations that both succeed.
pub fn one_declaration_wins(s: &TestSpace<'_>) {
    for round in 0..ROUNDS {
        let s = s.other(&format!("space {round}"));
        let answers =
            s.together(|n| s.store().declare(SpaceOptions::default().groups(1 + n as u32 % 2)));
        let new = answers.iter().filter(|answer| **answer == Ok(true)).count();
        assert_eq!(new, 1, "{answers:?}");
        let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
        let codes: Vec<Code> = refused.map(|error| error.code()).collect();
        assert_eq!(codes, [Code::SpaceExists; 4], "{answers:?}");
    }
}

/// Detects a space with two version kinds.
pub fn one_kind_wins(s: &TestSpace<'_>) {
    for round in 0..ROUNDS {
        let s = s.other(&format!("space {round}"));
        let answers = s.together(|n| {
            let version = if n % 2 == 0 { Version::from(7) } else { time(7, 7) };
            s.store().put(n.to_string().as_bytes(), b"v", version).map_err(|error| error.code())
        });
        let won = usize::from(s.info().options.versions == Some(VersionKind::Time));
        for (n, answer) in answers.iter().enumerate() {
            let expected =
                if n % 2 == won { Ok(Wrote::Applied) } else { Err(Code::InvalidVersion) };
            assert_eq!(*answer, expected, "{answers:?}");
        }
        assert_eq!(s.states().len(), 4);
    }
}
