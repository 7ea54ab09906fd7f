//! Counts which merges a program made, so that a test can say that they happened.

use super::step::CELLS;
use mainstay_conformance::oracle::Oracle;

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
