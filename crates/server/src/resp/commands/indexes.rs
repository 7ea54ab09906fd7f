//! Commands on record indexes: `REC.INDEX`, `REC.EXPLAIN`.

use super::branches::reply_from;
use super::records::ScanOptions;
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::connection_state::{CommandContext, WorkerJob};
use crate::resp::permissions::{KeyScope, Requirement};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use crate::security::{Area, Right};
use mainstay::IndexInfo;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    Spec::new("rec.index", -2, Group::Records, Handler::LongWork(index))
        .writes()
        .requires(Requirement::Words(required_permission))
        .key_scope(KeyScope::Everything)
        .audited(2)
        .syntax("ADD|DROP|LIST [prefix] [field ...] [id]")
        .summarize("Indexes that scans use by themselves: declares one (its number), drops one, lists them"),
    Spec::new("rec.explain", -2, Group::Records, Handler::Sequenced(explain))
        .key_scope(KeyScope::Range(prefix))
        .syntax("prefix [WHERE field op value]")
        .summarize("How a scan would go about it: by which index, or why by none"),
];

/// An index concerns all records: listing indexes needs the read permission, changing them the admin
/// permission.
fn required_permission(words: &[&[u8]]) -> Option<Right> {
    match words.get(1) {
        Some(word) if word.eq_ignore_ascii_case(b"LIST") => Some(Right::read(Area::Records)),
        _ => Some(Right::write(Area::Admin)),
    }
}

fn prefix(words: &[&[u8]]) -> String {
    words.get(1).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default()
}

fn index(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let mut arguments = context.arguments();
    if arguments.take_keyword("ADD") {
        add(context, &mut arguments)
    } else if arguments.take_keyword("DROP") {
        let id = arguments.count()?;
        arguments.end()?;
        let records = context.shared().db.records();
        Ok(Box::new(move || match u32::try_from(id) {
            Ok(id) => reply_from(records.drop_index(id), |did| Reply::Int(did.into())),
            Err(_) => Reply::Int(0),
        }))
    } else if arguments.take_keyword("LIST") {
        arguments.end()?;
        let records = context.shared().db.records();
        let rows = |all: Vec<IndexInfo>| Reply::Array(all.into_iter().map(row).collect());
        Ok(Box::new(move || reply_from(records.indexes(), rows)))
    } else {
        Err(syntax_error())
    }
}

fn add(context: &CommandContext<'_>, arguments: &mut Arguments<'_>) -> Result<WorkerJob, Reply> {
    let prefix = arguments.text()?.to_owned();
    let mut fields = vec![arguments.word()?.to_vec()];
    while arguments.remaining() > 0 {
        fields.push(arguments.word()?.to_vec());
    }
    let records = context.shared().db.records();
    Ok(Box::new(move || {
        reply_from(records.add_index(&prefix, &fields), |id| Reply::number(id.into()))
    }))
}

/// An index as a client sees it: its id, prefix and fields, the revision from which it serves queries (nil
/// while it is being built), and the number of records processed so far.
fn row(info: IndexInfo) -> Reply {
    Reply::Array(vec![
        Reply::number(info.id.into()),
        Reply::text(info.prefix),
        Reply::texts(info.fields.iter().map(|field| field.as_bytes())),
        Reply::maybe(info.ready.map(Reply::number)),
        Reply::number(info.filled),
    ])
}

fn explain(context: &mut CommandContext<'_>) -> Reply {
    let explain = || -> Result<Reply, Reply> {
        let options = ScanOptions::read(context.words)?;
        let ScanOptions { prefix, filters, after: None, limit: None, at: None } = options else {
            return Err(syntax_error());
        };
        let branch = context.shared().db.branch(&context.state.branch)?;
        Ok(Reply::text(branch.records().explain(&prefix, &filters)?))
    };
    explain().unwrap_or_else(|reply| reply)
}
