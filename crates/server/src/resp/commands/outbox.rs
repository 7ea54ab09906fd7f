//! Commands on the outbox: `OUTBOX.*`.

use super::records::count_reply;
use super::runs::changed;
use crate::outbox::Settings;
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use mainstay::{Answer, Failed, Message, OutboxAnswer, OutboxCommand, OutboxState, Stamp};

/// The default limit for dead messages.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("outbox.put", -3, Handler::Plan(put))
        .writes()
        .syntax("subject payload [RUN run]")
        .summarize("Writes a message; its id. Messages of one run are sent one behind the other"),
    of("outbox.claim", -4, Handler::Plan(claim)).writes().syntax("n LEASE ms [TOKEN]").summarize(
        "Takes messages that wait, the longest waiting first: id, subject, payload, token",
    ),
    of("outbox.ack", -2, Handler::Plan(ack))
        .writes()
        .syntax("id [id ...] [TOKEN token]")
        .summarize("Messages were delivered and go; how many of them were there"),
    of("outbox.fail", -3, Handler::OutboxPlan(fail))
        .writes()
        .syntax("id message [TOKEN token]")
        .summarize("A message could not be delivered: WAIT, DEAD after its last try, or nil"),
    of("outbox.dead", -1, Handler::Plan(dead))
        .syntax("[AFTER id] [LIMIT n]")
        .summarize("Messages that were given up: id, subject, payload, tries, error"),
    of("outbox.replay", 2, Handler::Plan(replay))
        .writes()
        .syntax("id")
        .summarize("Makes a dead message wait again, with all its tries"),
    of("outbox.state", 1, Handler::Plan(state)).summarize(
        "How many messages wait and are dead, the last id, when the next may be claimed",
    ),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Outbox, run)
}

/// Creates a plan for a command, if the command is valid.
fn plan(command: OutboxCommand, shape: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    command.check()?;
    Ok(Plan::one(command, ReplyFormat::plain(shape)))
}

fn put(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let subject = arguments.text()?.to_owned();
    let payload = arguments.word()?.to_vec();
    let run = arguments.take_keyword("RUN").then(|| arguments.name()).transpose()?;
    arguments.end()?;
    plan(OutboxCommand::Put { subject, payload, run }, id_reply)
}

fn id_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::Put(id)) => Reply::number(id),
        _ => unexpected_answer(),
    }
}

fn answer(answers: Answers) -> Option<OutboxAnswer> {
    match single(answers)? {
        Answer::Outbox(answer) => Some(*answer),
        _ => None,
    }
}

fn claim(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let limit = arguments.limit()?;
    if !arguments.take_keyword("LEASE") {
        return Err(syntax_error());
    }
    let claim = OutboxCommand::Claim { limit, lease_ms: arguments.count()? };
    let with_token = arguments.take_keyword("TOKEN");
    arguments.end()?;
    plan(claim, if with_token { claimed_with_token } else { claim_reply })
}

/// The claimed messages with their lease token, which is the timestamp of the claiming transaction.
fn claimed_with_token(answers: Answers, stamp: Stamp) -> Reply {
    let mut reply = claim_reply(answers, stamp);
    if let Reply::Array(rows) = &mut reply {
        for row in rows {
            if let Reply::Array(row) = row {
                row.push(Reply::number(stamp));
            }
        }
    }
    reply
}

fn claim_reply(answers: Answers, _: Stamp) -> Reply {
    messages(answers, |message| {
        vec![Reply::number(message.id), Reply::text(message.subject), Reply::Bulk(message.payload)]
    })
}

fn messages(answers: Answers, row: fn(Message) -> Vec<Reply>) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::Messages(messages)) => {
            Reply::Array(messages.into_iter().map(|message| Reply::Array(row(message))).collect())
        }
        _ => unexpected_answer(),
    }
}

fn ack(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut ids = vec![arguments.count()?];
    let mut token = None;
    while arguments.remaining() > 0 && token.is_none() {
        if arguments.take_keyword("TOKEN") {
            token = Some(arguments.count()?)
        } else {
            ids.push(arguments.count()?)
        }
    }
    arguments.end()?;
    plan(OutboxCommand::ack(ids, token), count_reply)
}

fn fail(settings: &Settings, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let id = arguments.count()?;
    let message = arguments.word()?;
    let message = String::from_utf8_lossy(message).into_owned();
    let token = arguments.take_keyword("TOKEN").then(|| arguments.count()).transpose()?;
    arguments.end()?;
    let Settings { backoff_ms, tries, .. } = *settings;
    plan(OutboxCommand::fail(id, message, backoff_ms, tries, token), fail_reply)
}

fn fail_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::Failed(Failed::Waits(_))) => Reply::text("WAIT"),
        Some(OutboxAnswer::Failed(Failed::Dead)) => Reply::text("DEAD"),
        Some(OutboxAnswer::Failed(Failed::Unknown)) => Reply::Nil,
        _ => unexpected_answer(),
    }
}

fn dead(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut after = 0;
    let mut limit = DEFAULT_LIMIT;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("AFTER") {
            after = arguments.count()?
        } else if arguments.take_keyword("LIMIT") {
            limit = arguments.limit()?
        } else {
            return Err(syntax_error());
        }
    }
    plan(OutboxCommand::Dead { after, limit }, dead_reply)
}

fn dead_reply(answers: Answers, _: Stamp) -> Reply {
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
    let id = Arguments::after_first(words).count()?;
    plan(OutboxCommand::Replay { id }, changed)
}

fn state(_: &[&[u8]]) -> Result<Plan, Reply> {
    plan(OutboxCommand::Look, state_reply)
}

fn state_reply(answers: Answers, _: Stamp) -> Reply {
    match answer(answers) {
        Some(OutboxAnswer::State(OutboxState { pending, dead, last_id, oldest_due })) => {
            Reply::Array(vec![
                Reply::number(pending),
                Reply::number(dead),
                Reply::number(last_id),
                Reply::maybe(oldest_due.map(Reply::number)),
            ])
        }
        _ => unexpected_answer(),
    }
}
