//! The executor: the single writer, which runs transactions one after the other before they are durable.
//!
//! ```text
//!   transaction --guards, apply--> write set --commit--> frame (for the log)
//!                                                   \-> index: cache, buffer, recent writes, catalog
//! ```
//!
//! Effects enter the index as soon as they are executed, under a revision that readers do not read yet.
//! So the next transaction builds on them while the log is being written. If that write fails,
//! [`Executor::undo`] takes them back.

use crate::apply::branches::BranchContext;
use crate::apply::outbox::Fronts;
use crate::apply::runs::{FoldCounts, Folds};
use crate::apply::session_table::{SessionChange, SessionTable};
use crate::apply::sessions::SessionContext;
use crate::apply::{
    branches, cells, deferred_delete, expire, guards, hashes, indexes, keyed, names, outbox,
    records, runs, sessions, strings,
};
use crate::base::clock::Stamper;
use crate::base::fault_points::{self, InjectedFault};
use crate::base::metrics::Metrics;
use crate::base::sync::RwLock;
use crate::base::work::WorkMeter;
use crate::commit::prefetched::Reuse;
use crate::commit::prepared::PreparedTransaction;
use crate::commit::request_dedup;
use crate::key::entry::{EXPIRED, EntryHeader, LAPSED};
use crate::key::keyspace::{self, MAIN_ID};
use crate::key::run_keys;
use crate::key::version::Version;
use crate::log::FramePayload;
use crate::mvcc::catalog::{Catalog, Layers};
use crate::mvcc::dead_names::DeadNames;
use crate::mvcc::recent_writes::RecentWrites;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{self, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use crate::storage::memtable::Memtable;
use crate::storage::version_cache::TOUCH_LIMIT;
use mainstay_model::limits::{GUARD_LIMIT, TRANSACTION_LIMIT_COMMANDS};
use mainstay_model::{
    Answer, BranchCommand, Code, Command, Demand, Error, ErrorKind, MAIN, OutboxCommand,
    OutboxState, Receipt, RequestId, Result, Revision, Scales, SmallVec, Stamp, Step,
    SystemCommand, Transaction,
};
use parking_lot::Mutex;
use smallvec::smallvec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub mod branch;
pub mod session;

/// The answers of this many steps never need a common limit, because each answer has a limit of its
/// own.
const FEW_STEPS: usize = 2;

/// A transaction that writes more counts as large, because it delays the transactions behind it.
const LARGE_WRITE_BYTES: usize = 1 << 20;

/// The state that the executor shares with readers.
pub struct SharedState {
    pub index: Index,
    pub catalog: RwLock<Catalog>,
    pub trail: RecentWrites,
    /// Ranges of names that are all deleted.
    pub dead_names: DeadNames,
    /// The earliest time at which something may expire.
    pub next_expiry: AtomicU64,
    /// True if deleted runs or spaces may have left data to reap.
    pub reaps: AtomicBool,
    /// A cache of positions in outbox queues before which the queue is empty.
    pub fronts: Mutex<Fronts>,
    /// The sessions as of the last executed transaction.
    pub sessions: Mutex<SessionTable>,
    /// Stamp time minus the monotonic clock, in microseconds.
    pub time_offset_us: AtomicU64,
    /// Whether messages and requests to clients are delivered from branches other than `main`.
    pub serves_branches: bool,
    /// The number of sealed write buffers that wait to be flushed.
    pub sealed: AtomicUsize,
    /// The number of large transactions, including those refused as too large.
    pub large_writes: AtomicU64,
    pub figures: Metrics,
}

pub struct Executor {
    state: Arc<SharedState>,
    pub stamper: Stamper,
    active: Arc<Memtable>,
    /// The revision of the next transaction.
    next: Revision,
    /// The earliest expiry among the writes since the last sweep.
    due_since_sweep: Stamp,
    /// The last revision that changed a session, or at which the session table was loaded.
    sessions_changed: Revision,
    /// A revision that is visible to readers; the published one may be newer.
    pub seen: Revision,
    work: WorkMeter,
    /// The write set of the last transaction, whose memory the next one reuses. Boxed, so that taking
    /// it copies only an address.
    overlay: Option<Box<WriteSet>>,
    scratch: Vec<u8>,
    /// A reused buffer for the response of a session's request.
    response: Vec<u8>,
    main: Layers,
    /// A cache of the folded state of runs.
    folds: RefCell<Folds>,
    /// The transactions of this round for the log, and the revision of the first.
    payload: FramePayload,
    first: Option<Revision>,
}

/// The outcome of a transaction. It may be answered once `revision`, on which it rests, is written.
pub struct Executed {
    pub revision: Revision,
    pub answer: Result<Receipt>,
}

impl From<Receipt> for Executed {
    fn from(receipt: Receipt) -> Executed {
        Executed { revision: receipt.revision, answer: Ok(receipt) }
    }
}

/// The part of a round of execution that goes to the log.
pub struct Round<'a> {
    pub payload: &'a FramePayload,
    pub first: Revision,
}

impl Executor {
    pub fn new(
        state: Arc<SharedState>,
        stamper: Stamper,
        last: Revision,
        work: WorkMeter,
    ) -> Executor {
        let active = state.index.tables().active.clone();
        Executor {
            state,
            stamper,
            active,
            next: last + 1,
            due_since_sweep: Stamp::MAX,
            sessions_changed: 0,
            seen: last,
            work,
            overlay: None,
            scratch: Vec::new(),
            response: Vec::new(),
            main: smallvec![(MAIN_ID, NEWEST)],
            folds: RefCell::default(),
            payload: FramePayload::default(),
            first: None,
        }
    }

    /// Returns the newest executed revision.
    pub fn executed(&self) -> Revision {
        self.next - 1
    }

    /// Prefetches the cache lines of the rows that the next transactions read. Only a hint: it covers
    /// commands on `main` that name one cell, record, run or space.
    pub fn prefetch<'a>(&self, next: impl Iterator<Item = &'a Transaction>) {
        let current = &self.state.index.current;
        let hash = |step: &Step| {
            let (space, name) = match &step.command {
                Command::Cell(command) => (&keyspace::CELLS_ON_MAIN, command.name()),
                Command::String(command) => (&keyspace::CELLS_ON_MAIN, command.name()),
                Command::Record(command) => (&keyspace::RECORDS_ON_MAIN, command.key()),
                Command::Hash(command) => (&keyspace::RECORDS_ON_MAIN, Some(command.key())),
                Command::Run(command) => {
                    return Some(
                        current.hash_parts(&keyspace::RUNS_ON_MAIN, command.run()?.as_bytes()),
                    );
                }
                Command::State(command) => (&keyspace::SPACES_ON_MAIN, command.space()),
                _ => return None,
            };
            Some(current.hash_parts(space, name?.as_bytes()))
        };
        let steps = next.filter(|next| next.branch == MAIN).flat_map(|next| &next.steps);
        let hashes: SmallVec<[u64; TOUCH_LIMIT]> =
            steps.filter_map(hash).take(TOUCH_LIMIT).collect();
        if hashes.len() > 1 {
            current.prefetch(&hashes);
        }
    }

    /// Runs one transaction at time `now`. An error is returned at once, and no effect remains.
    pub fn run(&mut self, submitted: &PreparedTransaction, now: Stamp) -> Result<Executed> {
        self.end_expired(&submitted.transaction, now)?;
        let told = match submitted.transaction.session() {
            Some(request) => self.run_in_session(submitted, request, now),
            None => self.run_alone(submitted, now).map(Executed::from),
        };
        match told {
            // The refusal rests on earlier transactions, which may not be durable yet: answer it with
            // their group.
            Err(error) if is_refusal(&error) => {
                Ok(Executed { revision: self.executed(), answer: Err(error) })
            }
            told => told,
        }
    }

    fn run_alone(&mut self, submitted: &PreparedTransaction, now: Stamp) -> Result<Receipt> {
        let transaction = &submitted.transaction;
        check_limits(transaction)?;
        let fingerprint = match transaction.named() {
            Some(id) => {
                let fingerprint = request_dedup::fingerprint(transaction);
                if let Some(receipt) = self.load_receipt(id, fingerprint, now)? {
                    return Ok(receipt);
                }
                fingerprint
            }
            None => 0,
        };
        // Taken only once it is certain that it is used.
        let stamp = now.max(self.stamper.last() + 1);
        let mut overlay = self.overlay.take().unwrap_or_default();
        let done = self.apply(submitted, stamp, &mut overlay);
        let done =
            done.and_then(|receipt| self.finish(transaction, fingerprint, &mut overlay, receipt));
        self.put_away(overlay);
        if let Ok(receipt) = &done {
            self.count_answers(transaction, receipt);
        }
        done
    }

    /// Keeps the write set's memory for the next transaction.
    fn put_away(&mut self, mut overlay: Box<WriteSet>) {
        self.count_large(&overlay);
        overlay.clear();
        self.overlay = Some(overlay);
    }

    fn count_large(&self, overlay: &WriteSet) {
        if overlay.written_bytes() > LARGE_WRITE_BYTES {
            self.state.large_writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts outcomes that leave no effect, such as duplicates and claims.
    fn count_answers(&self, transaction: &Transaction, receipt: &Receipt) {
        let steps = if receipt.held {
            transaction.steps.iter()
        } else {
            transaction.otherwise.as_deref().unwrap_or_default().iter()
        };
        for (step, answer) in steps.zip(&receipt.answers) {
            if matches!(
                step.command,
                Command::Run(_) | Command::Outbox(_) | Command::State(_) | Command::Session(_)
            ) {
                self.state.figures.count_answer(&step.command, answer);
            }
        }
    }

    fn load_receipt(
        &self,
        id: &RequestId,
        fingerprint: u64,
        now: Stamp,
    ) -> Result<Option<Receipt>> {
        let key = request_dedup::key(id);
        let index = &self.state.index;
        let read = |entry: &[u8]| {
            let (head, payload) = crate::key::entry::parse(entry)?;
            if !head.is_live(now) {
                return Ok(None);
            }
            request_dedup::decode(payload, fingerprint).map(Some)
        };
        let found = index.entry(index.current.hash(&key), &key, NEWEST, false, read)?;
        found.transpose().map(Option::flatten)
    }

    fn apply(
        &mut self,
        submitted: &PreparedTransaction,
        stamp: Stamp,
        overlay: &mut WriteSet,
    ) -> Result<Receipt> {
        let transaction = &submitted.transaction;
        let forked;
        let layers = if transaction.branch == MAIN && transaction.branch_id.is_none() {
            &self.main
        } else {
            forked = self.layers(transaction)?;
            &forked
        };
        let view = View::in_transaction(&self.state.index, layers, stamp, &self.work);
        let held =
            guards::all_hold(&view, &self.state.trail, submitted.checked(), &transaction.guards)?;
        let steps: &[Step] = match (&transaction.otherwise, held) {
            (_, true) => &transaction.steps,
            (Some(otherwise), false) => otherwise,
            (None, false) => return Err(guard_failed()),
        };
        // An import repeats transactions as they were, so the limits on their size do not apply.
        let is_import = self.is_import(transaction);
        if is_import {
            overlay.make_import_room();
        } else {
            self.work.check_steps(steps)?;
        }
        overlay.revision = self.next;
        let mut reuse = Reuse::of(submitted, held, &self.state.trail, view.branch())?;
        let answers = run_all(steps, |command| {
            if let Some(answer) = reuse.as_mut().and_then(|reuse| reuse.next(overlay, stamp)) {
                return Ok(answer);
            }
            // Before each further command. A single command has limits of its own.
            if !is_import {
                self.work.check_written(overlay.written_bytes())?;
            }
            self.step(&view, overlay, submitted, command)
                .map_err(|error| session::of_a_step(transaction, error))
        })?;
        Ok(Receipt { revision: self.executed(), stamp, held, repeated: false, answers })
    }

    /// Returns whether a transaction is part of an import in progress.
    fn is_import(&self, transaction: &Transaction) -> bool {
        transaction
            .branch_id
            .is_some_and(|id| self.state.catalog.read().imports().any(|record| record.id == id))
    }

    fn layers(&self, transaction: &Transaction) -> Result<Layers> {
        let catalog = self.state.catalog.read();
        let branch = catalog.meant(&transaction.branch, transaction.branch_id)?;
        if transaction.branch_id.is_some_and(|id| id != branch.id) {
            let message =
                format!("`{}` was deleted and made anew since: begin again", transaction.branch);
            return Err(Error::new(Code::Conflict, message));
        }
        Ok(catalog.layers(branch.id, NEWEST))
    }

    fn step(
        &self,
        view: &View<'_>,
        overlay: &mut WriteSet,
        submitted: &PreparedTransaction,
        command: &Command,
    ) -> Result<Answer> {
        match command {
            Command::Cell(command) => cells::run(view, overlay, command),
            Command::String(command) => strings::run(view, overlay, command),
            Command::Record(command) => records::run(view, overlay, command, self.next),
            Command::Hash(command) => hashes::run(view, overlay, command),
            Command::Key(command) => names::run(view, overlay, command),
            Command::Run(command) => {
                self.check_tombstone(view, command)?;
                runs::run(view, overlay, &mut self.folds.borrow_mut(), command, self.next)
            }
            Command::Outbox(command) => {
                self.check_outbox(view, command, &submitted.transaction.branch)?;
                outbox::run(view, overlay, &mut self.state.fronts.lock(), command)
            }
            Command::State(command) => {
                self.check_replay(view, command)?;
                keyed::run(view, overlay, command, self.next)
            }
            Command::System(SystemCommand::Reap { limit }) => {
                self.state.reaps.store(false, Ordering::Relaxed);
                deferred_delete::reap(&self.state.index, overlay, *limit)
            }
            Command::Branch(_) | Command::Index(_) => {
                check_alone(&submitted.transaction)?;
                let catalog = self.state.catalog.read();
                let context = BranchContext {
                    index: &self.state.index,
                    catalog: &catalog,
                    now: view.now,
                    revision: self.next,
                    trail: &self.state.trail,
                    budget: view.budget,
                    candidates: submitted.candidates(),
                    desk: &self.session_context(view.now),
                    dropped: &self.state.figures.sessions.dropped,
                };
                match command {
                    Command::Branch(command) => branches::run(&context, overlay, command),
                    Command::Index(command) => indexes::run(&context, overlay, command),
                    _ => Err(Error::new(Code::Unsupported, "neither a branch nor an index")),
                }
            }
            Command::Session(command) => {
                if command.stands_alone() {
                    check_alone(&submitted.transaction)?;
                }
                self.session(view, overlay, command)
            }
            Command::System(SystemCommand::Sweep { limit }) => {
                let from = self.state.next_expiry.load(Ordering::Relaxed);
                let catalog = self.state.catalog.read();
                let index = &self.state.index;
                let swept = expire::sweep(index, &catalog, overlay, from, view.now, *limit)?;
                let rest = limit.saturating_sub(swept);
                let expired = sessions::expire(&self.session_context(view.now), overlay, rest)?;
                Ok(Answer::Count((swept + expired) as u64))
            }
            _ => Err(Error::new(Code::Unsupported, "this version does not know that command")),
        }
    }

    fn session_context(&self, now: Stamp) -> SessionContext<'_> {
        SessionContext { index: &self.state.index, table: &self.state.sessions, at: NEWEST, now }
    }

    fn finish(
        &mut self,
        transaction: &Transaction,
        fingerprint: u64,
        overlay: &mut WriteSet,
        mut receipt: Receipt,
    ) -> Result<Receipt> {
        let command = transaction.steps.first().map(|step| &step.command);
        if matches!(command, Some(Command::System(SystemCommand::Sweep { .. }))) {
            self.due_since_sweep = Stamp::MAX;
        }
        if overlay.is_empty() && transaction.request.is_none() {
            return Ok(receipt);
        }
        receipt.revision = self.next;
        if let Some(id) = transaction.named() {
            self.store_receipt(id, fingerprint, &receipt, overlay)?;
        }
        let due = self.derive_effects(overlay)?;
        let request = transaction.named().map_or(&b""[..], |id| id.as_bytes());
        self.commit(overlay, receipt.stamp, request)?;
        self.schedule_expiry(due_of(transaction, due));
        Ok(receipt)
    }

    /// Adds the derived effects: index entries and expiry markers. Returns the earliest expiry.
    fn derive_effects(&self, overlay: &mut WriteSet) -> Result<Option<Stamp>> {
        let layers = |branch| match branch {
            MAIN_ID => self.main.clone(),
            _ => self.state.catalog.read().layers(branch, NEWEST),
        };
        indexes::follow(&self.state.index, layers, overlay, self.next)?;
        expire::follow(&self.state.index, overlay)
    }

    fn schedule_expiry(&mut self, due: Option<Stamp>) {
        if let Some(due) = due {
            self.due_since_sweep = self.due_since_sweep.min(due);
            self.state.next_expiry.fetch_min(due, Ordering::Relaxed);
        }
    }

    fn store_receipt(
        &self,
        id: &RequestId,
        fingerprint: u64,
        receipt: &Receipt,
        overlay: &mut WriteSet,
    ) -> Result<()> {
        if fault_points::is(InjectedFault::ReceiptForgotten) {
            return Ok(());
        }
        let key = request_dedup::key(id);
        let hash = self.state.index.current.hash(&key);
        let (start, ()) = overlay.stage(|out| request_dedup::encode(fingerprint, receipt, out))?;
        // Room for the receipt's key, and for the same key in the marker of its expiry.
        overlay.make_room(start, key.len() + keyspace::expiry_key(0, &key).len());
        let payload = write_set::Payload::Staged(start);
        let expires = Some(receipt.stamp + request_dedup::KEPT_US);
        let write = Write { flags: 0, counter: 1, writes: 1, expires, prior: None, payload };
        overlay.write(key, hash, write)
    }

    /// Writes the write set under the next revision to the log frame and into the index.
    fn commit(&mut self, overlay: &WriteSet, stamp: Stamp, request: &[u8]) -> Result<()> {
        let revision = self.next;
        self.first.get_or_insert(revision);
        let effects = overlay.effects();
        self.payload.transaction(stamp, request, effects.len());
        let index = &self.state.index;
        for effect in effects {
            let head = effect.head(revision, stamp);
            self.scratch.clear();
            Version::begin(&effect.key, &mut self.scratch);
            head.write(overlay.payload(effect), &mut self.scratch);
            let version = Version::from_bytes(&self.scratch);
            self.payload.effect(version.key(), version.entry());
            if effect.key[0] == keyspace::REAPS {
                self.state.reaps.store(true, Ordering::Relaxed);
            }
            if Catalog::concerns(effect.key[0]) {
                let mut catalog = self.state.catalog.write();
                catalog.forget(self.seen);
                catalog.absorb(&effect.key, &head, overlay.payload(effect))?;
                if effect.key[0] == keyspace::INDEXES {
                    index.declare(catalog.declared());
                }
            }
            if SessionTable::concerns(effect.key[0]) {
                self.sessions_changed = revision;
                let mut table = self.state.sessions.lock();
                let change = table.absorb(&effect.key, &head, overlay.payload(effect), stamp)?;
                if change != SessionChange::None {
                    change.count(&self.state.figures.sessions);
                    let next = table.next_due().unwrap_or(Stamp::MAX);
                    self.state.next_expiry.fetch_min(next, Ordering::Relaxed);
                }
            }
            self.count_effect(&head, &effect.key);
            index.put(&self.active, effect.hash, version);
        }
        let news = effects.iter().filter(|effect| !effect.head(revision, stamp).is_sweep());
        let keys = news.map(|effect| effect.key.as_slice());
        self.state.trail.record(revision, keys.filter(|key| keyspace::is_on_trail(key[0])));
        self.active.note_time(revision, stamp);
        index.graves.reach(revision);
        let stamped = self.stamper.stamp(stamp);
        debug_assert_eq!(stamped, stamp);
        self.next += 1;
        Ok(())
    }

    /// An expiry appears as a deletion of its own, or as a flag on the write that found the key
    /// expired.
    fn count_effect(&self, head: &EntryHeader, key: &[u8]) {
        let figures = &self.state.figures;
        let expired = u64::from(head.flags & (EXPIRED | LAPSED) != 0);
        let there = u64::from(!head.is_deleted());
        let gone = u64::from(head.is_deleted());
        match key[0] {
            keyspace::CELLS if expired != 0 => figures.expired_cells.add(expired),
            keyspace::RECORDS if expired != 0 => figures.expired_records.add(expired),
            keyspace::EVENTS if run_keys::is_event(key) => figures.runs.appended.add(there),
            keyspace::ALERTS => figures.runs.alerts.add(there),
            keyspace::RUNS => figures.runs.deleted.add(gone),
            keyspace::REAPS if deferred_delete::is_of_a_space(key) => {
                figures.keyed.reaped.add(gone)
            }
            keyspace::REAPS => figures.runs.reaped.add(gone),
            keyspace::OUTBOX if outbox::is_grave(key) => figures.outbox.buried.add(there),
            _ => {}
        }
    }

    /// Returns how often the cache of folded runs hit and missed, and how many snapshots were kept.
    pub fn folds(&self) -> FoldCounts {
        self.folds.borrow().counts
    }

    #[cfg(any(test, feature = "test-hooks"))]
    pub fn with_folds<T>(&self, look: impl FnOnce(&Folds) -> T) -> T {
        look(&self.folds.borrow())
    }

    /// Returns the state of `main`'s outbox. Messages claimed lately are not scanned again.
    pub fn outbox(&self) -> Result<OutboxState> {
        if !self.state.index.has_runs() {
            // Without runs the outbox is empty, so no lookup is needed.
            return Ok(OutboxState::default());
        }
        let now = self.stamper.last();
        let view = View::unlimited(&self.state.index, &self.main, now);
        let mut nothing = WriteSet::default();
        let mut fronts = self.state.fronts.lock();
        let answer = outbox::run(&view, &mut nothing, &mut fronts, &OutboxCommand::Look)?;
        answer.into_outbox()?.into_outbox_state()
    }

    /// Returns the log bytes of this round so far.
    pub fn round_bytes(&self) -> usize {
        self.payload.len_bytes()
    }

    /// Hands the round over, and seals the write buffer if it is full. Returns whether it was sealed.
    pub fn end_round<T>(&mut self, hand_over: impl FnOnce(Option<Round<'_>>) -> T) -> (T, bool) {
        let Some(first) = self.first.take() else { return (hand_over(None), false) };
        let handed = hand_over(Some(Round { payload: &self.payload, first }));
        self.payload.clear();
        let sealed = self.state.index.wants_seal(&self.active);
        if sealed {
            self.seal();
        }
        (handed, sealed)
    }

    /// Sets the next expiry, after everything due up to `now` has been turned into deletions.
    pub fn swept(&self, now: Stamp) -> Result<()> {
        let next = expire::next_due(&self.state.index, now + 1)?.unwrap_or(Stamp::MAX);
        let leases = self.state.sessions.lock().next_due().unwrap_or(Stamp::MAX);
        let next = next.min(self.due_since_sweep).min(leases);
        self.state.next_expiry.store(next, Ordering::Relaxed);
        Ok(())
    }

    /// Seals the write buffer and starts a new one.
    pub fn seal(&mut self) {
        self.state.sealed.fetch_add(1, Ordering::Relaxed);
        self.active = self.state.index.seal(self.next - 1);
    }

    /// Returns the time as stamps see it, and lets readers judge expiry by the same clock.
    pub fn now(&mut self) -> Stamp {
        let (now, monotonic) = self.stamper.now();
        let offset = now.wrapping_sub(monotonic);
        if self.state.time_offset_us.load(Ordering::Relaxed) != offset {
            self.state.time_offset_us.store(offset, Ordering::Relaxed);
        }
        let wall_offset_us = self.stamper.wall_offset_us();
        if self.state.index.wall_offset_us.load(Ordering::Relaxed) != wall_offset_us {
            self.state.index.wall_offset_us.store(wall_offset_us, Ordering::Relaxed);
        }
        now
    }

    /// Undoes everything after revision `last`, which was written with `stamp`.
    pub fn undo(&mut self, last: Revision, stamp: Stamp) -> Result<()> {
        self.state.next_expiry.store(0, Ordering::Relaxed);
        self.state.reaps.store(true, Ordering::Relaxed);
        // The positions are invalid: messages that were removed from a queue are back in it.
        self.state.fronts.lock().clear();
        self.state.index.undo(last);
        self.state.trail.undo(last);
        self.next = last + 1;
        self.stamper.rewind(stamp);
        let catalog = load_catalog(&self.state.index)?;
        *self.state.catalog.write() = catalog;
        // If no change of a session was undone, the sessions keep their leases.
        if self.sessions_changed > last { self.load_sessions() } else { Ok(()) }
    }

    /// Loads the session table from its keyspaces; leases begin now.
    pub fn load_sessions(&mut self) -> Result<()> {
        let now = self.now().max(self.stamper.last());
        let table = SessionTable::load(&self.state.index, NEWEST, now)?;
        self.state.next_expiry.fetch_min(table.next_due().unwrap_or(Stamp::MAX), Ordering::Relaxed);
        *self.state.sessions.lock() = table;
        self.sessions_changed = self.next - 1;
        Ok(())
    }
}

/// Loads the catalog from its keyspaces.
pub(crate) fn load_catalog(index: &Index) -> Result<Catalog> {
    use std::ops::Bound::{Excluded, Included};
    let mut catalog = Catalog::new();
    for space in [keyspace::INDEXES, keyspace::BRANCHES, keyspace::TAGS, keyspace::MERGES] {
        let from = keyspace::key(space, MAIN_ID, b"");
        let to = keyspace::key(space + 1, MAIN_ID, b"");
        for row in index.scan(Included(&from), Excluded(&to), NEWEST) {
            let row = row?;
            let (head, payload) = crate::key::entry::parse(row.entry())?;
            catalog.absorb(row.key(), &head, payload)?;
        }
    }
    index.declare(catalog.declared());
    Ok(catalog)
}

/// Runs commands one after the other. Limits the total size of their answers and enforces each step's
/// demand.
#[inline]
pub fn run_all(
    steps: &[Step],
    mut run: impl FnMut(&Command) -> Result<Answer>,
) -> Result<SmallVec<[Answer; 1]>> {
    let mut answers: SmallVec<[Answer; 1]> = SmallVec::with_capacity(steps.len());
    let mut scales = (steps.len() > FEW_STEPS).then(Scales::default);
    for (position, step) in steps.iter().enumerate() {
        let answer = run(&step.command)
            .and_then(|answer| check_effect(step, answer))
            .or_else(|error| tolerate(step, error))
            .and_then(|answer| match &mut scales {
                Some(scales) => scales.add(&answer).map(|()| answer),
                None => Ok(answer),
            })
            .map_err(|error| error.at_position(position))?;
        answers.push(answer);
    }
    Ok(answers)
}

pub fn check_limits(transaction: &Transaction) -> Result<()> {
    let otherwise = transaction.otherwise.as_ref().map_or(0, Vec::len);
    let commands = transaction.steps.len().max(otherwise);
    if commands > TRANSACTION_LIMIT_COMMANDS {
        let message = format!("{commands} commands: a transaction has at most 100,000");
        return Err(Error::new(Code::TransactionTooLarge, message));
    }
    if transaction.guards.len() > GUARD_LIMIT {
        let message = format!(
            "the transaction has {} guards (it read that much): {GUARD_LIMIT} are the most",
            transaction.guards.len()
        );
        return Err(Error::new(Code::TransactionTooLarge, message));
    }
    Ok(())
}

/// Turns the error of a step that may fail into its answer. A command on data that fails has written
/// nothing.
fn tolerate(step: &Step, error: Error) -> Result<Answer> {
    let on_data =
        !matches!(step.command, Command::Branch(_) | Command::Index(_) | Command::System(_));
    match step.demand {
        Demand::Nothing if on_data && error.code().is_about_a_command() => {
            Ok(Answer::Failed(error))
        }
        _ => Err(error),
    }
}

fn check_effect(step: &Step, answer: Answer) -> Result<Answer> {
    if step.demand != Demand::Effect || answer.took_effect() {
        return Ok(answer);
    }
    let message = "a command that must take effect did not: nothing was written";
    Err(Error::new(Code::MustFailed, message))
}

/// Returns whether an error says that a session expired or that its response was evicted.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionExpired | ErrorKind::ResponseEvicted)
}

/// Returns the first expiry of a transaction's writes. Sweeps skip an import in progress, so finishing
/// it makes the next sweep due at once.
fn due_of(transaction: &Transaction, due: Option<Stamp>) -> Option<Stamp> {
    let command = transaction.steps.first().map(|step| &step.command);
    let shown = matches!(command, Some(Command::Branch(BranchCommand::Finish { .. })));
    if shown { Some(0) } else { due }
}

/// Rejects transactions that combine certain commands with others. Forks and merges change the branch
/// itself, and opening or closing sessions cannot be a request of a session.
fn check_alone(transaction: &Transaction) -> Result<()> {
    let of_sessions =
        matches!(transaction.steps.first(), Some(Step { command: Command::Session(_), .. }));
    let requested = of_sessions && transaction.session().is_some();
    if transaction.steps.len() == 1 && transaction.guards.is_empty() && !requested {
        return Ok(());
    }
    let message = "commands on branches, tags and indexes, and those that open, keep or close sessions, stand alone in \
                   their transaction, the last not in a request of a session";
    Err(Error::new(Code::InvalidArgument, message))
}

#[cold]
fn guard_failed() -> Error {
    Error::new(Code::GuardFailed, "a guard of the transaction does not hold: read again and retry")
}
