//! Driver of random programs: runs each step on the engine and on the reference model and compares the answers.

use super::step::*;
use super::tally::Tally;
use mainstay::{
    Answer, CellCommand, Cells, Code, Command, Demand, Durability, ExpireOnly,
    InteractiveTransaction, Receipt, Record, RecordCommand, RequestId, Result, Transaction, Ttl,
};
use mainstay_conformance::TestDb;
use mainstay_conformance::reference_model::{Open, Oracle};
use std::fmt::Debug;

/// An open interactive transaction on both sides, and its branch.
pub struct Slot {
    pub engine: InteractiveTransaction,
    pub model: Open,
    pub branch: String,
}

/// The engine, the model, and the state between steps.
pub struct Driver {
    pub world: TestDb,
    pub oracle: Oracle,
    pub slots: [Option<Slot>; 2],
    named: Option<Transaction>,
    requests: u64,
    /// Range guards may start at this revision; the engine does not remember earlier writes after a
    /// reopen.
    pub floor: u64,
    pub tally: Tally,
}

impl Driver {
    /// Creates an empty engine and model. The write buffer is small, so that the program causes flushes.
    pub fn new(mut world: TestDb, durability: Durability) -> Driver {
        world.configure(move |options| {
            options.durability(durability).write_buffer_bytes(64 << 10).segment_bytes(64 << 10)
        });
        let oracle = Oracle::new(world.db().revision(), world.wall_us());
        let floor = oracle.revision();
        Driver {
            world,
            oracle,
            slots: [None, None],
            named: None,
            requests: 0,
            floor,
            tally: Tally::default(),
        }
    }

    /// Runs a whole program, then compares the complete state. Returns statistics.
    pub fn run(self, program: &Program) -> Tally {
        self.run_watched(program, |_, _| {})
    }

    /// Like `run`, but calls `look` with the engine after each step.
    pub fn run_watched(mut self, program: &Program, mut look: impl FnMut(usize, &TestDb)) -> Tally {
        for (number, step) in program.0.iter().enumerate() {
            self.step(step);
            assert_eq!(self.world.db().revision(), self.oracle.revision(), "after {step:?}");
            look(number, &self.world);
        }
        self.compare_everything();
        self.tally
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::One { branch, write } => self.one(BRANCHES[*branch], write),
            Step::Batch { branch, writes } => self.batch(BRANCHES[*branch], writes),
            Step::Transact { branch, guards, steps, otherwise, named } => {
                self.transact(BRANCHES[*branch], guards, steps, otherwise.as_ref(), *named);
            }
            Step::Repeat => self.repeat(),
            Step::Begin { slot, branch } => self.begin(*slot, BRANCHES[*branch]),
            Step::Within { slot, act } => self.within(*slot, act),
            Step::Commit { slot, as_value } => self.commit(*slot, *as_value),
            Step::Abandon { slot } => self.slots[*slot] = None,
            Step::Pass { tens } => {
                self.world.pass_ms(tens * 10);
                self.oracle.wall += tens * 10_000;
            }
            Step::Sweep => {
                assert_eq!(self.world.db().sweep().unwrap(), self.oracle.sweep(), "swept");
            }
            Step::Reap => self.reap(),
            Step::Reopen => self.reopen(),
            other if self.branch_step(other) => {}
            other => self.read_step(other),
        }
    }

    /// Reaping has no visible effect but takes revisions, so the model skips them.
    fn reap(&mut self) {
        self.world.beside().reap().unwrap();
        while self.oracle.revision() < self.world.db().revision() {
            self.oracle.skip();
        }
    }

    fn reopen(&mut self) {
        if self.world.is_on_disk() {
            self.slots = [None, None];
            self.world.reopen();
            self.floor = self.oracle.revision();
        }
    }

    fn one(&mut self, branch: &str, write: &Write) {
        let command = write.command(&self.oracle, branch);
        let engine = run(&self.world, branch, &command);
        let model = self.oracle.execute(&Transaction::on(branch).step(command));
        same(engine, model.map(|receipt| receipt.answers[0].clone()));
    }

    fn batch(&mut self, branch: &str, writes: &[Write]) {
        let Ok(handle) = self.world.db().branch(branch) else { return };
        // The commands of a batch are planned before it runs, equally for both sides.
        let commands: Vec<_> = writes.iter().map(|w| w.command(&self.oracle, branch)).collect();
        let commands: Vec<CellCommand> = commands.into_iter().filter_map(on_cell).collect();
        let before = self.world.db().revision();
        let engine = handle.cells().batch(commands.clone());
        let commands: Vec<Command> = commands.into_iter().map(Into::into).collect();
        let taken = self.world.db().revision() - before;
        let model = self.oracle.batch(branch, &commands, taken <= 1);
        assert_eq!(engine.len(), model.len());
        engine.into_iter().zip(model).for_each(|(engine, model)| same_answer(engine, model));
    }

    fn transact(
        &mut self,
        branch: &str,
        guards: &[Check],
        steps: &Demands,
        otherwise: Option<&Demands>,
        named: bool,
    ) {
        let floor = self.oracle.line(branch).map_or(self.floor, |l| l.created.max(self.floor));
        let plan = |demands: &Demands| -> Vec<mainstay::Step> {
            let one = |(write, demand): &(Write, Demand)| {
                let command = write.command(&self.oracle, branch);
                mainstay::Step { command, demand: *demand }
            };
            demands.iter().map(one).collect()
        };
        let mut transaction = Transaction::on(branch);
        transaction.guards = guards.iter().map(|g| g.guard(&self.oracle, branch, floor)).collect();
        transaction.steps = plan(steps).into_iter().collect();
        transaction.otherwise = otherwise.map(plan);
        if named {
            self.requests += 1;
            let id = RequestId::new(self.requests.to_be_bytes()).unwrap();
            transaction = transaction.request(id);
        }
        if self.execute(&transaction) && named {
            self.named = Some(transaction);
        }
    }

    fn repeat(&mut self) {
        if let Some(transaction) = self.named.clone() {
            self.execute(&transaction);
        }
    }

    /// Executes a transaction on both sides and returns whether it wrote.
    fn execute(&mut self, transaction: &Transaction) -> bool {
        let before = self.oracle.revision();
        let engine = self.world.db().execute(transaction.clone());
        let model = self.oracle.execute(transaction);
        let wrote = self.oracle.revision() > before;
        same_receipt(engine, model, wrote);
        wrote
    }
}

fn on_cell(command: Command) -> Option<CellCommand> {
    match command {
        Command::Cell(command) => Some(command),
        _ => None,
    }
}

/// Runs one command: by its own method if it has one, otherwise in a transaction.
fn run(world: &TestDb, branch: &str, command: &Command) -> Result<Answer> {
    let db = world.db();
    let cells = db.branch(branch)?.cells();
    match command {
        Command::Cell(command) => call(&cells, command),
        Command::Record(command) => call_record(world, branch, command),
        other => {
            let receipt = db.execute(Transaction::on(branch).step(other.clone()))?;
            Ok(receipt.answers[0].clone())
        }
    }
}

/// Calls the method of a cell command.
pub fn call(cells: &Cells, command: &CellCommand) -> Result<Answer> {
    match command.clone() {
        CellCommand::Init { name, value } => cells.init(name.as_str(), value).map(Answer::Counter),
        CellCommand::Set { name, value, ttl: Ttl::Clear } => {
            cells.set(name.as_str(), value).map(Answer::Counter)
        }
        CellCommand::Set { name, value, ttl } => {
            cells.set_with(name.as_str(), value, ttl).map(Answer::Counter)
        }
        CellCommand::Cas { name, expected, value } => {
            cells.cas(name.as_str(), expected, value).map(Answer::MaybeCounter)
        }
        CellCommand::Delete { name, counter: None } => cells.delete(name.as_str()).map(Answer::Did),
        CellCommand::Delete { name, counter: Some(counter) } => {
            cells.delete_if(name.as_str(), counter).map(Answer::Did)
        }
        CellCommand::Incr { name, by } => {
            let sum = cells.incr(name.as_str(), by);
            sum.map(|(value, counter)| Answer::Number { value, counter })
        }
        CellCommand::Expire { name, ttl } => cells.expire(name.as_str(), ttl).map(Answer::Did),
        CellCommand::Get { name } => cells.get_versioned(name.as_str()).map(Answer::Cell),
        CellCommand::List { prefix, after, limit } => {
            cells.list(&prefix, after.as_deref(), limit).map(Answer::Names)
        }
        other => panic!("{other:?} is not in any program"),
    }
}

/// Calls the method of a record command, or runs it in a transaction if it has none.
fn call_record(world: &TestDb, branch: &str, command: &RecordCommand) -> Result<Answer> {
    let records = world.db().branch(branch)?.records();
    let reads = world.db().branch(branch)?.records();
    match command.clone() {
        RecordCommand::Write(write) => records.write(*write).map(Answer::MaybeCounter),
        RecordCommand::Delete { key, when } => {
            records.delete_when(key.as_str(), when).map(Answer::Did)
        }
        RecordCommand::Expire { key, ttl, only: ExpireOnly::Always } => {
            records.expire(key.as_str(), ttl).map(Answer::Did)
        }
        RecordCommand::Get { key, fields: None } => reads.get(key.as_str()).map(Answer::Record),
        RecordCommand::Scan { prefix, filters, after, limit } => {
            reads.scan(&prefix, &filters, after.as_deref(), limit).map(Answer::Records)
        }
        RecordCommand::Count { prefix, filters } => {
            reads.count(&prefix, &filters).map(Answer::Count)
        }
        other => {
            let receipt = world.db().execute(Transaction::on(branch).step(other))?;
            Ok(receipt.answers[0].clone())
        }
    }
}

/// Asserts equal results or equal error codes.
#[track_caller]
pub fn same<T: PartialEq + Debug>(engine: Result<T>, model: Result<T>) {
    assert_eq!(engine.map_err(|e| e.code()), model.map_err(|e| e.code()));
}

/// Asserts equal answers. Own writes of an open transaction may not have a revision yet.
#[track_caller]
pub fn same_answer(engine: Result<Answer>, model: Result<Answer>) {
    match (&engine, &model) {
        (Ok(Answer::Cell(Some(e))), Ok(Answer::Cell(Some(m)))) if e.revision == 0 => {
            assert_eq!((&e.value, e.counter, e.expires), (&m.value, m.counter, m.expires));
        }
        (Ok(Answer::Record(Some(e))), Ok(Answer::Record(Some(m)))) => same_record(e, m),
        (Ok(Answer::Records(e)), Ok(Answer::Records(m))) => {
            assert_eq!((e.records.len(), &e.next), (m.records.len(), &m.next));
            for ((key, e), (model_key, m)) in e.records.iter().zip(&m.records) {
                assert_eq!(key, model_key);
                same_record(e, m);
            }
        }
        (Ok(Answer::Failed(e)), Ok(Answer::Failed(m))) => assert_eq!(e.code(), m.code()),
        _ => same(engine, model),
    }
}

/// Asserts equal records. Own writes of an open transaction may not have a revision yet.
#[track_caller]
fn same_record(engine: &Record, model: &Record) {
    if engine.revision == 0 {
        let told = |record: &Record| (record.fields.clone(), record.counter);
        assert_eq!(told(engine), told(model));
    } else {
        assert_eq!(engine, model);
    }
}

/// Asserts equal receipts. A transaction without a write has no timestamp of its own.
#[track_caller]
fn same_receipt(engine: Result<Receipt>, model: Result<Receipt>, wrote: bool) {
    match (engine, model) {
        (Ok(engine), Ok(model)) => {
            let head = |r: &Receipt| (r.revision, r.held, r.repeated, r.answers.len());
            assert_eq!(head(&engine), head(&model));
            if wrote || model.repeated {
                assert_eq!(engine.stamp, model.stamp);
            }
            let pairs = engine.answers.into_iter().zip(model.answers);
            pairs.for_each(|(engine, model)| same_answer(Ok(engine), Ok(model)));
        }
        (Err(engine), Err(model)) => {
            assert_eq!(engine.code(), model.code(), "{engine}");
            if engine.code() != Code::GuardFailed && model.position().is_some() {
                assert_eq!(engine.position(), model.position(), "{engine}");
            }
        }
        (engine, model) => panic!("engine {engine:?}\nmodel {model:?}"),
    }
}
