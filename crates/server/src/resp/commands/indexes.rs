//! Commands on record indexes: `REC.INDEX`, `REC.EXPLAIN`.

use super::branches::reply;
use super::records::Asked;
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::reply::Reply;
use crate::resp::rights::{Needs, Reach};
use crate::resp::session::{Call, Job};
use crate::resp::table::{Group, Run, Spec};
use crate::security::{Area, Right};
use mainstay::IndexInfo;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    Spec::new("rec.index", -2, Group::Records, Run::Slow(index))
        .writes()
        .needs(Needs::Words(right))
        .reaches(Reach::Everything)
        .audited(2)
        .syntax("ADD|DROP|LIST [prefix] [field ...] [id]")
        .about("Indexes that scans use by themselves: declares one (its number), drops one, lists them"),
    Spec::new("rec.explain", -2, Group::Records, Run::Settled(explain))
        .reaches(Reach::Range(prefix))
        .syntax("prefix [WHERE field op value]")
        .about("How a scan would go about it: by which index, or why by none"),
];

/// An index concerns all records: listing indexes needs the read permission, changing them the admin
/// permission.
fn right(words: &[&[u8]]) -> Option<Right> {
    match words.get(1) {
        Some(word) if word.eq_ignore_ascii_case(b"LIST") => Some(Right::read(Area::Records)),
        _ => Some(Right::write(Area::Admin)),
    }
}

fn prefix(words: &[&[u8]]) -> String {
    words.get(1).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default()
}

fn index(call: &mut Call<'_>) -> Result<Job, Reply> {
    let mut arguments = call.arguments();
    if arguments.take("ADD") {
        add(call, &mut arguments)
    } else if arguments.take("DROP") {
        let id = arguments.count()?;
        arguments.end()?;
        let records = call.shared().db.records();
        Ok(Box::new(move || match u32::try_from(id) {
            Ok(id) => reply(records.drop_index(id), |did| Reply::Int(did.into())),
            Err(_) => Reply::Int(0),
        }))
    } else if arguments.take("LIST") {
        arguments.end()?;
        let records = call.shared().db.records();
        let rows = |all: Vec<IndexInfo>| Reply::Array(all.into_iter().map(row).collect());
        Ok(Box::new(move || reply(records.indexes(), rows)))
    } else {
        Err(syntax_error())
    }
}

fn add(call: &Call<'_>, arguments: &mut Arguments<'_>) -> Result<Job, Reply> {
    let prefix = arguments.text()?.to_owned();
    let mut fields = vec![arguments.word()?.to_vec()];
    while arguments.left() > 0 {
        fields.push(arguments.word()?.to_vec());
    }
    let records = call.shared().db.records();
    Ok(Box::new(move || reply(records.add_index(&prefix, &fields), |id| Reply::number(id.into()))))
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

fn explain(call: &mut Call<'_>) -> Reply {
    let explained = || -> Result<Reply, Reply> {
        let asked = Asked::read(call.words)?;
        let Asked { prefix, filters, after: None, limit: None, at: None } = asked else {
            return Err(syntax_error());
        };
        let branch = call.shared().db.branch(&call.session.branch)?;
        Ok(Reply::text(branch.records().explain(&prefix, &filters)?))
    };
    explained().unwrap_or_else(|reply| reply)
}
