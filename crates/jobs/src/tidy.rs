//! Garbage collection of objects that no record names.
//!
//! ```text
//!   object old enough --> its job's record, every retained version, on every branch --> named? kept : deleted
//! ```

use crate::job::field;
use crate::name::JobName;
use crate::objects::ObjectPlace;
use crate::operations::Operations;
use crate::port::Port;
use mainstay::{RecordHistoryEntry, Result};
use object_store::path::Path;

/// Page size when reading a record's history.
const PAGE: usize = 10;

/// Report of a garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TidyReport {
    /// Number of objects that were old enough to check.
    pub looked_at: u64,
    /// How many of them no record named. They are deleted.
    pub deleted: u64,
}

impl Operations<'static> {
    pub async fn tidy(&self, older_than: std::time::Duration) -> Result<TidyReport> {
        let namespace = &self.settings().namespace;
        let paths = self.objects().older_than(namespace, older_than).await?;
        let branches = self.branches().await?;
        let mut report = TidyReport::default();
        for path in paths {
            let Some((name, what)) = ObjectPlace::read(namespace, &path) else { continue };
            report.looked_at += 1;
            if !self.is_named(&branches, &name, &what, &path).await? {
                self.objects().delete(&path).await?;
                report.deleted += 1;
            }
        }
        Ok(report)
    }

    async fn branches(&self) -> Result<Vec<Port<'static>>> {
        let mut ports = Vec::new();
        for branch in self.port.branches().await? {
            ports.push(self.port.on_branch(&branch).await?);
        }
        Ok(ports)
    }

    /// Returns whether a retained version names an object.
    async fn is_named(
        &self,
        branches: &[Port<'static>],
        name: &JobName,
        what: &str,
        path: &Path,
    ) -> Result<bool> {
        let key = self.key(name);
        let reference = if what == field::PARAMS { field::PARAMS_REF } else { field::RESULT_REF };
        let names_it = |entry: &RecordHistoryEntry| {
            let fields = entry.fields.as_ref();
            fields.and_then(|fields| fields.text(reference)) == Some(path.as_ref())
        };
        for port in branches {
            let mut before = None;
            loop {
                let page = port.history(&key, PAGE, before).await?;
                if page.iter().any(names_it) {
                    return Ok(true);
                }
                match page.last() {
                    Some(last) if page.len() == PAGE => before = Some(last.counter),
                    _ => break,
                }
            }
        }
        Ok(false)
    }
}
