//! Transactions over all contracts: a transfer also writes a cell, a record, an event, a state and a message.

use super::{Desk, agree, keyed, number, outbox, told};
use crate::drill::Outcome;
use mainstay::{
    CellCommand, Command, Database, Name, NewEvent, Number, RecordWrite, Result, RunCommand,
    RunFilter, StateCommand, StateWrite, Transaction,
};

/// The number of accounts. The sum of their balances is always zero.
const ACCOUNTS: u64 = 64;
/// The number of transfers after which their run is deleted, in the transaction that begins the next
/// one.
const EVENTS: u64 = 50;

fn account(k: u64) -> String {
    format!("account/{k}")
}

fn mark(hand: u64) -> String {
    format!("mark/{hand}")
}

fn run(hand: u64, done: u64) -> String {
    format!("moves/{hand}/{}", done / EVENTS)
}

/// The number of acknowledged transfers of a worker.
#[derive(Default)]
pub(super) struct Transfers(u64);

impl Transfers {
    pub fn done(&self) -> u64 {
        self.0
    }

    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        let from = desk.random.below(ACCOUNTS);
        let to = (from + 1 + desk.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = 1 + desk.random.below(100) as i64;
        let tells = self.tells(desk)?;
        if desk.random.chance(50) {
            blind(desk, (from, to, amount), tells)?
        } else {
            interactive(desk, (from, to, amount), &tells)?
        }
        self.0 += 1;
        Ok(())
    }

    /// Returns the commands that a transfer contains beside the balances.
    fn tells(&self, desk: &mut Desk) -> Result<Vec<Command>> {
        let hand = desk.number;
        let next = self.0 + 1;
        let mark = mark(hand);
        let text = next.to_string();
        let event = NewEvent::new(&run(hand, self.0), "Noted").with_key(&text);
        let state = StateWrite::put(mark.clone(), text.clone(), next);
        let mut tells: Vec<Command> = vec![
            CellCommand::set(Name::new(&mark)?, next as i64).into(),
            RecordWrite::to(&mark)?.set("number", text)?.into(),
            RunCommand::Append { event: Box::new(event), expected: None }.into(),
            StateCommand::Write { space: Name::new(keyed::STATES)?, writes: vec![state] }.into(),
            outbox::message(desk)?.into(),
        ];
        if self.0 >= EVENTS && self.0.is_multiple_of(EVENTS) {
            let last = Name::new(&run(hand, self.0 - 1))?;
            tells.push(RunCommand::Delete { run: last }.into());
        }
        Ok(tells)
    }

    /// Checks that all contracts agree on the last transfer.
    pub fn check(&self, db: &Database, hand: u64) -> Outcome<()> {
        let name = mark(hand);
        let text = self.0.to_string();
        let cell = number(db.cells().get(&name).map_err(told)?.as_ref());
        agree(&format!("the cell `{name}`"), self.0 as i64, cell)?;
        if self.0 == 0 {
            return Ok(());
        }
        let record = db.records().get(&name).map_err(told)?;
        let found = record.as_ref().and_then(|record| record.fields.text("number"));
        agree(&format!("the record `{name}`"), Some(text.as_str()), found)?;
        let state = db.keyed(keyed::STATES).and_then(|states| states.get(&name)).map_err(told)?;
        let found = state.map(|state| state.version);
        agree(&format!("the state `{name}`"), Some(self.0.into()), found)?;
        let filter = RunFilter { prefix: format!("moves/{hand}/"), ..RunFilter::default() };
        let runs = db.runs().list(&filter, None, 10).map_err(told)?.runs;
        let found: Vec<_> = runs.into_iter().map(|run| (run.run_id, run.last_event_seq)).collect();
        let last = self.0 - 1;
        agree("runs of transfers", vec![(run(hand, last), last % EVENTS + 1)], found)
    }
}

fn blind(desk: &mut Desk, (from, to, amount): (u64, u64, i64), tells: Vec<Command>) -> Result<()> {
    let add = |k: u64, by: i64| -> Result<CellCommand> {
        Ok(CellCommand::Incr { name: Name::new(&account(k))?, by: Number::Int(by) })
    };
    let moved = Transaction::new().step(add(from, -amount)?).step(add(to, amount)?);
    desk.commit(tells.into_iter().fold(moved, Transaction::step)).map(drop)
}

fn interactive(
    desk: &mut Desk,
    (from, to, amount): (u64, u64, i64),
    tells: &[Command],
) -> Result<()> {
    let durability = desk.durability();
    desk.db.transaction(|open| {
        open.durability(durability);
        for (k, by) in [(from, -amount), (to, amount)] {
            let balance = number(open.get(&account(k))?.as_ref());
            open.set(&account(k), balance + by)?;
        }
        tells.iter().try_for_each(|command| open.run(command.clone()).map(drop))
    })
}

/// Checks that the sum of all balances is zero.
pub(super) fn check_sum(db: &Database) -> Outcome<()> {
    let mut sum = 0;
    for k in 0..ACCOUNTS {
        sum += number(db.cells().get(&account(k)).map_err(told)?.as_ref());
    }
    agree("the money in all accounts", 0, sum)
}
