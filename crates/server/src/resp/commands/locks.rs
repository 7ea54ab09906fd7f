//! Commands on locks: `LOCK.*`.

use super::jobs::{count_of, held, order, span};
use crate::jobs::{Keys, Order};
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Run, Spec};
use mainstay::{Answer, Name, Record, RecordCommand, Stamp};
use std::time::Duration;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    order("lock.take", 6, take)
        .syntax("name OWNER owner LEASE ms")
        .about("Takes a lock for a while; its token, or nil while another owner has it"),
    order("lock.renew", 5, renew)
        .syntax("name token LEASE ms")
        .about("Holds a lock on: its lease begins anew"),
    order("lock.free", 3, free)
        .syntax("name token")
        .about("Gives a lock back; 0 when it is not held with this token"),
    Spec::new("lock.get", -2, Group::Jobs, Run::Kept(get))
        .syntax("name [REV revision | AT stamp_us]")
        .about("Who has a lock: owner, token, until when; or nil"),
];

/// Consumes the name of a lock. It has to be valid as a key as well.
fn lock(arguments: &mut Arguments<'_>) -> Result<String, Reply> {
    Ok(arguments.name()?.as_str().to_owned())
}

/// Consumes `LEASE ms` at the end of a command.
fn lease(arguments: &mut Arguments<'_>) -> Result<Duration, Reply> {
    if !arguments.take("LEASE") {
        return Err(syntax_error());
    }
    let lease = span(arguments)?;
    arguments.end()?;
    Ok(lease)
}

fn take(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = lock(&mut arguments)?;
    if !arguments.take("OWNER") {
        return Err(syntax_error());
    }
    let owner = arguments.text()?.to_owned();
    Ok(Order::Take(name, owner, lease(&mut arguments)?))
}

fn renew(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = lock(&mut arguments)?;
    let token = arguments.count()?;
    Ok(Order::Renew(name, token, lease(&mut arguments)?))
}

fn free(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    Ok(Order::Free(lock(&mut arguments)?, arguments.count()?))
}

fn get(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = lock(&mut arguments)?;
    let at = arguments.point()?;
    arguments.end()?;
    let key = Name::new(&keys.lock(&name))?;
    Ok(Plan::one(RecordCommand::Get { key, fields: None }, Shape::ours(holder)).at(at))
}

fn holder(answers: Answers, _: Stamp) -> Reply {
    let shown = |record: Record| {
        let until = Reply::maybe(record.expires.map(Reply::number));
        Reply::Array(vec![held(&record.fields, "owner"), count_of(&record.fields, "token"), until])
    };
    match only(answers) {
        Some(Answer::Record(record)) => Reply::maybe(record.map(shown)),
        _ => unexpected(),
    }
}
