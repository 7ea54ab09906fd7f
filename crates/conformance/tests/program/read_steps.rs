//! Program steps that read, now or in the past, and the final comparison of the complete state.

use super::driver::{Driver, same};
use super::step::{BRANCHES, CELLS, PREFIXES, Step};
use mainstay::{At, Cells, HistoryEntry, Value};
use mainstay_conformance::reference_model::{Moment, Version};

impl Driver {
    pub fn read_step(&mut self, step: &Step) {
        match step {
            Step::Read { branch, cell, back } => {
                self.read(BRANCHES[*branch], CELLS[*cell], self.past(*back));
            }
            Step::ReadStamp { branch, cell, back, off_us } => {
                let near = self.oracle.stamp_of(self.oracle.revision().saturating_sub(*back));
                let stamp = near.unwrap_or(self.oracle.wall).saturating_add_signed(*off_us);
                let stamp = stamp.min(self.oracle.last_stamp());
                self.read(BRANCHES[*branch], CELLS[*cell], At::Stamp(stamp));
            }
            Step::History { branch, cell, limit, before, back } => {
                let at = self.past(*back);
                self.history(BRANCHES[*branch], CELLS[*cell], *limit, *before, at);
            }
            Step::List { branch, prefix, after, limit, back } => {
                let branch = BRANCHES[*branch];
                let after = after.map(|at| CELLS[at]);
                let at = self.past(*back);
                let Some(moment) = self.moment(branch, at) else { return };
                let past = self.cells(branch).at(at).unwrap();
                let engine = past.list(PREFIXES[*prefix], after, *limit);
                same(engine, self.oracle.list(branch, PREFIXES[*prefix], after, *limit, moment));
            }
            other if self.record_read(other) => {}
            other if self.run_read(other) || self.space_read(other) => {}
            other if self.transfer_step(other) => {}
            other => panic!("{other:?} was not run"),
        }
    }

    /// The newest state, or the one some revisions back.
    pub fn past(&self, back: u64) -> At {
        let revision = self.oracle.revision().saturating_sub(back);
        if back == 0 {
            At::Latest
        } else {
            At::Revision(revision.max(self.oracle.first_revision()))
        }
    }

    fn cells(&self, branch: &str) -> Cells {
        self.world.db().branch(branch).unwrap().cells()
    }

    /// The model's moment; `None` if the branch does not exist.
    pub fn moment(&self, branch: &str, at: At) -> Option<Moment> {
        self.oracle.line(branch).ok().map(|_| self.oracle.moment(at).unwrap())
    }

    fn read(&self, branch: &str, cell: &str, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        let engine = self.cells(branch).at(at).and_then(|past| past.get_versioned(cell));
        assert_eq!(
            engine.unwrap(),
            self.oracle.get(branch, cell, moment).unwrap(),
            "{branch} {cell} {at:?}"
        );
    }

    fn history(&self, branch: &str, cell: &str, limit: usize, before: Option<u64>, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        let engine = self.cells(branch).at(at).and_then(|past| past.history(cell, limit, before));
        let engine: Vec<_> = engine.unwrap().iter().map(entry).collect();
        let model = self.oracle.history(branch, cell, limit, before, moment).unwrap();
        let model: Vec<_> = model.iter().map(version).collect();
        assert_eq!(engine, model, "the history of {cell} on {branch} at {at:?}");
    }

    /// Compares every branch, every cell and every revision.
    pub fn compare_everything(&mut self) {
        self.compare_branches();
        self.compare_tags();
        for branch in self.oracle.branches() {
            self.compare_present(&branch);
            self.compare_present_records(&branch);
            self.compare_runs(&branch, At::Latest);
            self.compare_outbox(&branch);
            self.compare_spaces(&branch, At::Latest);
            for revision in self.oracle.first_revision()..=self.oracle.revision() {
                let at = At::Revision(revision);
                CELLS.iter().for_each(|cell| self.read(&branch, cell, at));
                self.compare_records(&branch, at);
                if revision % 8 == 0 {
                    self.compare_runs(&branch, at);
                    self.compare_spaces(&branch, at);
                }
            }
        }
        for revision in self.oracle.first_revision() + 1..=self.oracle.revision() {
            let stamp = self.world.db().stamp_of(revision).ok();
            assert_eq!(stamp, self.oracle.stamp_of(revision), "the stamp of {revision}");
        }
    }

    fn compare_present(&self, branch: &str) {
        let cells = self.cells(branch);
        let listed = cells.list("", None, 1_000);
        same(listed, self.oracle.list(branch, "", None, 1_000, self.oracle.latest()));
        for cell in CELLS {
            let model = self.oracle.get(branch, cell, self.oracle.latest()).unwrap();
            assert_eq!(cells.get_versioned(cell).unwrap(), model, "{branch} {cell}");
            let value = model.map(|seen| seen.value);
            assert_eq!(cells.get(cell).unwrap(), value, "{branch} {cell}");
            let text = cells.read_text(cell, <[u8]>::to_vec).unwrap();
            assert_eq!(text, value.map(|value| value.as_text().into_owned()), "{branch} {cell}");
            self.history(branch, cell, 1_000, None, At::Latest);
        }
    }

    fn compare_branches(&self) {
        let mut engine: Vec<_> = self.world.db().branches();
        engine.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<String> = engine.iter().map(|branch| branch.name.clone()).collect();
        assert_eq!(names, self.oracle.branches());
        for branch in engine {
            let line = self.oracle.line(&branch.name).unwrap();
            let id = self.oracle.branch_id(&branch.name).unwrap();
            assert_eq!(branch.parent, self.oracle.parent(&branch.name), "{}", branch.name);
            assert_eq!((branch.depth, branch.children), (line.depth, self.oracle.children(id)));
            if line.parent.is_some() {
                assert_eq!(branch.fork_revision, line.fork_revision, "{}", branch.name);
            }
        }
    }

    fn compare_tags(&self) {
        let tags = self.world.db().tags().into_iter();
        let mut engine: Vec<_> = tags.map(|tag| (tag.name, tag.branch, tag.revision)).collect();
        engine.sort();
        assert_eq!(engine, self.oracle.tags());
    }
}

fn entry(entry: &HistoryEntry) -> Version<Value> {
    Version {
        counter: entry.counter,
        writes: entry.writes,
        value: entry.value.clone(),
        stamp: entry.stamp,
        revision: entry.revision,
        expires: entry.expires,
        home: 0,
    }
}

pub fn version<T: Clone>(version: &Version<T>) -> Version<T> {
    Version { home: 0, ..version.clone() }
}
