//! Program steps that read records, now or in the past.

use super::driver::{Driver, same};
use super::read_steps::version;
use super::record_steps::{Look, filters};
use super::step::{BRANCHES, CELLS, PREFIXES, Step};
use mainstay::{At, Fields, RecordHistoryEntry, Records};
use mainstay_conformance::reference_model::Version;

impl Driver {
    /// Runs a record read. Returns false if the step is of another kind.
    pub fn record_read(&self, step: &Step) -> bool {
        match step {
            Step::ReadRecord { branch, key, back } => {
                self.read_record(BRANCHES[*branch], CELLS[*key], self.past(*back));
            }
            Step::RecordHistory { branch, key, limit, before, back } => {
                let at = self.past(*back);
                self.record_history(BRANCHES[*branch], CELLS[*key], *limit, *before, at);
            }
            Step::Scan { branch, look, back } => {
                self.scan(BRANCHES[*branch], look, self.past(*back));
            }
            _ => return false,
        }
        true
    }

    fn records(&self, branch: &str) -> Records {
        self.world.db().branch(branch).unwrap().records()
    }

    fn read_record(&self, branch: &str, key: &str, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        let engine = self.records(branch).at(at).and_then(|past| past.get(key)).unwrap();
        let model = self.oracle.record(branch, key, moment).unwrap();
        assert_eq!(engine, model, "the record {key} on {branch} at {at:?}");
    }

    fn scan(&self, branch: &str, look: &Look, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        let prefix = PREFIXES[look.prefix];
        let filters = filters(&look.filters);
        let after = look.after.map(|at| CELLS[at]);
        let past = self.records(branch).at(at).unwrap();
        let engine = past.scan(prefix, &filters, after, look.limit);
        same(engine, self.oracle.scan(branch, prefix, &filters, after, look.limit, moment));
        let all = self.oracle.scan(branch, prefix, &filters, None, 1_000, moment).unwrap();
        assert_eq!(past.count(prefix, &filters).unwrap(), all.records.len() as u64);
    }

    fn record_history(&self, branch: &str, key: &str, limit: usize, before: Option<u64>, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        let past = self.records(branch).at(at).unwrap();
        let engine: Vec<_> = past.history(key, limit, before).unwrap().iter().map(entry).collect();
        let model = self.oracle.record_history(branch, key, limit, before, moment).unwrap();
        let model: Vec<_> = model.iter().map(version).collect();
        assert_eq!(engine, model, "the history of the record {key} on {branch} at {at:?}");
    }

    /// Compares every record at a revision.
    pub fn compare_records(&self, branch: &str, at: At) {
        CELLS.iter().for_each(|key| self.read_record(branch, key, at));
        let Some(moment) = self.moment(branch, at) else { return };
        let engine = self.records(branch).at(at).unwrap().scan("", &[], None, 1_000);
        same(engine, self.oracle.scan(branch, "", &[], None, 1_000, moment));
    }

    /// Compares every current record and its history.
    pub fn compare_present_records(&self, branch: &str) {
        let records = self.records(branch);
        let now = self.oracle.latest();
        let scanned = records.scan("", &[], None, 1_000);
        same(scanned, self.oracle.scan(branch, "", &[], None, 1_000, now));
        for key in CELLS {
            let model = self.oracle.record(branch, key, now).unwrap();
            assert_eq!(records.get(key).unwrap(), model, "the record {key} on {branch}");
            self.record_history(branch, key, 1_000, None, At::Latest);
        }
    }
}

fn entry(entry: &RecordHistoryEntry) -> Version<Fields> {
    Version {
        counter: entry.counter,
        writes: entry.writes,
        value: entry.fields.clone(),
        stamp: entry.stamp,
        revision: entry.revision,
        expires: entry.expires,
        home: 0,
    }
}
