//! What a relay has done so far, as data.

use super::owed::{Owed, Taken};
use mainstay::OutboxState;
use serde::Serialize;

/// What a relay has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayFigures {
    /// Messages that it claimed.
    pub claimed: u64,
    /// Messages that arrived.
    pub delivered: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Messages that it gave up.
    pub dead: u64,
    /// Messages whose lease was over before it said what became of them, and that another had claimed by then.
    pub fenced: u64,
    /// How the outbox stood when it looked last.
    pub outbox: OutboxState,
    /// How long the longest waiting message could have been claimed by then, in microseconds; nothing where none could.
    pub oldest_pending_us: Option<u64>,
    /// How often the database refused it.
    pub errors: u64,
    /// Why the last try or the last transaction failed.
    pub last_error: Option<String>,
}

impl RelayFigures {
    pub(super) fn exchanged(&mut self, taken: &Taken) {
        self.claimed += taken.messages.len() as u64;
        self.dead += taken.dead;
        self.fenced += taken.fenced;
        self.outbox = taken.state;
        let waits = |due: &u64| *due <= taken.now;
        let due = taken.state.oldest_due.filter(waits);
        self.oldest_pending_us = due.map(|due| taken.now - due);
    }

    pub(super) fn delivered(&mut self, owed: &Owed) {
        self.delivered += owed.delivered.len() as u64;
        self.failed += owed.failed.len() as u64;
        if let Some((_, error)) = owed.failed.last() {
            self.last_error = Some(error.to_string());
        }
    }
}
