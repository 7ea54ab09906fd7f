//! Commands on runs, which are event logs: `RUN.*`.
//!
//! ```text
//!   RUN.APPEND, BATCH, BOOTSTRAP, FETCH, … --> Plan, as for all data
//!   RUN.TAIL                               --> durable events at once, or a blocking read
//!   RUN.KEY                                --> uses only its words
//! ```

use super::branches::reply;
use super::feed::no_waiting;
use crate::resp::arguments::{Arguments, syntax_error, text};
use crate::resp::feeds::{Awaited, Following};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::Reply;
use crate::resp::rights::Reach;
use crate::resp::session::{Call, Handled};
use crate::resp::table::{Asker, Elsewhere, Group, Run, Spec};
use mainstay::{
    Answer, Appended, At, CanonicalEvent, EventKey, EventMessage, Instant, Name, NewEvent,
    RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo, RunPage, RunStatus, Stamp, Value,
    from_value,
};

/// The default limit for events or runs.
const DEFAULT_LIMIT: usize = 1000;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    run("run.append", -4, Run::Data(append))
        .writes()
        .syntax(
            "run type data [STEP step] [ATTEMPT n] [PLAN version] [PLANID plan] [KEY key] [SIGNAL id] \
             [EVENTID id] [EMITTED iso8601] [EXPECT seq] [MORE json] [MESSAGE subject payload]",
        )
        .about(
            "Appends an event: its sequence, idempotent, persisted, conflict, its id, when it was \
             persisted. With MESSAGE a message of the run goes to the outbox, if the event is new",
        ),
    run("run.batch", 3, Run::Data(batch))
        .writes()
        .syntax("run events")
        .about("Appends the events of a JSON array, all or none; as RUN.APPEND for each"),
    run("run.bootstrap", 4, Run::Data(bootstrap))
        .writes()
        .syntax("run metadata events")
        .about("Makes a run with its metadata and first events, both JSON; their sequences"),
    run("run.fetch", -2, Run::Data(fetch))
        .syntax("run [AFTER seq] [LIMIT n] [REV revision | AT stamp_us]")
        .about("Events of a run in order, each with its sequence"),
    run("run.tail", -2, Run::Whole(tail_inside, Elsewhere::Control(tail)))
        .reaches(Reach::Words)
        .syntax("run [AFTER seq] [LIMIT n] [WAIT ms]")
        .about("Events that are on stable storage, waiting for at least one"),
    run("run.snapshot", -2, Run::Data(snapshot))
        .syntax("run [SEQ n] [REV revision | AT stamp_us]")
        .about("What the events of a run add up to, or those up to one of them, as JSON"),
    run("run.project", 2, Run::Data(project))
        .syntax("run")
        .about("The same from the first event on, whatever is kept"),
    Spec::new("run.key", -5, Group::Runs, Run::Session(key)).without_data()
        .syntax("run type [STEP step] [ATTEMPT n] PLAN version [PLANID plan]")
        .about("The idempotency key of an event"),
    run("run.info", -2, Run::Data(info))
        .syntax("run [REV revision | AT stamp_us]")
        .about("Status, last sequence, inconsistent, created, updated, revision, metadata"),
    run("run.alerts", -2, Run::Data(alerts))
        .syntax("run [AFTER seq] [LIMIT n]")
        .about("Events that could not follow those before them: sequence, why, when"),
    run("run.revision", 3, Run::Data(revision))
        .syntax("run seq")
        .about("The revision that brought an event, to fork there; or nil"),
    Spec::new("run.list", -1, Group::Runs, Run::Data(list))
        .syntax("[PREFIX p] [STATUS status] [AFTER run] [LIMIT n] [REV revision | AT stamp_us]")
        .about("Runs in the order of their names"),
    run("run.delete", 2, Run::Data(delete)).writes().syntax("run").about("Deletes a whole run"),
];

const fn run(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Runs, run).keys(1, 1, 1)
}

/// Creates the command that appends an event. An invalid event is rejected here, before anything is
/// written.
fn appending(mut event: NewEvent, expected: Option<u64>) -> mainstay::Result<RunCommand> {
    event.check()?;
    event.idempotency_key = Some(event.key()?);
    Ok(RunCommand::Append { event: Box::new(event), expected })
}

fn append(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let event_type = arguments.text()?;
    let data = arguments.word()?;
    let mut event = NewEvent::new(run.as_str(), event_type);
    let mut expected = None;
    let mut more = None;
    while arguments.left() > 0 {
        if arguments.take("EXPECT") {
            expected = Some(arguments.count()?)
        } else if arguments.take("MORE") {
            more = Some(arguments.text()?)
        } else if arguments.take("MESSAGE") {
            let subject = arguments.text()?;
            let payload = arguments.word()?;
            event.message = Some(EventMessage::new(subject, payload));
        } else {
            say(&mut event, &mut arguments)?
        }
    }
    event.event_data = value(data);
    let event = match more {
        Some(json) => over(json, event)?,
        None => event,
    };
    Ok(Plan::one(appending(event, expected)?, Shape::ours(appended)))
}

/// Parses data as JSON if possible, otherwise as a string. Bytes that are no UTF-8 stay bytes.
fn value(word: &[u8]) -> Value {
    let json = std::str::from_utf8(word).ok().and_then(|text| Value::from_json_exact(text).ok());
    json.unwrap_or_else(|| Value::from_text(word))
}

/// Reads one option of an event.
fn say(event: &mut NewEvent, arguments: &mut Arguments<'_>) -> Result<(), Reply> {
    let part = if arguments.take("STEP") {
        &mut event.step_id
    } else if arguments.take("ATTEMPT") {
        &mut event.logical_attempt_id
    } else if arguments.take("PLAN") {
        &mut event.plan_version
    } else if arguments.take("PLANID") {
        &mut event.plan_id
    } else if arguments.take("KEY") {
        &mut event.idempotency_key
    } else if arguments.take("SIGNAL") {
        &mut event.caused_by_signal_id
    } else if arguments.take("EVENTID") {
        &mut event.event_id
    } else if arguments.take("EMITTED") {
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
fn over(json: &str, event: NewEvent) -> Result<NewEvent, Reply> {
    let Value::Object(fields) = Value::from_json_exact(json)? else {
        return Err(Reply::error(
            "INVALID MORE takes a JSON object of further fields of the event",
        ));
    };
    let worded = [
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
    if let Some(name) = worded.iter().find(|name| fields.contains_key(**name)) {
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
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let events = NewEvent::list_from_json(&run, arguments.text()?).map_err(placed)?;
    let appends = events.into_iter().enumerate().map(|(place, event)| {
        appending(event, None).map_err(|error| placed(error.at_position(place)))
    });
    Ok(Plan::all(appends.collect::<Result<Vec<_>, _>>()?, Shape::ours(appended_each)))
}

/// Adds the position of the faulty event to an error.
fn placed(error: mainstay::Error) -> Reply {
    match (error.position(), Reply::from(error)) {
        (Some(place), Reply::Error(text)) => {
            let (kind, message) = text.split_once(' ').unwrap_or((&text, ""));
            Reply::error(format!("{kind} event {} of these: {message}", place + 1))
        }
        (_, reply) => reply,
    }
}

fn bootstrap(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let metadata = Value::from_json(arguments.text()?)?;
    let events = NewEvent::list_from_json(&run, arguments.text()?).map_err(placed)?;
    for (place, event) in events.iter().enumerate() {
        let checked = event.check().and_then(|()| event.key());
        checked.map_err(|error| placed(error.at_position(place)))?;
    }
    Ok(Plan::one(RunCommand::Bootstrap { run, metadata, events }, Shape::ours(sequences)))
}

/// Returns the answer of a command on runs.
fn answer(answers: Answers) -> Option<RunAnswer> {
    of_runs(only(answers)?)
}

fn of_runs(answer: Answer) -> Option<RunAnswer> {
    match answer {
        Answer::Run(answer) => Some(*answer),
        _ => None,
    }
}

fn appended(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Appended(one)) => shown(one),
        _ => unexpected(),
    }
}

fn appended_each(answers: Answers, _: Stamp) -> Reply {
    let one = |answer| match of_runs(answer) {
        Some(RunAnswer::Appended(one)) => shown(one),
        _ => unexpected(),
    };
    Reply::Array(answers.into_iter().map(one).collect())
}

fn shown(one: Appended) -> Reply {
    Reply::Array(vec![
        Reply::number(one.run_seq),
        Reply::Int(one.idempotent.into()),
        Reply::Int(one.persisted.into()),
        Reply::Int(one.conflict.into()),
        Reply::text(one.event_id),
        Reply::text(one.persisted_at.as_str()),
    ])
}

fn sequences(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::AppendedAll(all)) => {
            Reply::Array(all.iter().map(|one| Reply::number(one.run_seq)).collect())
        }
        _ => unexpected(),
    }
}

/// The options of a request for events.
struct Wanted {
    run: Name,
    after: u64,
    limit: usize,
    at: Option<At>,
    wait_ms: Option<u64>,
}

impl Wanted {
    fn read(words: &[&[u8]]) -> Result<Wanted, Reply> {
        let mut arguments = Arguments::behind(words);
        let run = arguments.name()?;
        let limit = DEFAULT_LIMIT;
        let mut wanted = Wanted { run, after: 0, limit, at: None, wait_ms: None };
        while arguments.left() > 0 {
            if arguments.take("AFTER") {
                wanted.after = arguments.count()?
            } else if arguments.take("LIMIT") {
                wanted.limit = arguments.limit()?
            } else if arguments.take("WAIT") {
                wanted.wait_ms = Some(arguments.count()?)
            } else {
                wanted.at = Some(arguments.point()?.ok_or_else(syntax_error)?)
            }
        }
        Ok(wanted)
    }

    /// Fails if the request has options that this command does not allow.
    fn only(self, waits: bool, at: bool) -> Result<Wanted, Reply> {
        if (self.wait_ms.is_some() && !waits) || (self.at.is_some() && !at) {
            Err(syntax_error())
        } else {
            Ok(self)
        }
    }
}

fn fetch(words: &[&[u8]]) -> Result<Plan, Reply> {
    let Wanted { run, after, limit, at, .. } = Wanted::read(words)?.only(false, true)?;
    Ok(Plan::one(RunCommand::Fetch { run, after, limit }, Shape::ours(events)).at(at))
}

fn events(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Events(events)) => rows(Ok(events)),
        _ => unexpected(),
    }
}

fn rows(events: mainstay::Result<Vec<CanonicalEvent>>) -> Reply {
    let row = |event: CanonicalEvent| {
        Reply::Array(vec![Reply::number(event.run_seq), Reply::text(event.to_json())])
    };
    reply(events, |events| Reply::Array(events.into_iter().map(row).collect()))
}

fn tail(call: &mut Call<'_>) -> Handled {
    tailing(call).unwrap_or_else(Handled::Reply)
}

fn tailing(call: &Call<'_>) -> Result<Handled, Reply> {
    let Wanted { run, after, limit, wait_ms, .. } = Wanted::read(call.words)?.only(true, false)?;
    let wait_ms = wait_ms.unwrap_or(0);
    let shared = call.shared();
    let tail = shared.db.branch(&call.session.branch)?.runs().tail(run.as_str(), after)?;
    let now_us = shared.ticks_us();
    let deadline_us = shared.deadline_us(wait_ms);
    let following = Following::new(shared.db.clone(), tail, limit, deadline_us, rows);
    let mut awaited = Awaited::Events(Box::new(following));
    Ok(match awaited.look(now_us) {
        Some(reply) => Handled::Reply(reply),
        None => Handled::Wait(awaited),
    })
}

/// The plan inside a transaction, where nothing waits: returns the events that the transaction sees,
/// including its own.
fn tail_inside(_: &Asker<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    let Wanted { run, after, limit, wait_ms, .. } = Wanted::read(words)?.only(true, false)?;
    match wait_ms {
        None | Some(0) => {
            Ok(Plan::one(RunCommand::Fetch { run, after, limit }, Shape::ours(events)))
        }
        _ => Err(no_waiting()),
    }
}

fn snapshot(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let mut seq = None;
    let mut at = None;
    while arguments.left() > 0 {
        if arguments.take("SEQ") {
            seq = Some(arguments.count()?)
        } else {
            at = Some(arguments.point()?.ok_or_else(syntax_error)?)
        }
    }
    Ok(Plan::one(RunCommand::Snapshot { run, seq }, Shape::ours(summed)).at(at))
}

fn project(words: &[&[u8]]) -> Result<Plan, Reply> {
    let run = Arguments::behind(words).name()?;
    Ok(Plan::one(RunCommand::Project { run }, Shape::ours(summed)))
}

fn summed(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Snapshot(snapshot)) => {
            Reply::maybe(snapshot.map(|snapshot| Reply::text(snapshot.to_json())))
        }
        _ => unexpected(),
    }
}

fn key(call: &mut Call<'_>) -> Reply {
    made_key(call.words).unwrap_or_else(|reply| reply)
}

fn made_key(words: &[&[u8]]) -> Result<Reply, Reply> {
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let event_type = arguments.text()?;
    let mut step = None;
    let mut attempt = None;
    let mut plan = None;
    let mut plan_id = None;
    while arguments.left() > 0 {
        let part = if arguments.take("STEP") {
            &mut step
        } else if arguments.take("ATTEMPT") {
            &mut attempt
        } else if arguments.take("PLAN") {
            &mut plan
        } else if arguments.take("PLANID") {
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
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let at = arguments.point()?;
    arguments.end()?;
    Ok(Plan::one(RunCommand::Get { run }, Shape::ours(known)).at(at))
}

fn known(answers: Answers, _: Stamp) -> Reply {
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
        _ => unexpected(),
    }
}

fn alerts(words: &[&[u8]]) -> Result<Plan, Reply> {
    let Wanted { run, after, limit, .. } = Wanted::read(words)?.only(false, false)?;
    Ok(Plan::one(RunCommand::Alerts { run, after, limit }, Shape::ours(told)))
}

fn told(answers: Answers, _: Stamp) -> Reply {
    let row = |alert: RunAlert| {
        let RunAlert { run_seq, message, stamp } = alert;
        Reply::Array(vec![Reply::number(run_seq), Reply::text(message), Reply::number(stamp)])
    };
    match answer(answers) {
        Some(RunAnswer::Alerts(alerts)) => Reply::Array(alerts.into_iter().map(row).collect()),
        _ => unexpected(),
    }
}

fn revision(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let run = arguments.name()?;
    let seq = arguments.count()?;
    Ok(Plan::one(RunCommand::Revision { run, seq }, Shape::ours(brought)))
}

fn brought(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Revision(revision)) => Reply::maybe(revision.map(Reply::number)),
        _ => unexpected(),
    }
}

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let mut filter = RunFilter::default();
    let mut after = None;
    let mut limit = DEFAULT_LIMIT;
    let mut at = None;
    while arguments.left() > 0 {
        if arguments.take("PREFIX") {
            filter.prefix = arguments.text()?.to_owned()
        } else if arguments.take("STATUS") {
            filter.status = Some(status(arguments.word()?)?)
        } else if arguments.take("AFTER") {
            after = Some(arguments.text()?.to_owned())
        } else if arguments.take("LIMIT") {
            limit = arguments.limit()?
        } else {
            at = Some(arguments.point()?.ok_or_else(syntax_error)?)
        }
    }
    Ok(Plan::one(RunCommand::List { filter, after, limit }, Shape::ours(names)).at(at))
}

fn status(word: &[u8]) -> Result<RunStatus, Reply> {
    Ok(RunStatus::parse(text(word)?)?)
}

fn names(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(RunAnswer::Runs(RunPage { runs, .. })) => {
            Reply::texts(runs.into_iter().map(|run| run.run_id))
        }
        _ => unexpected(),
    }
}

fn delete(words: &[&[u8]]) -> Result<Plan, Reply> {
    let run = Arguments::behind(words).name()?;
    Ok(Plan::one(RunCommand::Delete { run }, Shape::ours(did)))
}

/// Returns 1 if something was changed, otherwise 0.
pub(super) fn did(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Did(did)) => Reply::Int(did.into()),
        _ => unexpected(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_look_at_many_is_long_work() {
        let is_long = |line: &str, plan: fn(&[&[u8]]) -> Result<Plan, Reply>| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            plan(&words).is_ok_and(|plan| plan.takes_a_while())
        };
        assert!(is_long("run.project r", project) && is_long("run.list STATUS failed", list));
        assert!(is_long("run.fetch r LIMIT 1001", fetch) && is_long("run.list LIMIT 1001", list));
        assert!(!is_long("run.fetch r LIMIT 100", fetch) && is_long("run.list PREFIX a", list));
        assert!(!is_long("run.snapshot r", snapshot) && !is_long("run.info r", info));
    }
}
