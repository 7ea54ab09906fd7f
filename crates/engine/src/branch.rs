//! Branches and tags: fork in constant time, compare, merge.

use crate::cells::{Cells, unexpected};
use crate::compare::Comparison;
use crate::core::Core;
use crate::db::{Database, retry};
use crate::event::Contract;
use crate::interactive::Interactive;
use mainstay_model::{
    Answer, At, BranchCommand, MergeStrategy, Name, Result, Revision, Stamp, Transaction, Value,
    codec,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A handle on one branch.
#[derive(Clone)]
pub struct Branch {
    core: Arc<Core>,
    name: String,
}

impl Branch {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its cells.
    pub fn cells(&self) -> Cells {
        Cells::on(self.core.clone(), &self.name)
    }

    /// Begins an interactive transaction on it.
    pub fn begin(&self) -> Result<Interactive> {
        Interactive::begin(&self.core, &self.name)
    }

    /// Runs a closure in a transaction on it, again and again while it conflicts with others.
    pub fn transaction<T>(&self, body: impl FnMut(&mut Interactive) -> Result<T>) -> Result<T> {
        retry(&self.core, &self.name, body)
    }
}

/// What is known of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// Its name.
    pub name: String,
    /// Its number, never used again.
    pub id: u32,
    /// The branch it was forked from; nothing for `main` and for imports.
    pub parent: Option<String>,
    /// The revision it was forked at.
    pub fork_revision: Revision,
    /// When it was made.
    pub created: Stamp,
    /// How many forks lie between it and its root.
    pub depth: usize,
    /// How many branches were forked from it.
    pub children: usize,
}

/// A pinned revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagInfo {
    /// Its name.
    pub name: String,
    /// The branch it belongs to.
    pub branch: String,
    /// The revision it pins.
    pub revision: Revision,
}

/// A key that two branches do not agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The kind of state.
    pub contract: Contract,
    /// The key.
    pub key: String,
    /// Who changed it.
    pub kind: DifferenceKind,
    /// What the common ancestor holds.
    pub base: Option<Value>,
    /// What the first branch holds.
    pub a: Option<Value>,
    /// What the second branch holds.
    pub b: Option<Value>,
}

/// Who changed a key since the common ancestor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DifferenceKind {
    /// Only the first branch.
    OnlyA,
    /// Only the second branch.
    OnlyB,
    /// Both, differently: a strict merge refuses it.
    Both,
}

impl Database {
    /// A handle on a branch.
    pub fn branch(&self, name: &str) -> Result<Branch> {
        self.core.layers(name, 0)?;
        Ok(Branch { core: self.core.clone(), name: name.to_owned() })
    }

    fn run_branch(&self, command: BranchCommand) -> Result<Answer> {
        let receipt = self.execute(Transaction::new().step(command))?;
        receipt.answers.into_iter().next().ok_or_else(unexpected)
    }

    /// Makes a branch that starts as `from` was; gives the revision it starts at.
    ///
    /// It costs the same for ten keys and for ten million.
    pub fn fork(&self, name: &str, from: &str, at: At) -> Result<Revision> {
        let (name, from) = (Name::new(name)?, Name::new(from)?);
        let at = self.point(at)?;
        revision(self.run_branch(BranchCommand::Fork { name, from, at })?)
    }

    fn point(&self, at: At) -> Result<Option<Revision>> {
        match at {
            At::Latest => Ok(None),
            at => self.core.resolve(at).map(|(revision, _)| Some(revision)),
        }
    }

    /// Deletes a branch; says whether there was one.
    pub fn delete_branch(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        crate::cells::did(self.run_branch(BranchCommand::Delete { name })?)
    }

    /// Gives a branch another name.
    pub fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        let (name, to) = (Name::new(name)?, Name::new(to)?);
        self.run_branch(BranchCommand::Rename { name, to }).map(|_| ())
    }

    /// All branches, in the order of their names.
    pub fn branches(&self) -> Vec<BranchInfo> {
        // In this order: what readers no longer see may go while the catalog is not held.
        let catalog = self.core.state.catalog.read();
        let published = self.revision();
        let visible = catalog.branches().filter(|branch| branch.lives_at(published));
        let mut branches: Vec<BranchInfo> = visible
            .map(|branch| {
                let parent =
                    branch.parent.and_then(|(parent, _)| catalog.name_at(parent, published));
                BranchInfo {
                    name: branch.name_at(published).to_owned(),
                    id: branch.id,
                    parent: parent.map(str::to_owned),
                    fork_revision: branch.parent.map_or(0, |(_, fork)| fork),
                    created: branch.created_stamp,
                    depth: catalog.depth(branch.id),
                    children: catalog.children(branch.id, published).count(),
                }
            })
            .collect();
        branches.sort_by(|a, b| a.name.cmp(&b.name));
        branches
    }

    /// What is known of a branch.
    pub fn branch_info(&self, name: &str) -> Result<BranchInfo> {
        let (id, _) = self.core.layers(name, 0)?;
        let info = self.branches().into_iter().find(|branch| branch.id == id);
        info.ok_or_else(unexpected)
    }

    /// The keys that two branches do not agree on, against their common ancestor.
    ///
    /// It costs what was written on both sides since; a branch that went on since the ancestor is
    /// walked as a whole.
    pub fn diff(&self, a: &str, b: &str) -> Result<Vec<Difference>> {
        self.core.check_open()?;
        let (at, now) = self.core.resolve(At::Latest)?;
        let _pin = self.core.pins.hold("diff", self.core.clock.monotonic_us(), at);
        let comparison = {
            let catalog = self.core.state.catalog.read();
            let (a, b) = (catalog.visible(a, at)?.id, catalog.visible(b, at)?.id);
            Comparison::new(self.core.index(), &catalog, (a, at), (b, at), now)?
        };
        let mut names: BTreeSet<Vec<u8>> = comparison.changed_in_a()?;
        names.append(&mut comparison.changed_in_b()?);
        let mut differences = Vec::new();
        for name in names {
            let triple = comparison.triple(name)?;
            let kind = match (triple.a_changed(), triple.b_changed()) {
                _ if triple.agrees() => continue,
                (true, false) => DifferenceKind::OnlyA,
                (false, _) => DifferenceKind::OnlyB,
                (true, true) => DifferenceKind::Both,
            };
            let value =
                |payload: &Option<Vec<u8>>| payload.as_deref().map(codec::decode).transpose();
            differences.push(Difference {
                contract: Contract::Cells,
                key: String::from_utf8_lossy(&triple.name).into_owned(),
                kind,
                base: value(&triple.base.payload)?,
                a: value(&triple.a.payload)?,
                b: value(&triple.b.payload)?,
            });
        }
        Ok(differences)
    }

    /// Brings the changes of one branch into another, in one transaction.
    ///
    /// A conflict under `Strict` changes nothing; the error lists the keys.
    pub fn merge(&self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        let (from, into) = (Name::new(from)?, Name::new(into)?);
        revision(self.run_branch(BranchCommand::Merge { from, into, strategy })?)
    }

    /// Pins a revision of a branch by name; gives the revision.
    pub fn tag(&self, name: &str, branch: &str, at: At) -> Result<Revision> {
        let (name, branch) = (Name::new(name)?, Name::new(branch)?);
        let at = self.point(at)?;
        revision(self.run_branch(BranchCommand::Tag { name, branch, at })?)
    }

    /// Removes a tag; says whether there was one.
    pub fn untag(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        crate::cells::did(self.run_branch(BranchCommand::Untag { name })?)
    }

    /// All tags, in the order of their names.
    pub fn tags(&self) -> Vec<TagInfo> {
        // In this order: what readers no longer see may go while the catalog is not held.
        let catalog = self.core.state.catalog.read();
        let published = self.revision();
        let tags = catalog.tags_at(published).into_iter();
        tags.map(|(name, tag)| TagInfo {
            name: name.clone(),
            branch: catalog.name_at(tag.branch, published).unwrap_or_default().to_owned(),
            revision: tag.revision,
        })
        .collect()
    }
}

fn revision(answer: Answer) -> Result<Revision> {
    match answer {
        Answer::Revision(revision) => Ok(revision),
        _ => Err(unexpected()),
    }
}
