//! Session load: numbered requests, some of them repeated, and requests to the neighbour's client.

use super::{Desk, Hand, agree, number, told};
use crate::drill::Outcome;
use mainstay::{
    CellCommand, Code, Database, Error, Name, Number, Result, SESSION_LEASE_LIMIT_MS, Session,
    SessionCommand, SessionOptions, Transaction,
};
use std::time::Duration;

/// How many responses a client reports as not yet received.
const UNGOT: u64 = 5;
/// How many requests to a client are read at once.
const LETTERS: usize = 100;

fn name(hand: u64) -> String {
    format!("hand/{hand}")
}

/// A session, and the acknowledged operations of its client.
pub(super) struct Seat {
    session: Session,
    executed: u64,
    acknowledged: u64,
}

impl Seat {
    /// Opens the session of a worker.
    pub fn take(desk: &Desk) -> Result<Seat> {
        let options = SessionOptions::new().name(&name(desk.number));
        let options = options.lease(Duration::from_millis(SESSION_LEASE_LIMIT_MS));
        let session = desk.db.sessions().open(options)?;
        Ok(Seat { session, executed: 0, acknowledged: 0 })
    }

    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        if desk.random.chance(80) { self.ask(desk) } else { self.read_letters() }
    }

    /// Increments a counter and sends a message to the neighbour. One request in ten is repeated, as
    /// after a lost response.
    fn ask(&mut self, desk: &mut Desk) -> Result<()> {
        let next = self.executed + 1;
        let lowest = next.saturating_sub(UNGOT).max(1);
        let neighbour = (desk.number + 1) % desk.hands;
        let counter = Name::new(&name(desk.number))?;
        let by = Number::Int(1);
        let payload = desk.text().into_bytes();
        let transaction = Transaction::new()
            .step(CellCommand::Incr { name: counter, by })
            .step(SessionCommand::Send { session: Name::new(&name(neighbour))?, payload });
        let first = self.session.execute(next, lowest, transaction.clone())?;
        self.executed = next;
        if desk.random.chance(10) {
            let again = self.session.execute(next, lowest, transaction)?;
            if !again.repeated || again.answers != first.answers {
                let message = format!("request {next} was answered otherwise the second time");
                return Err(Error::new(Code::CorruptData, message));
            }
        }
        Ok(())
    }

    fn read_letters(&mut self) -> Result<()> {
        let letters = self.session.pending(0, LETTERS)?;
        if let Some((last, _)) = letters.last() {
            self.acknowledged += self.session.acknowledge(*last)?;
        }
        Ok(())
    }
}

/// Checks that each request was executed once, and that each message is present until it is
/// acknowledged.
pub(super) fn check(db: &Database, hands: &[Hand], hand: u64) -> Outcome<()> {
    let count = hands.len() as u64;
    let own = &hands[hand as usize].seat;
    let from = &hands[((hand + count - 1) % count) as usize];
    let name = name(hand);
    let found = number(db.cells().get(&name).map_err(told)?.as_ref());
    agree(&format!("requests of `{name}`"), own.executed as i64, found)?;
    let info = db.sessions().info(&name).map_err(told)?;
    let info = info.ok_or_else(|| format!("the session `{name}` is gone"))?;
    let sent = from.seat.executed;
    agree(&format!("letters to `{name}`"), sent, info.last_sent)?;
    agree(&format!("letters that wait for `{name}`"), sent - own.acknowledged, info.pending)
}
