//! Run load: each run gets some events and is deleted, then the next one begins.

use super::{Desk, agree, told};
use crate::drill::Outcome;
use mainstay::{Database, Name, NewEvent, Result, RunCommand, RunFilter, Transaction};

/// The number of events of a run.
const EVENTS: u64 = 25;
/// The number of events fetched at once.
const PAGE: usize = 10;

/// The current run of one worker, and the number of its acknowledged events.
#[derive(Default)]
pub(super) struct Runs {
    serial: u64,
    events: u64,
}

impl Runs {
    fn name(&self, hand: u64) -> String {
        format!("run/{hand}/{}", self.serial)
    }

    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        let name = self.name(desk.number);
        if self.events == EVENTS {
            let delete = RunCommand::Delete { run: Name::new(&name)? };
            desk.commit(Transaction::new().step(delete))?;
            self.serial += 1;
            self.events = 0;
            return Ok(());
        }
        if self.events > 0 && desk.random.chance(20) {
            desk.db.runs().fetch(&name, self.events / 2, PAGE)?;
            return desk.db.runs().snapshot(&name).map(drop);
        }
        let kind = if self.events == 0 { "RunStarted" } else { "Noted" };
        let event = NewEvent::new(&name, kind).with_key(&self.events.to_string());
        let event = Box::new(event.value(desk.text()));
        desk.commit(Transaction::new().step(RunCommand::Append { event, expected: None }))?;
        self.events += 1;
        Ok(())
    }

    /// Checks that the last run has its events and that earlier runs are deleted.
    pub fn check(&self, db: &Database, hand: u64) -> Outcome<()> {
        let filter = RunFilter { prefix: format!("run/{hand}/"), ..RunFilter::default() };
        let runs = db.runs().list(&filter, None, PAGE).map_err(told)?.runs;
        let found: Vec<_> = runs.into_iter().map(|run| (run.run_id, run.last_event_seq)).collect();
        let last = (self.events > 0).then(|| (self.name(hand), self.events));
        agree("runs", last.into_iter().collect(), found)
    }
}
