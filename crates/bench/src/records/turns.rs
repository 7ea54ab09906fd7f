//! Uncontended claims: every claimer has its own tasks and claims them in turn.
//!
//! ```text
//!   first time   running -> claimed        second time   claimed -> running        and again
//! ```

use super::tasks::{self, NOW_MS};
use crate::context::Outcome;
use mainstay::RecordWrite;

/// The states between which tasks alternate.
const STATES: [&str; 2] = ["running", "claimed"];

/// One claimer's share of the tasks: every `step`-th one, cyclically.
pub struct Turns {
    number: usize,
    first: usize,
    step: usize,
    count: usize,
    round: usize,
}

/// A claim: the task, its expected and new state, the worker and the times.
pub struct Claim {
    /// Key of the task.
    pub key: String,
    /// Expected state.
    pub from: &'static str,
    /// New state.
    pub into: &'static str,
    /// Name of the worker.
    pub worker: String,
    /// Time of the claim.
    pub updated_at: String,
    /// End of the lease.
    pub timeout_at: String,
}

impl Turns {
    /// The share of one of `claimers` claimers.
    pub fn of(first: usize, claimers: usize, count: usize) -> Turns {
        Turns { number: first, first, step: claimers, count, round: 0 }
    }

    /// The next claim, which succeeds if all earlier ones did.
    pub fn next(&mut self) -> Claim {
        let number = self.number;
        let claim = Claim {
            key: tasks::key(number),
            from: STATES[self.round % 2],
            into: STATES[(self.round + 1) % 2],
            worker: format!("worker-{:03}", self.first),
            updated_at: (NOW_MS + self.round as u64).to_string(),
            timeout_at: (NOW_MS + 30_000 + self.round as u64).to_string(),
        };
        self.number += self.step;
        if self.number >= self.count {
            self.number = self.first;
            self.round += 1;
        }
        claim
    }
}

impl Claim {
    /// As a record write of our API.
    pub fn write(&self) -> Outcome<RecordWrite> {
        let write = RecordWrite::to(&self.key)?.when_field("state", self.from)?;
        let write = write.set("state", self.into)?.set("worker", &self.worker)?;
        Ok(write.set("updated_at", &self.updated_at)?.set("timeout_at", &self.timeout_at)?)
    }

    /// As a command of our server.
    pub fn words(&self) -> Vec<&str> {
        let Claim { key, from, into, worker, updated_at, timeout_at } = self;
        let words = ["REC.CAS", key, "state", "IS", from, into, "SET", "worker", worker];
        let more = ["SET", "updated_at", updated_at, "SET", "timeout_at", timeout_at];
        words.into_iter().chain(more).collect()
    }

    /// As a call of the Redis script with this hash.
    pub fn script_words<'a>(&'a self, hash: &'a str) -> Vec<&'a str> {
        let Claim { key, from, into, worker, updated_at, timeout_at } = self;
        vec!["EVALSHA", hash, "1", key, from, into, worker, updated_at, timeout_at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_disjoint_and_every_claim_finds_what_the_one_before_left() {
        let mut turns = Turns::of(1, 4, 10);
        let taken: Vec<_> = (0..5).map(|_| turns.next()).collect();
        let taken: Vec<_> = taken.iter().map(|claim| (claim.key.as_str(), claim.from)).collect();
        let expected =
            [(1, "running"), (5, "running"), (9, "running"), (1, "claimed"), (5, "claimed")];
        let expected = expected.map(|(number, from)| (tasks::key(number), from));
        assert_eq!(taken, expected.each_ref().map(|(key, from)| (key.as_str(), *from)));
    }
}
