//! Counts which forks and merges a program made, so that a test can say that they happened.

use super::step::CELLS;
use mainstay::{Contract, MergeStrategy};
use mainstay_conformance::oracle::{ChangedOn, Oracle, is_of_spaces};

/// Merges of two branches that are there, by how they are related.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Parent and child.
    pub neighbours: u64,
    /// One is an ancestor of the other, further up.
    pub ancestors: u64,
    /// Neither comes from the other.
    pub siblings: u64,
    /// Of all of them: with a time to live on one side, over or not.
    pub expiring: u64,
    /// What happened to runs.
    pub runs: RunTally,
    /// What happened to spaces of keyed state and in them.
    pub spaces: SpaceTally,
}

/// What merges and open transactions did to keyed state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceTally {
    /// What only the source had changed.
    pub brought: u64,
    /// What both had.
    pub both: u64,
    /// Open transactions whose spaces were written meanwhile, and that committed.
    pub passed: u64,
    /// Open transactions whose spaces were written meanwhile, and that had to begin again.
    pub conflicted: u64,
}

/// What forks and merges did to runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTally {
    /// Branches that go on from an event.
    pub forks: u64,
    /// Of those: the event was there before the branch that it was forked from.
    pub inherited: u64,
    /// Runs that only the source had gone on with: what came travels.
    pub brought: u64,
    /// Runs that both had gone on with, where the source wins.
    pub joined: u64,
    /// Runs that both had gone on with, where the target wins.
    pub left: u64,
    /// Runs that both had gone on with, where nobody may win.
    pub clashed: u64,
}

impl RunTally {
    /// Notes a fork at an event.
    pub fn note_fork(&mut self, is_inherited: bool) {
        self.forks += 1;
        self.inherited += u64::from(is_inherited);
    }

    /// Notes what a merge that is about to be made finds.
    pub fn note_merge(&mut self, oracle: &Oracle, a: &str, b: &str, strategy: MergeStrategy) {
        let changes = if a == b { Ok(Vec::new()) } else { oracle.diff(a, b) };
        for change in changes.unwrap_or_default() {
            match (change.contract, change.on, strategy) {
                (Contract::Runs, ChangedOn::A, _) => self.brought += 1,
                (Contract::Runs, ChangedOn::Both, MergeStrategy::Theirs) => self.joined += 1,
                (Contract::Runs, ChangedOn::Both, MergeStrategy::Ours) => self.left += 1,
                (Contract::Runs, ChangedOn::Both, _) => self.clashed += 1,
                _ => {}
            }
        }
    }

    fn and(self, other: RunTally) -> RunTally {
        RunTally {
            forks: self.forks + other.forks,
            inherited: self.inherited + other.inherited,
            brought: self.brought + other.brought,
            joined: self.joined + other.joined,
            left: self.left + other.left,
            clashed: self.clashed + other.clashed,
        }
    }
}

impl SpaceTally {
    /// Notes what a merge that is about to be made finds.
    pub fn note_merge(&mut self, oracle: &Oracle, a: &str, b: &str) {
        let changes = if a == b { Ok(Vec::new()) } else { oracle.diff(a, b) };
        for on in changes.unwrap_or_default().iter().filter_map(is_of_spaces) {
            self.brought += u64::from(on == ChangedOn::A);
            self.both += u64::from(on == ChangedOn::Both);
        }
    }

    fn and(self, other: SpaceTally) -> SpaceTally {
        SpaceTally {
            brought: self.brought + other.brought,
            both: self.both + other.both,
            passed: self.passed + other.passed,
            conflicted: self.conflicted + other.conflicted,
        }
    }

    /// Notes how an open transaction ended whose spaces were written meanwhile.
    pub fn note_commit(&mut self, conflicted: bool) {
        self.passed += u64::from(!conflicted);
        self.conflicted += u64::from(conflicted);
    }
}

impl Tally {
    /// Notes a merge that is about to be made.
    pub fn note(&mut self, oracle: &Oracle, a: &str, b: &str) {
        if a == b || oracle.line(a).is_err() || oracle.line(b).is_err() {
            return;
        }
        let (above_a, above_b) = (ancestors(oracle, a), ancestors(oracle, b));
        let place = |above: &[String], name: &str| above.iter().position(|it| it == name);
        match place(&above_a, b).or(place(&above_b, a)) {
            Some(0) => self.neighbours += 1,
            Some(_) => self.ancestors += 1,
            None => self.siblings += 1,
        }
        self.expiring += u64::from(expires(oracle, a) || expires(oracle, b));
    }

    /// The sum of both.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            neighbours: self.neighbours + other.neighbours,
            ancestors: self.ancestors + other.ancestors,
            siblings: self.siblings + other.siblings,
            expiring: self.expiring + other.expiring,
            runs: self.runs.and(other.runs),
            spaces: self.spaces.and(other.spaces),
        }
    }
}

/// The branches that a branch comes from, its parent first.
fn ancestors(oracle: &Oracle, branch: &str) -> Vec<String> {
    let parent = |name: &String| oracle.parent(name);
    std::iter::successors(oracle.parent(branch), parent).collect()
}

fn expires(oracle: &Oracle, branch: &str) -> bool {
    let newest = |cell: &&str| oracle.history(branch, cell, 1, None, oracle.latest());
    CELLS.iter().any(|cell| {
        newest(cell).is_ok_and(|seen| seen.first().is_some_and(|version| version.expires.is_some()))
    })
}
