//! Doctor check: whether the outbox's entries about its messages are consistent.
//!
//! ```text
//!   m message <--> s state --due--> q queue, unless an earlier one of its run has it as the next, or d it is dead
//!                   \--of a run, no next--> r the run's last one           h counts them all
//! ```

use crate::apply::outbox::MessageState;
use crate::apply::outbox::Outbox;
use crate::apply::outbox::due_of;
use crate::apply::outbox::place;
use crate::apply::outbox::queued;
use crate::key::keyspace::OUTBOX;
use crate::mvcc::catalog::Layers;
use crate::mvcc::view::{NameStep, View};
use crate::mvcc::write_set::WriteSet;
use crate::tools::doctor::Faults;
use mainstay_model::{Code, Result};
use smallvec::smallvec;
use std::collections::HashSet;

/// How many messages that wait behind another one are tracked individually.
const WAITING_LIMIT: usize = 100_000;

const STUCK: &str = "It is not delivered: put it again, then let the index be rebuilt.";
const STRAY: &str = "No message is lost by it; let the index be rebuilt.";

/// Checks a branch's own outbox. Returns the number of its messages.
pub(crate) fn check(view: &View<'_>, faults: &mut Faults) -> Result<u64> {
    let own: Layers = smallvec![view.layers[0]];
    let view = &View { layers: &own, fresh: false, ..*view };
    let outbox = Outbox { view, overlay: &mut WriteSet::default() };
    let mut check = OutboxCheck { outbox: &outbox, faults, seen: OutboxTotals::default() };
    check.states()?;
    check.others()?;
    check.waiting()?;
    check.counts()?;
    Ok(check.seen.pending + check.seen.dead)
}

struct OutboxCheck<'c, 'o> {
    outbox: &'c Outbox<'o>,
    faults: &'c mut Faults,
    seen: OutboxTotals,
}

/// The totals of a scan over all messages.
#[derive(Default)]
struct OutboxTotals {
    pending: u64,
    dead: u64,
    last_id: u64,
    /// The number of messages in no queue, and the number of messages that another one has as its next.
    waiting: u64,
    followed: u64,
    /// The first messages that are in no queue.
    some_waiting: HashSet<u64>,
}

impl OutboxCheck<'_, '_> {
    /// Calls `visit` for each live key of a kind.
    fn each(
        &mut self,
        kind: u8,
        mut visit: impl FnMut(&mut Self, &NameStep) -> Result<()>,
    ) -> Result<()> {
        let Outbox { view, overlay } = self.outbox;
        let mut walk = view.walk(overlay, OUTBOX, &[kind], None);
        while let Some(step) = walk.next()? {
            if !step.head.is_deleted() {
                visit(self, &step)?;
            }
        }
        Ok(())
    }

    fn states(&mut self) -> Result<()> {
        self.each(b's', |check, step| {
            let Some(id) = id_of(step.name()) else {
                check.stray("a state");
                return Ok(());
            };
            check.seen.last_id = id;
            let Some(state) = readable(check.outbox.state(id))?.flatten() else {
                check.tell(id, "how it stands cannot be read", STUCK);
                return Ok(());
            };
            let letter = readable(check.outbox.letter(id))?.flatten();
            let Some(letter) = letter else {
                check.tell(id, "what it says is missing or cannot be read", STUCK);
                return Ok(());
            };
            if state.is_dead {
                check.dead(id)
            } else {
                check.pending(id, &state, letter.run.as_deref())
            }
        })
    }

    fn dead(&mut self, id: u64) -> Result<()> {
        self.seen.dead += 1;
        if !self.has(&place(b'd', id))? {
            self.tell(id, "it is dead, but not in the list of the dead", STRAY);
        }
        Ok(())
    }

    fn pending(&mut self, id: u64, state: &MessageState, run: Option<&str>) -> Result<()> {
        self.seen.pending += 1;
        if !self.has(&queued(state.due, id))? {
            self.note_waiting(id);
            if !state.is_first {
                self.tell(id, "it waits, but stands in no queue", STUCK);
            }
        }
        match (state.is_first, state.next) {
            (true, 0) => self.last(id, run),
            (_, 0) => Ok(()),
            (_, next) => self.followed(id, next, run),
        }
    }

    fn note_waiting(&mut self, id: u64) {
        self.seen.waiting += 1;
        if self.seen.some_waiting.len() < WAITING_LIMIT {
            self.seen.some_waiting.insert(id);
        }
    }

    /// Checks that a message without a next one is recorded as the last of its run.
    fn last(&mut self, id: u64, run: Option<&str>) -> Result<()> {
        let last = run.map(|run| readable(self.outbox.last_of(run))).transpose()?;
        if last.flatten().flatten() != Some(id) {
            self.tell(id, "none of its run follows it, but it is not noted as the last", STRAY);
        }
        Ok(())
    }

    /// Checks that the next message exists and waits.
    fn followed(&mut self, id: u64, next: u64, run: Option<&str>) -> Result<()> {
        let state = readable(self.outbox.state(next))?.flatten();
        let Some(state) = state.filter(|state| !state.is_dead && next > id) else {
            let what = format!("message {next} should follow it, but does not wait");
            self.tell(id, &what, STRAY);
            return Ok(());
        };
        self.seen.followed += 1;
        if self.has(&queued(state.due, next))? {
            let what =
                format!("message {next} waits for it, but stands in the queue: it may overtake");
            self.tell(id, &what, STRAY);
        }
        let of = readable(self.outbox.letter(next))?.flatten().and_then(|letter| letter.run);
        if of.as_deref() != run {
            self.tell(id, &format!("message {next} of another run waits for it"), STRAY);
        }
        Ok(())
    }

    /// Checks the entries that refer to messages: message data, queue, dead list, last messages of
    /// runs.
    fn others(&mut self) -> Result<()> {
        self.each(b'm', |check, step| check.leads(id_of(step.name()), "a letter", |_| true))?;
        self.each(b'd', |check, step| {
            check.leads(id_of(step.name()), "the list of the dead", |state| state.is_dead)
        })?;
        self.each(b'q', |check, step| {
            let (due, id) = due_of(step.name()).unzip();
            check.leads(id, "an entry of the queue", |state| {
                !state.is_dead && Some(state.due) == due
            })
        })?;
        self.each(b'r', |check, step| {
            let run = String::from_utf8_lossy(&step.name()[1..]).into_owned();
            let id = readable(check.outbox.last_of(&run))?.flatten();
            let what = format!("the last one of run `{run}`");
            check.leads(id, &what, |state| !state.is_dead && state.next == 0)
        })
    }

    fn leads(
        &mut self,
        id: Option<u64>,
        what: &str,
        fits: impl FnOnce(&MessageState) -> bool,
    ) -> Result<()> {
        let Some(id) = id else {
            self.stray(what);
            return Ok(());
        };
        // An unreadable one has been reported before.
        let Some(state) = readable(self.outbox.state(id))? else { return Ok(()) };
        if !state.is_some_and(|state| fits(&state)) {
            self.tell(id, &format!("{what} leads to it, but it is not there, or not so"), STRAY);
        }
        Ok(())
    }

    /// Reports messages that are in no queue and to which no other message refers.
    fn waiting(&mut self) -> Result<()> {
        if self.seen.waiting == self.seen.followed {
            return Ok(());
        }
        self.each(b's', |check, step| {
            let id = id_of(step.name()).unwrap_or_default();
            if let Some(Some(state)) = readable(check.outbox.state(id))? {
                check.seen.some_waiting.remove(&state.next);
            }
            Ok(())
        })?;
        let mut stuck: Vec<u64> = self.seen.some_waiting.drain().collect();
        stuck.sort_unstable();
        for id in stuck {
            self.tell(id, "it waits for one before it of its run, but none leads to it", STUCK);
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<()> {
        let Some(counts) = readable(self.outbox.counts())? else {
            self.faults.outbox(None, "its counts cannot be read".into(), STRAY);
            return Ok(());
        };
        let OutboxTotals { pending, dead, last_id, .. } = self.seen;
        if (counts.pending, counts.dead) != (pending, dead) {
            let what = format!(
                "it counts {} that wait and {} dead ones, but there are {pending} and {dead}",
                counts.pending, counts.dead
            );
            self.faults.outbox(None, what, STRAY);
        }
        if counts.last_id < last_id {
            let what = format!("the last number it gave is {}, but there is this", counts.last_id);
            self.faults.outbox(Some(last_id), what, STUCK);
        }
        Ok(())
    }

    fn has(&self, place: &[u8]) -> Result<bool> {
        Ok(self.outbox.read(place, |_, _| Some(()))?.is_some())
    }

    fn tell(&mut self, id: u64, what: &str, advice: &'static str) {
        self.faults.outbox(Some(id), what.to_owned(), advice);
    }

    fn stray(&mut self, what: &str) {
        self.faults.outbox(None, format!("{what} stands where none should"), STRAY);
    }
}

fn id_of(name: &[u8]) -> Option<u64> {
    name.get(1..).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes)
}

/// Turns an unreadable entry into `None`.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.code() == Code::CorruptData => Ok(None),
        Err(error) => Err(error),
    }
}
