//! Prefetch: long reads of a transaction run on a snapshot before the writer gets the transaction.
//!
//! ```text
//!   caller   snapshot at a published revision -> answer, and the range of keys that it rests on
//!   writer   was the range written since, by others (recent writes) or by the transaction itself (write set)?
//!              no  -> the answer
//!              yes -> the writer searches, within `Options::writer_entries`
//! ```
//!
//! A transaction that writes nothing does not enter the writer at all: the snapshot answers it. So no
//! transaction waits for the long reads of another, and prefetching never causes a conflict.

use crate::apply::{cells, keyed, names, records};
use crate::base::work::WorkMeter;
use crate::commit::executor::{check_limits, run_all};
use crate::commit::prefetched::{KeyRange, Prefetched, PrefetchedAnswer};
use crate::commit::prepared::{PreparedTransaction, ReadAhead};
use crate::key::keyspace::{self, CELLS, KEYED, RECORDS, RUNS, SPACES};
use crate::key::state_keys;
use crate::lifecycle::engine::Engine;
use crate::mvcc::write_set::WriteSet;
use crate::read::read_view::ReadView;
use crate::read::snapshot::Snapshot;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Durability, Error, KeyCommand, Name, Receipt,
    RecordCommand, Result, RunAnswer, RunCommand, Scales, SmallVec, StateCommand, StatePlace,
    Transaction,
};
use std::sync::Arc;

impl Engine {
    /// Executes a transaction and waits for its answer.
    pub fn execute(self: &Arc<Engine>, transaction: Transaction) -> Result<Receipt> {
        match self.answer(&transaction) {
            Some(answered) => answered,
            None => self.sequencer.execute(self.prepare(transaction)),
        }
    }

    /// Executes a transaction. The callback gets its answer.
    pub fn execute_with(
        self: &Arc<Engine>,
        transaction: Transaction,
        done: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) {
        match self.answer(&transaction) {
            Some(answered) => done(answered),
            None => self.sequencer.submit_with(self.prepare(transaction), done),
        }
    }

    /// Runs long reads, and the search of a merge, before the transaction goes to the writer.
    pub fn prepare(self: &Arc<Engine>, transaction: Transaction) -> PreparedTransaction {
        if !transaction.walks() && !transaction.takes_a_while() {
            return PreparedTransaction::from(transaction);
        }
        let prefetched = self.prefetch(&transaction);
        let ahead = ReadAhead { prefetched, ..self.look_ahead(&transaction) };
        PreparedTransaction::new(transaction, ahead)
    }

    /// Answers a long transaction that only reads; `None` for all others.
    fn answer(self: &Arc<Engine>, transaction: &Transaction) -> Option<Result<Receipt>> {
        let Transaction { request, guards, otherwise, branch_id, steps, .. } = transaction;
        let is_plain =
            request.is_none() && guards.is_empty() && otherwise.is_none() && branch_id.is_none();
        let only_reads = is_plain
            && transaction.is_long()
            && steps.iter().all(|step| step.command.is_snapshot_read());
        only_reads.then(|| self.answer_reads(transaction))
    }

    fn answer_reads(self: &Arc<Engine>, transaction: &Transaction) -> Result<Receipt> {
        check_limits(transaction)?;
        // The caller's earlier submissions may not be visible yet.
        self.sequencer.settle_queued();
        let receipt = loop {
            match self.read_once(transaction) {
                // Retention trimmed the snapshot during the read: read again at a newer revision.
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                read => break read?,
            }
        };
        let durability = transaction.durability.unwrap_or(self.options.durability);
        if durability == Durability::Sync && self.sequencer.durable() < receipt.revision {
            self.sequencer.sync()?;
        }
        Ok(receipt)
    }

    fn read_once(self: &Arc<Engine>, transaction: &Transaction) -> Result<Receipt> {
        let mut snapshot = Snapshot::new(self, &transaction.branch, At::Latest)?;
        snapshot.work = Some(WorkMeter::outside(self.options.work_limits));
        let revision = snapshot.revision;
        let stamp = snapshot.now;
        let moment = ReadView::of(snapshot);
        let answers = run_all(&transaction.steps, |command| moment.answer(command))?;
        Ok(Receipt { revision, stamp, held: true, repeated: false, answers })
    }

    /// Runs the long reads of a transaction; `None` if it has none. A read that fails here is left to
    /// the writer, which runs it or reports the error.
    fn prefetch(self: &Arc<Engine>, transaction: &Transaction) -> Option<Prefetched> {
        if !transaction.walks() {
            return None;
        }
        let mut snapshot = Snapshot::new(self, &transaction.branch, At::Latest).ok()?;
        snapshot.work = Some(WorkMeter::outside(self.options.work_limits));
        let mut found = Vec::new();
        let mut failed = None;
        let mut scales = Scales::default();
        for (position, step) in transaction.steps.iter().enumerate() {
            let read = snapshot.prefetch(&step.command);
            let weighed = read.and_then(|read| {
                read.as_ref().map_or(Ok(()), |read| scales.add(&read.answer)).map(|()| read)
            });
            match weighed {
                Ok(read) => found.extend(read.map(|read| (position, read))),
                Err(error) if ends_all(&error) => {
                    failed = Some(error.at_position(position));
                    break;
                }
                // The error concerns this command only, so the writer reports it.
                Err(_) => {}
            }
        }
        if found.is_empty() && failed.is_none() {
            return None;
        }
        let mut prefetched = Prefetched::new((snapshot.branch, snapshot.revision), found, failed);
        prefetched.catch_up(&self.state.trail, self.sequencer.published());
        Some(prefetched)
    }
}

/// Returns whether the whole transaction fails with this error.
fn ends_all(error: &Error) -> bool {
    matches!(error.code(), Code::TransactionTooLarge | Code::Cancelled)
}

impl Snapshot {
    /// Answers a long read; `None` for other commands.
    fn prefetch(&self, command: &Command) -> Result<Option<PrefetchedAnswer>> {
        let view = self.view();
        let nothing = WriteSet::default();
        let (space, prefix, after, upto, expires, answer) = match command {
            Command::Cell(CellCommand::List { prefix, after, limit }) => {
                let (page, expires) =
                    cells::list_until(&view, &nothing, prefix, after.as_deref(), *limit)?;
                let upto = page.next.clone();
                (CELLS, prefix, after.as_deref(), upto, expires, Answer::Names(page))
            }
            Command::Cell(CellCommand::History { name, limit, before }) => {
                let versions = self.history(name, *limit, *before)?;
                // An expiry adds a version, but is not in the recent writes.
                let expires = versions.first().and_then(|newest| newest.expires);
                let found = self.found_at(CELLS, name, Answer::History(versions));
                return Ok(Some(PrefetchedAnswer { expires, ..found }));
            }
            Command::Record(RecordCommand::Scan { prefix, filters, after, limit }) => {
                let (page, expires) =
                    records::scan(&view, &nothing, prefix, filters, after.as_deref(), *limit)?;
                let upto = page.next.clone();
                (RECORDS, prefix, after.as_deref(), upto, expires, Answer::Records(page))
            }
            Command::Record(RecordCommand::Count { prefix, filters }) => {
                let (count, expires) = records::count(&view, &nothing, prefix, filters)?;
                (RECORDS, prefix, None, None, expires, Answer::Count(count))
            }
            Command::Record(RecordCommand::History { key, limit, before }) => {
                let versions = self.record_history(key, *limit, *before)?;
                let expires = versions.first().and_then(|newest| newest.expires);
                let found = self.found_at(RECORDS, key, Answer::RecordHistory(versions));
                return Ok(Some(PrefetchedAnswer { expires, ..found }));
            }
            Command::Run(RunCommand::List { filter, after, .. }) => {
                let Command::Run(command) = command else { return Ok(None) };
                let answer = self.runs(command)?;
                let upto = match &answer {
                    RunAnswer::Runs(page) => page.next.clone(),
                    _ => None,
                };
                let answer = Answer::Run(Box::new(answer));
                (RUNS, &filter.prefix, after.as_deref(), upto, None, answer)
            }
            Command::Run(command) if command.is_read() => return self.prefetch_run(command),
            Command::State(StateCommand::Spaces { prefix, after, .. }) => {
                let Command::State(command) = command else { return Ok(None) };
                let answer = self.state(command)?;
                let upto = match &answer {
                    Answer::Names(page) => page.next.clone(),
                    _ => None,
                };
                (SPACES, prefix, after.as_deref(), upto, None, answer)
            }
            Command::State(state) if command.walks() => return self.prefetch_state(state),
            Command::Key(command) => return self.prefetch_names(command),
            _ => return Ok(None),
        };
        self.core.index().check_space_reach(space, self.revision)?;
        let keys = SmallVec::from_iter([self.keys_in(space, prefix, after, upto.as_deref())]);
        Ok(Some(PrefetchedAnswer { answer, keys, expires }))
    }

    /// Reads a run. The answer depends on the run's head, which changes whenever the run does.
    fn prefetch_run(&self, command: &RunCommand) -> Result<Option<PrefetchedAnswer>> {
        // A stored reducer state is written without a change of the head.
        let run = command.run().filter(|_| !matches!(command, RunCommand::Kept { .. }));
        let Some(run) = run else { return Ok(None) };
        let answer = Answer::Run(Box::new(self.runs(command)?));
        Ok(Some(self.found_at(RUNS, &Name::new(run)?, answer)))
    }

    /// Reads keyed state. The answer depends on entries of the space's generation, and on its
    /// declaration.
    fn prefetch_state(&self, command: &StateCommand) -> Result<Option<PrefetchedAnswer>> {
        let Some(space) = command.space() else { return Ok(None) };
        let declared = keyed::space::find(&self.view(), &WriteSet::default(), space)?;
        let Some(declared) = declared else { return Ok(None) };
        let answer = keyed::read(&self.view(), &WriteSet::default(), command)?;
        self.check_state_reach(command)?;
        let places = keyed::guard::told(command, Some(&declared.info), Some(&answer));
        let mut found = self.found_at(SPACES, space, answer);
        let life = state_keys::life(space.as_str(), declared.generation);
        let key = |place: &[u8]| self.key(KEYED, &[&life[..], place].concat());
        for place in places {
            if let StatePlace::Range { prefix, after, upto } = place {
                let after = after.as_deref().map(key);
                let upto = upto.as_deref().map(key);
                found.keys.push(between(key(&prefix), after, upto));
            }
        }
        Ok(Some(found))
    }

    /// Reads names of cells and records. Only the writer checks for too many names, because the
    /// transaction's own deletions come first.
    fn prefetch_names(&self, command: &KeyCommand) -> Result<Option<PrefetchedAnswer>> {
        let (kinds, hidden, prefix, after, limit) = match command {
            KeyCommand::Names { kinds, prefix, after, limit, hidden } => {
                (kinds, hidden, prefix.as_str(), after.as_deref(), *limit)
            }
            KeyCommand::Count { kinds, limit, hidden } => (kinds, hidden, "", None, *limit),
            _ => return Ok(None),
        };
        let view = self.view();
        let nothing = WriteSet::default();
        let (page, expiries) =
            names::names(&view, &nothing, (kinds, hidden), (prefix, after), limit)?;
        let mut keys = SmallVec::new();
        for kind in kinds {
            let space = keyspace::of(*kind)?;
            self.core.index().check_space_reach(space, self.revision)?;
            keys.push(self.keys_in(space, prefix, after, page.next.as_deref()));
        }
        let answer = match command {
            KeyCommand::Names { .. } => Answer::Names(page),
            _ if page.next.is_some() => return Ok(None),
            _ => Answer::Count(page.names.len() as u64),
        };
        let expires = expiries.into_iter().filter_map(|(_, expires)| expires).min();
        Ok(Some(PrefetchedAnswer { answer, keys, expires }))
    }

    fn key(&self, space: u8, name: &[u8]) -> Vec<u8> {
        keyspace::key(space, self.branch, name).to_vec()
    }

    /// Returns the keys whose names begin with `prefix`, after `after` and up to `upto`.
    fn keys_in(
        &self,
        space: u8,
        prefix: &str,
        after: Option<&str>,
        upto: Option<&str>,
    ) -> KeyRange {
        let key = |name: &str| self.key(space, name.as_bytes());
        between(key(prefix), after.map(key), upto.map(key))
    }

    /// Returns an answer that depends on one key.
    fn found_at(&self, space: u8, name: &Name, answer: Answer) -> PrefetchedAnswer {
        let key = self.key(space, name.as_bytes());
        let keys = SmallVec::from_iter([(key.clone(), Some(behind(key)))]);
        PrefetchedAnswer { answer, keys, expires: None }
    }
}

/// Returns the range of keys with a prefix, after one key and up to another.
fn between(prefix: Vec<u8>, after: Option<Vec<u8>>, upto: Option<Vec<u8>>) -> KeyRange {
    let end = keyspace::after_prefix(&prefix);
    let to = [end, upto.map(behind)].into_iter().flatten().min();
    (after.map(behind).unwrap_or_default().max(prefix), to)
}

/// Returns the smallest key after this one.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
