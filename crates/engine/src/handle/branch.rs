//! Branches and tags: fork in constant time, compare, merge.

use crate::apply::keyed::feed_names;
use crate::apply::keyed::space::Declaration;
use crate::apply::outbox::transfer::{Content, Transfer, in_order};
use crate::apply::runs;
use crate::apply::three_way_diff::{Comparison, DiffItem, ThreeWayEntry};
use crate::base::work::Budget;
use crate::handle::backend::Backend;
use crate::handle::cells::Cells;
use crate::handle::database::{Database, retry};
use crate::handle::keyed::{self, Keyed};
use crate::handle::outbox::Outbox;
use crate::handle::records::Records;
use crate::handle::runs::Runs;
use crate::handle::transaction::InteractiveTransaction;
use crate::key::keyspace::{KEYED, SPACES};
use crate::key::state_keys;
use crate::lifecycle::engine::Engine;
use crate::remote::wait;
use mainstay_model::wire::fields;
use mainstay_model::{
    Answer, At, BranchCommand, Code, Contract, Error, Fields, Guard, MergeStrategy, Name, Page,
    Receipt, Result, Revision, Stamp, Transaction, Value, codec,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A handle on one branch.
#[derive(Clone)]
pub struct Branch {
    place: Backend,
    name: String,
}

impl Branch {
    /// The branch of this name, which has to be there.
    pub(crate) fn open(place: &Backend, name: &str) -> Result<Branch> {
        match place {
            Backend::Local(core) => drop(core.layers(name, 0)?),
            Backend::Remote(link) => drop(wait(Backend::there(link).branch_info(name))?),
        }
        Ok(Branch { place: place.clone(), name: name.to_owned() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its cells.
    pub fn cells(&self) -> Cells {
        Cells::on(self.place.clone(), &self.name)
    }

    /// Its runs.
    pub fn runs(&self) -> Runs {
        Runs::on(self.place.clone(), &self.name)
    }

    /// A space of keyed state on it; it is made by its first write, or declared.
    pub fn keyed(&self, space: &str) -> Result<Keyed> {
        Keyed::on(self.place.clone(), &self.name, space)
    }

    /// Names of its spaces of keyed state, in byte order.
    pub fn spaces(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        keyed::spaces(&self.place, &self.name, prefix, after, limit)
    }

    /// Its outbox.
    pub fn outbox(&self) -> Outbox {
        Outbox::on(self.place.clone(), &self.name)
    }

    /// Its records.
    pub fn records(&self) -> Records {
        Records::on(self.place.clone(), &self.name)
    }

    /// Begins an interactive transaction on it.
    pub fn begin(&self) -> Result<InteractiveTransaction> {
        InteractiveTransaction::begin(&self.place, &self.name)
    }

    /// Runs a closure in a transaction on it, again and again while it conflicts with others.
    pub fn transaction<T>(
        &self,
        body: impl FnMut(&mut InteractiveTransaction) -> Result<T>,
    ) -> Result<T> {
        retry(&self.place, &self.name, body)
    }

    /// Runs a closure in a transaction on it while all other writers wait, so that it never conflicts. The closure has to be
    /// short, and must not write in any other way: that would wait for itself. Gives the value of the closure and the
    /// receipt; if one of the guards fails, the receipt says so and nothing is written. The database has to be in this
    /// process.
    ///
    /// ```
    /// let db = mainstay::Database::memory()?;
    /// let main = db.branch("main")?;
    /// let (sum, receipt) = main.transaction_alone(Vec::new(), |t| t.incr("n", 1))?;
    /// assert_eq!((sum.0, receipt.held), (1.into(), true));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn transaction_alone<T>(
        &self,
        guards: Vec<Guard>,
        body: impl FnOnce(&mut InteractiveTransaction) -> Result<T>,
    ) -> Result<(T, Receipt)> {
        let core = self.place.here("a transaction that nobody comes between")?;
        InteractiveTransaction::alone(core, &self.name, guards, body)
    }
}

/// What is known of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagInfo {
    /// Its name.
    pub name: String,
    /// The branch it belongs to.
    pub branch: String,
    /// The revision it pins.
    pub revision: Revision,
}

/// A key that two branches do not agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The kind of state.
    pub contract: Contract,
    /// The key.
    pub key: String,
    /// Who changed it.
    pub kind: DifferenceKind,
    /// What the common ancestor holds.
    #[serde(with = "fields::maybe_value")]
    pub base: Option<Value>,
    /// What the first branch holds.
    #[serde(with = "fields::maybe_value")]
    pub a: Option<Value>,
    /// What the second branch holds.
    #[serde(with = "fields::maybe_value")]
    pub b: Option<Value>,
}

/// Who changed a key since the common ancestor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DifferenceKind {
    /// Only the first branch.
    OnlyA,
    /// Only the second branch.
    OnlyB,
    /// Both, differently: a strict merge refuses it, but for a record of which they changed other fields.
    Both,
}

impl Database {
    /// A handle on a branch.
    pub fn branch(&self, name: &str) -> Result<Branch> {
        Branch::open(&self.place, name)
    }

    fn run_branch(&self, command: BranchCommand) -> Result<Answer> {
        let receipt = self.execute(Transaction::new().step(command))?;
        receipt.into_first()
    }

    /// Makes a branch that starts as `from` was; gives the revision it starts at.
    ///
    /// It costs the same for ten keys and for ten million.
    pub fn fork(&self, name: &str, from: &str, at: At) -> Result<Revision> {
        let (name, from) = (Name::new(name)?, Name::new(from)?);
        let at = self.point(at)?;
        self.run_branch(BranchCommand::Fork { name, from, at })?.into_revision()
    }

    /// Makes a branch that starts as `from` was when an event of a run came, and where that run ends with this event:
    /// what is appended there follows it. Gives the revision it starts at, which has to be kept.
    ///
    /// It costs the same as any fork where the event came alone. Where others came with it, or its run was restored from
    /// an archive, the events up to it are written once more: see [`Runs::rewind`](crate::Runs::rewind).
    ///
    /// ```
    /// use mainstay::{Database, NewEvent};
    /// let db = Database::memory()?;
    /// let step = |kind: &str| NewEvent::new("r", kind).step("s").plan("1");
    /// db.runs().append_batch(vec![step("StepStarted"), step("StepFailed")])?;
    /// db.fork_at_event("again", "main", "r", 1)?;
    /// let again = db.branch("again")?.runs();
    /// assert_eq!(again.append(step("StepCompleted"))?.run_seq, 2);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn fork_at_event(&self, name: &str, from: &str, run: &str, seq: u64) -> Result<Revision> {
        let Some(revision) = self.branch(from)?.runs().revision_of(run, seq)? else {
            let message = format!("run `{run}` has no event {seq} on branch `{from}`");
            return Err(Error::new(Code::RunNotFound, message));
        };
        let forked = self.fork(name, from, At::Revision(revision))?;
        let rewound = self.branch(name).and_then(|branch| branch.runs().rewind(run, seq));
        if let Err(error) = rewound {
            // A branch that is not what was asked for is none.
            self.delete_branch(name)?;
            return Err(error);
        }
        Ok(forked)
    }

    fn point(&self, at: At) -> Result<Option<Revision>> {
        match at {
            At::Latest => Ok(None),
            at => self.resolve(at).map(Some),
        }
    }

    /// Deletes a branch; says whether there was one.
    pub fn delete_branch(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Delete { name })?.into_did()
    }

    /// Gives a branch another name.
    pub fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        let (name, to) = (Name::new(name)?, Name::new(to)?);
        self.run_branch(BranchCommand::Rename { name, to }).map(|_| ())
    }

    /// All branches, in the order of their names; none where a served database cannot be reached,
    /// which [`Database::try_branches`] says.
    pub fn branches(&self) -> Vec<BranchInfo> {
        self.try_branches().unwrap_or_default()
    }

    /// All branches, in the order of their names, or why a served database cannot tell.
    pub fn try_branches(&self) -> Result<Vec<BranchInfo>> {
        match &self.place {
            Backend::Local(core) => Ok(BranchInfo::all(core)),
            Backend::Remote(link) => wait(Backend::there(link).branches()),
        }
    }

    /// What is known of a branch.
    pub fn branch_info(&self, name: &str) -> Result<BranchInfo> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(Backend::there(link).branch_info(name)),
        };
        let (id, _) = core.layers(name, 0)?;
        let info = BranchInfo::all(core).into_iter().find(|branch| branch.id == id);
        info.ok_or_else(Answer::mismatch)
    }

    /// The keys that two branches do not agree on, against their common ancestor.
    ///
    /// It costs what was written on both sides since; a branch that went on since the ancestor is
    /// walked as a whole.
    pub fn diff(&self, a: &str, b: &str) -> Result<Vec<Difference>> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(Backend::there(link).diff(a, b)),
        };
        core.check_open()?;
        let (_pin, now, comparison) = {
            // In this order: what readers no longer see may go while the catalog is not held.
            let catalog = core.state.catalog.read();
            let (at, now) = core.resolve(At::Latest)?;
            let pin = core.pins.hold("diff", core.clock.monotonic_us(), at);
            let (a, b) = (catalog.visible(a, at)?.id, catalog.visible(b, at)?.id);
            let budget = Budget::Reader;
            (pin, now, Comparison::new(core.index(), &catalog, (a, at), (b, at), now, budget)?)
        };
        let mut names: BTreeSet<DiffItem> = comparison.changed_in_a()?;
        names.append(&mut comparison.changed_in_b()?);
        let mut differences = Vec::new();
        for triple in triples(&comparison, names)? {
            let triple = triple?;
            let kind = match (triple.a_changed(), triple.b_changed()) {
                _ if triple.agrees() => continue,
                (true, false) => DifferenceKind::OnlyA,
                (false, _) => DifferenceKind::OnlyB,
                (true, true) => DifferenceKind::Both,
            };
            let contract = triple.contract();
            let Some(key) = feed_names::difference(&triple) else { continue };
            let value = |payload: &Option<Vec<u8>>| {
                let read = |payload: &[u8]| match contract {
                    Contract::Keyed => keyed_value(&triple, payload),
                    Contract::Records => Fields::decode(payload).map(|fields| fields.to_value()),
                    Contract::Runs => runs::last_seq(payload).map(|seq| Value::from(seq as i64)),
                    _ => codec::decode(payload),
                };
                payload.as_deref().map(read).transpose()
            };
            differences.push(Difference {
                contract,
                key,
                kind,
                base: value(&triple.base.payload)?,
                a: value(&triple.a.payload)?,
                b: value(&triple.b.payload)?,
            });
        }
        let (a, b) = comparison.layers();
        for (kind, from, into) in [(DifferenceKind::OnlyA, a, b), (DifferenceKind::OnlyB, b, a)] {
            let budget = Budget::Reader;
            let transfer = Transfer { index: core.index(), from, into, now, budget };
            let mut messages = outgoing(core, &transfer, kind, &differences)?;
            differences.append(&mut messages);
        }
        Ok(differences)
    }

    /// Brings the changes of one branch into another, in one transaction.
    ///
    /// A conflict under `Strict` changes nothing; the error lists the keys.
    pub fn merge(&self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        let (from, into) = (Name::new(from)?, Name::new(into)?);
        self.run_branch(BranchCommand::Merge { from, into, strategy })?.into_revision()
    }

    /// Pins a revision of a branch by name; gives the revision.
    pub fn tag(&self, name: &str, branch: &str, at: At) -> Result<Revision> {
        let (name, branch) = (Name::new(name)?, Name::new(branch)?);
        let at = self.point(at)?;
        self.run_branch(BranchCommand::Tag { name, branch, at })?.into_revision()
    }

    /// Removes a tag; says whether there was one.
    pub fn untag(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Untag { name })?.into_did()
    }

    /// All tags, in the order of their names; none where a served database cannot be reached, which
    /// [`Database::try_tags`] says.
    pub fn tags(&self) -> Vec<TagInfo> {
        self.try_tags().unwrap_or_default()
    }

    /// All tags, in the order of their names, or why a served database cannot tell.
    pub fn try_tags(&self) -> Result<Vec<TagInfo>> {
        match &self.place {
            Backend::Local(core) => Ok(TagInfo::all(core)),
            Backend::Remote(link) => wait(Backend::there(link).tags()),
        }
    }
}

impl BranchInfo {
    /// All branches of a database in this process.
    fn all(core: &Engine) -> Vec<BranchInfo> {
        // In this order: what readers no longer see may go while the catalog is not held.
        let catalog = core.state.catalog.read();
        let published = core.sequencer.published();
        let mut branches: Vec<BranchInfo> = catalog
            .living(published)
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
}

impl TagInfo {
    /// All tags of a database in this process.
    fn all(core: &Engine) -> Vec<TagInfo> {
        // In this order: what readers no longer see may go while the catalog is not held.
        let catalog = core.state.catalog.read();
        let published = core.sequencer.published();
        let tags = catalog.tags_at(published).into_iter();
        tags.map(|(name, tag)| TagInfo {
            name: name.clone(),
            branch: catalog.name_at(tag.branch, published).unwrap_or_default().to_owned(),
            revision: tag.revision,
        })
        .collect()
    }
}

/// Names as base and both sides have them. Entries of keyed state stand where they are, whatever generation a side
/// shows; where they show different ones, all are looked at.
fn triples<'c>(
    comparison: &'c Comparison<'_>,
    names: BTreeSet<DiffItem>,
) -> Result<impl Iterator<Item = Result<ThreeWayEntry>> + use<'c>> {
    let (mut plain, mut spaces) = (Vec::new(), BTreeMap::<String, BTreeSet<Vec<u8>>>::new());
    for (space, name) in names {
        match (space, state_keys::split(&name)) {
            (KEYED, Some((of, _, place))) if state_keys::is_entry(place) => {
                spaces.entry(of.to_owned()).or_default().insert(place.to_vec());
            }
            (KEYED, _) => {}
            _ => {
                if space == SPACES {
                    spaces.entry(String::from_utf8_lossy(&name).into_owned()).or_default();
                }
                plain.push((space, name));
            }
        }
    }
    let mut entries = Vec::new();
    for (space, mut found) in spaces {
        let sides = comparison.sides(&space)?;
        if !sides.are_one() {
            found.append(&mut comparison.places(&space, &sides)?);
        }
        entries.extend(found.into_iter().map(|place| (space.clone(), sides, place)));
    }
    let plain = plain.into_iter().map(|name| comparison.triple(name));
    let entry =
        |(space, sides, place): (String, _, Vec<u8>)| comparison.entry(&space, &sides, &place);
    Ok(plain.chain(entries.into_iter().map(entry)))
}

/// Differences in messages and requests to clients: those that a merge would bring that brings all runs.
fn outgoing(
    core: &Engine,
    transfer: &Transfer<'_>,
    kind: DifferenceKind,
    found: &[Difference],
) -> Result<Vec<Difference>> {
    let (mut differences, side) = (Vec::new(), transfer.from[0].0);
    let differs = |one: &&Difference| one.kind == kind || one.kind == DifferenceKind::Both;
    let of_runs = found.iter().filter(|one| one.contract == Contract::Runs).filter(differs);
    let mut missing = transfer.by_number(usize::MAX)?;
    for run in of_runs {
        missing.append(&mut transfer.of_run(&Name::new(&run.key)?)?);
    }
    for one in in_order(missing) {
        let Some(content) = transfer.content(&one)? else { continue };
        let key = one.key(&core.state.catalog.read(), side, &content);
        let contract = match content {
            Content::Message { .. } => Contract::Outbox,
            Content::Request { .. } => Contract::Sessions,
        };
        let held = Some(content.to_value());
        let (a, b) = if kind == DifferenceKind::OnlyA { (held, None) } else { (None, held) };
        differences.push(Difference { contract, key, kind, base: None, a, b });
    }
    Ok(differences)
}

/// What one side of a difference in keyed state holds.
fn keyed_value(triple: &ThreeWayEntry, payload: &[u8]) -> Result<Value> {
    match triple.space {
        SPACES => Ok(Declaration::decode(payload)?.info.to_value()),
        _ => Ok(feed_names::held(&triple.name, payload).unwrap_or_default()),
    }
}
