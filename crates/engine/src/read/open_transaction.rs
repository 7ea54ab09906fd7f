//! Open transactions with optimistic concurrency control: the commit checks the read set.
//!
//! ```text
//!   begin -> snapshot + write set
//!     reads   -> answered from both, recorded as guards (keys, absences, ranges)
//!     writes  -> applied to the write set, recorded as steps
//!   commit -> Transaction { guards, steps } through the sequencer
//! ```
//!
//! Counters and times inside the transaction are provisional; the receipt has the final ones. A blind
//! write is no read and never conflicts. A command whose answer depends on existing state counts as a
//! read: see `answer_guards.rs`.

use crate::apply::guards::{self, CheckedRanges};
use crate::apply::outbox::Fronts;
use crate::apply::runs::Folds;
use crate::apply::sessions::SessionContext;
use crate::apply::{cells, hashes, keyed, names, outbox, records, runs, sessions, strings};
use crate::base::work::WorkMeter;
use crate::commit::executor::branch::only_imports;
use crate::commit::prepared::{PreparedTransaction, ReadAhead};
use crate::key::keyspace;
use crate::lifecycle::engine::Engine;
use crate::mvcc::pins::PinGuard;
use crate::mvcc::view::Origin;
use crate::mvcc::write_set::WriteSet;
use crate::read::answer_guards::{self, guards_for_answer, pin_assigned_ids};
use crate::read::snapshot::Snapshot;
use crate::storage::index::NEWEST;
use mainstay_model::limits::{GUARD_LIMIT, OPEN_LIMIT_BYTES, TRANSACTION_LIMIT_COMMANDS};
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Contract, Demand, Durability, Error, Guard,
    HashCommand, KeyCommand, Name, OutboxCommand, Page, Receipt, RecordCommand, RecordPage,
    RecordPick, Result, Revision, RunAnswer, RunCommand, SessionCommand, SmallVec, Stamp,
    StateCommand, StatePlace, Step, StringCommand, Transaction, Versioned, Where,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The memory overhead of an entry in the read set, beside its name.
const NOTED_BYTES: usize = 128;

/// A transaction that is open in this process.
pub struct OpenTransaction {
    snapshot: Snapshot,
    branch: String,
    overlay: WriteSet,
    /// A cache of the folded state of runs inside the transaction.
    folds: Folds,
    steps: SmallVec<[Step; 1]>,
    /// The read set: keys, each with its expiry as it was read.
    read: BTreeMap<(Contract, Name), Option<Stamp>>,
    /// The events whose existence was read, by run and idempotency key, with their sequence if they
    /// existed.
    events: BTreeMap<(Name, String), Option<u64>>,
    /// The places in keyed-state spaces that were read.
    states: BTreeSet<(Name, StatePlace)>,
    ranges: Vec<Guard>,
    durability: Option<Durability>,
    began_us: u64,
    used_us: u64,
    /// The memory of the steps, in bytes.
    step_bytes: usize,
    /// The memory of the read set, in bytes.
    noted_bytes: usize,
    /// The reason why the transaction was ended early. Its memory is freed then.
    given_up: Option<Error>,
    /// Set while the writer waits for this transaction, so that nothing can be submitted to it.
    /// Collects the sessions found expired.
    alone: Option<Vec<SessionCommand>>,
    pin: Option<PinGuard>,
}

impl OpenTransaction {
    pub fn begin(core: &Arc<Engine>, branch: &str) -> Result<OpenTransaction> {
        let snapshot = Snapshot::new(core, branch, At::Latest)?;
        OpenTransaction::over(core, branch, snapshot, WorkMeter::outside(core.options.work_limits))
    }

    /// Runs a closure in a transaction while the writer is held, so that no other transaction runs in
    /// between. If a guard does not hold, nothing is executed.
    pub fn alone<T>(
        core: &Arc<Engine>,
        branch: &str,
        guards: Vec<Guard>,
        body: impl FnOnce(Box<OpenTransaction>) -> Result<(T, Box<OpenTransaction>)>,
    ) -> Result<(T, Receipt)> {
        let mut made = None;
        let mut ended = Vec::new();
        let receipt = core.sequencer.execute_alone(|revision, now| {
            let (id, layers) = core.layers(branch, revision)?;
            let shared = core.clone();
            let snapshot = Snapshot {
                core: shared,
                branch: id,
                layers,
                revision,
                now,
                fresh: false,
                work: None,
            };
            let mut open = OpenTransaction::over(
                core,
                branch,
                snapshot,
                WorkMeter::in_writer(core.options.work_limits),
            )?;
            open.alone = Some(Vec::new());
            let (value, mut open) = body(Box::new(open))?;
            ended = open.alone.take().unwrap_or_default();
            made = Some(value);
            let mut transaction = open.take();
            // The writer waits, so the guards from its own reads cannot fail. Only the caller's guards
            // are checked.
            transaction.otherwise = (!guards.is_empty()).then(Vec::new);
            transaction.guards = guards;
            Ok(transaction)
        });
        for command in &ended {
            have_ended(core, command)?;
        }
        let message =
            "a transaction was executed that nobody made: this is a fault of the database";
        let made = made.ok_or_else(|| Error::new(Code::Unsupported, message));
        receipt.and_then(|receipt| Ok((made?, receipt)))
    }

    fn over(
        core: &Arc<Engine>,
        branch: &str,
        mut snapshot: Snapshot,
        work: WorkMeter,
    ) -> Result<OpenTransaction> {
        snapshot.fresh = false;
        snapshot.work = Some(work);
        // The transaction's time is after everything it sees, even if the clock does not advance,
        // because jobs are ordered by it.
        let newest = core.index().stamp_of(snapshot.revision)?;
        snapshot.now = snapshot.now.max(newest.map_or(0, |newest| newest + 1));
        let began_us = core.clock.monotonic_us();
        let pin = core.pins.hold("transaction", began_us, snapshot.revision);
        core.index().check_all_reach(snapshot.revision)?;
        Ok(OpenTransaction {
            snapshot,
            branch: branch.to_owned(),
            overlay: WriteSet::default(),
            folds: Folds::default(),
            steps: SmallVec::new(),
            read: BTreeMap::new(),
            events: BTreeMap::new(),
            states: BTreeSet::new(),
            ranges: Vec::new(),
            durability: None,
            began_us,
            used_us: began_us,
            step_bytes: 0,
            noted_bytes: 0,
            given_up: None,
            alone: None,
            pin: Some(pin),
        })
    }

    pub fn branch(&self) -> &str {
        &self.branch
    }

    pub fn revision(&self) -> Revision {
        self.snapshot.revision
    }

    pub fn now(&self) -> Stamp {
        self.snapshot.now
    }

    pub fn durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    /// Fails if the transaction was idle for too long or is open for too long; otherwise restarts the
    /// idle time.
    fn touch(&mut self) -> Result<()> {
        if let Some(why) = &self.given_up {
            return Err(why.clone());
        }
        let now = self.snapshot.core.clock.monotonic_us();
        if let Some(expired) = self.expired_at(now) {
            // It can never commit, so its memory is freed.
            self.give_up(expired.clone());
            return Err(expired);
        }
        self.used_us = now;
        Ok(())
    }

    /// Returns the error if its time is over at `now_us`.
    fn expired_at(&self, now_us: u64) -> Option<Error> {
        let options = &self.snapshot.core.options;
        let idle = now_us.saturating_sub(self.used_us) > micros(options.idle_limit);
        let old = now_us.saturating_sub(self.began_us) > micros(options.transaction_limit);
        if !idle && !old {
            return None;
        }
        let (what, setting) = if idle {
            ("idle", "transaction_idle_limit_ms")
        } else {
            ("open", "transaction_limit_ms")
        };
        let message = format!(
            "the transaction was {what} for too long: begin again; the option `transaction_limits`, of a server \
             `database.{setting}`, is the limit"
        );
        Some(Error::new(Code::TransactionExpired, message))
    }

    /// Returns how long it stays open without further calls; `None` after it was ended early.
    pub fn time_left(&self) -> Option<Duration> {
        if self.given_up.is_some() {
            return None;
        }
        let options = &self.snapshot.core.options;
        let idle_us = self.used_us.saturating_add(micros(options.idle_limit));
        let old_us = self.began_us.saturating_add(micros(options.transaction_limit));
        let now_us = self.snapshot.core.clock.monotonic_us();
        // The limit itself is still allowed, so it ends one microsecond later.
        let over_us = idle_us.min(old_us).saturating_add(1);
        Some(Duration::from_micros(over_us.saturating_sub(now_us)))
    }

    /// Frees its memory once its time is over. Every later call fails with that error.
    pub fn give_up_if_expired(&mut self) {
        if let Some(expired) = self.expired_at(self.snapshot.core.clock.monotonic_us()) {
            self.give_up(expired);
        }
    }

    /// Frees its memory. Every later call fails with this error.
    pub fn give_up(&mut self, why: Error) {
        self.given_up.get_or_insert(why);
        self.overlay = WriteSet::default();
        self.folds = Folds::default();
        self.steps = SmallVec::new();
        self.read = BTreeMap::new();
        self.events = BTreeMap::new();
        self.states = BTreeSet::new();
        self.ranges = Vec::new();
        self.step_bytes = 0;
        self.noted_bytes = 0;
        // Its snapshot is no longer read, so retention need not keep history for it.
        self.pin = None;
    }

    /// Returns the memory that it holds, including the overhead of each entry.
    pub fn held_bytes(&self) -> usize {
        self.overlay.held_bytes() + self.folds.held_bytes() + self.step_bytes + self.noted_bytes
    }

    /// Fails if a further step of this size exceeds a limit.
    fn check_step(&self, bytes: usize) -> Result<()> {
        if self.steps.len() >= TRANSACTION_LIMIT_COMMANDS {
            let message = format!(
                "the transaction has {TRANSACTION_LIMIT_COMMANDS} commands that write, and that is the most: commit, and begin again"
            );
            return Err(Error::new(Code::TransactionTooLarge, message));
        }
        if self.held_bytes() + bytes > OPEN_LIMIT_BYTES {
            let message = format!(
                "the open transaction takes more than {} MiB of memory: commit, and begin again",
                OPEN_LIMIT_BYTES >> 20
            );
            return Err(Error::new(Code::TransactionTooLarge, message));
        }
        Ok(())
    }

    /// Adds a key to the read set, unless this transaction wrote it first.
    fn note_read(&mut self, contract: Contract, name: &Name) -> Result<()> {
        let noted = (contract, name.clone());
        if self.read.contains_key(&noted) {
            return Ok(());
        }
        let view = self.snapshot.view();
        let (key, hash) = guards::key(&view, contract, name)?;
        let found = view.find(&self.overlay, &key, hash, |head, _| Ok(head))?;
        let head = match found {
            // Its own value depends on no other transaction, but its counter and its existence may:
            // look up the stored entry.
            Some((_, Origin::Overlay)) => {
                view.find_stored(&key, hash, |head, _| Ok(head))?.map(|(head, _)| head)
            }
            found => found.map(|(head, _)| head),
        };
        let live = head.filter(|head| head.is_live(view.now));
        self.check_guards()?;
        self.noted_bytes += NOTED_BYTES + name.as_str().len();
        self.read.insert(noted, live.and_then(|head| head.expires));
        Ok(())
    }

    /// Adds the existence of an event to the read set, regardless of this transaction's own writes.
    fn note_event(&mut self, event: (Name, String)) -> Result<()> {
        if self.events.contains_key(&event) {
            return Ok(());
        }
        self.check_guards()?;
        let (run, key) = &event;
        let seq = runs::seq_of(&self.snapshot.view(), &WriteSet::default(), run, key)?;
        self.noted_bytes += NOTED_BYTES + run.as_str().len() + key.len();
        self.events.insert(event, seq);
        Ok(())
    }

    /// Fails if the read set has reached the largest number of guards.
    fn check_guards(&self) -> Result<()> {
        if self.guard_count() < GUARD_LIMIT {
            return Ok(());
        }
        let message = format!(
            "the transaction reads or tells of more than {GUARD_LIMIT} keys, events and ranges: commit, and begin again"
        );
        Err(Error::new(Code::TransactionTooLarge, message))
    }

    /// Runs a command on data. [`OpenTransaction::read`] answers a read from the snapshot and this
    /// transaction's own writes, and guards it. Any other command becomes a step of the commit.
    pub fn run(&mut self, command: Command) -> Result<Answer> {
        self.touch()?;
        if command.is_read() {
            return self.read(&command);
        }
        match &command {
            Command::Record(RecordCommand::Pick(pick)) => self.note_pick(pick)?,
            Command::Key(key @ KeyCommand::Clear { .. }) => {
                let expiries = names::KINDS.into_iter().map(|kind| (kind, None)).collect();
                self.note_names(key, None, expiries)?;
            }
            _ => {}
        }
        self.change(command)
    }

    /// Runs a command and makes it a step of the commit even if it only reads, so that the receipt has
    /// its answer.
    pub fn run_as_step(&mut self, command: Command) -> Result<Answer> {
        let again = command.is_read().then(|| command.clone());
        let answer = self.run(command)?;
        self.steps.extend(again.map(|command| Step { command, demand: Demand::Nothing }));
        Ok(answer)
    }

    /// Answers a command that only reads. An unknown one is refused, so that nothing is read outside
    /// the snapshot.
    fn read(&mut self, command: &Command) -> Result<Answer> {
        match command {
            Command::Cell(CellCommand::Get { name }) => {
                self.look(Contract::Cells, name)?;
                cells::get(&self.snapshot.view(), &self.overlay, name).map(Answer::Cell)
            }
            Command::Cell(CellCommand::List { prefix, after, limit }) => {
                self.walk(prefix.clone(), after.clone(), *limit).map(Answer::Names)
            }
            Command::Cell(CellCommand::History { name, limit, before }) => {
                self.note_read(Contract::Cells, name)?;
                self.check_reach(Contract::Cells, name)?;
                let view = self.snapshot.view();
                cells::history(&view, &self.overlay, name, *limit, *before).map(Answer::History)
            }
            Command::Record(RecordCommand::Get { key, fields }) => {
                self.look(Contract::Records, key)?;
                let view = self.snapshot.view();
                let wanted = fields.as_deref();
                records::get(&view, &self.overlay, key, wanted).map(Answer::Record)
            }
            Command::Record(RecordCommand::Scan { prefix, filters, after, limit }) => {
                self.scan(prefix.clone(), filters, after.clone(), *limit).map(Answer::Records)
            }
            Command::Record(RecordCommand::Count { prefix, filters }) => {
                self.count(prefix.clone(), filters).map(Answer::Count)
            }
            Command::Record(RecordCommand::History { key, limit, before }) => {
                self.note_read(Contract::Records, key)?;
                self.check_reach(Contract::Records, key)?;
                let view = self.snapshot.view();
                let versions = records::history(&view, &self.overlay, key, *limit, *before);
                versions.map(Answer::RecordHistory)
            }
            Command::String(StringCommand::Get { name }) => self.text(name).map(Answer::Cell),
            Command::Run(command) => self.look_at_runs(command),
            Command::State(command) => self.look_at_states(command),
            Command::Hash(command) => self.hash(command),
            Command::Key(command) => self.look_at_names(command),
            _ => Err(not_on_data()),
        }
    }

    /// Reads names of cells and records, and guards the whole range.
    fn look_at_names(&mut self, command: &KeyCommand) -> Result<Answer> {
        let view = self.snapshot.view();
        let (answer, expiries) = names::read_until(&view, &self.overlay, command)?;
        let upto = match &answer {
            Answer::Names(page) => page.next.clone(),
            _ => None,
        };
        self.note_names(command, upto, expiries)?;
        Ok(answer)
    }

    /// Guards the names up to `upto`. Ranges of hidden records are left out, because they are not part
    /// of the answer.
    fn note_names(
        &mut self,
        command: &KeyCommand,
        upto: Option<String>,
        expiries: names::Expiries,
    ) -> Result<()> {
        let (prefix, after) = match command {
            KeyCommand::Names { prefix, after, .. } => (prefix.as_str(), after.clone()),
            _ => ("", None),
        };
        for (kind, expires) in expiries {
            let mut hidden = names::hidden_of(kind, command.hidden()).to_vec();
            hidden.sort_unstable();
            if hidden.iter().any(|hidden| prefix.starts_with(hidden.as_str())) {
                continue;
            }
            let mut from = after.clone();
            for hidden in hidden.into_iter().filter(|hidden| hidden.starts_with(prefix)) {
                if upto.as_ref().is_some_and(|upto| *upto < hidden) {
                    break;
                }
                // `char::MAX` is the greatest character, so every name with the hidden prefix sorts
                // before `behind`, or directly after it.
                let behind = format!("{hidden}{}", char::MAX);
                if from.as_ref().is_some_and(|from| *from >= behind) {
                    continue;
                }
                if from.as_ref().is_none_or(|from| *from < hidden) {
                    self.note_range(kind, prefix.to_owned(), from, Some(hidden), expires)?;
                }
                from = Some(behind);
            }
            self.note_range(kind, prefix.to_owned(), from, upto.clone(), expires)?;
        }
        Ok(())
    }

    /// Reads a cell for a client with one namespace for cells and records. Only if no cell exists does
    /// the answer depend on the record.
    fn text(&mut self, name: &Name) -> Result<Option<Versioned>> {
        self.look(Contract::Cells, name)?;
        let found = cells::get(&self.snapshot.view(), &self.overlay, name)?;
        if found.is_none() {
            self.look(Contract::Records, name)?;
            records::refuse(&self.snapshot.view(), &self.overlay, name)?;
        }
        Ok(found)
    }

    /// Runs a command on a record for a client with one namespace for cells and records.
    fn hash(&mut self, command: &HashCommand) -> Result<Answer> {
        self.look(Contract::Cells, command.key())?;
        self.look(Contract::Records, command.key())?;
        hashes::run(&self.snapshot.view(), &mut self.overlay, command)
    }

    /// Reads runs. A read of one run guards its head, which changes whenever the run does.
    fn look_at_runs(&mut self, command: &RunCommand) -> Result<Answer> {
        if let Some(run) = command.run() {
            self.note_read(Contract::Runs, &Name::new(run)?)?;
        }
        let answer = runs::read(&self.snapshot.view(), &self.overlay, command)?;
        self.snapshot.core.index().check_space_reach(keyspace::RUNS, self.snapshot.revision)?;
        if let (RunCommand::List { filter, after, .. }, RunAnswer::Runs(page)) = (command, &answer)
        {
            let prefix = filter.prefix.clone();
            let after = after.clone();
            self.note_range(Contract::Runs, prefix, after, page.next.clone(), None)?;
        }
        Ok(Answer::Run(Box::new(answer)))
    }

    fn look_at_states(&mut self, command: &StateCommand) -> Result<Answer> {
        let answer = keyed::read(&self.snapshot.view(), &self.overlay, command)?;
        self.note_states(command, Some(&answer))?;
        self.snapshot.check_state_reach(command)?;
        if let (StateCommand::Spaces { prefix, after, .. }, Answer::Names(page)) =
            (command, &answer)
        {
            let prefix = prefix.clone();
            let after = after.clone();
            self.note_range(Contract::Keyed, prefix, after, page.next.clone(), None)?;
        }
        Ok(answer)
    }

    /// Adds the places of a space that a command's answer depends on. An answer from its own writes
    /// needs no guard.
    fn note_states(&mut self, command: &StateCommand, answer: Option<&Answer>) -> Result<()> {
        let Some(space) = command.space() else { return Ok(()) };
        let view = self.snapshot.view();
        let before = keyed::space::find(&view, &WriteSet::default(), space)?;
        let now = keyed::space::find(&view, &self.overlay, space)?;
        let places = if before.map(|it| it.generation) == now.map(|it| it.generation) {
            keyed::guard::told(command, now.map(|it| it.info).as_ref(), answer)
        } else {
            // This transaction created or replaced the space, so the space's earlier contents do not
            // matter.
            vec![StatePlace::Space]
        };
        for place in places {
            let noted = (space.clone(), place);
            if !self.states.contains(&noted) {
                self.check_guards()?;
                self.noted_bytes += NOTED_BYTES + space.as_str().len() + place_bytes(&noted.1);
                self.states.insert(noted);
            }
        }
        Ok(())
    }

    fn change(&mut self, command: Command) -> Result<Answer> {
        let step_bytes = size_of::<Step>() + command.weight_bytes();
        self.check_step(step_bytes)?;
        if let Command::State(command) = &command {
            keyed::refuse_replay(command)?;
            self.note_states(command, None)?;
        }
        for (contract, name) in guards_for_answer(&command)? {
            self.note_read(contract, &name)?;
        }
        if let Some(event) = answer_guards::event(&command)? {
            self.note_event(event)?;
        }
        let view = self.snapshot.view();
        let answer = match &command {
            Command::Cell(command) => cells::run(&view, &mut self.overlay, command)?,
            Command::String(command) => strings::run(&view, &mut self.overlay, command)?,
            // Its revision is not known before the commit.
            Command::Record(command) => records::run(&view, &mut self.overlay, command, 0)?,
            Command::Hash(command) => hashes::run(&view, &mut self.overlay, command)?,
            Command::Run(RunCommand::Tombstone { .. }) => return Err(only_imports()),
            Command::Run(command) => {
                runs::run(&view, &mut self.overlay, &mut self.folds, command, 0)?
            }
            Command::State(command) => keyed::run(&view, &mut self.overlay, command, 0)?,
            Command::Key(command) => names::run(&view, &mut self.overlay, command)?,
            Command::Outbox(command) if stands_in_open(command) => {
                let serves = self.snapshot.core.state.serves_branches;
                outbox::check_served(&view, command, &self.branch, serves)?;
                outbox::run(&view, &mut self.overlay, &mut Fronts::default(), command)?
            }
            // The answers are provisional, because other transactions may send and acknowledge
            // meanwhile.
            Command::Session(
                command @ (SessionCommand::Send { .. } | SessionCommand::Acknowledge { .. }),
            ) => {
                let state = &self.snapshot.core.state;
                let index = &state.index;
                let table = &state.sessions;
                let now = self.snapshot.now;
                let desk = SessionContext { index, table, at: NEWEST, now };
                let serves = state.serves_branches;
                let ran = sessions::run_on(&view, &desk, &mut self.overlay, command, serves);
                if matches!(&ran, Err(error) if error.code() == Code::SessionExpired) {
                    match &mut self.alone {
                        Some(ended) => ended.push(command.clone()),
                        None => have_ended(&self.snapshot.core, command)?,
                    }
                }
                ran?
            }
            _ => return Err(not_on_data()),
        };
        self.step_bytes += step_bytes;
        self.steps.push(pin_assigned_ids(command, &answer).into());
        Ok(answer)
    }

    /// Adds a name to the read set, unless this transaction wrote it. A record is added in any case,
    /// because the transaction may have written some of its fields and read the others.
    fn look(&mut self, contract: Contract, name: &Name) -> Result<()> {
        let (key, hash) = self.snapshot.view().key(keyspace::of(contract)?, name.as_bytes());
        if contract == Contract::Records || self.overlay.find(hash, &key).is_none() {
            self.note_read(contract, name)?;
        }
        self.snapshot.core.index().check_reach(&key, self.snapshot.revision)
    }

    fn check_reach(&self, contract: Contract, name: &Name) -> Result<()> {
        let (key, _) = self.snapshot.view().key(keyspace::of(contract)?, name.as_bytes());
        self.snapshot.core.index().check_reach(&key, self.snapshot.revision)
    }

    fn walk(&mut self, prefix: String, after: Option<String>, limit: usize) -> Result<Page> {
        let view = self.snapshot.view();
        let (page, expires) =
            cells::list_until(&view, &self.overlay, &prefix, after.as_deref(), limit)?;
        self.note_range(Contract::Cells, prefix, after, page.next.clone(), expires)?;
        Ok(page)
    }

    fn scan(
        &mut self,
        prefix: String,
        filters: &[Where],
        after: Option<String>,
        limit: usize,
    ) -> Result<RecordPage> {
        let view = self.snapshot.view();
        let (page, expires) =
            records::scan(&view, &self.overlay, &prefix, filters, after.as_deref(), limit)?;
        self.note_range(Contract::Records, prefix, after, page.next.clone(), expires)?;
        Ok(page)
    }

    fn count(&mut self, prefix: String, filters: &[Where]) -> Result<u64> {
        let view = self.snapshot.view();
        let (count, expires) = records::count(&view, &self.overlay, &prefix, filters)?;
        self.note_range(Contract::Records, prefix, None, None, expires)?;
        Ok(count)
    }

    /// Guards the record that a pick found first. If the order is by a field, any write in the prefix
    /// could put a record before it. If the order is by key, only writes up to the found key could.
    /// Expiry of a later record changes nothing.
    fn note_pick(&mut self, pick: &RecordPick) -> Result<()> {
        let next = records::next(&self.snapshot.view(), &self.overlay, pick)?;
        let expires = next.as_ref().and_then(|(_, expires)| *expires);
        let upto = next.filter(|_| pick.by.is_none()).map(|(key, _)| key.as_str().to_owned());
        self.note_range(Contract::Records, pick.prefix.clone(), None, upto, expires)
    }

    /// Guards a range that was read, up to and including a name.
    fn note_range(
        &mut self,
        contract: Contract,
        prefix: String,
        after: Option<String>,
        upto: Option<String>,
        expires: Option<Stamp>,
    ) -> Result<()> {
        let since = self.snapshot.revision;
        self.snapshot.core.index().check_space_reach(keyspace::of(contract)?, since)?;
        self.check_guards()?;
        let texts = [Some(&prefix), after.as_ref(), upto.as_ref()];
        let text_bytes: usize = texts.into_iter().flatten().map(String::len).sum();
        self.noted_bytes += size_of::<Guard>() + text_bytes;
        self.ranges.push(Guard::RangeUnchanged { contract, prefix, after, upto, since, expires });
        Ok(())
    }

    /// Commits. Fails with `Conflict` if something in the read set has changed.
    pub fn commit(mut self) -> Result<Receipt> {
        self.touch()?;
        if self.steps.is_empty() {
            return Ok(self.read_only());
        }
        let core = self.snapshot.core.clone();
        let transaction = self.take();
        // The writer then checks only writes after `upto`.
        let upto = core.sequencer.published();
        let branch = self.snapshot.branch;
        let trail = &core.state.trail;
        let checked = CheckedRanges::new(&transaction.guards, branch, trail, upto)?;
        if checked.as_ref().is_some_and(|checked| !checked.held()) {
            return Err(conflict());
        }
        let submitted =
            PreparedTransaction::new(transaction, ReadAhead { checked, ..ReadAhead::default() });
        core.sequencer.execute(submitted).map_err(refusal)
    }

    /// Returns the receipt of a transaction that only read: its snapshot is consistent, so the writer
    /// is not needed.
    fn read_only(&self) -> Receipt {
        Receipt {
            revision: self.snapshot.revision,
            stamp: self.snapshot.now,
            held: true,
            repeated: false,
            answers: SmallVec::new(),
        }
    }

    /// Returns the transaction that a commit would execute; an empty one if it only read.
    pub fn into_transaction(mut self) -> Result<Transaction> {
        self.touch()?;
        if self.steps.is_empty() {
            return Ok(Transaction { durability: self.durability, ..Transaction::new() });
        }
        Ok(self.take())
    }

    /// Takes the steps, with guards for the read set.
    fn take(&mut self) -> Transaction {
        let since = self.snapshot.revision;
        let mut transaction = Transaction::on(&self.branch);
        transaction.branch_id = Some(self.snapshot.branch);
        transaction.durability = self.durability;
        transaction.steps = std::mem::take(&mut self.steps);
        transaction.guards = std::mem::take(&mut self.ranges);
        let read = std::mem::take(&mut self.read).into_iter();
        let unchanged = read.map(|((contract, name), expires)| Guard::Unchanged {
            contract,
            name,
            since,
            expires,
        });
        transaction.guards.extend(unchanged);
        let events = std::mem::take(&mut self.events).into_iter();
        let events = events.map(|((run, key), is)| Guard::Event { run, key, is });
        transaction.guards.extend(events);
        let states = std::mem::take(&mut self.states).into_iter();
        let states = states.map(|(space, place)| Guard::StateUnchanged { space, place, since });
        transaction.guards.extend(states);
        transaction
    }

    /// Returns the number of keys, events, places and ranges in the read set.
    pub fn guard_count(&self) -> usize {
        self.read.len() + self.events.len() + self.states.len() + self.ranges.len()
    }

    /// Returns the number of steps that a commit would have.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }
}

/// Returns the size of a place in a space, in bytes.
fn place_bytes(place: &StatePlace) -> usize {
    match place {
        StatePlace::Key(key) => key.len(),
        StatePlace::Item { key, id } => key.len() + id.len(),
        StatePlace::Position(source) => source.len(),
        StatePlace::Range { prefix, after, upto } => {
            let ends = [after, upto].into_iter().flatten().map(Vec::len);
            prefix.len() + ends.sum::<usize>()
        }
        _ => 0,
    }
}

fn micros(limit: Duration) -> u64 {
    u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)
}

/// Has the writer commit the expiry of a session before it is reported, because leases restart with the
/// database and would revive the session.
fn have_ended(core: &Engine, command: &SessionCommand) -> Result<()> {
    let Some(session) = command.session().cloned() else { return Ok(()) };
    let transaction = Transaction::new().step(SessionCommand::Info { session });
    core.sequencer.execute(transaction).map(drop)
}

/// Returns whether a command on the outbox gives the same answer at commit. A claim does not, because
/// other transactions may claim the same messages first.
fn stands_in_open(command: &OutboxCommand) -> bool {
    matches!(
        command,
        OutboxCommand::Put { .. }
            | OutboxCommand::Ack { .. }
            | OutboxCommand::AckHeld { .. }
            | OutboxCommand::Fail { .. }
            | OutboxCommand::FailHeld { .. }
            | OutboxCommand::Replay { .. }
    )
}

#[cold]
fn not_on_data() -> Error {
    let message = "only commands on data stand in an open transaction: run this one by itself";
    Error::new(Code::InvalidArgument, message)
}

/// Converts the error of a commit, because its caller knows nothing of guards.
#[cold]
pub fn refusal(error: Error) -> Error {
    match error.code() {
        // The transaction read an event of a run that has been deleted since.
        Code::GuardFailed | Code::RunNotFound => conflict(),
        _ => error,
    }
}

#[cold]
fn conflict() -> Error {
    let message = "something the transaction read has changed since it began: begin again";
    Error::new(Code::Conflict, message)
}
