//! The outbox in the reference model: messages in a map, and the rule for which can be claimed.

use super::run::Run;
use super::versions::Writer;
use mainstay_model::{
    Answer, Code, Error, Failed, LEASE_LIMIT_MS, Message, OutboxAnswer, OutboxCommand, OutboxState,
    Result, Revision, Stamp, TRIES_LIMIT,
};
use std::collections::{BTreeMap, BTreeSet};

/// The ID of the branch `main` in this model.
const MAIN_ID: u32 = 0;

/// The messages of a branch. Messages of the parent stay with the parent. A merge of the fork also
/// brings messages inherited from other branches, except those of `main`, which are already being
/// delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outbox {
    last_id: u64,
    letters: BTreeMap<u64, Letter>,
    /// Messages that branches other than `main` had when this branch was forked from them.
    inherited: Vec<Letter>,
    /// Per branch, the highest known ID of messages without an event: own messages, and those learned by
    /// merges.
    known: BTreeMap<u32, Vec<Known>>,
    /// The revision of the last change to each message.
    touched: BTreeMap<u64, Revision>,
}

/// A branch and the ID of a message on it.
type Written = (u32, u64);

/// An ID up to which the messages of a branch are known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    upto: u64,
    since: Revision,
    /// The branch that learned it.
    by: u32,
}

/// A message and its delivery state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Letter {
    pub message: Message,
    /// The branch that holds the message.
    pub lies_on: u32,
    origin: Written,
    revision: Revision,
    /// The time from which it can be claimed.
    due: Stamp,
    is_dead: bool,
    /// Whether later messages of its run wait for it.
    holds_up: bool,
    /// The fencing token: the time of the last claim; 0 if unclaimed.
    token: Stamp,
    /// The idempotency key of the event that the message was appended with.
    event: Option<String>,
}

/// The runs of a merge: the merged runs, and whether the source and the target had an event before it.
pub(super) struct Runs<'r> {
    pub brought: &'r BTreeSet<String>,
    pub source: HasEvent<'r>,
    pub target: HasEvent<'r>,
}

/// Returns whether a run has an event with this idempotency key.
pub(super) type HasEvent<'l> = &'l dyn Fn(&str, &str) -> bool;

impl Outbox {
    /// The outbox of a branch forked from this one at a revision.
    pub(super) fn forked(&self, at: Revision) -> Outbox {
        let mut known = self.known.clone();
        known.values_mut().for_each(|known| known.retain(|known| known.since <= at));
        let own = self.letters.values().filter(|letter| letter.lies_on != MAIN_ID);
        let inherited = self.inherited.iter().chain(own).filter(|letter| letter.revision <= at);
        Outbox { inherited: inherited.cloned().collect(), known, ..Outbox::default() }
    }

    /// The messages that a merge adds to another branch, in write order: those of merged events, and all
    /// others that the target does not know.
    pub(super) fn missing_in(&self, other: &Outbox, runs: &Runs<'_>) -> Vec<Letter> {
        let own = self.letters.values().filter(|letter| letter.lies_on != MAIN_ID);
        let is_missing = |letter: &&Letter| match (&letter.message.run, &letter.event) {
            (Some(run), Some(key)) => {
                let travels = (runs.source)(run, key) && !(runs.target)(run, key);
                travels && runs.brought.contains(run)
            }
            _ => letter.origin.1 > other.knows(letter.origin.0),
        };
        let missing = self.inherited.iter().chain(own).filter(is_missing);
        let mut missing: Vec<Letter> = missing.cloned().collect();
        missing.sort_by_key(|letter| (letter.revision, letter.message.id));
        let mut seen = BTreeSet::new();
        missing.retain(|letter| seen.insert(letter.origin));
        missing
    }

    /// The highest ID up to which the messages of a branch are known.
    fn knows(&self, branch: u32) -> u64 {
        let known = self.known.get(&branch).into_iter().flatten();
        known.map(|known| known.upto).max().unwrap_or(0)
    }

    /// Adds the missing messages of another outbox during a merge.
    pub(super) fn take_from(&mut self, other: &Outbox, runs: &Runs<'_>, writer: Writer) {
        let before = self.clone();
        for letter in other.missing_in(&before, runs) {
            self.put(letter, writer);
        }
        for (branch, known) in &other.known {
            // Knowledge of `main` is not passed on.
            let learnt = known.iter().filter(|known| known.by != MAIN_ID).map(|known| known.upto);
            if let Some(upto) = learnt.max().filter(|upto| *upto > self.knows(*branch)) {
                let Writer { home: by, revision: since, .. } = writer;
                self.known.entry(*branch).or_default().push(Known { upto, since, by });
            }
        }
        self.touch(&before, writer.revision);
    }

    /// Returns whether this outbox itself holds the message.
    pub(super) fn has(&self, id: u64, lies_on: u32) -> bool {
        self.letters.get(&id).is_some_and(|letter| letter.lies_on == lies_on)
    }

    /// Adds a message with its origin and returns its new ID.
    fn put(&mut self, letter: Letter, writer: Writer) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let written = writer.stamp;
        let Letter { message: Message { subject, payload, run, .. }, origin, event, .. } = letter;
        let holds_up = run.is_some();
        let message = Message { id, subject, payload, run, tries: 0, written, failure: None };
        let Writer { home: lies_on, revision, .. } = writer;
        let due = written;
        let is_dead = false;
        let token = 0;
        let known = Known { upto: id, since: revision, by: lies_on };
        self.known.entry(lies_on).or_default().push(known);
        let letter =
            Letter { message, lies_on, origin, revision, due, is_dead, holds_up, token, event };
        self.letters.insert(id, letter);
        id
    }

    /// Returns whether a message has not changed since a revision.
    pub(super) fn untouched(&self, id: u64, since: Revision) -> bool {
        self.touched.get(&id).is_none_or(|at| *at <= since)
    }

    /// Records which messages changed: added, changed or removed ones, and those with another follower
    /// in their run.
    fn touch(&mut self, before: &Outbox, revision: Revision) {
        let is_as_it_was = |id: &u64| {
            self.letters.get(id) == before.letters.get(id)
                && self.follower(*id) == before.follower(*id)
        };
        let ids = before.letters.keys().chain(self.letters.keys());
        let touched: Vec<u64> = ids.filter(|id| !is_as_it_was(id)).copied().collect();
        self.touched.extend(touched.into_iter().map(|id| (id, revision)));
    }

    /// Returns whether a message waits for an earlier one of its run.
    fn waits(&self, id: u64) -> bool {
        let run = |letter: &Letter| letter.message.run.clone().filter(|_| letter.holds_up);
        let Some(own) = self.letters.get(&id).and_then(run) else { return false };
        let mut before = self.letters.range(..id).map(|(_, letter)| letter);
        before.any(|letter| run(letter).as_ref() == Some(&own))
    }

    /// The messages that are neither dead nor waiting for another, sorted by due time.
    fn queue(&self) -> Vec<(Stamp, u64)> {
        let there = self.letters.iter().filter(|(id, letter)| !letter.is_dead && !self.waits(**id));
        let mut queue: Vec<_> = there.map(|(id, letter)| (letter.due, *id)).collect();
        queue.sort_unstable();
        queue
    }

    /// The next message of the same run, if it waits for this one.
    fn follower(&self, id: u64) -> Option<u64> {
        let letter = self.letters.get(&id)?;
        let run = letter.message.run.as_ref().filter(|_| letter.holds_up)?;
        let mut behind = self.letters.range(id + 1..);
        let next = behind.find(|(_, next)| next.holds_up && next.message.run.as_ref() == Some(run));
        next.map(|(id, _)| *id)
    }

    /// Makes the next message of the run claimable when this one is removed.
    fn let_in(&mut self, id: u64, now: Stamp) {
        let next = self.follower(id).and_then(|next| self.letters.get_mut(&next));
        next.into_iter().for_each(|next| next.due = now);
    }

    fn bury(&mut self, id: u64, now: Stamp) {
        self.let_in(id, now);
        let letter = self.letters.get_mut(&id);
        letter.into_iter().for_each(|letter| (letter.is_dead, letter.holds_up) = (true, false));
    }

    /// Dead messages with an ID above `after`.
    fn dead(&self, after: u64, limit: usize) -> Vec<Message> {
        let dead = self.letters.range(after + 1..).filter(|(_, letter)| letter.is_dead);
        dead.take(limit).map(|(_, letter)| letter.message.clone()).collect()
    }

    fn state(&self) -> OutboxState {
        let dead = self.letters.values().filter(|letter| letter.is_dead).count() as u64;
        OutboxState {
            pending: self.letters.len() as u64 - dead,
            dead,
            last_id: self.last_id,
            oldest_due: self.queue().first().map(|(due, _)| *due),
        }
    }

    /// Executes a read-only command.
    pub(super) fn read(&self, command: &OutboxCommand) -> Result<OutboxAnswer> {
        command.check()?;
        match command {
            OutboxCommand::Dead { after, limit } => {
                Ok(OutboxAnswer::Messages(self.dead(*after, *limit)))
            }
            OutboxCommand::Look => Ok(OutboxAnswer::State(self.state())),
            other => Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        }
    }
}

impl Run<'_> {
    /// Puts a message and links it to the event with this idempotency key.
    pub(super) fn put_with_event(&mut self, command: &OutboxCommand, key: String) -> Result<()> {
        self.outbox(command)?;
        let outbox = &mut self.state.outbox;
        let letter = outbox.letters.get_mut(&outbox.last_id);
        letter.into_iter().for_each(|letter| letter.event = Some(key.clone()));
        Ok(())
    }

    pub(super) fn outbox(&mut self, command: &OutboxCommand) -> Result<Answer> {
        if command.delivers() && self.writer.home != MAIN_ID {
            return Err(Error::new(Code::Unsupported, "messages leave from `main`"));
        }
        command.check()?;
        let before = self.state.outbox.clone();
        let answer = self.change_outbox(command)?;
        self.wrote |= self.state.outbox != before;
        self.state.outbox.touch(&before, self.writer.revision);
        Ok(answer)
    }

    fn change_outbox(&mut self, command: &OutboxCommand) -> Result<Answer> {
        let now = self.writer.stamp;
        let outbox = &mut self.state.outbox;
        let answer = |answer| Ok(Answer::Outbox(Box::new(answer)));
        match command {
            OutboxCommand::Put { subject, payload, run } => {
                let run = run.as_ref().map(|run| run.as_str().to_owned());
                let origin = (self.writer.home, outbox.last_id + 1);
                let subject = subject.clone();
                let payload = payload.clone();
                let id = 0;
                let tries = 0;
                let written = now;
                let failure = None;
                let message = Message { id, subject, payload, run, tries, written, failure };
                let Writer { home: lies_on, revision, .. } = self.writer;
                let due = now;
                let is_dead = false;
                let holds_up = false;
                let token = 0;
                let event = None;
                let letter = Letter {
                    message,
                    lies_on,
                    origin,
                    revision,
                    due,
                    is_dead,
                    holds_up,
                    token,
                    event,
                };
                answer(OutboxAnswer::Put(outbox.put(letter, self.writer)))
            }
            OutboxCommand::Claim { limit, lease_ms } => {
                answer(OutboxAnswer::Messages(claim(outbox, *limit, *lease_ms, now)))
            }
            OutboxCommand::AckHeld { token, ids } => {
                check_held(outbox, ids, *token)?;
                self.change_outbox(&OutboxCommand::Ack { ids: ids.clone() })
            }
            OutboxCommand::FailHeld { token, id, message, backoff_ms, tries } => {
                check_held(outbox, &[*id], *token)?;
                let id = *id;
                let message = message.clone();
                let backoff_ms = *backoff_ms;
                let tries = *tries;
                self.change_outbox(&OutboxCommand::Fail { id, message, backoff_ms, tries })
            }
            OutboxCommand::Ack { ids } => {
                let gone = ids.iter().filter(|id| deliver(outbox, **id, now)).count();
                Ok(Answer::Count(gone as u64))
            }
            OutboxCommand::Fail { id, message, backoff_ms, tries } => {
                answer(OutboxAnswer::Failed(fail(outbox, *id, message, *backoff_ms, *tries, now)))
            }
            OutboxCommand::Replay { id } => {
                let dead = outbox.letters.get_mut(id).filter(|letter| letter.is_dead);
                let did = dead.is_some();
                dead.into_iter().for_each(|letter| {
                    letter.is_dead = false;
                    letter.due = now;
                    letter.message.tries = 0;
                    letter.token = 0;
                });
                Ok(Answer::Did(did))
            }
            read_only => answer(outbox.read(read_only)?),
        }
    }
}

fn claim(outbox: &mut Outbox, limit: usize, lease_ms: u64, now: Stamp) -> Vec<Message> {
    let mut taken = Vec::new();
    while taken.len() < limit {
        let Some((_, id)) = outbox.queue().into_iter().find(|(due, _)| *due <= now) else { break };
        let Some(letter) = outbox.letters.get_mut(&id) else { break };
        if letter.message.tries >= TRIES_LIMIT {
            letter
                .message
                .failure
                .get_or_insert_with(|| "its lease was over every time".to_owned());
            outbox.bury(id, now);
            continue;
        }
        letter.message.tries += 1;
        letter.due = now + lease_ms * 1_000;
        letter.token = now;
        taken.push(letter.message.clone());
    }
    taken
}

/// Returns whether the message was ever claimed, so that it may have been delivered.
fn was_taken(letter: &Letter) -> bool {
    letter.is_dead || letter.message.tries > 0
}

/// Fails with `Fenced` unless the token holds all claimed messages of the list.
fn check_held(outbox: &Outbox, ids: &[u64], token: Stamp) -> Result<()> {
    if ids
        .iter()
        .filter_map(|id| outbox.letters.get(id).filter(|letter| was_taken(letter)))
        .all(|letter| letter.token == token && token > 0)
    {
        Ok(())
    } else {
        Err(Error::new(Code::Fenced, "another has claimed it"))
    }
}

fn deliver(outbox: &mut Outbox, id: u64, now: Stamp) -> bool {
    if !outbox.letters.get(&id).is_some_and(was_taken) {
        return false;
    }
    outbox.let_in(id, now);
    outbox.letters.remove(&id).is_some()
}

fn fail(
    outbox: &mut Outbox,
    id: u64,
    why: &str,
    backoff_ms: u64,
    tries: u32,
    now: Stamp,
) -> Failed {
    let alive = outbox.letters.get_mut(&id).filter(|letter| !letter.is_dead && was_taken(letter));
    let Some(letter) = alive else { return Failed::Unknown };
    letter.message.failure = Some(why.to_owned()).filter(|why| !why.is_empty());
    letter.token = 0;
    if letter.message.tries >= tries {
        outbox.bury(id, now);
        return Failed::Dead;
    }
    let wait_ms = backoff_ms.saturating_mul(1 << (letter.message.tries - 1)).min(LEASE_LIMIT_MS);
    letter.due = now + wait_ms * 1_000;
    Failed::Waits(letter.due)
}
