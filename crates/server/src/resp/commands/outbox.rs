//! Commands on the outbox: `OUTBOX.*`.

use super::records::how_many;
use super::runs::did;
use crate::outbox::Settings;
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Run, Spec};
use mainstay::{Answer, Failed, Message, OutboxAnswer, OutboxCommand, OutboxState, Stamp};

/// The default limit for dead messages.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("outbox.put", -3, Run::Data(put))
        .writes()
        .syntax("subject payload [RUN run]")
        .about("Writes a message; its id. Messages of one run are sent one behind the other"),
    of("outbox.claim", -4, Run::Data(claim))
        .writes()
        .syntax("n LEASE ms [TOKEN]")
        .about("Takes messages that wait, the longest waiting first: id, subject, payload, token"),
    of("outbox.ack", -2, Run::Data(ack))
        .writes()
        .syntax("id [id ...] [TOKEN token]")
        .about("Messages were delivered and go; how many of them were there"),
    of("outbox.fail", -3, Run::Sent(fail))
        .writes()
        .syntax("id message [TOKEN token]")
        .about("A message could not be delivered: WAIT, DEAD after its last try, or nil"),
    of("outbox.dead", -1, Run::Data(dead))
        .syntax("[AFTER id] [LIMIT n]")
        .about("Messages that were given up: id, subject, payload, tries, error"),
    of("outbox.replay", 2, Run::Data(replay))
        .writes()
        .syntax("id")
        .about("Makes a dead message wait again, with all its tries"),
    of("outbox.state", 1, Run::Data(state))
        .about("How many messages wait and are dead, the last id, when the next may be claimed"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Outbox, run)
}

/// Creates a plan for a command, if the command is valid.
fn plan(command: OutboxCommand, shape: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    command.check()?;
    Ok(Plan::one(command, Shape::ours(shape)))
}

fn put(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let subject = arguments.text()?.to_owned();
    let payload = arguments.word()?.to_vec();
    let run = arguments.take("RUN").then(|| arguments.name()).transpose()?;
    arguments.end()?;
    plan(OutboxCommand::Put { subject, payload, run }, id)
}

fn id(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::Put(id)) => Reply::number(id),
        _ => unexpected(),
    }
}

fn answer(answers: Answers) -> Option<OutboxAnswer> {
    match only(answers)? {
        Answer::Outbox(answer) => Some(*answer),
        _ => None,
    }
}

fn claim(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let limit = arguments.limit()?;
    if !arguments.take("LEASE") {
        return Err(syntax_error());
    }
    let claim = OutboxCommand::Claim { limit, lease_ms: arguments.count()? };
    let with_token = arguments.take("TOKEN");
    arguments.end()?;
    plan(claim, if with_token { held } else { claimed })
}

/// The claimed messages with their lease token, which is the timestamp of the claiming transaction.
fn held(answers: Answers, stamp: Stamp) -> Reply {
    let mut reply = claimed(answers, stamp);
    if let Reply::Array(rows) = &mut reply {
        for row in rows {
            if let Reply::Array(row) = row {
                row.push(Reply::number(stamp));
            }
        }
    }
    reply
}

fn claimed(answers: Answers, _: Stamp) -> Reply {
    messages(answers, |message| {
        vec![Reply::number(message.id), Reply::text(message.subject), Reply::Bulk(message.payload)]
    })
}

fn messages(answers: Answers, row: fn(Message) -> Vec<Reply>) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::Messages(messages)) => {
            Reply::Array(messages.into_iter().map(|message| Reply::Array(row(message))).collect())
        }
        _ => unexpected(),
    }
}

fn ack(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let mut ids = vec![arguments.count()?];
    let mut token = None;
    while arguments.left() > 0 && token.is_none() {
        if arguments.take("TOKEN") {
            token = Some(arguments.count()?)
        } else {
            ids.push(arguments.count()?)
        }
    }
    arguments.end()?;
    plan(OutboxCommand::ack(ids, token), how_many)
}

fn fail(settings: &Settings, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let id = arguments.count()?;
    let message = arguments.word()?;
    let message = String::from_utf8_lossy(message).into_owned();
    let token = arguments.take("TOKEN").then(|| arguments.count()).transpose()?;
    arguments.end()?;
    let Settings { backoff_ms, tries, .. } = *settings;
    plan(OutboxCommand::fail(id, message, backoff_ms, tries, token), failed)
}

fn failed(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::Failed(Failed::Waits(_))) => Reply::text("WAIT"),
        Some(OutboxAnswer::Failed(Failed::Dead)) => Reply::text("DEAD"),
        Some(OutboxAnswer::Failed(Failed::Unknown)) => Reply::Nil,
        _ => unexpected(),
    }
}

fn dead(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let mut after = 0;
    let mut limit = DEFAULT_LIMIT;
    while arguments.left() > 0 {
        if arguments.take("AFTER") {
            after = arguments.count()?
        } else if arguments.take("LIMIT") {
            limit = arguments.limit()?
        } else {
            return Err(syntax_error());
        }
    }
    plan(OutboxCommand::Dead { after, limit }, given_up)
}

fn given_up(answers: Answers, _: Stamp) -> Reply {
    messages(answers, |message| {
        vec![
            Reply::number(message.id),
            Reply::text(message.subject),
            Reply::Bulk(message.payload),
            Reply::number(message.tries.into()),
            Reply::maybe(message.failure.map(Reply::text)),
        ]
    })
}

fn replay(words: &[&[u8]]) -> Result<Plan, Reply> {
    let id = Arguments::behind(words).count()?;
    plan(OutboxCommand::Replay { id }, did)
}

fn state(_: &[&[u8]]) -> Result<Plan, Reply> {
    plan(OutboxCommand::Look, stand)
}

fn stand(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::State(OutboxState { pending, dead, last_id, oldest_due })) => {
            Reply::Array(vec![
                Reply::number(pending),
                Reply::number(dead),
                Reply::number(last_id),
                Reply::maybe(oldest_due.map(Reply::number)),
            ])
        }
        _ => unexpected(),
    }
}
