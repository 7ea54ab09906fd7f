//! The oracle of a drill: checks a reopened database against everything that the writers reported.

use super::journal::Run;
use super::ledger::{Ledger, Request};
use super::runs::Runs;
use super::{Outcome, audit, keyed, records};
use mainstay::Database;
use mainstay_conformance::random::Random;

/// The known state of a database over all its crashes.
pub struct Account {
    random: Random,
    ledger: Ledger,
    requests: Vec<Request>,
    runs: Runs,
    /// Operations done by this checker since the last check, when it repeated requests.
    own: Run,
}

/// The extent of a check.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// True checks every version of every cell; false checks new versions and a sample of the others.
    pub everything: bool,
    /// The first process whose keyed-state logs are read.
    pub since: u64,
    /// The last process.
    pub generation: u64,
}

impl Account {
    /// The oracle for a database that does not exist yet.
    pub fn new(seed: u64) -> Account {
        Account {
            random: Random::of(&[seed]),
            ledger: Ledger::default(),
            requests: Vec::new(),
            runs: Runs::default(),
            own: Run::default(),
        }
    }

    /// Checks the database against the journals of its processes. Returns the number of repeated requests.
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

    /// The number of writes acknowledged as durable that were found.
    pub fn acknowledged(&self) -> u64 {
        self.ledger.acknowledged
    }

    /// The number of writes acknowledged without durability that were lost.
    pub fn unsynced_lost(&self) -> u64 {
        self.ledger.unsynced_lost
    }
}
