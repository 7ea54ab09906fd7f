//! Commands on locks: `LOCK.*`.

use super::jobs::{duration, field_reply, job_request, number_reply};
use crate::jobs::{Keys, Order};
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use mainstay::{Answer, Name, Record, RecordCommand, Stamp};
use std::time::Duration;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    job_request("lock.take", 6, take)
        .syntax("name OWNER owner LEASE ms")
        .summarize("Takes a lock for a while; its token, or nil while another owner has it"),
    job_request("lock.renew", 5, renew)
        .syntax("name token LEASE ms")
        .summarize("Holds a lock on: its lease begins anew"),
    job_request("lock.free", 3, free)
        .syntax("name token")
        .summarize("Gives a lock back; 0 when it is not held with this token"),
    Spec::new("lock.get", -2, Group::Jobs, Handler::JobPlan(get))
        .syntax("name [REV revision | AT stamp_us]")
        .summarize("Who has a lock: owner, token, until when; or nil"),
];

/// Consumes the name of a lock. It has to be valid as a key as well.
fn lock(arguments: &mut Arguments<'_>) -> Result<String, Reply> {
    Ok(arguments.name()?.as_str().to_owned())
}

/// Consumes `LEASE ms` at the end of a command.
fn lease(arguments: &mut Arguments<'_>) -> Result<Duration, Reply> {
    if !arguments.take_keyword("LEASE") {
        return Err(syntax_error());
    }
    let lease = duration(arguments)?;
    arguments.end()?;
    Ok(lease)
}

fn take(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = lock(&mut arguments)?;
    if !arguments.take_keyword("OWNER") {
        return Err(syntax_error());
    }
    let owner = arguments.text()?.to_owned();
    Ok(Order::Take(name, owner, lease(&mut arguments)?))
}

fn renew(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = lock(&mut arguments)?;
    let token = arguments.count()?;
    Ok(Order::Renew(name, token, lease(&mut arguments)?))
}

fn free(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    Ok(Order::Free(lock(&mut arguments)?, arguments.count()?))
}

fn get(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = lock(&mut arguments)?;
    let at = arguments.point_in_time()?;
    arguments.end()?;
    let key = Name::new(&keys.lock(&name))?;
    Ok(Plan::one(RecordCommand::Get { key, fields: None }, ReplyFormat::plain(holder_reply)).at(at))
}

fn holder_reply(answers: Answers, _: Stamp) -> Reply {
    let shown = |record: Record| {
        let until = Reply::maybe(record.expires.map(Reply::number));
        Reply::Array(vec![
            field_reply(&record.fields, "owner"),
            number_reply(&record.fields, "token"),
            until,
        ])
    };
    match single(answers) {
        Some(Answer::Record(record)) => Reply::maybe(record.map(shown)),
        _ => unexpected_answer(),
    }
}
