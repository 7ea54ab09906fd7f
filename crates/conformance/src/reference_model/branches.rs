//! Branches in the reference model: a fork is a full copy, a merge is a three-way comparison of maps.

use super::outbox::{Letter, Outbox, Runs};
use super::past::{self, Known, Past};
use super::run::Run;
use super::versions::{Versions, Writer};
use super::{Line, Log, Logs, Moment, Oracle, State, space_merge};
use mainstay_model::{
    Answer, BranchCommand, Code, Contract, Error, Field, Fields, MAIN, MergeStrategy, Receipt,
    Result, Revision, Stamp, Value, limits,
};
use std::collections::BTreeSet;

/// A difference between two branches, relative to their common ancestor.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The kind of state that differs.
    pub contract: Contract,
    /// The cell's name, the record's key, or the path of another kind of state.
    pub key: String,
    /// The branch or branches that changed it.
    pub on: ChangedOn,
    /// The value at the common ancestor.
    pub base: Option<Value>,
    /// The value on the first branch.
    pub a: Option<Value>,
    /// The value on the second branch.
    pub b: Option<Value>,
}

/// The branch or branches that changed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedOn {
    /// Only the first branch.
    A,
    /// Only the second branch.
    B,
    /// Both branches, to different values.
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
        let revision = self.revision;
        let stamp = self.last_stamp;
        let answers = [answer].into_iter().collect();
        Ok(Receipt { revision, stamp, held: true, repeated: false, answers })
    }

    /// Creates a branch and returns its fork revision.
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
        let state = self.lines[&parent].state.upto(fork_revision);
        let created = self.revision + 1;
        let mut past = Past::default();
        past.learn(0, self.known(parent, fork_revision));
        let line = Line { parent: Some(parent), fork_revision, created, depth, state, past };
        self.lines.insert(self.next_id, line);
        self.names.insert(name.to_owned(), self.next_id);
        self.next_id += 1;
        self.committed(self.next_stamp());
        Ok(fork_revision)
    }

    /// Deletes a branch and returns whether it existed.
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

    /// Renames a branch.
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

    /// The number of direct child branches.
    pub fn children(&self, id: u32) -> usize {
        self.lines.values().filter(|line| line.parent == Some(id)).count()
    }

    /// The ID of a branch in this model; `None` if it does not exist.
    pub fn branch_id(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The current name of the parent branch.
    pub fn parent(&self, name: &str) -> Option<String> {
        let parent = self.line(name).ok()?.parent?;
        self.names.iter().find(|(_, id)| **id == parent).map(|(name, _)| name.clone())
    }

    /// Returns the differences of two branches relative to their common ancestor, compared by value.
    pub fn diff(&self, a: &str, b: &str) -> Result<Vec<Change>> {
        let sides = self.sides(self.id(a)?, self.id(b)?);
        let cells = changes(&sides.each_ref().map(|side| &side.cells), self.latest(), |sides| {
            // Cells are compared by value; a different expiry alone is no difference.
            compare(&sides.clone().map(|side| side.map(|(value, _)| value)))
        });
        let records = changes(&sides.each_ref().map(|side| &side.records), self.latest(), compare);
        let cells = cells.into_iter().map(|(key, on, sides)| {
            change(Contract::Cells, key, on, sides.map(|side| side.map(|(value, _)| value)))
        });
        let records = records.into_iter().map(|(key, on, sides)| {
            let shown = sides.map(|side| side.map(|(fields, _)| fields.to_value()));
            change(Contract::Records, key, on, shown)
        });
        let now = self.latest();
        let runs = run_changes(&sides.each_ref().map(|side| &side.logs), now);
        let spaces =
            space_merge::changes(&sides.each_ref().map(|side| &side.spaces), self.latest());
        let [a, b] = [a, b].map(|branch| self.id(branch));
        let messages = [(a.clone()?, b.clone()?, ChangedOn::A), (b?, a?, ChangedOn::B)];
        let messages = messages.into_iter().flat_map(|(from, into, on)| {
            let brought = runs
                .iter()
                .filter(|change| [on, ChangedOn::Both].contains(&change.on))
                .map(|change| change.key.clone())
                .collect();
            let [from, into] = [from, into].map(|id| &self.lines[&id].state);
            let runs = Runs {
                brought: &brought,
                source: &|run, key| event_in(&from.logs, run, key, now),
                target: &|run, key| event_in(&into.logs, run, key, now),
            };
            let missing = from.outbox.missing_in(&into.outbox, &runs);
            let shown = missing.iter().map(|one| self.message_change(&from.outbox, one, on));
            shown.collect::<Vec<_>>()
        });
        let messages: Vec<Change> = messages.collect();
        Ok(cells.chain(records).chain(runs).chain(spaces).chain(messages).collect())
    }

    /// The difference for a message that only one branch has. The key of an inherited message includes
    /// its branch's name.
    fn message_change(&self, from: &Outbox, letter: &Letter, on: ChangedOn) -> Change {
        let Letter { message, lies_on, .. } = letter;
        let name = self.names.iter().find(|(_, id)| *id == lies_on).map(|(name, _)| name);
        let key = match (from.has(message.id, *lies_on), name) {
            (false, Some(name)) => format!("{name}/{}", message.id),
            _ => message.id.to_string(),
        };
        let run = message.run.as_deref().map_or(Value::Null, Value::from);
        let held = [
            ("payload".to_owned(), Value::Bytes(message.payload.clone())),
            ("run".to_owned(), run),
            ("subject".to_owned(), Value::from(message.subject.as_str())),
        ];
        let held = Some(Value::Object(held.into()));
        let sides = if on == ChangedOn::A { [None, held, None] } else { [None, None, held] };
        change(Contract::Outbox, key, on, sides)
    }

    /// The state of the common ancestor and of both branches.
    fn sides(&self, a: u32, b: u32) -> [State; 3] {
        [self.common(a, b), self.lines[&a].state.clone(), self.lines[&b].state.clone()]
    }

    /// Merges one branch into another in one transaction and returns its revision.
    pub fn merge(&mut self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        let source = self.id(from)?;
        let target = self.id(into)?;
        if source == target {
            return Err(Error::new(Code::InvalidArgument, "a branch cannot be merged into itself"));
        }
        let sides = self.sides(source, target);
        let stamp = self.next_stamp();
        let revision = self.revision + 1;
        let now = self.latest();
        let mut merged = sides[2].clone();
        let writer = Run::new(&mut merged, revision, stamp, target).writer;
        let cells = sides.each_ref().map(|side| &side.cells);
        let mut clashes =
            bring(&mut merged.cells, &cells, now, writer, |key| cell_outcome(key, strategy));
        let records = sides.each_ref().map(|side| &side.records);
        clashes.extend(bring(&mut merged.records, &records, now, writer, |key| {
            record_outcome(key, strategy)
        }));
        let logs = sides.each_ref().map(|side| &side.logs);
        let (clashing, brought) = bring_runs(&mut merged.logs, &logs, now, writer, strategy);
        clashes.extend(clashing);
        let spaces = sides.each_ref().map(|side| &side.spaces);
        let since = self.shared(source, target).map_or(0, |(revision, _)| revision);
        let clashing =
            space_merge::bring(&mut merged.spaces, &spaces, now, since, writer, strategy);
        clashes.extend(clashing);
        if !clashes.is_empty() {
            return Err(Error::new(Code::MergeConflict, "both changed").with_keys(clashes));
        }
        let runs = Runs {
            brought: &brought,
            source: &|run, key| event_in(&sides[1].logs, run, key, now),
            target: &|run, key| event_in(&sides[2].logs, run, key, now),
        };
        merged.outbox.take_from(&sides[1].outbox, &runs, writer);
        self.line_mut(target).state = merged;
        let known = self.known(source, revision - 1);
        self.line_mut(target).past.learn(revision, known);
        Ok(self.committed(stamp))
    }

    /// Tags a revision of a branch and returns the revision.
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

    /// Removes a tag and returns whether it existed.
    pub fn untag(&mut self, name: &str) -> bool {
        let found = self.tags.remove(name).is_some();
        if found {
            self.committed(self.next_stamp());
        }
        found
    }

    /// All tags as name, branch and revision.
    pub fn tags(&self) -> Vec<(String, String, Revision)> {
        let branch = |wanted: u32| self.names.iter().find(|(_, id)| **id == wanted);
        let shown = |(name, (id, revision)): (&String, &(u32, Revision))| {
            let branch = branch(*id).map(|(name, _)| name.clone()).unwrap_or_default();
            (name.clone(), branch, *revision)
        };
        self.tags.iter().map(shown).collect()
    }

    /// The state at the common ancestor: the newest revision that both branches contain, by forks or
    /// merges.
    fn common(&self, a: u32, b: u32) -> State {
        self.shared(a, b)
            .map_or_else(State::default, |(revision, id)| self.lines[&id].state.upto(revision))
    }

    /// The revision and branch of the common ancestor.
    fn shared(&self, a: u32, b: u32) -> Option<(Revision, u32)> {
        let a = self.known(a, self.revision);
        let b = self.known(b, self.revision);
        past::newest_shared(&a, &b, |id| self.lines.contains_key(&id))
    }

    /// The revisions of all branches that a branch contained at a revision, including itself.
    fn known(&self, branch: u32, revision: Revision) -> Known {
        let line = &self.lines[&branch];
        let mut known = match line.parent {
            // Before its fork the branch was identical to its parent.
            Some(parent) if revision < line.fork_revision => self.known(parent, revision),
            _ => line.past.at(revision),
        };
        known.insert(branch, revision);
        known
    }
}

/// The value and expiry under a name on one branch.
type Side<T> = Option<(T, Option<Stamp>)>;

/// The merge result for a name.
enum Outcome<T> {
    /// The target keeps its state.
    Keep,
    /// The target takes this state.
    Become(Side<T>),
    /// Conflict: both branches changed it.
    Clash,
}

impl State {
    /// Copies the versions up to a revision.
    fn upto(&self, revision: Revision) -> State {
        State {
            cells: self.cells.upto(revision),
            records: self.records.upto(revision),
            logs: self.logs.upto(revision),
            spaces: self.spaces.upto(revision),
            outbox: self.outbox.forked(revision),
        }
    }
}

/// The runs that differ on two branches. Their differences carry no values; readers fetch the events
/// instead.
fn run_changes(states: &[&Logs; 3], now: Moment) -> Vec<Change> {
    let one = |run: &String| {
        let on = compare_runs(&states.map(|state| run_side(state, run, now)))?;
        Some(change(Contract::Runs, run.clone(), on, [None, None, None]))
    };
    every_name(states).into_iter().filter_map(one).collect()
}

/// A run on one branch: its log if it exists, and whether it was deleted.
type RunSide = (Option<Log>, bool);

fn run_side(logs: &Logs, run: &str, now: Moment) -> RunSide {
    let log = logs.value(run, now);
    let deleted = log.is_none() && !logs.all(run).is_empty();
    (log, deleted)
}

/// Compares runs by their events and by deletion. Times of persistence do not count.
fn compare_runs([base, a, b]: &[RunSide; 3]) -> Option<ChangedOn> {
    let same = |one: &RunSide, other: &RunSide| match (one, other) {
        ((Some(one), _), (Some(other), _)) => one.means(other),
        ((one, one_deleted), (other, other_deleted)) => {
            one.is_none() && other.is_none() && one_deleted == other_deleted
        }
    };
    match (same(a, base), same(b, base)) {
        _ if same(a, b) => None,
        (false, false) => Some(ChangedOn::Both),
        (false, true) => Some(ChangedOn::A),
        _ => Some(ChangedOn::B),
    }
}

/// Returns whether a run has an event with this idempotency key.
fn event_in(logs: &Logs, run: &str, key: &str, now: Moment) -> bool {
    logs.value(run, now).is_some_and(|log| log.of_key(key).is_some())
}

/// Merges runs: appends the events with missing keys after the target's own. Returns the conflicting
/// runs and the merged runs.
fn bring_runs(
    target: &mut Logs,
    states: &[&Logs; 3],
    now: Moment,
    writer: Writer,
    strategy: MergeStrategy,
) -> (Vec<String>, BTreeSet<String>) {
    let mut clashes = Vec::new();
    let mut brought = BTreeSet::new();
    for run in every_name(states) {
        let sides = states.map(|state| run_side(state, run, now));
        let Some(on) = compare_runs(&sides).filter(|on| *on != ChangedOn::B) else { continue };
        match run_outcome(sides, on, strategy, writer.stamp) {
            RunOutcome::Become(log) => {
                brought.insert(run.clone());
                // Nothing is written if the target already has all events.
                if log.is_none() || log != target.value(run, now) {
                    target.write(writer, run, log, None);
                }
            }
            RunOutcome::Refused if strategy == MergeStrategy::Ours => {}
            RunOutcome::Refused => clashes.push(run.clone()),
        }
    }
    (clashes, brought)
}

/// The merge result for a run that the source changed.
enum RunOutcome {
    Become(Option<Log>),
    /// `ours` keeps the target's run; any other strategy reports a conflict.
    Refused,
}

fn run_outcome(
    [_, (theirs, _), (ours, deleted)]: [RunSide; 3],
    on: ChangedOn,
    strategy: MergeStrategy,
    stamp: Stamp,
) -> RunOutcome {
    if on == ChangedOn::Both && strategy != MergeStrategy::Theirs {
        return RunOutcome::Refused;
    }
    let Some(theirs) = theirs else { return RunOutcome::Become(None) };
    // A deleted run accepts no events.
    if deleted {
        return RunOutcome::Refused;
    }
    let was_consistent = ours.as_ref().is_some_and(Log::is_consistent);
    let is_judged = was_consistent && (on == ChangedOn::Both || theirs.is_consistent());
    let log = joined(theirs, ours, stamp);
    if is_judged && !log.is_consistent() {
        RunOutcome::Refused
    } else {
        RunOutcome::Become(Some(log))
    }
}

/// Returns our log followed by the events that only their log has.
fn joined(theirs: Log, ours: Option<Log>, stamp: Stamp) -> Log {
    let mut log = ours.unwrap_or_else(|| Log::new(theirs.created, theirs.metadata.clone()));
    for (event, _) in theirs.events {
        if log.of_key(&event.idempotency_key).is_none() {
            log.push(event, stamp);
        }
    }
    log
}

/// The live state of a name at the ancestor and on both branches.
fn three<T: Clone>(states: &[&Versions<T>; 3], name: &str, now: Moment) -> [Side<T>; 3] {
    states.map(|state| {
        let live = state.live(name, now)?;
        Some((live.value.clone()?, live.expires))
    })
}

pub(super) fn every_name<'v, T: Clone + 'v>(states: &[&'v Versions<T>; 3]) -> BTreeSet<&'v String> {
    states.iter().flat_map(|state| state.names()).collect()
}

/// The names that differ on two branches, and which branch changed them.
fn changes<T: Clone + PartialEq>(
    states: &[&Versions<T>; 3],
    now: Moment,
    compare: impl Fn(&[Side<T>; 3]) -> Option<ChangedOn>,
) -> Vec<(String, ChangedOn, [Side<T>; 3])> {
    let differing = |name: &String| {
        let sides = three(states, name, now);
        Some((name.clone(), compare(&sides)?, sides))
    };
    every_name(states).into_iter().filter_map(differing).collect()
}

/// Determines which side changed; an equal change on both sides is no difference.
pub(super) fn compare<S: PartialEq>([base, a, b]: &[S; 3]) -> Option<ChangedOn> {
    match (a != base, b != base) {
        _ if a == b => None,
        (true, true) => Some(ChangedOn::Both),
        (true, false) => Some(ChangedOn::A),
        _ => Some(ChangedOn::B),
    }
}

pub(super) fn change(
    contract: Contract,
    key: String,
    on: ChangedOn,
    [base, a, b]: [Option<Value>; 3],
) -> Change {
    Change { contract, key, on, base, a, b }
}

/// Cells are merged by value; their expiry is not compared.
fn cell_outcome([base, a, b]: [Side<Value>; 3], strategy: MergeStrategy) -> Outcome<Value> {
    let value = |side: &Side<Value>| side.as_ref().map(|(value, _)| value.clone());
    match (compare(&[value(&base), value(&a), value(&b)]), strategy) {
        (Some(ChangedOn::A), _) | (Some(ChangedOn::Both), MergeStrategy::Theirs) => {
            Outcome::Become(a)
        }
        (Some(ChangedOn::Both), MergeStrategy::Strict) => Outcome::Clash,
        _ => Outcome::Keep,
    }
}

/// Records are merged field by field, and the expiry counts as one more field. If the record is absent
/// on one side, it is merged as a whole.
fn record_outcome(sides: [Side<Fields>; 3], strategy: MergeStrategy) -> Outcome<Fields> {
    let [base, Some((a, a_expires)), Some((b, b_expires))] = &sides else {
        return match (compare(&sides), strategy) {
            (Some(ChangedOn::A), _) | (Some(ChangedOn::Both), MergeStrategy::Theirs) => {
                Outcome::Become(sides[1].clone())
            }
            (Some(ChangedOn::Both), MergeStrategy::Strict) => Outcome::Clash,
            _ => Outcome::Keep,
        };
    };
    let (base, base_expires) = base.clone().unwrap_or_default();
    let mut merged = Fields::default();
    let names: BTreeSet<&Field> =
        [&base, a, b].into_iter().flat_map(|side| side.iter().map(|(field, _)| field)).collect();
    for field in names {
        let values = [&base, a, b].map(|side| side.get(field.as_bytes()));
        let Some(winner) = winner(&values, strategy) else { return Outcome::Clash };
        if let Some(value) = winner {
            merged.insert(field.clone(), value.to_vec());
        }
    }
    let Some(expires) = winner(&[base_expires, *a_expires, *b_expires], strategy) else {
        return Outcome::Clash;
    };
    match (merged == *b && expires == *b_expires, merged.is_empty()) {
        (true, _) => Outcome::Keep,
        (_, true) => Outcome::Become(None),
        _ => Outcome::Become(Some((merged, expires))),
    }
}

/// Resolves one field or expiry; `None` is a conflict.
fn winner<S: PartialEq + Copy>(sides: &[S; 3], strategy: MergeStrategy) -> Option<S> {
    let [_, a, b] = *sides;
    match (compare(sides), strategy) {
        (Some(ChangedOn::A), _) | (Some(ChangedOn::Both), MergeStrategy::Theirs) => Some(a),
        (Some(ChangedOn::Both), MergeStrategy::Strict) => None,
        _ => Some(b),
    }
}

/// Applies the merge results to the target and returns the conflicting names. A new counter is above the
/// target's and not below the source's.
fn bring<T: Clone + PartialEq>(
    target: &mut Versions<T>,
    states: &[&Versions<T>; 3],
    now: Moment,
    writer: Writer,
    outcome: impl Fn([Side<T>; 3]) -> Outcome<T>,
) -> Vec<String> {
    let mut clashes = Vec::new();
    for name in every_name(states) {
        match outcome(three(states, name, now)) {
            Outcome::Keep => {}
            Outcome::Clash => clashes.push(name.clone()),
            Outcome::Become(side) => {
                target.settle(writer, name);
                let theirs = states[1].counter(name, Revision::MAX);
                let counter = (target.counter(name, writer.revision) + 1).max(theirs);
                let (value, expires) = side.map_or((None, None), |(value, at)| (Some(value), at));
                target.write_as(writer, name, value, expires, counter);
            }
        }
    }
    clashes
}
