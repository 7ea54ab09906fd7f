//! Commands on branches and tags: `BRANCH.*`, `TAG.*`.

use super::runs::changed;
use crate::resp::arguments::{Arguments, name, syntax_error};
use crate::resp::connection_state::{CommandContext, ConnectionState, WorkerJob};
use crate::resp::permissions::{self, KeyScope, Requirement};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::{OK, Reply};
use crate::resp::table::{Group, Handler, Spec};
use mainstay::{
    Answer, At, BranchCommand, BranchInfo, ChangeKind, Contract, DifferenceKind, MergeStrategy,
    Name, Revision, Stamp,
};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    branch_change("branch.fork", -2, 1, Handler::BranchPlan(fork))
        .syntax("name [FROM branch] [REV revision | AT stamp_us]")
        .summarize("Makes a branch, without copying; the revision it begins at"),
    of("branch.list", 1, Handler::Sequenced(list)).summarize("The names of all branches"),
    of("branch.info", 2, Handler::Sequenced(info))
        .syntax("name")
        .summarize("What is known of a branch, as JSON"),
    branch_change("branch.delete", 2, 1, Handler::BranchPlan(delete))
        .syntax("name")
        .summarize("Deletes a branch"),
    branch_change("branch.rename", 3, 2, Handler::BranchPlan(rename))
        .syntax("name new-name")
        .summarize("Gives a branch another name"),
    of("branch.diff", 3, Handler::LongWork(diff))
        .key_scope(KeyScope::Everything)
        .syntax("a b")
        .summarize("The keys that two branches do not agree on, and who changed them"),
    branch_change("branch.merge", -3, 2, Handler::BranchPlan(merge))
        .syntax("from into [STRICT | THEIRS | OURS]")
        .summarize(
            "Brings one branch's changes into another; where both changed a key STRICT refuses, \
             THEIRS lets `from` win, OURS `into`",
        ),
    of("branch.use", 2, Handler::Sequenced(use_branch))
        .requires(Requirement::Permission(permissions::ANY_DATA))
        .syntax("name")
        .summarize("This connection works on that branch"),
    branch_change("tag.set", -2, 1, Handler::BranchPlan(tag))
        .syntax("name [REV revision | AT stamp_us]")
        .summarize("Pins a revision of this branch by name"),
    branch_change("tag.del", 2, 1, Handler::BranchPlan(untag))
        .syntax("name")
        .summarize("Removes a tag"),
    of("tag.list", 1, Handler::Sequenced(list_tags))
        .summarize("All tags with their branch and revision"),
];

/// A command that changes branches. It reaches all keys, and is audited with its names.
const fn branch_change(name: &'static str, arity: i32, names: usize, run: Handler) -> Spec {
    of(name, arity, run).writes().key_scope(KeyScope::Everything).audited(names)
}

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Branches, run)
}

/// Makes the reply from a result.
pub(super) fn reply_from<T>(result: mainstay::Result<T>, of: impl FnOnce(T) -> Reply) -> Reply {
    result.map_or_else(Reply::from, of)
}

fn fork(state: &ConnectionState, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let from =
        if arguments.take_keyword("FROM") { arguments.name()? } else { Name::new(&state.branch)? };
    let (at, time) = point(state, &mut arguments)?;
    arguments.end()?;
    Ok(Plan::one(BranchCommand::Fork { name, from, at }, ReplyFormat::plain(revision)).at(time))
}

/// Consumes `REV` or `AT`. Returns the revision, and the timestamp if the point was given by time.
fn point(
    state: &ConnectionState,
    arguments: &mut Arguments<'_>,
) -> Result<(Option<Revision>, Option<At>), Reply> {
    match arguments.point_in_time()? {
        None | Some(At::Latest) => Ok((None, None)),
        Some(At::Revision(revision)) => Ok((Some(revision), None)),
        Some(at) => Ok((Some(state.shared.db.resolve(at)?), Some(at))),
    }
}

fn revision(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Revision(revision)) => Reply::number(revision),
        _ => unexpected_answer(),
    }
}

fn list(context: &mut CommandContext<'_>) -> Reply {
    Reply::texts(context.shared().db.branches().into_iter().map(|branch| branch.name))
}

fn info(context: &mut CommandContext<'_>) -> Reply {
    let info = name(context.words[1])
        .and_then(|name| context.shared().db.branch_info(name.as_str()).map_err(Reply::from));
    info.map_or_else(|reply| reply, |info| Reply::text(json(&info)))
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

fn delete(_: &ConnectionState, words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(BranchCommand::Delete { name: name(words[1])? }, ReplyFormat::plain(changed)))
}

fn rename(_: &ConnectionState, words: &[&[u8]]) -> Result<Plan, Reply> {
    let (name, to) = (name(words[1])?, name(words[2])?);
    Ok(Plan::one(BranchCommand::Rename { name, to }, ReplyFormat::plain(ok_reply)))
}

fn ok_reply(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Did(true)) => OK,
        _ => unexpected_answer(),
    }
}

fn diff(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let a = name(context.words[1])?;
    let b = name(context.words[2])?;
    let db = context.shared().db.clone();
    let row = |difference: mainstay::Difference| {
        let kind = match difference.kind {
            DifferenceKind::OnlyA => "a",
            DifferenceKind::OnlyB => "b",
            _ => "both",
        };
        Reply::texts([contract_name(difference.contract), &difference.key, kind])
    };
    Ok(Box::new(move || {
        reply_from(db.diff(a.as_str(), b.as_str()), |all| {
            Reply::Array(all.into_iter().map(row).collect())
        })
    }))
}

/// Returns the name of a kind of state.
pub fn contract_name(contract: Contract) -> &'static str {
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
pub fn change_name(kind: ChangeKind) -> &'static str {
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

fn merge(_: &ConnectionState, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let from = arguments.name()?;
    let into = arguments.name()?;
    let strategy = if arguments.remaining() == 0 || arguments.take_keyword("STRICT") {
        MergeStrategy::Strict
    } else if arguments.take_keyword("THEIRS") {
        MergeStrategy::Theirs
    } else if arguments.take_keyword("OURS") {
        MergeStrategy::Ours
    } else {
        return Err(syntax_error());
    };
    arguments.end()?;
    Ok(Plan::one(BranchCommand::Merge { from, into, strategy }, ReplyFormat::plain(revision)))
}

fn use_branch(context: &mut CommandContext<'_>) -> Reply {
    if context.state.open_transaction.is_some() {
        return Reply::error("ERR BRANCH.USE is not for inside a transaction");
    }
    if !context.state.watch_guards.is_empty() {
        return Reply::error("ERR something is watched on this branch: EXEC or UNWATCH first");
    }
    let name = match name(context.words[1]) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let branch = context.shared().db.branch(name.as_str());
    reply_from(branch, |branch| {
        context.state.cells = branch.cells();
        context.state.branch = mainstay::CompactString::new(name.as_str());
        OK
    })
}

fn tag(state: &ConnectionState, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let (at, time) = point(state, &mut arguments)?;
    arguments.end()?;
    let branch = Name::new(&state.branch)?;
    Ok(Plan::one(BranchCommand::Tag { name, branch, at }, ReplyFormat::plain(revision)).at(time))
}

fn untag(_: &ConnectionState, words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(BranchCommand::Untag { name: name(words[1])? }, ReplyFormat::plain(changed)))
}

fn list_tags(context: &mut CommandContext<'_>) -> Reply {
    let row = |tag: mainstay::TagInfo| {
        Reply::Array(vec![
            Reply::text(tag.name),
            Reply::text(tag.branch),
            Reply::number(tag.revision),
        ])
    };
    Reply::Array(context.shared().db.tags().into_iter().map(row).collect())
}
