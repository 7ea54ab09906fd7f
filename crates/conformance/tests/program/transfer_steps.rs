//! Program steps that export a branch and import it into another database, which must have the same versions.

use super::driver::Driver;
use super::step::{BRANCHES, CELLS, Step};
use mainstay::{Branch, Fields, KeyedState, Value};
use mainstay_conformance::TestDb;
use std::fmt::Debug;

/// The exported parts of a version: counter, value, expiry.
type Kept<T> = (u64, Option<T>, Option<u64>);

impl Driver {
    /// Runs a transfer step. Returns false if the step is of another kind.
    pub fn transfer_step(&self, step: &Step) -> bool {
        let Step::Transfer { branch } = step else { return false };
        if let Ok(branch) = self.world.beside().branch(BRANCHES[*branch]) {
            let path = self.world.file("transfer");
            self.world.beside().export(branch.name(), &path, &mut |_| {}).unwrap();
            let elsewhere = TestDb::memory();
            elsewhere.db().import(&path, "copy", &mut |_| {}).unwrap();
            std::fs::remove_file(&path).unwrap();
            compare(&branch, &elsewhere.db().branch("copy").unwrap());
        }
        true
    }
}

fn compare(there: &Branch, copy: &Branch) {
    for name in CELLS {
        assert_eq!(cell(there, name), cell(copy, name), "the cell {name}");
        assert_eq!(record(there, name), record(copy, name), "the record {name}");
        assert_eq!(run(there, name), run(copy, name), "the run {name}");
        assert!(space(there, name) == space(copy, name), "the space {name}");
    }
}

fn space(branch: &Branch, name: &str) -> Vec<u8> {
    KeyedState::snapshot(&branch.keyed(name).unwrap()).unwrap()
}

fn cell(branch: &Branch, name: &str) -> Vec<Kept<Value>> {
    let versions = branch.cells().history(name, 1_000, None).unwrap();
    versions.into_iter().map(|entry| (entry.counter, entry.value, entry.expires)).collect()
}

fn record(branch: &Branch, key: &str) -> Vec<Kept<Fields>> {
    let versions = branch.records().history(key, 1_000, None).unwrap();
    versions.into_iter().map(|entry| (entry.counter, entry.fields, entry.expires)).collect()
}

/// The exported parts of a run: events, snapshot, metadata and alerts. The creation time is excluded: a
/// run counts as created when its first event reaches the branch, which is later for a merged run.
fn run(branch: &Branch, run: &str) -> impl PartialEq + Debug {
    let runs = branch.runs();
    let info = runs.get(run).unwrap().map(|info| (info.metadata, info.inconsistent));
    let alerts = runs.alerts(run, 0, 1_000).unwrap().into_iter().map(|alert| alert.run_seq);
    let alerts: Vec<u64> = alerts.collect();
    (runs.fetch(run, 0, 1_000).unwrap(), runs.snapshot(run).unwrap(), info, alerts)
}
