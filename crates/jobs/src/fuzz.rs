//! Fuzz targets: arbitrary bytes as job records, names and object paths. The parsers must not panic, and a
//! parsed value must survive a round trip.

#[cfg(test)]
#[path = "../../../fuzz/feeding.rs"]
mod feeding;

use crate::model::job::Job;
use crate::model::name::{JobName, join};
use crate::model::state::State;
use crate::objects::ObjectLocation;
use crate::operations::lock;
use mainstay::{Fields, Record};
use object_store::path::Path;

/// Parses the bytes as a record of a job or a lock, as job names, and as object paths.
pub fn jobs(bytes: &[u8]) {
    record(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(name) = JobName::parse(text) {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(names) = JobName::parse_all(text) {
        assert_eq!(JobName::parse_all(&join(&names)), Ok(names));
    }
    if let Ok(state) = State::parse(text) {
        assert_eq!(state.as_str(), text);
    }
    if let Ok(path) = Path::parse(text) {
        ["", "shop"].into_iter().for_each(|namespace| location(namespace, &path));
    }
}

fn record(bytes: &[u8]) {
    let Ok(fields) = Fields::decode(bytes) else { return };
    let record = Record { fields, counter: 1, stamp: 1, revision: 1, expires: None };
    if let Ok(holder) = lock::decode_holder(&record) {
        assert_eq!(
            record.fields.text("token").and_then(|token| token.parse().ok()),
            Some(holder.token)
        );
    }
    let Ok(name) = JobName::new("email", "1") else { return };
    let Ok(job) = Job::of(name, record) else { return };
    for names in [&job.depends_on, &job.dependents] {
        assert_eq!(JobName::parse_all(&join(names)).as_ref(), Ok(names));
        let _ = names.iter().any(|name| job.waits_for(name));
    }
}

fn location(namespace: &str, path: &Path) {
    let Some((name, field)) = ObjectLocation::parse(namespace, path) else { return };
    if field.is_empty() {
        return;
    }
    let written = ObjectLocation::new(namespace, &name, &field).path("hash");
    assert_eq!(ObjectLocation::parse(namespace, &written), Some((name, field)));
}

#[cfg(test)]
mod tests {
    use super::feeding::{changes, check_targets, feed, seeds};
    use super::*;
    use crate::{Jobs, Settings, Submission};
    use mainstay::Database;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        check_targets("mainstay_jobs::fuzz", &["jobs"]);
        feed("jobs", jobs);
    }

    proptest! {
        /// Runs a small part of the fuzzing with the normal tests.
        #[test]
        fn changed_seeds_are_taken_without_a_panic(change in changes()) {
            feed("jobs", |bytes| jobs(&change.of(bytes)));
        }
    }

    /// Writes the seed corpus. Run with `--ignored` when a format changes.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_seeds() {
        fs::create_dir_all(seeds("jobs")).unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(seeds("jobs").join(name), bytes).unwrap();
        let db = Database::memory().unwrap();
        let queue = Jobs::open(&db, Settings::default()).unwrap();
        queue.submit(&Submission::new("email", "1").params("to: a@b.c")).unwrap();
        queue.submit(&Submission::new("report", "1").depends_on_job("email", "1")).unwrap();
        queue.claim("email", "worker 1", None).unwrap();
        for (key, record) in db.records().scan("", &[], None, 9).unwrap().records {
            let mut bytes = Vec::new();
            record.fields.encode(&mut bytes).unwrap();
            write(&key.replace('.', "-"), &bytes);
        }
        write("name", b"email/job_17.a");
        write("names", b"email/1,report/2");
        write("state", b"cancelled");
        write("object", b"shop/email/a%25b/params/0123abcd");
    }
}
