//! Salvage: repairs a damaged database from its log and index, and deletes nothing.

use super::diagnose::Cure;
use super::{Report, log_end, look};
use crate::base::fault_points::{self, InjectedFault};
use crate::fs::error::io_error;
use crate::lifecycle::database_file::{self, DatabaseFile};
use crate::lifecycle::open::{make_dir, plain_store_options};
use crate::log::{self, DatabaseId, DiskFiles, Log, LogOptions};
use crate::storage::flush_mark::FlushMark;
use crate::storage::reclassify;
use mainstay_model::{Code, Error, Result, Revision};
use std::path::{Path, PathBuf};

/// The result of a salvage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The inspection before the salvage.
    pub before: Report,
    /// The actions taken, in sentences; empty if none was necessary.
    pub done: Vec<String>,
    /// Everything up to this revision is kept.
    pub kept: Revision,
    /// The range of revisions that may be lost, as far as it could be determined.
    pub lost: Option<(Revision, Revision)>,
    /// The new paths of the damaged files.
    pub aside: Vec<PathBuf>,
}

/// Makes a damaged database open again, with everything that its log and index still hold.
///
/// Deletes nothing: damaged files stay in the directory under a name that contains `damaged`. If
/// neither log nor index suffices, changes nothing and returns an error that describes the missing
/// data.
pub fn salvage(directory: &Path) -> Result<SalvageReport> {
    let identity = DatabaseFile::existing(directory)?;
    // The next steps remove or move files under these names.
    fault_points::unless(InjectedFault::NoSyncOfSalvagedDatabase, || {
        database_file::keep_names(directory)
    })?;
    reclassify::settle(&directory.join("index"))?;
    keep_mark(directory)?;
    let before = look(directory, identity.id, false)?;
    let mut work = SalvageRun { directory, done: Vec::new(), aside: Vec::new() };
    let end = log_end(&before.log).unwrap_or(0);
    let kept = match &before.cure {
        Cure::Nothing if before.is_healthy() => end.max(before.index.revision()),
        Cure::Nothing | Cure::Beyond => return Err(refusal(&before)),
        Cure::CutLog => {
            let kept = end.max(before.index.revision());
            work.set_index_back(&before, kept)?;
            work.cut_log()?;
            kept
        }
        Cure::CutLogAndRebuild => {
            // The evidence of how much is lost goes last, so that a salvage that is interrupted and
            // repeated still knows it.
            if before.index.reach.is_some_and(|reach| reach > end) {
                work.cut_log()?;
                work.set_index_aside()?;
            } else {
                work.set_index_aside()?;
                work.cut_log()?;
            }
            end
        }
        Cure::DropBefore(segment) => {
            work.drop_before(&before, segment)?;
            let rest = log::inspect(&DiskFiles::read_only(work.log()))?;
            let kept = rest.last_revision().unwrap_or(0).max(before.index.revision());
            work.set_index_back(&before, kept)?;
            kept
        }
        Cure::NewLog { first } => {
            work.set_index_back(&before, *first - 1)?;
            work.new_log(&before, &identity, *first)?;
            *first - 1
        }
    };
    let seen = before.log.seen_behind.max(before.index.reach);
    let lost = seen.filter(|seen| *seen > kept).map(|seen| (kept + 1, seen));
    Ok(SalvageReport { done: work.done, aside: work.aside, kept, lost, before })
}

/// Makes the index's mark durable first. The changes to the log rely on the mark, so a power failure
/// must not take it back. A mark implies that the stores that it describes are durable.
fn keep_mark(directory: &Path) -> Result<()> {
    let index = directory.join("index");
    if index.is_dir() {
        fault_points::unless(InjectedFault::NoSyncOfSalvagedMark, || {
            database_file::keep_names(&index)
        })
    } else {
        Ok(())
    }
}

#[cold]
fn refusal(report: &Report) -> Error {
    let code = match report.verdict {
        super::Verdict::Newer => Code::NewerFormat,
        super::Verdict::Disagrees => Code::CorruptData,
        _ if matches!(report.index.state, super::IndexState::Sound(_)) => Code::CorruptLog,
        _ => Code::CorruptIndex,
    };
    let message = format!("{} {} Nothing was changed.", report.findings.join(" "), report.advice);
    Error::new(code, message)
}

#[cold]
fn unseen() -> Error {
    let message = "how far the index reaches could not be looked at, which needs room in the system's directory for \
                   temporary files; nothing was changed";
    Error::new(Code::Io, message)
}

struct SalvageRun<'a> {
    directory: &'a Path,
    done: Vec<String>,
    aside: Vec<PathBuf>,
}

impl SalvageRun<'_> {
    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn cut_log(&mut self) -> Result<()> {
        let report = log::salvage(&DiskFiles::new(self.log()))?;
        if report.kept.is_empty() {
            return Ok(());
        }
        self.done.push(match report.last_revision {
            Some(last) => format!("The log now ends with revision {last}."),
            None => "The log is now empty.".to_owned(),
        });
        let log = self.log();
        self.aside.extend(report.kept.iter().map(|name| log.join(name)));
        Ok(())
    }

    /// Removes revisions from the index that the log has lost: a flush that was cut short has left them
    /// in some stores.
    fn set_index_back(&mut self, before: &Report, kept: Revision) -> Result<()> {
        match before.index.reach {
            Some(reach) if reach <= kept => return Ok(()),
            None if matches!(before.index.state, super::IndexState::Sound(_)) => {
                return Err(unseen());
            }
            _ => {}
        }
        let index = self.directory.join("index");
        let Some(mark) = FlushMark::read_durably(&index)? else { return Ok(()) };
        self.aside.push(reclassify::set_back(&index, &plain_store_options(), &mark)?);
        let revision = mark.revision;
        self.done.push(format!(
            "The index was set back to revision {revision}: it held something of what the log has lost."
        ));
        Ok(())
    }

    /// Moves the index away, so that the next open rebuilds it from the log.
    fn set_index_aside(&mut self) -> Result<()> {
        let index = self.directory.join("index");
        if !index.exists() {
            return Ok(());
        }
        let aside = reclassify::aside(&index);
        self.rename(&index, &aside)?;
        self.done.push("The index was set aside; the next open rebuilds it from the log.".into());
        self.aside.push(aside);
        Ok(())
    }

    /// Sets aside the segments before the first sound one, oldest first, so that the log never has a
    /// gap.
    fn drop_before(&mut self, before: &Report, segment: &str) -> Result<()> {
        let names = segments(before);
        names
            .iter()
            .filter(|name| name.as_str() < segment)
            .try_for_each(|name| self.move_segment(name))?;
        self.done.push(format!(
            "The segments before {segment} were set aside: the feed begins there, and the index can \
             no longer be rebuilt from the log. Make a backup."
        ));
        Ok(())
    }

    /// Starts a new log after the index's revision. Segments are moved newest first: after a crash, the
    /// rest of the old log ends before the index does, so opening refuses it.
    fn new_log(&mut self, before: &Report, identity: &DatabaseFile, first: Revision) -> Result<()> {
        make_dir(&self.log())?;
        segments(before).iter().rev().try_for_each(|name| self.move_segment(name))?;
        let files = std::sync::Arc::new(DiskFiles::new(self.log()));
        Log::create(files, DatabaseId(identity.id), first, LogOptions::default())?;
        self.done.push(format!(
            "The old log was set aside; a new one starts with revision {first}, behind the index."
        ));
        Ok(())
    }

    fn move_segment(&mut self, name: &str) -> Result<()> {
        let log = self.log();
        let aside = reclassify::first_free(|number| match number {
            1 => log.join(format!("{name}.damaged")),
            _ => log.join(format!("{name}.damaged.{number}")),
        });
        self.rename(&log.join(name), &aside)?;
        self.aside.push(aside);
        Ok(())
    }

    /// Renames a file durably.
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let steps = || -> std::io::Result<()> {
            std::fs::rename(from, to)?;
            match to.parent() {
                Some(parent) => fault_points::unless(InjectedFault::NoSyncOfMovedIndex, || {
                    std::fs::File::open(parent)?.sync_all()
                }),
                None => Ok(()),
            }
        };
        steps().map_err(|error| io_error("rename", from, &error))
    }
}

/// Returns all segments, oldest first.
fn segments(report: &Report) -> Vec<String> {
    let log = &report.log;
    let checked = log.segments.iter().map(|segment| &segment.file);
    checked.chain(&log.unchecked).chain(&log.unfinished).cloned().collect()
}
