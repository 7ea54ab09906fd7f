//! Branches and tags. A fork writes one small record, whatever the size of the branch.

use crate::apply::candidates::Candidates;
use crate::apply::merge;
use crate::apply::sessions::SessionContext;
use crate::base::metrics::Counter;
use crate::base::work::Budget;
use crate::key::entry::DELETED;
use crate::key::keyspace::{Key, MAIN_ID};
use crate::mvcc::catalog::{BranchRecord, Catalog, TagRecord, UNFINISHED};
use crate::mvcc::recent_writes::RecentWrites;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use mainstay_model::{Answer, BranchCommand, Code, Error, Name, Result, Revision, Stamp};
use std::collections::BTreeSet;

/// Inputs of a command on branches.
pub(crate) struct BranchContext<'a> {
    pub index: &'a Index,
    pub catalog: &'a Catalog,
    pub now: Stamp,
    /// The revision that this transaction commits at.
    pub revision: Revision,
    pub trail: &'a RecentWrites,
    /// The transaction's work budget.
    pub budget: Budget<'a>,
    /// Names that the source of a merge may have changed, or the error that stopped the search for them.
    pub candidates: Option<&'a Result<Candidates>>,
    /// Receives the client requests that a merge brings to `main`.
    pub desk: &'a SessionContext<'a>,
    /// Counts client requests that a merge drops because their session is closed.
    pub dropped: &'a Counter,
}

impl BranchContext<'_> {
    /// Writes a catalog record.
    pub fn write(&self, overlay: &mut WriteSet, key: &Key, payload: &[u8]) -> Result<()> {
        self.write_flagged(overlay, key, 0, payload)
    }

    fn write_flagged(
        &self,
        overlay: &mut WriteSet,
        key: &Key,
        flags: u8,
        payload: &[u8],
    ) -> Result<()> {
        let hash = self.index.current.hash(key);
        let payload = Payload::Bytes(payload);
        let write = Write { flags, counter: 1, writes: 1, expires: None, prior: None, payload };
        overlay.write(key.clone(), hash, write)
    }
}

/// Runs a command on branches or tags.
pub(crate) fn run(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    command: &BranchCommand,
) -> Result<Answer> {
    match command {
        BranchCommand::Fork { name, from, at } => fork(context, overlay, name, from, *at),
        BranchCommand::Create { name } => create(context, overlay, name, None, context.revision),
        BranchCommand::Import { name } => create(context, overlay, name, None, UNFINISHED),
        BranchCommand::Finish { name, tags } => finish(context, overlay, name, tags),
        BranchCommand::Delete { name } => delete(context, overlay, name),
        BranchCommand::Rename { name, to } => rename(context, overlay, name, to),
        BranchCommand::Merge { from, into, strategy } => {
            merge::merge(context, overlay, from, into, *strategy)
        }
        BranchCommand::Tag { name, branch, at } => tag(context, overlay, name, branch, *at),
        BranchCommand::Untag { name } => untag(context, overlay, name),
        _ => Err(Error::new(Code::Unsupported, "this version does not know that branch command")),
    }
}

fn fork(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    from: &Name,
    at: Option<Revision>,
) -> Result<Answer> {
    let parent = context.catalog.live(from.as_str())?;
    let fork = point(context, at)?;
    context.catalog.check_depth(parent.id)?;
    create(context, overlay, name, Some((parent.id, fork)), context.revision)
}

fn create(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    parent: Option<(u32, Revision)>,
    created: Revision,
) -> Result<Answer> {
    if context.catalog.holder(name.as_str()).is_some() {
        return Err(branch_exists(name));
    }
    let record = BranchRecord {
        id: context.catalog.next_id(),
        name: name.as_str().to_owned(),
        former: Vec::new(),
        parent,
        created,
        created_stamp: context.now,
        deleted: None,
    };
    context.write(overlay, &record.key(), &record.encode())?;
    Ok(Answer::Revision(parent.map_or(context.revision, |(_, fork)| fork)))
}

/// Publishes an import with its tags. Before this transaction, readers see nothing of it.
fn finish(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    tags: &[(Name, Revision)],
) -> Result<Answer> {
    let import = context.catalog.imports().find(|record| record.name == name.as_str());
    let import = import.ok_or_else(|| no_import(name))?;
    let record = BranchRecord { created: context.revision, ..import.clone() };
    context.write(overlay, &record.key(), &record.encode())?;
    let mut given = BTreeSet::new();
    for (tag, revision) in tags {
        let tag = free_tag(context, &mut given, name, tag)?;
        let revision = point(context, Some(*revision))?;
        let record = TagRecord { branch: import.id, revision, created: context.revision };
        context.write(overlay, &TagRecord::key(tag.as_str()), &record.encode())?;
    }
    Ok(Answer::Revision(context.revision))
}

/// Returns the tag's name, or `branch/tag` if that name is taken.
fn free_tag(
    context: &BranchContext<'_>,
    given: &mut BTreeSet<Name>,
    branch: &Name,
    tag: &Name,
) -> Result<Name> {
    let mut take =
        |tag: &Name| context.catalog.tag(tag.as_str()).is_none() && given.insert(tag.clone());
    if take(tag) {
        return Ok(tag.clone());
    }
    let longer = Name::new(&format!("{branch}/{tag}"))?;
    if take(&longer) {
        return Ok(longer);
    }
    Err(tag_exists(&longer))
}

/// Resolves the revision. Fails if it is in the future or no longer retained.
fn point(context: &BranchContext<'_>, at: Option<Revision>) -> Result<Revision> {
    let newest = context.revision - 1;
    let at = at.unwrap_or(newest);
    if at > newest {
        let message = format!("revision {at} has not happened: the newest is {newest}");
        return Err(Error::new(Code::FutureRevision, message));
    }
    context.index.check_all_reach(at)?;
    Ok(at)
}

fn delete(context: &BranchContext<'_>, overlay: &mut WriteSet, name: &Name) -> Result<Answer> {
    let Some(record) = context.catalog.holder(name.as_str()) else {
        return Ok(Answer::Did(false));
    };
    let in_use = |message: String| Err(Error::new(Code::BranchInUse, message));
    if record.id == MAIN_ID {
        return in_use("`main` cannot be deleted".to_owned());
    }
    if let Some(child) = context.catalog.children(record.id, NEWEST).next() {
        return in_use(format!("`{name}` has the fork `{}`: delete that first", child.name));
    }
    if let Some((tag, _)) = context.catalog.tags().find(|(_, tag)| tag.branch == record.id) {
        return in_use(format!("`{name}` has the tag `{tag}`: remove that first"));
    }
    let record = BranchRecord { deleted: Some(context.revision), ..record.clone() };
    context.write(overlay, &record.key(), &record.encode())?;
    Ok(Answer::Did(true))
}

fn rename(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    to: &Name,
) -> Result<Answer> {
    let record = context.catalog.live(name.as_str())?;
    if record.id == MAIN_ID {
        return Err(Error::new(Code::BranchInUse, "`main` keeps its name"));
    }
    if context.catalog.holder(to.as_str()).is_some() {
        return Err(branch_exists(to));
    }
    let record = record.renamed(to.as_str(), context.revision);
    context.write(overlay, &record.key(), &record.encode())?;
    Ok(Answer::Did(true))
}

fn tag(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    branch: &Name,
    at: Option<Revision>,
) -> Result<Answer> {
    let branch = context.catalog.live(branch.as_str())?.id;
    if context.catalog.tag(name.as_str()).is_some() {
        return Err(tag_exists(name));
    }
    let revision = point(context, at)?;
    let record = TagRecord { branch, revision, created: context.revision };
    context.write(overlay, &TagRecord::key(name.as_str()), &record.encode())?;
    Ok(Answer::Revision(revision))
}

fn untag(context: &BranchContext<'_>, overlay: &mut WriteSet, name: &Name) -> Result<Answer> {
    if context.catalog.tag(name.as_str()).is_none() {
        return Ok(Answer::Did(false));
    }
    context.write_flagged(overlay, &TagRecord::key(name.as_str()), DELETED, b"")?;
    Ok(Answer::Did(true))
}

#[cold]
fn branch_exists(name: &Name) -> Error {
    Error::new(Code::BranchExists, format!("there is a branch `{name}` already"))
}

#[cold]
fn tag_exists(name: &Name) -> Error {
    let message = format!("there is a tag `{name}` already: remove it first");
    Error::new(Code::TagExists, message)
}

#[cold]
fn no_import(name: &Name) -> Error {
    let message = format!("no import of `{name}` is under way: begin it first");
    Error::new(Code::BranchNotFound, message)
}
