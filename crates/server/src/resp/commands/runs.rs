//! Commands on runs, which are event logs: `RUN.*`.
//!
//! ```text
//!   RUN.APPEND, BATCH, BOOTSTRAP, FETCH, … --> Plan, as for all data
//!   RUN.TAIL                               --> durable events at once, or a blocking read
//!   RUN.KEY                                --> uses only its words
//! ```

use super::branches::reply_from;
use super::feed::waiting_not_allowed;
use crate::resp::arguments::{Arguments, syntax_error, text};
use crate::resp::blocking_reads::{BlockingRead, TailRead};
use crate::resp::connection_state::{CommandContext, CommandOutcome};
use crate::resp::permissions::KeyScope;
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, OutsideTransaction, PlanContext, Spec};
use mainstay::{
    Answer, Appended, At, CanonicalEvent, EventKey, EventMessage, Instant, Name, NewEvent,
    RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo, RunPage, RunStatus, Stamp, Value,
    from_value,
};

/// The default limit for events or runs.
const DEFAULT_LIMIT: usize = 1000;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    run("run.append", -4, Handler::Plan(append))
        .writes()
        .syntax(
            "run type data [STEP step] [ATTEMPT n] [PLAN version] [PLANID plan] [KEY key] [SIGNAL id] \
             [EVENTID id] [EMITTED iso8601] [EXPECT seq] [MORE json] [MESSAGE subject payload]",
        )
        .summarize(
            "Appends an event: its sequence, idempotent, persisted, conflict, its id, when it was \
             persisted. With MESSAGE a message of the run goes to the outbox, if the event is new",
        ),
    run("run.batch", 3, Handler::Plan(batch))
        .writes()
        .syntax("run events")
        .summarize("Appends the events of a JSON array, all or none; as RUN.APPEND for each"),
    run("run.bootstrap", 4, Handler::Plan(bootstrap))
        .writes()
        .syntax("run metadata events")
        .summarize("Makes a run with its metadata and first events, both JSON; their sequences"),
    run("run.fetch", -2, Handler::Plan(fetch))
        .syntax("run [AFTER seq] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Events of a run in order, each with its sequence"),
    run("run.tail", -2, Handler::PlanInTransaction(tail_plan, OutsideTransaction::Control(tail)))
        .key_scope(KeyScope::Words)
        .syntax("run [AFTER seq] [LIMIT n] [WAIT ms]")
        .summarize("Events that are on stable storage, waiting for at least one"),
    run("run.snapshot", -2, Handler::Plan(snapshot))
        .syntax("run [SEQ n] [REV revision | AT stamp_us]")
        .summarize("What the events of a run add up to, or those up to one of them, as JSON"),
    run("run.project", 2, Handler::Plan(project))
        .syntax("run")
        .summarize("The same from the first event on, whatever is kept"),
    Spec::new("run.key", -5, Group::Runs, Handler::Immediate(key)).without_data()
        .syntax("run type [STEP step] [ATTEMPT n] PLAN version [PLANID plan]")
        .summarize("The idempotency key of an event"),
    run("run.info", -2, Handler::Plan(info))
        .syntax("run [REV revision | AT stamp_us]")
        .summarize("Status, last sequence, inconsistent, created, updated, revision, metadata"),
    run("run.alerts", -2, Handler::Plan(alerts))
        .syntax("run [AFTER seq] [LIMIT n]")
        .summarize("Events that could not follow those before them: sequence, why, when"),
    run("run.revision", 3, Handler::Plan(revision))
        .syntax("run seq")
        .summarize("The revision that brought an event, to fork there; or nil"),
    Spec::new("run.list", -1, Group::Runs, Handler::Plan(list))
        .syntax("[PREFIX p] [STATUS status] [AFTER run] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Runs in the order of their names"),
    run("run.delete", 2, Handler::Plan(delete)).writes().syntax("run").summarize("Deletes a whole run"),
];

const fn run(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Runs, run).keys(1, 1, 1)
}

/// Creates the command that appends an event. An invalid event is rejected here, before anything is
/// written.
fn append_command(mut event: NewEvent, expected: Option<u64>) -> mainstay::Result<RunCommand> {
    event.check()?;
    event.idempotency_key = Some(event.key()?);
    Ok(RunCommand::Append { event: Box::new(event), expected })
}

fn append(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let event_type = arguments.text()?;
    let data = arguments.word()?;
    let mut event = NewEvent::new(run.as_str(), event_type);
    let mut expected = None;
    let mut more = None;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("EXPECT") {
            expected = Some(arguments.count()?)
        } else if arguments.take_keyword("MORE") {
            more = Some(arguments.text()?)
        } else if arguments.take_keyword("MESSAGE") {
            let subject = arguments.text()?;
            let payload = arguments.word()?;
            event.message = Some(EventMessage::new(subject, payload));
        } else {
            set_option(&mut event, &mut arguments)?
        }
    }
    event.event_data = value(data);
    let event = match more {
        Some(json) => with_more_fields(json, event)?,
        None => event,
    };
    Ok(Plan::one(append_command(event, expected)?, ReplyFormat::plain(appended_reply)))
}

/// Parses data as JSON if possible, otherwise as a string. Bytes that are no UTF-8 stay bytes.
fn value(word: &[u8]) -> Value {
    let json = std::str::from_utf8(word).ok().and_then(|text| Value::from_json_exact(text).ok());
    json.unwrap_or_else(|| Value::from_text(word))
}

/// Reads one option of an event.
fn set_option(event: &mut NewEvent, arguments: &mut Arguments<'_>) -> Result<(), Reply> {
    let part = if arguments.take_keyword("STEP") {
        &mut event.step_id
    } else if arguments.take_keyword("ATTEMPT") {
        &mut event.logical_attempt_id
    } else if arguments.take_keyword("PLAN") {
        &mut event.plan_version
    } else if arguments.take_keyword("PLANID") {
        &mut event.plan_id
    } else if arguments.take_keyword("KEY") {
        &mut event.idempotency_key
    } else if arguments.take_keyword("SIGNAL") {
        &mut event.caused_by_signal_id
    } else if arguments.take_keyword("EVENTID") {
        &mut event.event_id
    } else if arguments.take_keyword("EMITTED") {
        event.emitted_at = Some(Instant::parse(arguments.text()?)?);
        return Ok(());
    } else {
        return Err(syntax_error());
    };
    *part = Some(arguments.text()?.to_owned());
    Ok(())
}

/// Adds further fields to the event. A field that has an option of its own is rejected, so that no field is
/// set twice.
fn with_more_fields(json: &str, event: NewEvent) -> Result<NewEvent, Reply> {
    let Value::Object(fields) = Value::from_json_exact(json)? else {
        return Err(Reply::error(
            "INVALID MORE takes a JSON object of further fields of the event",
        ));
    };
    let options = [
        "runId",
        "eventType",
        "eventData",
        "stepId",
        "logicalAttemptId",
        "planVersion",
        "planId",
        "idempotencyKey",
        "causedBySignalId",
        "eventId",
        "emittedAt",
        "message",
    ];
    if let Some(name) = options.iter().find(|name| fields.contains_key(**name)) {
        let message = format!("INVALID {name} has a word of its own: leave it out of MORE");
        return Err(Reply::error(message));
    }
    let typed = ("eventType".to_owned(), Value::from(event.event_type.as_str()));
    let more: NewEvent = from_value(Value::Object(fields.into_iter().chain([typed]).collect()))?;
    Ok(NewEvent {
        engine_attempt_id: more.engine_attempt_id,
        adapter_version: more.adapter_version,
        engine_run_ref: more.engine_run_ref,
        parent_event_id: more.parent_event_id,
        more: more.more,
        ..event
    })
}

fn batch(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let events = NewEvent::list_from_json(&run, arguments.text()?).map_err(with_position)?;
    let appends = events.into_iter().enumerate().map(|(position, event)| {
        append_command(event, None).map_err(|error| with_position(error.at_position(position)))
    });
    Ok(Plan::all(appends.collect::<Result<Vec<_>, _>>()?, ReplyFormat::plain(appended_replies)))
}

/// Adds the position of the faulty event to an error.
fn with_position(error: mainstay::Error) -> Reply {
    match (error.position(), Reply::from(error)) {
        (Some(position), Reply::Error(text)) => {
            let (kind, message) = text.split_once(' ').unwrap_or((&text, ""));
            Reply::error(format!("{kind} event {} of these: {message}", position + 1))
        }
        (_, reply) => reply,
    }
}

fn bootstrap(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let metadata = Value::from_json(arguments.text()?)?;
    let events = NewEvent::list_from_json(&run, arguments.text()?).map_err(with_position)?;
    for (position, event) in events.iter().enumerate() {
        let checked = event.check().and_then(|()| event.key());
        checked.map_err(|error| with_position(error.at_position(position)))?;
    }
    Ok(Plan::one(
        RunCommand::Bootstrap { run, metadata, events },
        ReplyFormat::plain(sequences_reply),
    ))
}

/// Returns the answer of a command on runs.
fn answer(answers: Answers) -> Option<RunAnswer> {
    of_runs(single(answers)?)
}

fn of_runs(answer: Answer) -> Option<RunAnswer> {
    match answer {
        Answer::Run(answer) => Some(*answer),
        _ => None,
    }
}

fn appended_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Appended(one)) => append_reply(one),
        _ => unexpected_answer(),
    }
}

fn appended_replies(answers: Answers, _: Stamp) -> Reply {
    let one = |answer| match of_runs(answer) {
        Some(RunAnswer::Appended(one)) => append_reply(one),
        _ => unexpected_answer(),
    };
    Reply::Array(answers.into_iter().map(one).collect())
}

fn append_reply(one: Appended) -> Reply {
    Reply::Array(vec![
        Reply::number(one.run_seq),
        Reply::Int(one.idempotent.into()),
        Reply::Int(one.persisted.into()),
        Reply::Int(one.conflict.into()),
        Reply::text(one.event_id),
        Reply::text(one.persisted_at.as_str()),
    ])
}

fn sequences_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::AppendedAll(all)) => {
            Reply::Array(all.iter().map(|one| Reply::number(one.run_seq)).collect())
        }
        _ => unexpected_answer(),
    }
}

/// The options of a request for events.
struct EventOptions {
    run: Name,
    after: u64,
    limit: usize,
    at: Option<At>,
    wait_ms: Option<u64>,
}

impl EventOptions {
    fn read(words: &[&[u8]]) -> Result<EventOptions, Reply> {
        let mut arguments = Arguments::after_first(words);
        let run = arguments.name()?;
        let limit = DEFAULT_LIMIT;
        let mut options = EventOptions { run, after: 0, limit, at: None, wait_ms: None };
        while arguments.remaining() > 0 {
            if arguments.take_keyword("AFTER") {
                options.after = arguments.count()?
            } else if arguments.take_keyword("LIMIT") {
                options.limit = arguments.limit()?
            } else if arguments.take_keyword("WAIT") {
                options.wait_ms = Some(arguments.count()?)
            } else {
                options.at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?)
            }
        }
        Ok(options)
    }

    /// Fails if the request has options that this command does not allow.
    fn check_options(self, waits: bool, at: bool) -> Result<EventOptions, Reply> {
        if (self.wait_ms.is_some() && !waits) || (self.at.is_some() && !at) {
            Err(syntax_error())
        } else {
            Ok(self)
        }
    }
}

fn fetch(words: &[&[u8]]) -> Result<Plan, Reply> {
    let EventOptions { run, after, limit, at, .. } =
        EventOptions::read(words)?.check_options(false, true)?;
    Ok(Plan::one(RunCommand::Fetch { run, after, limit }, ReplyFormat::plain(events_reply)).at(at))
}

fn events_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Events(events)) => event_rows(Ok(events)),
        _ => unexpected_answer(),
    }
}

fn event_rows(events: mainstay::Result<Vec<CanonicalEvent>>) -> Reply {
    let row = |event: CanonicalEvent| {
        Reply::Array(vec![Reply::number(event.run_seq), Reply::text(event.to_json())])
    };
    reply_from(events, |events| Reply::Array(events.into_iter().map(row).collect()))
}

fn tail(context: &mut CommandContext<'_>) -> CommandOutcome {
    try_tail(context).unwrap_or_else(CommandOutcome::Reply)
}

fn try_tail(context: &CommandContext<'_>) -> Result<CommandOutcome, Reply> {
    let EventOptions { run, after, limit, wait_ms, .. } =
        EventOptions::read(context.words)?.check_options(true, false)?;
    let wait_ms = wait_ms.unwrap_or(0);
    let shared = context.shared();
    let tail = shared.db.branch(&context.state.branch)?.runs().tail(run.as_str(), after)?;
    let now_us = shared.ticks_us();
    let deadline_us = shared.deadline_us(wait_ms);
    let tail_read = TailRead::new(shared.db.clone(), tail, limit, deadline_us, event_rows);
    let mut read = BlockingRead::Events(Box::new(tail_read));
    Ok(match read.poll(now_us) {
        Some(reply) => CommandOutcome::Reply(reply),
        None => CommandOutcome::BlockingRead(read),
    })
}

/// The plan inside a transaction, where nothing waits: returns the events that the transaction sees,
/// including its own.
fn tail_plan(_: &PlanContext<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    let EventOptions { run, after, limit, wait_ms, .. } =
        EventOptions::read(words)?.check_options(true, false)?;
    match wait_ms {
        None | Some(0) => {
            Ok(Plan::one(RunCommand::Fetch { run, after, limit }, ReplyFormat::plain(events_reply)))
        }
        _ => Err(waiting_not_allowed()),
    }
}

fn snapshot(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let mut seq = None;
    let mut at = None;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("SEQ") {
            seq = Some(arguments.count()?)
        } else {
            at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?)
        }
    }
    Ok(Plan::one(RunCommand::Snapshot { run, seq }, ReplyFormat::plain(snapshot_reply)).at(at))
}

fn project(words: &[&[u8]]) -> Result<Plan, Reply> {
    let run = Arguments::after_first(words).name()?;
    Ok(Plan::one(RunCommand::Project { run }, ReplyFormat::plain(snapshot_reply)))
}

fn snapshot_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Snapshot(snapshot)) => {
            Reply::maybe(snapshot.map(|snapshot| Reply::text(snapshot.to_json())))
        }
        _ => unexpected_answer(),
    }
}

fn key(context: &mut CommandContext<'_>) -> Reply {
    try_key(context.words).unwrap_or_else(|reply| reply)
}

fn try_key(words: &[&[u8]]) -> Result<Reply, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let event_type = arguments.text()?;
    let mut step = None;
    let mut attempt = None;
    let mut plan = None;
    let mut plan_id = None;
    while arguments.remaining() > 0 {
        let part = if arguments.take_keyword("STEP") {
            &mut step
        } else if arguments.take_keyword("ATTEMPT") {
            &mut attempt
        } else if arguments.take_keyword("PLAN") {
            &mut plan
        } else if arguments.take_keyword("PLANID") {
            &mut plan_id
        } else {
            return Err(syntax_error());
        };
        *part = Some(arguments.text()?);
    }
    let mut key = EventKey::of(run.as_str(), event_type, plan.ok_or_else(syntax_error)?);
    key = step.into_iter().fold(key, EventKey::step);
    key = attempt.into_iter().fold(key, EventKey::attempt);
    key = plan_id.into_iter().fold(key, EventKey::plan_id);
    Ok(Reply::text(key.hash()?))
}

fn info(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let at = arguments.point_in_time()?;
    arguments.end()?;
    Ok(Plan::one(RunCommand::Get { run }, ReplyFormat::plain(info_reply)).at(at))
}

fn info_reply(answers: Answers, _: Stamp) -> Reply {
    let shown = |info: RunInfo| {
        Reply::Array(vec![
            Reply::text(info.status.as_str()),
            Reply::number(info.last_event_seq),
            Reply::Int(info.inconsistent.into()),
            Reply::number(info.created),
            Reply::number(info.updated),
            Reply::number(info.revision),
            Reply::maybe(info.metadata.map(|metadata| Reply::text(metadata.to_json()))),
        ])
    };
    match answer(answers) {
        Some(RunAnswer::Info(info)) => Reply::maybe(info.map(shown)),
        _ => unexpected_answer(),
    }
}

fn alerts(words: &[&[u8]]) -> Result<Plan, Reply> {
    let EventOptions { run, after, limit, .. } =
        EventOptions::read(words)?.check_options(false, false)?;
    Ok(Plan::one(RunCommand::Alerts { run, after, limit }, ReplyFormat::plain(alerts_reply)))
}

fn alerts_reply(answers: Answers, _: Stamp) -> Reply {
    let row = |alert: RunAlert| {
        let RunAlert { run_seq, message, stamp } = alert;
        Reply::Array(vec![Reply::number(run_seq), Reply::text(message), Reply::number(stamp)])
    };
    match answer(answers) {
        Some(RunAnswer::Alerts(alerts)) => Reply::Array(alerts.into_iter().map(row).collect()),
        _ => unexpected_answer(),
    }
}

fn revision(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let run = arguments.name()?;
    let seq = arguments.count()?;
    Ok(Plan::one(RunCommand::Revision { run, seq }, ReplyFormat::plain(revision_reply)))
}

fn revision_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Revision(revision)) => Reply::maybe(revision.map(Reply::number)),
        _ => unexpected_answer(),
    }
}

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut filter = RunFilter::default();
    let mut after = None;
    let mut limit = DEFAULT_LIMIT;
    let mut at = None;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("PREFIX") {
            filter.prefix = arguments.text()?.to_owned()
        } else if arguments.take_keyword("STATUS") {
            filter.status = Some(status(arguments.word()?)?)
        } else if arguments.take_keyword("AFTER") {
            after = Some(arguments.text()?.to_owned())
        } else if arguments.take_keyword("LIMIT") {
            limit = arguments.limit()?
        } else {
            at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?)
        }
    }
    Ok(Plan::one(RunCommand::List { filter, after, limit }, ReplyFormat::plain(names_reply)).at(at))
}

fn status(word: &[u8]) -> Result<RunStatus, Reply> {
    Ok(RunStatus::parse(text(word)?)?)
}

fn names_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Runs(RunPage { runs, .. })) => {
            Reply::texts(runs.into_iter().map(|run| run.run_id))
        }
        _ => unexpected_answer(),
    }
}

fn delete(words: &[&[u8]]) -> Result<Plan, Reply> {
    let run = Arguments::after_first(words).name()?;
    Ok(Plan::one(RunCommand::Delete { run }, ReplyFormat::plain(changed)))
}

/// Returns 1 if something was changed, otherwise 0.
pub(super) fn changed(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Did(did)) => Reply::Int(did.into()),
        _ => unexpected_answer(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_look_at_many_is_long_work() {
        let is_long = |line: &str, plan: fn(&[&[u8]]) -> Result<Plan, Reply>| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            plan(&words).is_ok_and(|plan| plan.is_long())
        };
        assert!(is_long("run.project r", project) && is_long("run.list STATUS failed", list));
        assert!(is_long("run.fetch r LIMIT 1001", fetch) && is_long("run.list LIMIT 1001", list));
        assert!(!is_long("run.fetch r LIMIT 100", fetch) && is_long("run.list PREFIX a", list));
        assert!(!is_long("run.snapshot r", snapshot) && !is_long("run.info r", info));
    }
}
