//! The expected state of branches: their existence, their values, and the effect of merges.

use super::op::Id;
use super::sight::Sight;
use super::{OWN_CELLS, Outcome, own_cell};
use mainstay::{Database, MAIN, Revision, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A value written on a branch.
#[derive(Clone, Debug)]
struct Put {
    value: Value,
    /// True if the write was acknowledged. Otherwise it may or may not exist.
    certain: bool,
}

#[derive(Clone, Debug, Default)]
struct Branch {
    thread: u64,
    /// Values written, by cell, in order.
    puts: BTreeMap<u64, Vec<Put>>,
    /// Those of `puts` that no merge has brought to `main`.
    unmerged: BTreeMap<u64, Vec<Put>>,
}

impl Branch {
    /// The values that a merge may bring to a cell, and whether it must bring one.
    fn may_bring(&self, k: u64) -> (Vec<&Value>, bool) {
        let puts = self.unmerged.get(&k).map_or(&[][..], Vec::as_slice);
        let from = puts.iter().rposition(|put| put.certain);
        let values = puts[from.unwrap_or(0)..].iter().map(|put| &put.value).collect();
        (values, from.is_some())
    }
}

/// All branches except `main`.
#[derive(Clone, Debug, Default)]
pub struct Branches(BTreeMap<String, Branch>);

impl Branches {
    /// Records a fork.
    pub fn fork(&mut self, name: &str, thread: u64) {
        self.0.insert(name.to_owned(), Branch { thread, ..Branch::default() });
    }

    /// Records a deletion.
    pub fn drop(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Records a write, which is `certain` if it was acknowledged.
    pub fn put(&mut self, name: &str, k: u64, value: Value, certain: bool) -> Outcome<()> {
        let branch = self.0.get_mut(name);
        let branch = branch.ok_or_else(|| format!("`{name}` was written, but never was there"))?;
        let put = Put { value, certain };
        branch.puts.entry(k).or_default().push(put.clone());
        branch.unmerged.entry(k).or_default().push(put);
        Ok(())
    }

    /// Checks an acknowledged merge: every value that it must bring exists at its revision.
    pub fn merged(&mut self, name: &str, revision: Revision, sight: &mut Sight) -> Outcome<()> {
        let branch = self.0.get_mut(name);
        let branch = branch.ok_or_else(|| format!("`{name}` was merged, but never was there"))?;
        for k in 0..OWN_CELLS {
            let cell = own_cell(branch.thread, k);
            let (values, must) = branch.may_bring(k);
            match sight.get(revision, &cell) {
                Some(seen) if seen.entry.value.as_ref().is_some_and(|v| values.contains(&v)) => {
                    sight.claim(revision, &cell);
                }
                None if !must => {}
                found => {
                    let found = found.map(|seen| &seen.entry);
                    return Err(format!(
                        "LOST: the merge of `{name}` at revision {revision} has to bring one of \
                         {values:?} to `{cell}`, there is {found:?}"
                    ));
                }
            }
        }
        branch.unmerged.clear();
        Ok(())
    }

    /// Checks a merge with unknown outcome. It happened if its values exist at a revision without an owner.
    pub fn maybe_merged(
        &mut self,
        name: &str,
        owned: &BTreeMap<Revision, Id>,
        sight: &mut Sight,
    ) -> Outcome<Option<Revision>> {
        let Some(branch) = self.0.get(name) else { return Ok(None) };
        let mut at = None;
        for k in 0..OWN_CELLS {
            let cell = own_cell(branch.thread, k);
            let (values, _) = branch.may_bring(k);
            let brought = |revision: &Revision| {
                let value = sight.get(*revision, &cell).and_then(|seen| seen.entry.value.as_ref());
                !owned.contains_key(revision) && value.is_some_and(|v| values.contains(&v))
            };
            at = at.or(sight.revisions_of(&cell).find(brought));
        }
        if let Some(revision) = at {
            self.merged(name, revision, sight)?;
        }
        Ok(at)
    }

    /// The branches are exactly the expected ones, with the expected values.
    pub fn check(&mut self, db: &Database) -> Outcome<()> {
        let infos = db.branches();
        let there: BTreeSet<&str> =
            infos.iter().map(|info| info.name.as_str()).filter(|name| *name != MAIN).collect();
        let expected: BTreeSet<&str> = self.0.keys().map(String::as_str).collect();
        if there != expected {
            return Err(format!("LOST: there are the branches {there:?}, not {expected:?}"));
        }
        for (name, branch) in &mut self.0 {
            let fork = infos.iter().find(|info| info.name == *name).map_or(0, |i| i.fork_revision);
            for k in 0..OWN_CELLS {
                check_puts(db, name, fork, k, branch)?;
            }
        }
        Ok(())
    }
}

/// Every certain write on a cell of a branch exists. Uncertain writes are resolved.
fn check_puts(
    db: &Database,
    name: &str,
    fork: Revision,
    k: u64,
    branch: &mut Branch,
) -> Outcome<()> {
    let puts = branch.puts.entry(k).or_default();
    let cell = own_cell(branch.thread, k);
    let handle = db.branch(name).map_err(|error| format!("branch `{name}`: {error}"))?;
    let history = handle.cells().history(&cell, puts.len() + 2, None);
    let history = history.map_err(|error| format!("history of `{cell}` on `{name}`: {error}"))?;
    for pair in history.windows(2) {
        if pair[0].counter != pair[1].counter + pair[0].writes {
            return Err(format!("gap in `{cell}` on `{name}`: {pair:?}"));
        }
    }
    let own = history.into_iter().filter(|entry| entry.revision > fork);
    let mut found: Vec<Value> = own.filter_map(|entry| entry.value).collect();
    found.reverse();
    let is_there = |put: &Put| found.contains(&put.value);
    if let Some(lost) = puts.iter().find(|put| put.certain && !is_there(put)) {
        return Err(format!("LOST: `{cell}` on `{name}` has no {:?}, only {found:?}", lost.value));
    }
    puts.retain(is_there);
    if !puts.iter().map(|put| &put.value).eq(found.iter()) {
        return Err(format!("`{cell}` on `{name}` holds {found:?} instead of {puts:?}"));
    }
    let unmerged = branch.unmerged.entry(k).or_default();
    unmerged.retain(is_there);
    puts.iter_mut().chain(unmerged).for_each(|put| put.certain = true);
    Ok(())
}
