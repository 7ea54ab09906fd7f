//! Statistics of forks and merges in programs, so that tests can assert that they occurred.

use super::step::CELLS;
use mainstay::{Contract, MergeStrategy};
use mainstay_conformance::reference_model::{ChangedOn, Oracle, is_of_spaces};

/// Merges of two existing branches, by their relation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Merges between parent and child.
    pub neighbours: u64,
    /// Merges between a branch and a more distant ancestor.
    pub ancestors: u64,
    /// Merges of branches where neither is an ancestor of the other.
    pub siblings: u64,
    /// Merges of any relation with a time to live on one side, expired or not.
    pub expiring: u64,
    pub runs: RunTally,
    pub spaces: SpaceTally,
}

/// Effects of merges and interactive transactions on keyed state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceTally {
    /// Differences that only the source had changed.
    pub brought: u64,
    /// Differences that both branches had changed.
    pub both: u64,
    /// Interactive transactions that committed although their spaces were written meanwhile.
    pub passed: u64,
    /// Interactive transactions that conflicted because their spaces were written meanwhile.
    pub conflicted: u64,
}

/// Effects of forks and merges on runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTally {
    /// Forks at an event.
    pub forks: u64,
    /// Forks at an event that is older than the source branch.
    pub inherited: u64,
    /// Runs that only the source had changed, so that their events are merged.
    pub brought: u64,
    /// Runs that both branches had changed, merged with `theirs`.
    pub joined: u64,
    /// Runs that both branches had changed, merged with `ours`.
    pub left: u64,
    /// Runs that both branches had changed, merged with `strict`.
    pub clashed: u64,
}

impl RunTally {
    /// Counts a fork at an event.
    pub fn note_fork(&mut self, is_inherited: bool) {
        self.forks += 1;
        self.inherited += u64::from(is_inherited);
    }

    /// Counts the run differences before a merge.
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
    /// Counts the keyed state differences before a merge.
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

    /// Counts the end of an interactive transaction whose spaces were written meanwhile.
    pub fn note_commit(&mut self, conflicted: bool) {
        self.passed += u64::from(!conflicted);
        self.conflicted += u64::from(conflicted);
    }
}

impl Tally {
    /// Counts a merge before it runs.
    pub fn note(&mut self, oracle: &Oracle, a: &str, b: &str) {
        if a == b || oracle.line(a).is_err() || oracle.line(b).is_err() {
            return;
        }
        let above_a = ancestors(oracle, a);
        let above_b = ancestors(oracle, b);
        let place = |above: &[String], name: &str| above.iter().position(|it| it == name);
        match place(&above_a, b).or(place(&above_b, a)) {
            Some(0) => self.neighbours += 1,
            Some(_) => self.ancestors += 1,
            None => self.siblings += 1,
        }
        self.expiring += u64::from(expires(oracle, a) || expires(oracle, b));
    }

    /// Adds two statistics.
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

/// The ancestors of a branch, its parent first.
fn ancestors(oracle: &Oracle, branch: &str) -> Vec<String> {
    std::iter::successors(oracle.parent(branch), |name| oracle.parent(name)).collect()
}

fn expires(oracle: &Oracle, branch: &str) -> bool {
    let newest = |cell: &&str| oracle.history(branch, cell, 1, None, oracle.latest());
    CELLS.iter().any(|cell| {
        newest(cell).is_ok_and(|seen| seen.first().is_some_and(|version| version.expires.is_some()))
    })
}
