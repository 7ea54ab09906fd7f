//! Program steps in interactive transactions, interleaved with all other steps.

use super::driver::{Driver, Slot, same, same_answer};
use super::run_steps::told_by;
use super::step::{Act, PREFIXES, Write, cell};
use mainstay::{
    Answer, Appended, CellCommand, Code, Command, ErrorKind, Failed, InteractiveTransaction, Name,
    NewEvent, OutboxAnswer, RecordCommand, Result, RunAnswer, RunCommand, Ttl, Versioned,
};
use mainstay_conformance::reference_model::Open;

impl Driver {
    pub fn begin(&mut self, slot: usize, branch: &str) {
        self.slots[slot] = None;
        let engine = self.world.db().branch(branch).and_then(|branch| branch.begin());
        let model = Open::begin(&self.oracle, branch);
        match (engine, model) {
            (Ok(engine), Ok(model)) => {
                assert_eq!(engine.revision(), model.revision());
                self.slots[slot] = Some(Slot { engine, model, branch: branch.to_owned() });
            }
            (engine, model) => same(engine.map(drop), model.map(drop)),
        }
    }

    pub fn within(&mut self, slot: usize, act: &Act) {
        let Some(open) = &mut self.slots[slot] else { return };
        match act {
            Act::Get(at) => get(open, &cell(*at)),
            Act::List(at) => {
                let engine = open.engine.list(PREFIXES[*at], None, 1_000);
                same(engine, open.model.list(PREFIXES[*at], None, 1_000));
            }
            Act::GetRecord(at) => get_record(open, &cell(*at)),
            Act::Do(Write::Get(at)) => get(open, &cell(*at)),
            Act::Do(Write::List(_)) => {}
            Act::Do(Write::Run(write)) if !write.may_be_open() => {}
            Act::Do(write) => run(open, &write.command(&self.oracle, &open.branch)),
        }
    }

    pub fn commit(&mut self, slot: usize, as_value: bool) {
        let Some(Slot { engine, model, branch }) = self.slots[slot].take() else { return };
        let wrote = model.wrote();
        let may_conflict = model.may_conflict(&self.oracle);
        let engine = if as_value {
            engine.into_transaction().and_then(|value| self.world.db().execute(value))
        } else {
            engine.commit()
        };
        let conflicts = |error: &mainstay::Error| error.kind() == ErrorKind::Conflict;
        if may_conflict && wrote {
            let conflicted = engine.as_ref().is_err_and(conflicts);
            self.tally.spaces.note_commit(conflicted);
            if conflicted {
                return;
            }
        }
        let model = model.commit(&mut self.oracle);
        match (engine, model) {
            (Ok(engine), Ok(Some(model))) => {
                assert_eq!((engine.revision, engine.stamp), (model.revision, model.stamp));
            }
            (Ok(_), Ok(None)) => {}
            // Commands without an effect may or may not count as writes.
            (Err(error), Ok(None)) => {
                let known = [ErrorKind::Conflict, ErrorKind::NotFound].contains(&error.kind());
                assert!(!wrote && known, "{error}");
            }
            (Err(engine), Err(model)) if model.code() == Code::Conflict => {
                assert_eq!(engine.kind(), ErrorKind::Conflict, "{engine} on {branch}");
            }
            (Err(_), Err(_)) => {}
            (engine, model) => panic!("on {branch}: engine {engine:?}\nmodel {model:?}"),
        }
    }
}

/// Reads one cell on both sides. For own writes, timestamp and expiry are only known after the commit.
fn get(open: &mut Slot, name: &Name) {
    let own = open.model.owns(name.as_str());
    let engine = open.engine.get_versioned(name.as_str()).unwrap();
    let model = open.model.get(name);
    let told = |seen: Option<Versioned>| seen.map(|seen| (seen.value, seen.counter, seen.revision));
    if own {
        assert_eq!(told(engine), told(model));
    } else {
        assert_eq!(engine, model);
    }
}

fn get_record(open: &mut Slot, key: &Name) {
    let engine = open.engine.run(RecordCommand::Get { key: key.clone(), fields: None });
    same_answer(engine, Ok(Answer::Record(open.model.get_record(key, None))));
}

/// Runs one command on both sides. After a failed command its cell and record are read, so that both
/// sides have them in their read sets.
fn run(open: &mut Slot, command: &Command) {
    let (engine, name) = match command {
        Command::Cell(command) => (call(&mut open.engine, command), command.name()),
        Command::String(text) => (open.engine.run(text.clone()), text.name()),
        Command::Record(record) => (open.engine.run(record.clone()), record.key()),
        Command::Hash(hash) => (open.engine.run(hash.clone()), Some(hash.key())),
        Command::Run(run) => return run_on_run(open, run),
        Command::Outbox(outbox) => (open.engine.run(outbox.clone()), None),
        Command::State(state) => (open.engine.run(state.clone()), None),
        other => panic!("{other:?} is not in any program"),
    };
    let failed = engine.is_err();
    let model = match command {
        Command::Record(record) if record.is_read() => look(open, record),
        other => open.model.command(other.clone()),
    };
    same_answer(engine.map(waiting_somehow), model.map(waiting_somehow));
    if let (true, Some(name)) = (failed, name) {
        get(open, name);
        get_record(open, name);
    }
}

/// Runs one run command on both sides. Times are assigned at commit, but event IDs are already known.
/// After a failed command the run is read.
fn run_on_run(open: &mut Slot, command: &RunCommand) {
    let engine = open.engine.run(command.clone());
    let failed = engine.is_err();
    let named = engine.as_ref().map_or(command.clone(), |answer| named(command.clone(), answer));
    same(engine.map(told_by), open.model.command(named).map(told_by));
    if let (true, Some(run)) = (failed, command.run().and_then(|run| Name::new(run).ok())) {
        let fetch = RunCommand::Fetch { run, after: 0, limit: 1_000 };
        let engine = open.engine.run(fetch.clone()).map(told_by);
        same(engine, open.model.command(fetch).map(told_by));
    }
}

/// Sets the event IDs that the engine returned, because they must be the stored ones.
fn named(mut command: RunCommand, answer: &Answer) -> RunCommand {
    let Answer::Run(answer) = answer else { return command };
    let call = |event: &mut NewEvent, told: &Appended| {
        event.event_id = Some(told.event_id.clone()).filter(|_| told.persisted);
    };
    match (&mut command, answer.as_ref()) {
        (RunCommand::Append { event, .. }, RunAnswer::Appended(told)) => call(event, told),
        (RunCommand::Bootstrap { events, .. }, RunAnswer::AppendedAll(told)) => {
            events.iter_mut().zip(told).for_each(|(event, told)| call(event, told));
        }
        _ => {}
    }
    command
}

/// Clears the due time of a failed message, because it is only known after the commit.
fn waiting_somehow(answer: Answer) -> Answer {
    match answer {
        Answer::Outbox(answer) => Answer::Outbox(Box::new(match *answer {
            OutboxAnswer::Failed(Failed::Waits(_)) => OutboxAnswer::Failed(Failed::Waits(0)),
            other => other,
        })),
        other => other,
    }
}

/// Executes a record read on the model, with its guard.
fn look(open: &mut Slot, command: &RecordCommand) -> Result<Answer> {
    match command.clone() {
        RecordCommand::Scan { prefix, filters, after, limit } => {
            open.model.scan(&prefix, &filters, after.as_deref(), limit).map(Answer::Records)
        }
        RecordCommand::Count { prefix, filters } => {
            Ok(Answer::Count(open.model.count(&prefix, &filters)))
        }
        RecordCommand::Get { key, fields } => {
            Ok(Answer::Record(open.model.get_record(&key, fields.as_deref())))
        }
        other => panic!("{other:?} reads nothing"),
    }
}

fn call(t: &mut InteractiveTransaction, command: &CellCommand) -> Result<Answer> {
    match command.clone() {
        CellCommand::Init { name, value } => t.init(name.as_str(), value).map(Answer::Counter),
        CellCommand::Set { name, value, ttl: Ttl::Clear } => {
            t.set(name.as_str(), value).map(Answer::Counter)
        }
        CellCommand::Set { name, value, ttl } => {
            t.set_with(name.as_str(), value, ttl).map(Answer::Counter)
        }
        CellCommand::Cas { name, expected, value } => {
            t.cas(name.as_str(), expected, value).map(Answer::MaybeCounter)
        }
        CellCommand::Delete { name, counter: None } => t.delete(name.as_str()).map(Answer::Did),
        CellCommand::Delete { name, counter: Some(counter) } => {
            t.delete_if(name.as_str(), counter).map(Answer::Did)
        }
        CellCommand::Incr { name, by } => {
            let sum = t.incr(name.as_str(), by);
            sum.map(|(value, counter)| Answer::Number { value, counter })
        }
        CellCommand::Expire { name, ttl } => t.expire(name.as_str(), ttl).map(Answer::Did),
        other => panic!("{other:?} is not in any program"),
    }
}
