//! Run and outbox commands of random programs: producers that repeat and contradict themselves, relays that fail.

use super::driver::{Driver, same};
use super::make::a_cell;
use super::step::{BRANCHES, CELLS, PREFIXES, Step, cell};
use mainstay::{
    Answer, Appended, At, Command, Name, NewEvent, OutboxAnswer, OutboxCommand, Result, RunAnswer,
    RunCommand, RunFilter, RunStatus,
};
use mainstay_conformance::reference_model::Oracle;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Event types; one of them is unknown to the reducer.
const KINDS: [&str; 8] = [
    "RunStarted",
    "RunPaused",
    "RunResumed",
    "RunCompleted",
    "StepStarted",
    "StepFailed",
    "StepRetried",
    "Noted",
];

/// An event. Its key and payload come from small pools, so that events collide.
#[derive(Clone, Debug)]
pub struct Told {
    kind: usize,
    key: u8,
    payload: i64,
    named: bool,
    /// Whether a message is attached.
    with_message: bool,
}

/// A run or outbox command before its sequence numbers are known.
#[derive(Clone, Debug)]
pub enum RunWrite {
    /// Appends an event, optionally expecting a sequence number near the current one.
    Append(usize, Told, Option<i8>),
    Bootstrap(usize, Vec<Told>),
    Delete(usize),
    /// Fetches events after a sequence number, up to a limit.
    Fetch(usize, u64, usize),
    /// Reads the snapshot, optionally at a sequence number.
    Snapshot(usize, Option<u64>),
    /// Puts a message, optionally of a run.
    Put(Option<usize>, u8),
    /// Claims messages, with the lease in tens of milliseconds.
    Claim(usize, u64),
    /// Acknowledges messages.
    Ack(Vec<u64>),
    AckHeld(Vec<u64>),
    /// Fails a message, with the maximum number of tries.
    Fail(u64, u32),
    /// Replays a dead message.
    Replay(u64),
}

impl Told {
    fn event(&self, run: usize) -> NewEvent {
        let kind = KINDS[self.kind];
        let event = NewEvent::new(CELLS[run], kind).with_key(&format!("key-{}", self.key));
        let event = event.value(self.payload);
        let mut event = if kind.starts_with("Step") { event.step("s") } else { event };
        event.event_id = self.named.then(|| format!("event-{}", self.key));
        if self.with_message {
            event.message(&format!("of-{}", self.key), "payload")
        } else {
            event
        }
    }
}

impl RunWrite {
    /// Builds the command with sequence numbers near those in the model.
    pub fn command(&self, oracle: &Oracle, branch: &str) -> Command {
        match self.clone() {
            RunWrite::Append(run, told, near) => {
                let last = oracle.last_seq(branch, CELLS[run]);
                let expected = near.map(|near| last.saturating_add_signed(near.into()));
                RunCommand::Append { event: Box::new(told.event(run)), expected }.into()
            }
            RunWrite::Bootstrap(run, told) => {
                let events = told.iter().map(|told| told.event(run)).collect();
                let metadata = CELLS[run].into();
                RunCommand::Bootstrap { run: cell(run), metadata, events }.into()
            }
            RunWrite::Delete(run) => RunCommand::Delete { run: cell(run) }.into(),
            RunWrite::Fetch(run, after, limit) => {
                RunCommand::Fetch { run: cell(run), after, limit }.into()
            }
            RunWrite::Snapshot(run, seq) => RunCommand::Snapshot { run: cell(run), seq }.into(),
            RunWrite::Put(run, number) => OutboxCommand::Put {
                subject: format!("subject-{number}"),
                payload: vec![number],
                run: run.map(cell),
            }
            .into(),
            RunWrite::Claim(limit, tens) => {
                // Leases end between the tens of milliseconds that clocks move by.
                OutboxCommand::Claim { limit, lease_ms: tens * 10 + 5 }.into()
            }
            RunWrite::Ack(ids) => OutboxCommand::Ack { ids }.into(),
            // No claim ever has this token, so it is fenced unless none of the messages was claimed.
            RunWrite::AckHeld(ids) => OutboxCommand::AckHeld { ids, token: 1 }.into(),
            RunWrite::Fail(id, tries) => {
                OutboxCommand::Fail { id, message: "no".into(), backoff_ms: 5, tries }.into()
            }
            RunWrite::Replay(id) => OutboxCommand::Replay { id }.into(),
        }
    }

    /// Returns whether an interactive transaction may contain it; claims are refused there.
    pub fn may_be_open(&self) -> bool {
        !matches!(self, RunWrite::Claim(..))
    }
}

fn told() -> impl Strategy<Value = Told> {
    let parts = (0..KINDS.len(), 0..12u8, 0..2i64, any::<bool>(), proptest::bool::weighted(0.3));
    parts.prop_map(|(kind, key, payload, named, with_message)| Told {
        kind,
        key,
        payload,
        named,
        with_message,
    })
}

fn id() -> impl Strategy<Value = u64> {
    1..12u64
}

/// Generates appends to a few runs, so that branches collide in them.
pub fn append_to(runs: usize) -> impl Strategy<Value = RunWrite> {
    (0..runs, told()).prop_map(|(run, told)| RunWrite::Append(run, told, None))
}

/// Generates any run or outbox command.
pub fn run_write() -> impl Strategy<Value = RunWrite> {
    let near = option::weighted(0.2, prop_oneof![3 => Just(0i8), 1 => -1..2i8]);
    prop_oneof![
        12 => (a_cell(), told(), near).prop_map(|(run, told, near)| RunWrite::Append(run, told, near)),
        2 => (a_cell(), vec(told(), 0..4)).prop_map(|(run, told)| RunWrite::Bootstrap(run, told)),
        1 => a_cell().prop_map(RunWrite::Delete),
        2 => (a_cell(), 0..5u64, 0..5usize)
            .prop_map(|(run, after, limit)| RunWrite::Fetch(run, after, limit)),
        2 => (a_cell(), option::of(0..6u64)).prop_map(|(run, seq)| RunWrite::Snapshot(run, seq)),
        4 => (option::weighted(0.7, 0..3usize), any::<u8>())
            .prop_map(|(run, number)| RunWrite::Put(run, number)),
        4 => (1..4usize, 0..6u64).prop_map(|(limit, tens)| RunWrite::Claim(limit, tens)),
        3 => vec(id(), 0..4).prop_map(RunWrite::Ack),
        1 => vec(id(), 0..4).prop_map(RunWrite::AckHeld),
        3 => (id(), 1..4u32).prop_map(|(id, tries)| RunWrite::Fail(id, tries)),
        1 => id().prop_map(RunWrite::Replay),
    ]
}

/// Clears event IDs and times, which depend on the time of execution.
pub fn told_by(answer: Answer) -> Answer {
    let bare = |one: Appended| Appended {
        event_id: String::new(),
        persisted_at: mainstay::Instant::of_us(0),
        ..one
    };
    let Answer::Run(answer) = answer else { return answer };
    Answer::Run(Box::new(match *answer {
        RunAnswer::Appended(one) => RunAnswer::Appended(bare(one)),
        RunAnswer::AppendedAll(all) => RunAnswer::AppendedAll(all.into_iter().map(bare).collect()),
        RunAnswer::Events(events) => RunAnswer::Events(
            events
                .into_iter()
                .map(|mut event| {
                    event.event_id = String::new();
                    event.emitted_at = mainstay::Instant::of_us(0);
                    event.persisted_at = None;
                    event
                })
                .collect(),
        ),
        other => other,
    }))
}

impl Driver {
    /// Runs a run read. Returns false if the step is of another kind.
    pub fn run_read(&self, step: &Step) -> bool {
        let Step::ReadRun { branch, run, back } = step else { return false };
        self.compare_run(BRANCHES[*branch], &cell(*run), self.past(*back));
        true
    }

    fn compare_run(&self, branch: &str, run: &Name, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        let view = self.world.db().branch(branch).unwrap().runs().at(at).unwrap();
        for command in [
            RunCommand::Get { run: run.clone() },
            RunCommand::Fetch { run: run.clone(), after: 0, limit: 1_000 },
            RunCommand::Snapshot { run: run.clone(), seq: None },
            RunCommand::Snapshot { run: run.clone(), seq: Some(2) },
            RunCommand::Project { run: run.clone() },
            RunCommand::Alerts { run: run.clone(), after: 1, limit: 2 },
        ] {
            let model = self.oracle.read_runs(branch, &command, moment);
            let engine = view.read(command.clone());
            assert_eq!(engine.ok(), model.ok(), "{command:?} on {branch} at {at:?}");
        }
    }

    /// Compares every run of a branch at a revision, and lists of them.
    pub fn compare_runs(&self, branch: &str, at: At) {
        CELLS.iter().for_each(|run| self.compare_run(branch, &Name::new(run).unwrap(), at));
        let Some(moment) = self.moment(branch, at) else { return };
        let view = self.world.db().branch(branch).unwrap().runs().at(at).unwrap();
        let running = RunFilter::default().status(RunStatus::Running);
        let filters = PREFIXES.iter().map(|prefix| RunFilter::of(prefix)).chain([running]);
        for filter in filters {
            let command = RunCommand::List { filter, after: None, limit: 2 };
            let model = self.oracle.read_runs(branch, &command, moment);
            assert_eq!(view.read(command.clone()).ok(), model.ok(), "{command:?} on {branch}");
        }
    }

    /// Compares the current outbox of a branch.
    pub fn compare_outbox(&self, branch: &str) {
        let outbox = self.world.db().branch(branch).unwrap().outbox();
        for command in [OutboxCommand::Look, OutboxCommand::Dead { after: 0, limit: 100 }] {
            let engine: Result<OutboxAnswer> = outbox.read(command.clone());
            same(engine, self.oracle.read_outbox(branch, &command));
        }
    }
}
