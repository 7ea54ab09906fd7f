//! Program steps on branches: forks, deletions, renames, merges, diffs, tags.

use super::driver::{Driver, same};
use super::step::{BRANCHES, CELLS, Step, TAGS};
use mainstay::{At, Contract, Difference, DifferenceKind, MergeStrategy};
use mainstay_conformance::reference_model::{Change, ChangedOn};

impl Driver {
    /// Runs a branch step. Returns false if the step is of another kind.
    pub fn branch_step(&mut self, step: &Step) -> bool {
        match step {
            Step::Fork { name, from, back } => self.fork(BRANCHES[*name], BRANCHES[*from], *back),
            Step::ForkAtEvent { name, from, run, back } => {
                self.fork_at_event(BRANCHES[*name], BRANCHES[*from], CELLS[*run], *back);
            }
            Step::Delete { name } => {
                let engine = self.world.db().delete_branch(BRANCHES[*name]);
                same(engine, self.oracle.delete_branch(BRANCHES[*name]));
            }
            Step::Rename { name, to } => self.rename(BRANCHES[*name], BRANCHES[*to]),
            Step::Merge { from, into, strategy } => {
                self.merge(BRANCHES[*from], BRANCHES[*into], *strategy);
            }
            Step::Diff { a, b } => self.diff(BRANCHES[*a], BRANCHES[*b]),
            Step::Tag { name, branch, back } => {
                let at = self.back(BRANCHES[*branch], *back);
                let engine = self.world.db().tag(TAGS[*name], BRANCHES[*branch], At::Revision(at));
                same(engine, self.oracle.tag(TAGS[*name], BRANCHES[*branch], Some(at)));
            }
            Step::Untag { name } => {
                let engine = self.world.db().untag(TAGS[*name]);
                same(engine, Ok(self.oracle.untag(TAGS[*name])));
            }
            _ => return false,
        }
        true
    }

    fn fork(&mut self, name: &str, from: &str, back: u64) {
        let at = self.back(from, back);
        let engine = self.world.db().fork(name, from, At::Revision(at));
        same(engine, self.oracle.fork(name, from, Some(at)));
    }

    /// Forks at an event, which may be older than the source branch.
    fn fork_at_event(&mut self, name: &str, from: &str, run: &str, back: u64) {
        let Ok(branch) = self.world.db().branch(from) else { return };
        let last = self.oracle.last_seq(from, run);
        let seq = last.saturating_sub(back);
        let at = branch.runs().revision_of(run, seq);
        same(at.clone(), self.oracle.revision_of(from, run, seq));
        let Ok(Some(at)) = at else { return };
        let engine = self.world.db().fork(name, from, At::Revision(at));
        if engine.is_ok() {
            self.tally.runs.note_fork(self.oracle.line(from).is_ok_and(|line| at < line.created));
        }
        same(engine, self.oracle.fork(name, from, Some(at)));
        if self.oracle.line(name).is_ok() {
            self.compare_runs(name, At::Latest);
        }
    }

    /// A revision some steps back, but not before the branch was created.
    fn back(&self, branch: &str, back: u64) -> u64 {
        let created = self.oracle.line(branch).map_or(0, |line| line.created);
        self.oracle.revision().saturating_sub(back).max(created)
    }

    fn rename(&mut self, name: &str, to: &str) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|slot| slot.branch == name) {
                *slot = None;
            }
        }
        same(self.world.db().rename_branch(name, to), self.oracle.rename_branch(name, to));
    }

    fn merge(&mut self, from: &str, into: &str, strategy: MergeStrategy) {
        self.tally.note(&self.oracle, from, into);
        self.tally.runs.note_merge(&self.oracle, from, into, strategy);
        self.tally.spaces.note_merge(&self.oracle, from, into);
        let engine = self.world.db().merge(from, into, strategy);
        let model = self.oracle.merge(from, into, strategy);
        let keys = |error: &mainstay::Error| error.keys().to_vec();
        assert_eq!(engine.as_ref().err().map(keys), model.as_ref().err().map(keys));
        let merged = engine.is_ok();
        same(engine, model);
        if merged {
            self.compare_runs(into, At::Latest);
            self.compare_spaces(into, At::Latest);
        }
    }

    fn diff(&mut self, a: &str, b: &str) {
        let engine = self.world.db().diff(a, b).map(|all| all.into_iter().map(change).collect());
        same(engine, self.oracle.diff(a, b));
    }
}

fn change(difference: Difference) -> Change {
    let on = match difference.kind {
        DifferenceKind::OnlyA => ChangedOn::A,
        DifferenceKind::OnlyB => ChangedOn::B,
        DifferenceKind::Both => ChangedOn::Both,
    };
    let Difference { contract, key, base, a, b, .. } = difference;
    // The values of a run's difference are informational; its events are compared elsewhere.
    let told = |value| if contract == Contract::Runs { None } else { value };
    let [base, a, b] = [base, a, b].map(told);
    Change { contract, key, on, base, a, b }
}
