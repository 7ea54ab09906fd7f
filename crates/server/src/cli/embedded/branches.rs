//! Commands on branches and tags.

use super::words::Words;
use super::{Answer, Embedded, Known, Refusal};
use crate::cli::reply::Reply;
use mainstay::{BranchInfo, DifferenceKind, MergeStrategy, TagInfo, Value};

/// Runs a command; none of them may stand inside a transaction.
pub fn run(store: &mut Embedded, command: &str, words: &mut Words) -> Known {
    let run = match command {
        "BRANCH.FORK" => fork,
        "BRANCH.LIST" => list,
        "BRANCH.INFO" => info,
        "BRANCH.DELETE" => delete,
        "BRANCH.DIFF" => diff,
        "BRANCH.MERGE" => merge,
        "BRANCH.USE" => use_branch,
        "TAG.SET" => tag,
        "TAG.DEL" => untag,
        "TAG.LIST" => tags,
        _ => return Ok(None),
    };
    match store.connection.in_transaction() {
        true => Err(Refusal::not_inside(command)),
        false => run(store, words).map(Some),
    }
}

fn fork(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    let options = words.options(&[], &["FROM", "REV", "AT"])?;
    let from = options.text("FROM")?.unwrap_or_else(|| store.connection.branch().to_owned());
    Ok(Reply::number(store.db.fork(&name, &from, options.at()?)?))
}

fn list(store: &mut Embedded, words: &mut Words) -> Answer {
    words.end()?;
    let names = store.db.branches().into_iter().map(|branch| Reply::text(branch.name));
    Ok(Reply::Array(names.collect()))
}

fn info(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    words.end()?;
    Ok(Reply::text(described(store.db.branch_info(&name)?).to_json()))
}

fn described(branch: BranchInfo) -> Value {
    let number = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let fields = [
        ("name", branch.name.into()),
        ("id", number(branch.id.into())),
        ("parent", branch.parent.map_or(Value::Null, Value::from)),
        ("fork_revision", number(branch.fork_revision)),
        ("created_us", number(branch.created)),
        ("depth", number(branch.depth as u64)),
        ("children", number(branch.children as u64)),
    ];
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn delete(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    words.end()?;
    Ok(Reply::Int(store.db.delete_branch(&name)?.into()))
}

fn diff(store: &mut Embedded, words: &mut Words) -> Answer {
    let (a, b) = (words.name()?, words.name()?);
    words.end()?;
    let row = |found: mainstay::Difference| {
        let kind = match found.kind {
            DifferenceKind::OnlyA => "a",
            DifferenceKind::OnlyB => "b",
            DifferenceKind::Both => "both",
        };
        let contract = super::feed::contract(found.contract);
        Reply::Array([contract, &found.key, kind].map(Reply::text).into())
    };
    Ok(Reply::Array(store.db.diff(&a, &b)?.into_iter().map(row).collect()))
}

fn merge(store: &mut Embedded, words: &mut Words) -> Answer {
    let (from, into) = (words.name()?, words.name()?);
    let options = words.options(&["STRICT", "THEIRS", "OURS"], &[])?;
    let strategy = match (options.has("THEIRS"), options.has("OURS")) {
        (false, false) => MergeStrategy::Strict,
        (true, false) => MergeStrategy::Theirs,
        (false, true) => MergeStrategy::Ours,
        (true, true) => return Err(Refusal::invalid("a merge is THEIRS or OURS, not both")),
    };
    Ok(Reply::number(store.db.merge(&from, &into, strategy)?))
}

fn use_branch(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    words.end()?;
    store.connection.use_branch(&name)?;
    Ok(Reply::text("OK"))
}

fn tag(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    let at = words.options(&[], &["REV", "AT"])?.at()?;
    Ok(Reply::number(store.db.tag(&name, store.connection.branch(), at)?))
}

fn untag(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    words.end()?;
    Ok(Reply::Int(store.db.untag(&name)?.into()))
}

fn tags(store: &mut Embedded, words: &mut Words) -> Answer {
    words.end()?;
    let row = |tag: TagInfo| {
        let revision = Reply::number(tag.revision);
        Reply::Array(vec![Reply::text(tag.name), Reply::text(tag.branch), revision])
    };
    Ok(Reply::Array(store.db.tags().into_iter().map(row).collect()))
}
