//! Branches in the model: a fork is a copy, a merge is a three-way comparison of maps.

use super::cells::{self, Cells, Run};
use super::past::{self, Known, Past};
use super::{Line, Oracle};
use mainstay_model::{
    Answer, BranchCommand, Code, Error, MAIN, MergeStrategy, Receipt, Result, Revision, Value,
    limits,
};
use std::collections::BTreeSet;

/// A key on which two branches differ, seen from their common ancestor.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The cell.
    pub key: String,
    /// Which side changed it.
    pub on: ChangedOn,
    /// What the common ancestor holds.
    pub base: Option<Value>,
    /// What the first branch holds.
    pub a: Option<Value>,
    /// What the second branch holds.
    pub b: Option<Value>,
}

/// Which side changed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedOn {
    /// Only the first.
    A,
    /// Only the second.
    B,
    /// Both, to different values.
    Both,
}

impl Oracle {
    pub(super) fn line_mut(&mut self, id: u32) -> &mut Line {
        self.lines.get_mut(&id).unwrap_or_else(|| panic!("the model lost branch {id}"))
    }

    pub(super) fn branch_command(&mut self, command: &BranchCommand) -> Result<Receipt> {
        let answer = match command {
            BranchCommand::Fork { name, from, at } => {
                Answer::Revision(self.fork(name.as_str(), from.as_str(), *at)?)
            }
            BranchCommand::Delete { name } => Answer::Did(self.delete_branch(name.as_str())?),
            BranchCommand::Rename { name, to } => {
                self.rename_branch(name.as_str(), to.as_str())?;
                Answer::Did(true)
            }
            BranchCommand::Merge { from, into, strategy } => {
                Answer::Revision(self.merge(from.as_str(), into.as_str(), *strategy)?)
            }
            BranchCommand::Tag { name, branch, at } => {
                Answer::Revision(self.tag(name.as_str(), branch.as_str(), *at)?)
            }
            BranchCommand::Untag { name } => Answer::Did(self.untag(name.as_str())),
            other => return Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        };
        let (revision, stamp) = (self.revision, self.last_stamp);
        let answers = [answer].into_iter().collect();
        Ok(Receipt { revision, stamp, held: true, repeated: false, answers })
    }

    /// Makes a branch; answers the revision it starts at.
    pub fn fork(&mut self, name: &str, from: &str, at: Option<Revision>) -> Result<Revision> {
        let parent = self.id(from)?;
        if self.names.contains_key(name) {
            return Err(Error::new(Code::BranchExists, format!("branch `{name}` exists")));
        }
        let fork_revision = at.unwrap_or(self.revision);
        if fork_revision > self.revision {
            return Err(super::future());
        }
        let depth = self.lines[&parent].depth + 1;
        if depth > limits::BRANCH_LIMIT_DEPTH {
            return Err(Error::new(Code::BranchTooDeep, "32 levels are the most"));
        }
        let cells = upto(&self.lines[&parent].cells, fork_revision);
        let created = self.revision + 1;
        let mut past = Past::default();
        past.learn(0, self.known(parent, fork_revision));
        let line = Line { parent: Some(parent), fork_revision, created, depth, cells, past };
        self.lines.insert(self.next_id, line);
        self.names.insert(name.to_owned(), self.next_id);
        self.next_id += 1;
        self.committed(self.next_stamp());
        Ok(fork_revision)
    }

    /// Removes a branch; answers whether it was there.
    pub fn delete_branch(&mut self, name: &str) -> Result<bool> {
        let Ok(id) = self.id(name) else { return Ok(false) };
        let tagged = self.tags.values().any(|(branch, _)| *branch == id);
        if name == MAIN || self.children(id) > 0 || tagged {
            return Err(Error::new(Code::BranchInUse, "`main`, parents and the tagged stay"));
        }
        self.names.remove(name);
        self.lines.remove(&id);
        self.committed(self.next_stamp());
        Ok(true)
    }

    /// Gives a branch another name.
    pub fn rename_branch(&mut self, name: &str, to: &str) -> Result<()> {
        let id = self.id(name)?;
        if name == MAIN {
            return Err(Error::new(Code::BranchInUse, "`main` keeps its name"));
        }
        if self.names.contains_key(to) {
            return Err(Error::new(Code::BranchExists, format!("branch `{to}` exists")));
        }
        self.names.remove(name);
        self.names.insert(to.to_owned(), id);
        self.committed(self.next_stamp());
        Ok(())
    }

    /// How many branches were forked from this one.
    pub fn children(&self, id: u32) -> usize {
        self.lines.values().filter(|line| line.parent == Some(id)).count()
    }

    /// A branch's number in this model.
    pub fn branch_id(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The name of the branch that this one was forked from.
    pub fn parent(&self, name: &str) -> Option<String> {
        let parent = self.line(name).ok()?.parent?;
        self.names.iter().find(|(_, id)| **id == parent).map(|(name, _)| name.clone())
    }

    /// Where two branches differ, by value, from what they have in common.
    pub fn diff(&self, a: &str, b: &str) -> Result<Vec<Change>> {
        let (a, b) = (self.id(a)?, self.id(b)?);
        let base = self.common(a, b);
        let (left, right) = (&self.lines[&a].cells, &self.lines[&b].cells);
        let keys: BTreeSet<&String> = base.keys().chain(left.keys()).chain(right.keys()).collect();
        let now = self.latest();
        let change = |key: &&String| {
            let values = [&base, left, right].map(|cells| cells::value(cells, key, now));
            compare(key, values)
        };
        Ok(keys.iter().filter_map(change).collect())
    }

    /// Brings the changes of one branch into another, in one transaction; answers its revision.
    pub fn merge(&mut self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        if self.id(from)? == self.id(into)? {
            return Err(Error::new(Code::InvalidArgument, "a branch cannot be merged into itself"));
        }
        let changes = self.diff(from, into)?;
        let clashes: Vec<String> =
            changes.iter().filter(|c| c.on == ChangedOn::Both).map(|c| c.key.clone()).collect();
        if strategy == MergeStrategy::Strict && !clashes.is_empty() {
            return Err(Error::new(Code::MergeConflict, "both changed").with_keys(clashes));
        }
        let (source, target) = (self.id(from)?, self.id(into)?);
        let (stamp, revision) = (self.next_stamp(), self.revision + 1);
        let theirs = self.lines[&source].cells.clone();
        let mut run = Run::new(&mut self.line_mut(target).cells, revision, stamp, target);
        for change in changes.iter().filter(|change| travels(change, strategy)) {
            bring(&mut run, &theirs, change);
        }
        let known = self.known(source, revision - 1);
        self.line_mut(target).past.learn(revision, known);
        Ok(self.committed(stamp))
    }

    /// Pins a revision by name; answers the revision.
    pub fn tag(&mut self, name: &str, branch: &str, at: Option<Revision>) -> Result<Revision> {
        let id = self.id(branch)?;
        if self.tags.contains_key(name) {
            return Err(Error::new(Code::TagExists, format!("tag `{name}` exists")));
        }
        let revision = at.unwrap_or(self.revision);
        if revision > self.revision {
            return Err(super::future());
        }
        self.tags.insert(name.to_owned(), (id, revision));
        self.committed(self.next_stamp());
        Ok(revision)
    }

    /// Removes a tag; answers whether it was there.
    pub fn untag(&mut self, name: &str) -> bool {
        let found = self.tags.remove(name).is_some();
        if found {
            self.committed(self.next_stamp());
        }
        found
    }

    /// The tags: name, branch, revision.
    pub fn tags(&self) -> Vec<(String, String, Revision)> {
        let branch = |wanted: u32| self.names.iter().find(|(_, id)| **id == wanted);
        let shown = |(name, (id, revision)): (&String, &(u32, Revision))| {
            let branch = branch(*id).map(|(name, _)| name.clone()).unwrap_or_default();
            (name.clone(), branch, *revision)
        };
        self.tags.iter().map(shown).collect()
    }

    /// What two branches have in common: the newest point that both come from, by forks or merges.
    fn common(&self, a: u32, b: u32) -> Cells {
        let (a, b) = (self.known(a, self.revision), self.known(b, self.revision));
        let shared = past::newest_shared(&a, &b, |id| self.lines.contains_key(&id));
        shared.map_or_else(Cells::new, |(revision, id)| upto(&self.lines[&id].cells, revision))
    }

    /// What a branch knew at a revision, itself included.
    fn known(&self, branch: u32, revision: Revision) -> Known {
        let mut known = self.lines[&branch].past.at(revision);
        known.insert(branch, revision);
        known
    }
}

/// A copy of the versions up to a revision.
fn upto(cells: &Cells, revision: Revision) -> Cells {
    let mut copy = cells.clone();
    for versions in copy.values_mut() {
        versions.retain(|version| version.revision <= revision);
    }
    copy.retain(|_, versions| !versions.is_empty());
    copy
}

/// Equal values are equal, whatever their stamps; the same change on both sides is none.
fn compare(key: &str, [base, a, b]: [Option<Value>; 3]) -> Option<Change> {
    let on = match (a != base, b != base) {
        _ if a == b => return None,
        (true, true) => ChangedOn::Both,
        (true, false) => ChangedOn::A,
        _ => ChangedOn::B,
    };
    Some(Change { key: key.to_owned(), on, base, a, b })
}

fn travels(change: &Change, strategy: MergeStrategy) -> bool {
    change.on == ChangedOn::A || (change.on == ChangedOn::Both && strategy == MergeStrategy::Theirs)
}

/// Writes the source's value, or its deletion, with a counter above the target's and never below
/// the source's.
fn bring(run: &mut Run<'_>, theirs: &Cells, change: &Change) {
    let source = cells::newest(theirs, &change.key, Revision::MAX);
    let counter = (run.counter(&change.key) + 1).max(source.map_or(0, |version| version.counter));
    let expires = source.filter(|_| change.a.is_some()).and_then(|version| version.expires);
    run.write_as(&change.key, change.a.clone(), expires, counter);
}
