//! Garbage collection of objects that no record names.
//!
//! ```text
//!   object old enough --> its job's record, every retained version, on every branch --> referenced? kept : deleted
//! ```

use crate::backend::JobsBackend;
use crate::model::job::field;
use crate::model::name::JobName;
use crate::objects::ObjectLocation;
use crate::operations::Operations;
use mainstay::{RecordHistoryEntry, Result};
use object_store::path::Path;

/// Page size when reading a record's history.
const PAGE_SIZE: usize = 10;

/// Report of a garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Number of objects that were old enough to check.
    pub examined: u64,
    /// How many of them no record named. They are deleted.
    pub deleted: u64,
}

impl Operations<'static> {
    pub async fn collect_garbage(&self, older_than: std::time::Duration) -> Result<GcReport> {
        let namespace = &self.settings().namespace;
        let paths = self.objects().older_than(namespace, older_than).await?;
        let branches = self.branches().await?;
        let mut report = GcReport::default();
        for path in paths {
            let Some((name, field_name)) = ObjectLocation::parse(namespace, &path) else {
                continue;
            };
            report.examined += 1;
            if !self.is_referenced(&branches, &name, &field_name, &path).await? {
                self.objects().delete(&path).await?;
                report.deleted += 1;
            }
        }
        Ok(report)
    }

    async fn branches(&self) -> Result<Vec<JobsBackend<'static>>> {
        let mut backends = Vec::new();
        for branch in self.backend.branches().await? {
            backends.push(self.backend.on_branch(&branch).await?);
        }
        Ok(backends)
    }

    /// Returns whether a retained version names an object.
    async fn is_referenced(
        &self,
        branches: &[JobsBackend<'static>],
        name: &JobName,
        field_name: &str,
        path: &Path,
    ) -> Result<bool> {
        let key = self.key(name);
        let reference =
            if field_name == field::PARAMS { field::PARAMS_REF } else { field::RESULT_REF };
        let names_object = |entry: &RecordHistoryEntry| {
            let fields = entry.fields.as_ref();
            fields.and_then(|fields| fields.text(reference)) == Some(path.as_ref())
        };
        for backend in branches {
            let mut before = None;
            loop {
                let page = backend.history(&key, PAGE_SIZE, before).await?;
                if page.iter().any(names_object) {
                    return Ok(true);
                }
                match page.last() {
                    Some(last) if page.len() == PAGE_SIZE => before = Some(last.counter),
                    _ => break,
                }
            }
        }
        Ok(false)
    }
}
