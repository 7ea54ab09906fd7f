//! Commands on branches and tags: `BRANCH.*`, `TAG.*`.

use super::runs::did;
use crate::resp::arguments::{Arguments, name, syntax_error};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::{OK, Reply};
use crate::resp::rights::{self, Needs, Reach};
use crate::resp::session::{Call, Job, Session};
use crate::resp::table::{Group, Run, Spec};
use mainstay::{
    Answer, At, BranchCommand, BranchInfo, ChangeKind, Contract, DifferenceKind, MergeStrategy,
    Name, Revision, Stamp,
};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    change_of("branch.fork", -2, 1, Run::Change(fork))
        .syntax("name [FROM branch] [REV revision | AT stamp_us]")
        .about("Makes a branch, without copying; the revision it begins at"),
    of("branch.list", 1, Run::Settled(list)).about("The names of all branches"),
    of("branch.info", 2, Run::Settled(info))
        .syntax("name")
        .about("What is known of a branch, as JSON"),
    change_of("branch.delete", 2, 1, Run::Change(delete)).syntax("name").about("Deletes a branch"),
    change_of("branch.rename", 3, 2, Run::Change(rename))
        .syntax("name new-name")
        .about("Gives a branch another name"),
    of("branch.diff", 3, Run::Slow(diff))
        .reaches(Reach::Everything)
        .syntax("a b")
        .about("The keys that two branches do not agree on, and who changed them"),
    change_of("branch.merge", -3, 2, Run::Change(merge))
        .syntax("from into [STRICT | THEIRS | OURS]")
        .about(
            "Brings one branch's changes into another; where both changed a key STRICT refuses, \
             THEIRS lets `from` win, OURS `into`",
        ),
    of("branch.use", 2, Run::Settled(use_branch))
        .needs(Needs::Right(rights::DATA))
        .syntax("name")
        .about("This connection works on that branch"),
    change_of("tag.set", -2, 1, Run::Change(tag))
        .syntax("name [REV revision | AT stamp_us]")
        .about("Pins a revision of this branch by name"),
    change_of("tag.del", 2, 1, Run::Change(untag)).syntax("name").about("Removes a tag"),
    of("tag.list", 1, Run::Settled(tags)).about("All tags with their branch and revision"),
];

/// A command that changes branches. It reaches all keys, and is audited with its names.
const fn change_of(name: &'static str, arity: i32, names: usize, run: Run) -> Spec {
    of(name, arity, run).writes().reaches(Reach::Everything).audited(names)
}

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Branches, run)
}

/// Makes the reply from a result.
pub(super) fn reply<T>(result: mainstay::Result<T>, of: impl FnOnce(T) -> Reply) -> Reply {
    result.map_or_else(Reply::from, of)
}

fn fork(session: &Session, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let from = if arguments.take("FROM") { arguments.name()? } else { Name::new(&session.branch)? };
    let (at, time) = point(session, &mut arguments)?;
    arguments.end()?;
    Ok(Plan::one(BranchCommand::Fork { name, from, at }, Shape::ours(revision)).at(time))
}

/// Consumes `REV` or `AT`. Returns the revision, and the timestamp if the point was given by time.
fn point(
    session: &Session,
    arguments: &mut Arguments<'_>,
) -> Result<(Option<Revision>, Option<At>), Reply> {
    match arguments.point()? {
        None | Some(At::Latest) => Ok((None, None)),
        Some(At::Revision(revision)) => Ok((Some(revision), None)),
        Some(at) => Ok((Some(session.shared.db.resolve(at)?), Some(at))),
    }
}

fn revision(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Revision(revision)) => Reply::number(revision),
        _ => unexpected(),
    }
}

fn list(call: &mut Call<'_>) -> Reply {
    Reply::texts(call.shared().db.branches().into_iter().map(|branch| branch.name))
}

fn info(call: &mut Call<'_>) -> Reply {
    let found = name(call.words[1])
        .and_then(|name| call.shared().db.branch_info(name.as_str()).map_err(Reply::from));
    found.map_or_else(|reply| reply, |info| Reply::text(json(&info)))
}

fn json(info: &BranchInfo) -> String {
    serde_json::json!({
        "name": info.name,
        "id": info.id,
        "parent": info.parent,
        "fork_revision": info.fork_revision,
        "created_us": info.created,
        "depth": info.depth,
        "children": info.children,
    })
    .to_string()
}

fn delete(_: &Session, words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(BranchCommand::Delete { name: name(words[1])? }, Shape::ours(did)))
}

fn rename(_: &Session, words: &[&[u8]]) -> Result<Plan, Reply> {
    let (name, to) = (name(words[1])?, name(words[2])?);
    Ok(Plan::one(BranchCommand::Rename { name, to }, Shape::ours(done)))
}

fn done(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Did(true)) => OK,
        _ => unexpected(),
    }
}

fn diff(call: &mut Call<'_>) -> Result<Job, Reply> {
    let a = name(call.words[1])?;
    let b = name(call.words[2])?;
    let db = call.shared().db.clone();
    let row = |difference: mainstay::Difference| {
        let kind = match difference.kind {
            DifferenceKind::OnlyA => "a",
            DifferenceKind::OnlyB => "b",
            _ => "both",
        };
        Reply::texts([contract(difference.contract), &difference.key, kind])
    };
    Ok(Box::new(move || {
        reply(db.diff(a.as_str(), b.as_str()), |all| {
            Reply::Array(all.into_iter().map(row).collect())
        })
    }))
}

/// Returns the name of a kind of state.
pub fn contract(contract: Contract) -> &'static str {
    match contract {
        Contract::Cells => "cells",
        Contract::Branches => "branches",
        Contract::Records => "records",
        Contract::Runs => "runs",
        Contract::Outbox => "outbox",
        Contract::Keyed => "keyed",
        Contract::Sessions => "sessions",
        _ => "other",
    }
}

/// Returns the name of a kind of change.
pub fn change(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Set => "set",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Expired => "expired",
        ChangeKind::Forked => "forked",
        ChangeKind::BranchDeleted => "branch-deleted",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Merged => "merged",
        ChangeKind::Tagged => "tagged",
        ChangeKind::Untagged => "untagged",
        ChangeKind::Appended => "appended",
        ChangeKind::Alerted => "alerted",
        ChangeKind::Restored => "restored",
        ChangeKind::Opened => "opened",
        ChangeKind::Closed => "closed",
        ChangeKind::Sent => "sent",
        _ => "other",
    }
}

fn merge(_: &Session, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let from = arguments.name()?;
    let into = arguments.name()?;
    let strategy = if arguments.left() == 0 || arguments.take("STRICT") {
        MergeStrategy::Strict
    } else if arguments.take("THEIRS") {
        MergeStrategy::Theirs
    } else if arguments.take("OURS") {
        MergeStrategy::Ours
    } else {
        return Err(syntax_error());
    };
    arguments.end()?;
    Ok(Plan::one(BranchCommand::Merge { from, into, strategy }, Shape::ours(revision)))
}

fn use_branch(call: &mut Call<'_>) -> Reply {
    if call.session.open.is_some() {
        return Reply::error("ERR BRANCH.USE is not for inside a transaction");
    }
    if !call.session.watched.is_empty() {
        return Reply::error("ERR something is watched on this branch: EXEC or UNWATCH first");
    }
    let name = match name(call.words[1]) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let branch = call.shared().db.branch(name.as_str());
    reply(branch, |branch| {
        call.session.cells = branch.cells();
        call.session.branch = mainstay::CompactString::new(name.as_str());
        OK
    })
}

fn tag(session: &Session, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let (at, time) = point(session, &mut arguments)?;
    arguments.end()?;
    let branch = Name::new(&session.branch)?;
    Ok(Plan::one(BranchCommand::Tag { name, branch, at }, Shape::ours(revision)).at(time))
}

fn untag(_: &Session, words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(BranchCommand::Untag { name: name(words[1])? }, Shape::ours(did)))
}

fn tags(call: &mut Call<'_>) -> Reply {
    let row = |tag: mainstay::TagInfo| {
        Reply::Array(vec![
            Reply::text(tag.name),
            Reply::text(tag.branch),
            Reply::number(tag.revision),
        ])
    };
    Reply::Array(call.shared().db.tags().into_iter().map(row).collect())
}
