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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Name, Options, RecordWrite, Where};
    use mainstay_model::{Contract, Guard, MAIN, StateAnswer, StateWrite, Test, Ttl, Version};
    use proptest::prelude::*;
    use std::time::Duration;

    const RECORDS: usize = 1_000;

    fn name(name: impl AsRef<str>) -> Name {
        Name::new(name.as_ref()).unwrap()
    }

    fn put(key: &str, value: &str) -> Command {
        RecordWrite::to(key).unwrap().set("n", value).unwrap().into()
    }

    fn count(prefix: &str) -> Command {
        RecordCommand::Count { prefix: prefix.to_owned(), filters: Vec::new() }.into()
    }

    fn count_names() -> Command {
        KeyCommand::Count { kinds: names::KINDS.to_vec(), limit: 10_000, hidden: Vec::new() }.into()
    }

    fn put_state(key: &str, version: u64) -> Command {
        let key = key.as_bytes().to_vec();
        let version = Version::U64(version);
        let writes = vec![StateWrite::Put { key, value: Vec::new(), version }];
        StateCommand::Write { space: name("s"), writes }.into()
    }

    fn list_states(prefix: &str) -> Command {
        let prefix = prefix.as_bytes().to_vec();
        StateCommand::List { space: name("s"), prefix, after: None, limit: 2 }.into()
    }

    fn set(cell: &str) -> Command {
        CellCommand::set(name(cell), 1).into()
    }

    fn all(commands: impl IntoIterator<Item = Command>) -> Transaction {
        commands.into_iter().fold(Transaction::new(), Transaction::step)
    }

    fn filled(options: Options) -> Database {
        let db = options.durability(Durability::Memory).memory().unwrap();
        db.execute(all((0..RECORDS).map(|i| put(&format!("r{i:04}"), "1")))).unwrap();
        db
    }

    #[test]
    fn a_transaction_looks_at_so_many_entries_and_writes_nothing_beyond() {
        let db = filled(Options::new().work_limits(10 * RECORDS as u64, 1 << 30));
        let before = db.revision();
        let many = || (0..20).map(|_| count(""));
        for transaction in
            [all(many()), all(many().chain([set("a")])), all([set("a")].into_iter().chain(many()))]
        {
            let error = db.execute(transaction).unwrap_err();
            assert_eq!(error.code(), Code::TransactionTooLarge);
            assert!(error.to_string().contains("transaction_entries"), "{error}");
        }
        assert_eq!(db.revision(), before, "nothing was written");
        db.execute(all((0..9).map(|_| count("")).chain([set("a")]))).unwrap();
    }

    #[test]
    fn an_interactive_transaction_has_one_budget_in_all() {
        let db = filled(Options::new().work_limits(10 * RECORDS as u64, 1 << 30));
        let mut open = db.begin().unwrap();
        let outcomes: Vec<_> = (0..20).map(|_| open.run(count(""))).collect();
        assert!(outcomes[8].is_ok());
        assert_eq!(outcomes[19].as_ref().unwrap_err().code(), Code::TransactionTooLarge);
    }

    #[test]
    fn bytes_that_are_read_have_a_limit_too() {
        let db = filled(Options::new().work_limits(u64::MAX, 64 << 10));
        let gets = |n: usize| {
            let get = |i: usize| RecordCommand::Get {
                key: name(format!("r{:04}", i % RECORDS)),
                fields: None,
            };
            all((0..n).map(|i| get(i).into()))
        };
        db.execute(gets(100)).unwrap();
        let error = db.execute(gets(10_000)).unwrap_err();
        assert_eq!(error.code(), Code::TransactionTooLarge);
        assert!(error.to_string().contains("transaction_read_bytes"), "{error}");
    }

    #[test]
    fn long_reads_do_not_hold_the_writer() {
        // The writer may read far fewer entries than one count needs.
        let db = filled(Options::new().writer_entries(100));
        let many = || (0..20).map(|_| count(""));
        let read = db.execute(all(many())).unwrap();
        let mixed = db.execute(all([set("a")].into_iter().chain(many()))).unwrap();
        assert_eq!(read.answers[19], Answer::Count(RECORDS as u64));
        assert_eq!(mixed.answers[20], Answer::Count(RECORDS as u64));
        let own = all([put("r", "1")].into_iter().chain(many()));
        let error = db.execute(own).unwrap_err();
        assert_eq!(error.code(), Code::TransactionTooLarge, "its own writes are in the way");
        assert!(error.to_string().contains("transaction_writer_entries"), "{error}");
    }

    #[test]
    fn names_histories_and_states_are_read_before_the_writer_too() {
        let db = filled(Options::new().writer_entries(100));
        (0..200).for_each(|_| drop(db.execute(all([set("hot"), put("hot", "1")])).unwrap()));
        db.execute(all((0..500).map(|i| put_state(&format!("k{i:03}"), i)))).unwrap();
        let oldest = || CellCommand::History { name: name("hot"), limit: 1, before: Some(2) };
        let record = || RecordCommand::History { key: name("hot"), limit: 1, before: Some(2) };
        let dump = || StateCommand::Dump { space: name("s"), after: None, limit_bytes: 1 << 20 };
        let reads: [Command; 4] = [count_names(), oldest().into(), record().into(), dump().into()];
        let others = [put_state("z", 1), set("a"), set("a"), set("a")];
        for (other, read) in others.into_iter().zip(reads.clone()) {
            db.execute(all([other, read])).unwrap();
        }
        let own = [put("r", "1"), set("hot"), put("hot", "1"), put_state("k", 1_000)];
        for (own, read) in own.into_iter().zip(reads) {
            let error = db.execute(all([own, read.clone()])).unwrap_err();
            assert_eq!(error.code(), Code::TransactionTooLarge, "{read:?}");
        }
    }

    #[test]
    fn what_others_wrote_meanwhile_is_seen() {
        let db = filled(Options::new());
        let core = db.here("a test").unwrap();
        let submitted = core.prepare(all([set("a"), count("r"), count("x")]));
        db.execute(all([put("r", "1")])).unwrap();
        let receipt = core.sequencer.execute(submitted).unwrap();
        assert_eq!(receipt.answers[1], Answer::Count(RECORDS as u64 + 1));
        assert_eq!(receipt.answers[2], Answer::Count(0));
    }

    #[test]
    fn what_others_wrote_while_it_was_read_is_not_looked_at_by_the_writer_again() {
        let db = filled(Options::new());
        let core = db.here("a test").unwrap();
        let mut submitted = core.prepare(all([set("a"), count("r"), count("x")]));
        db.execute(all([put("r", "1")])).unwrap();
        let prefetched = submitted.ahead.as_mut().unwrap().prefetched.as_mut().unwrap();
        prefetched.catch_up(&core.state.trail, db.revision());
        assert_eq!(prefetched.revision, db.revision());
        let receipt = core.sequencer.execute(submitted).unwrap();
        assert_eq!(receipt.answers[1], Answer::Count(RECORDS as u64 + 1));
        assert_eq!(receipt.answers[2], Answer::Count(0));
    }

    #[test]
    fn a_transaction_that_nobody_comes_between_has_the_budget_of_the_writer() {
        let db = filled(Options::new().writer_entries(100));
        let main = db.branch(MAIN).unwrap();
        let counted = main.transaction_alone(Vec::new(), |open| open.run(count("")));
        assert_eq!(counted.unwrap_err().code(), Code::TransactionTooLarge);
    }

    #[test]
    fn a_kept_state_is_that_of_the_same_transaction() {
        let db = filled(Options::new());
        let started = crate::NewEvent {
            plan_version: Some("1".to_owned()),
            ..crate::NewEvent::new("r", "RunStarted")
        };
        db.runs().append(started).unwrap();
        let keep = |state: i64| {
            let run = name("r");
            let reducer = "p".to_owned();
            let state = state.into();
            Command::from(RunCommand::Keep { run, reducer, version: 1, seq: 1, state })
        };
        db.execute(all([keep(1)])).unwrap();
        let run = name("r");
        let reducer = "p".to_owned();
        let kept = RunCommand::Kept { run, reducer, version: 1, upto: None };
        let answers = db.execute(all([keep(2), count("r"), kept.into()])).unwrap().answers;
        let Answer::Run(answer) = &answers[2] else { panic!("{answers:?}") };
        let RunAnswer::Kept(Some(kept)) = &**answer else { panic!("{answer:?}") };
        assert_eq!(kept.state, 2.into());
    }

    #[test]
    fn a_history_shows_what_was_swept_meanwhile() {
        let clock = crate::ManualClock::new(1_000_000_000);
        let options = Options::new().durability(Durability::Memory).clock(clock.clone());
        let db = options.sweep_interval(None).memory().unwrap();
        let ttl = Ttl::Millis(5);
        let expire = [
            CellCommand::Expire { name: name("c"), ttl }.into(),
            RecordCommand::Expire { key: name("c"), ttl, only: Default::default() }.into(),
        ];
        db.execute(all([set("c"), put("c", "1")].into_iter().chain(expire))).unwrap();
        let cell = CellCommand::History { name: name("c"), limit: 9, before: None };
        let record = RecordCommand::History { key: name("c"), limit: 9, before: None };
        let core = db.here("a test").unwrap();
        let submitted = core.prepare(all([set("a"), cell.into(), record.into()]));
        clock.advance(Duration::from_millis(10));
        db.sweep().unwrap();
        let answers = core.sequencer.execute(submitted).unwrap().answers;
        let [_, Answer::History(cells), Answer::RecordHistory(records)] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert!(cells[0].value.is_none() && records[0].fields.is_none(), "{answers:?}");
    }

    #[test]
    fn all_range_guards_of_a_transaction_take_one_walk() {
        let db = filled(Options::new());
        let mut open = db.begin().unwrap();
        for i in 0..500 {
            open.list(&format!("c{i}"), None, 10).unwrap();
        }
        open.set("other", 1).unwrap();
        let trail = &db.here("a test").unwrap().state.trail;
        let before = trail.walks();
        open.commit().unwrap();
        let walks = trail.walks() - before;
        assert!(walks <= 2, "{walks} walks: one before the writer is asked, and one in it");
        let guard = |i: usize| Guard::RangeUnchanged {
            contract: Contract::Cells,
            prefix: format!("c{i}"),
            after: None,
            upto: None,
            since: db.revision(),
            expires: None,
        };
        let guarded = (0..500).fold(all([set("a")]), |all, i| all.guard(guard(i)));
        let before = trail.walks();
        db.execute(guarded).unwrap();
        let walks = trail.walks() - before;
        assert!(walks <= 2, "{walks} walks: those of a plain transaction as well");
    }

    #[test]
    fn range_guards_are_checked_before_the_writer_and_again_for_what_came_since() {
        let db = filled(Options::new());
        let core = db.here("a test").unwrap();
        let guarded = |on: &str, since| {
            let guard = Guard::RangeUnchanged {
                contract: Contract::Cells,
                prefix: "g".to_owned(),
                after: None,
                upto: None,
                since,
                expires: None,
            };
            let command: Command = set("done");
            Transaction {
                otherwise: Some(Vec::new()),
                ..Transaction::on(on).step(command).guard(guard)
            }
        };
        let since = db.revision();
        let holds = core.prepare(guarded(MAIN, since));
        let fails = core.prepare(guarded(MAIN, since));
        assert!(core.sequencer.execute(holds).unwrap().held);
        db.execute(all([set("g1")])).unwrap();
        assert!(!core.sequencer.execute(fails).unwrap().held, "written between the two checks");
        assert!(!db.execute(guarded(MAIN, since)).unwrap().held, "written before both");
        // The same name, but a different branch when the writer executes it.
        db.fork("b", MAIN, At::Latest).unwrap();
        let since = db.revision();
        db.execute(Transaction::on("b").step(set("g2"))).unwrap();
        let failed = core.prepare(guarded("b", since));
        db.delete_branch("b").unwrap();
        db.fork("b", MAIN, At::Latest).unwrap();
        assert!(core.sequencer.execute(failed).unwrap().held, "nothing was written on this one");
    }

    fn command() -> impl Strategy<Value = Command> {
        let key = || prop::sample::select(vec!["a", "ab", "b", "ba", "c"]);
        let prefix = || prop::sample::select(vec!["", "a", "b", "c"]);
        let is = |value: &str| {
            vec![Where {
                field: mainstay_model::Field::new("n").unwrap(),
                test: Test::Eq(value.into()),
            }]
        };
        let kinds = prop::sample::subsequence(names::KINDS.to_vec(), 1..=2);
        let writes = prop_oneof![
            (key(), "[12]").prop_map(|(key, value)| put(key, &value)),
            key().prop_map(|key| RecordCommand::Delete { key: name(key), when: Vec::new() }.into()),
            key().prop_map(set),
            key().prop_map(|key| CellCommand::Delete { name: name(key), counter: None }.into()),
            (key(), 0..9u64).prop_map(|(key, version)| put_state(key, version)),
            (key(), 1..9u64).prop_map(|(key, ms)| {
                CellCommand::Expire { name: name(key), ttl: Ttl::Millis(ms) }.into()
            }),
            (key(), 1..9u64).prop_map(|(key, ms)| {
                let (key, ttl) = (name(key), Ttl::Millis(ms));
                RecordCommand::Expire { key, ttl, only: Default::default() }.into()
            }),
        ];
        let histories = prop_oneof![
            key().prop_map(|key| {
                CellCommand::History { name: name(key), limit: 3, before: None }.into()
            }),
            key().prop_map(|key| {
                RecordCommand::History { key: name(key), limit: 3, before: None }.into()
            }),
        ];
        let reads = prop_oneof![
            prefix().prop_map(count),
            prefix().prop_map(move |prefix| {
                let (prefix, filters) = (prefix.to_owned(), is("1"));
                RecordCommand::Scan { prefix, filters, after: None, limit: 2 }.into()
            }),
            prefix().prop_map(|prefix| {
                CellCommand::List { prefix: prefix.to_owned(), after: None, limit: 2 }.into()
            }),
            (kinds, prefix(), prop::option::of(key())).prop_map(|(kinds, prefix, after)| {
                let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
                KeyCommand::Names { kinds, prefix, after, limit: 2, hidden: Vec::new() }.into()
            }),
            Just(count_names()),
            prefix().prop_map(list_states),
        ];
        prop_oneof![3 => writes, 3 => reads, 1 => histories]
    }

    /// Removes the cursor: a page has one if more may follow, and nothing may follow.
    fn without_next(answer: Answer) -> Answer {
        match answer {
            Answer::Names(page) => Answer::Names(crate::Page { next: None, ..page }),
            Answer::Records(page) => Answer::Records(crate::RecordPage { next: None, ..page }),
            Answer::State(answer) => Answer::State(match *answer {
                StateAnswer::Keys { keys, .. } => StateAnswer::Keys { keys, next: None }.into(),
                other => other.into(),
            }),
            other => other,
        }
    }

    proptest! {
        /// For any prefetched reads and any concurrent writes, the answers equal those of the writer
        /// alone.
        #[test]
        fn prefetched_answers_are_those_of_the_writer(
            before in prop::collection::vec(command(), 0..6),
            meanwhile in prop::collection::vec(command(), 0..3),
            steps in prop::collection::vec(command(), 1..8),
            passes_ms in 0..9u64,
            sweeps: bool,
        ) {
            let receipts = [true, false].map(|prefetches| {
                let clock = crate::ManualClock::new(1_000_000_000);
                let options = Options::new().durability(Durability::Memory).clock(clock.clone());
                let db = options.sweep_interval(None).memory().unwrap();
                let core = db.here("a test").unwrap();
                let attempt = |commands: &[Command]| {
                    commands.iter().cloned().fold(Transaction::new(), Transaction::attempt)
                };
                let execute = |commands: &[Command]| core.sequencer.execute(attempt(commands)).unwrap();
                execute(&before);
                let transaction = attempt(&steps);
                let submitted =
                    if prefetches { core.prepare(transaction) } else { transaction.into() };
                execute(&meanwhile);
                clock.advance(Duration::from_millis(passes_ms));
                if sweeps {
                    db.sweep().unwrap();
                }
                core.sequencer.execute(submitted).unwrap()
            });
            let [prefetched, alone] = receipts.map(|receipt| receipt.answers.into_iter().map(without_next).collect::<Vec<_>>());
            prop_assert_eq!(prefetched, alone);
        }
    }
}
