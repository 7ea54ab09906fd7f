//! The account: everything that is checked when a database is opened again.

use super::journal::Run;
use super::ledger::{Ledger, Request};
use super::runs::Runs;
use super::{Outcome, audit, keyed, records};
use mainstay::Database;
use mainstay_conformance::random::Random;

/// What is known of a database over all its crashes.
pub struct Account {
    random: Random,
    ledger: Ledger,
    requests: Vec<Request>,
    runs: Runs,
    /// What was done here, by asking again, since the last check.
    own: Run,
}

/// How closely it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Every version of everything, else what is new and some of the rest.
    pub everything: bool,
    /// The first process whose logs of keyed state are read.
    pub since: u64,
    /// The last process.
    pub generation: u64,
}

impl Account {
    /// An account of a database that does not exist yet.
    pub fn new(seed: u64) -> Account {
        Account {
            random: Random::of(&[seed]),
            ledger: Ledger::default(),
            requests: Vec::new(),
            runs: Runs::default(),
            own: Run::default(),
        }
    }

    /// Checks what is there against what processes were told; gives how many requests were asked again.
    pub fn check(&mut self, db: &Database, runs: Vec<Run>, look: Look) -> Outcome<u64> {
        let since = self.ledger.tip;
        let runs: Vec<Run> = [std::mem::take(&mut self.own)].into_iter().chain(runs).collect();
        let mut settled = self.ledger.settle(db, &runs)?;
        audit::check_past(db, &self.ledger, &mut self.random)?;
        audit::check_feed(db, &self.ledger, &settled, since)?;
        records::check(db)?;
        self.runs.check(db)?;
        let logs_since = if look.everything { 0 } else { look.since };
        keyed::check(db, self.runs.marked(), logs_since, look.generation)?;
        if look.everything {
            audit::check_everything(db, &self.ledger)?;
        }
        let fresh = std::mem::take(&mut settled.requests);
        let (own, asked) = audit::ask_again(db, &mut self.requests, fresh, &mut self.random)?;
        self.own = own;
        Ok(asked)
    }

    /// Writes that were acknowledged as durable, and are there.
    pub fn acknowledged(&self) -> u64 {
        self.ledger.acknowledged
    }

    /// Writes that were acknowledged without that promise, and are gone.
    pub fn unsynced_lost(&self) -> u64 {
        self.ledger.unsynced_lost
    }
}
