//! Branches and tags: fork in constant time, compare, merge.

use crate::backend::Backend;
use crate::cells::Cells;
use crate::database::{Database, retry};
use crate::keyed::{self, Keyed};
use crate::outbox::Outbox;
use crate::records::Records;
use crate::runs::Runs;
use crate::transaction::InteractiveTransaction;
use mainstay_client::wait;
use mainstay_engine::apply::keyed::feed_names;
use mainstay_engine::apply::keyed::space::Declaration;
use mainstay_engine::apply::outbox::transfer::{Content, Transfer, in_order};
use mainstay_engine::apply::runs;
use mainstay_engine::apply::three_way_diff::{Comparison, DiffItem, ThreeWayEntry};
use mainstay_engine::base::work::Budget;
use mainstay_engine::key::keyspace::{KEYED, SPACES};
use mainstay_engine::key::state_keys;
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::read::branches::{branches, tags};
use mainstay_model::{
    Answer, At, BranchCommand, BranchInfo, Code, Contract, Difference, DifferenceKind, Error,
    Fields, Guard, MergeStrategy, Name, Page, Receipt, Result, Revision, TagInfo, Transaction,
    Value, codec,
};
use std::collections::{BTreeMap, BTreeSet};

/// A handle on one branch. Clones are cheap and refer to the same branch.
#[derive(Clone)]
pub struct Branch {
    place: Backend,
    name: String,
}

impl Branch {
    /// Opens the branch. Fails with `BranchNotFound` if no such branch exists.
    pub(crate) fn open(place: &Backend, name: &str) -> Result<Branch> {
        match place {
            Backend::Local(core) => drop(core.layers(name, 0)?),
            Backend::Remote(link) => drop(wait(Backend::there(link).branch_info(name))?),
        }
        Ok(Branch { place: place.clone(), name: name.to_owned() })
    }

    /// The branch name that this handle was opened with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the cells of this branch.
    pub fn cells(&self) -> Cells {
        Cells::on(self.place.clone(), &self.name)
    }

    /// Returns the runs (event logs) of this branch.
    pub fn runs(&self) -> Runs {
        Runs::on(self.place.clone(), &self.name)
    }

    /// Returns a space of keyed state on this branch. The space is created by its first write or by
    /// [`Keyed::declare`].
    pub fn keyed(&self, space: &str) -> Result<Keyed> {
        Keyed::on(self.place.clone(), &self.name, space)
    }

    /// Lists the names of keyed-state spaces on this branch in byte order: at most `limit` names that begin
    /// with `prefix` and sort after `after`.
    pub fn spaces(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        keyed::spaces(&self.place, &self.name, prefix, after, limit)
    }

    /// Returns the transactional outbox of this branch.
    pub fn outbox(&self) -> Outbox {
        Outbox::on(self.place.clone(), &self.name)
    }

    /// Returns the records of this branch.
    pub fn records(&self) -> Records {
        Records::on(self.place.clone(), &self.name)
    }

    /// Begins an interactive transaction on this branch.
    pub fn begin(&self) -> Result<InteractiveTransaction> {
        InteractiveTransaction::begin(&self.place, &self.name)
    }

    /// Runs a closure in a transaction on this branch and commits it. Retries both after each conflict, up
    /// to 1,000 times.
    pub fn transaction<T>(
        &self,
        body: impl FnMut(&mut InteractiveTransaction) -> Result<T>,
    ) -> Result<T> {
        retry(&self.place, &self.name, body)
    }

    /// Runs a closure in a transaction on this branch while all other writers wait, so the transaction
    /// never conflicts. Keep the closure short. It must not write in any other way, because such a write
    /// would deadlock.
    ///
    /// Returns the closure's value and the receipt. If a guard fails, `receipt.held` is false and nothing
    /// is written. Fails with `Unsupported` for a served database.
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

impl Database {
    /// Opens a handle on a branch. Fails with `BranchNotFound` if no such branch exists.
    pub fn branch(&self, name: &str) -> Result<Branch> {
        Branch::open(&self.place, name)
    }

    fn run_branch(&self, command: BranchCommand) -> Result<Answer> {
        let receipt = self.execute(Transaction::new().step(command))?;
        receipt.into_first()
    }

    /// Creates branch `name` as a copy of `from` at one point in time, and returns the revision of the
    /// fork.
    ///
    /// A fork takes constant time, regardless of the number of keys. Fails with `BranchExists` if the name
    /// is taken.
    pub fn fork(&self, name: &str, from: &str, at: At) -> Result<Revision> {
        let name = Name::new(name)?;
        let from = Name::new(from)?;
        let at = self.point(at)?;
        self.run_branch(BranchCommand::Fork { name, from, at })?.into_revision()
    }

    /// Creates branch `name` from the state of `from` at the moment when event `seq` of `run` was written.
    /// On the new branch the run ends with this event, and new events are appended after it. Returns the
    /// revision of the fork. That revision must still be retained.
    ///
    /// If the event was written alone, this costs the same as any fork. If other events were written in the
    /// same transaction, or the run was restored from an archive, the events up to `seq` are written again:
    /// see [`Runs::rewind`](crate::Runs::rewind). Fails with `RunNotFound` if the run has no such event.
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
            // Delete the half-made branch: the caller must not see a branch whose run was not rewound.
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

    /// Deletes a branch. Returns whether it existed.
    pub fn delete_branch(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Delete { name })?.into_did()
    }

    /// Renames a branch.
    pub fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        let name = Name::new(name)?;
        let to = Name::new(to)?;
        self.run_branch(BranchCommand::Rename { name, to }).map(|_| ())
    }

    /// Lists all branches, sorted by name. Returns an empty list if a served database cannot be reached;
    /// [`Database::try_branches`] returns the error instead.
    pub fn branches(&self) -> Vec<BranchInfo> {
        self.try_branches().unwrap_or_default()
    }

    /// Lists all branches, sorted by name. Fails if a served database cannot be reached.
    pub fn try_branches(&self) -> Result<Vec<BranchInfo>> {
        match &self.place {
            Backend::Local(core) => Ok(branches(core)),
            Backend::Remote(link) => wait(Backend::there(link).branches()),
        }
    }

    /// Returns the metadata of a branch. Fails with `BranchNotFound` if no such branch exists.
    pub fn branch_info(&self, name: &str) -> Result<BranchInfo> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(Backend::there(link).branch_info(name)),
        };
        let (id, _) = core.layers(name, 0)?;
        let info = branches(core).into_iter().find(|branch| branch.id == id);
        info.ok_or_else(Answer::mismatch)
    }

    /// Three-way comparison: lists the keys whose state differs between branches `a` and `b`, relative to
    /// their common ancestor.
    ///
    /// The cost is proportional to the writes on both sides since the ancestor. A branch that contains the
    /// ancestor revision and was written to after it is scanned as a whole.
    pub fn diff(&self, a: &str, b: &str) -> Result<Vec<Difference>> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(Backend::there(link).diff(a, b)),
        };
        core.check_open()?;
        let (_pin, now, comparison) = {
            // Lock the catalog before resolving the revision: branches that readers no longer see may be
            // removed while it is unlocked.
            let catalog = core.state.catalog.read();
            let (at, now) = core.resolve(At::Latest)?;
            let pin = core.pins.hold("diff", core.clock.monotonic_us(), at);
            let a = catalog.visible(a, at)?.id;
            let b = catalog.visible(b, at)?.id;
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

    /// Merges the changes of branch `from` into branch `into`, in one transaction. Returns the revision of
    /// the merge.
    ///
    /// Under `Strict`, a conflict changes nothing: the merge fails with `MergeConflict`, and the error
    /// lists the keys.
    pub fn merge(&self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        let from = Name::new(from)?;
        let into = Name::new(into)?;
        self.run_branch(BranchCommand::Merge { from, into, strategy })?.into_revision()
    }

    /// Creates a tag that pins a revision of a branch, and returns that revision. Fails with `TagExists` if
    /// the name is taken.
    pub fn tag(&self, name: &str, branch: &str, at: At) -> Result<Revision> {
        let name = Name::new(name)?;
        let branch = Name::new(branch)?;
        let at = self.point(at)?;
        self.run_branch(BranchCommand::Tag { name, branch, at })?.into_revision()
    }

    /// Removes a tag. Returns whether it existed.
    pub fn untag(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Untag { name })?.into_did()
    }

    /// Lists all tags, sorted by name. Returns an empty list if a served database cannot be reached;
    /// [`Database::try_tags`] returns the error instead.
    pub fn tags(&self) -> Vec<TagInfo> {
        self.try_tags().unwrap_or_default()
    }

    /// Lists all tags, sorted by name. Fails if a served database cannot be reached.
    pub fn try_tags(&self) -> Result<Vec<TagInfo>> {
        match &self.place {
            Backend::Local(core) => Ok(tags(core)),
            Backend::Remote(link) => wait(Backend::there(link).tags()),
        }
    }
}

/// Looks up each name in the base and on both sides. Entries of keyed state are looked up in the generation
/// that each side shows. If the sides show different generations, all of their entries are compared.
fn triples<'c>(
    comparison: &'c Comparison<'_>,
    names: BTreeSet<DiffItem>,
) -> Result<impl Iterator<Item = Result<ThreeWayEntry>> + use<'c>> {
    let mut plain = Vec::new();
    let mut spaces = BTreeMap::<String, BTreeSet<Vec<u8>>>::new();
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
    Ok(plain.chain(
        entries.into_iter().map(|(space, sides, place)| comparison.entry(&space, &sides, &place)),
    ))
}

/// Differences in outbox messages and client requests: those that a merge of all runs would bring over.
fn outgoing(
    core: &Engine,
    transfer: &Transfer<'_>,
    kind: DifferenceKind,
    found: &[Difference],
) -> Result<Vec<Difference>> {
    let mut differences = Vec::new();
    let side = transfer.from[0].0;
    let of_runs = found
        .iter()
        .filter(|one| one.contract == Contract::Runs)
        .filter(|one| one.kind == kind || one.kind == DifferenceKind::Both);
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

/// The value of one side of a keyed-state difference.
fn keyed_value(triple: &ThreeWayEntry, payload: &[u8]) -> Result<Value> {
    match triple.space {
        SPACES => Ok(Declaration::decode(payload)?.info.to_value()),
        _ => Ok(feed_names::held(&triple.name, payload).unwrap_or_default()),
    }
}
