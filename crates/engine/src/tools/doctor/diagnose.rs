//! Maps the findings of an inspection to a verdict and a repair.
//!
//! | log | index | cure |
//! |---|---|---|
//! | sound, or torn behind the mark | sound | none |
//! | damaged behind the mark | sound | end the log before the damage |
//! | torn, or ends, before revisions in the index that an interrupted flush left | sound | the same, and set the index back to its mark |
//! | damaged before the mark, whole from a later segment on | sound | set the older segments aside |
//! | damaged before the mark, too short or gone | sound | set it aside, continue from the index |
//! | reaches back to revision 1 | damaged | set the index aside: the next open rebuilds it |
//! | the same, and ends, or is torn, before the mark | damaged | the same, by hand: revisions up to the mark are lost |
//! | does not | damaged | a backup, as the base of a new index |
//! | reaches back to revision 1 | inconsistent | the same as when it is damaged |

use super::index::{IndexReport, IndexState};
use super::log_suffix::LogSuffix;
use super::{LogReport, Problem, Report, RunsReport, Verdict, log_end};
use crate::log::{self, DatabaseId};
use mainstay_model::{Code, Revision};
use std::path::Path;

const SALVAGE: &str =
    "Copy the directory to a safe place, then run `mainstay doctor DIR --salvage`.";

const REBUILD: &str = "Copy the directory to a safe place, then run `mainstay doctor DIR --salvage`: the next open \
    rebuilds the index from the log, which holds everything. Look again after that: what is still found was written \
    so; restore those runs from an archive or a backup, and report it.";

const NO_REBUILD: &str = "Do as the findings say: the log no longer holds enough to rebuild the index. With the \
    directory `index` moved away, a backup that the log goes on from, opened with `Options::base`, rebuilds it.";

const CONTESTED: &str = "Stop every program that uses the directory and copy it to a safe place. Compare what the \
    programs acknowledged with what is there, and take what is missing from a backup: of two writes of one revision \
    only one is kept. Never remove LOCK while a program runs.";

/// The repair that `salvage` would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cure {
    /// Nothing.
    Nothing,
    /// End the log before its first problem.
    CutLog,
    /// End the log before its first problem, and let the next open rebuild the index.
    CutLogAndRebuild,
    /// Set aside all segments before this one.
    DropBefore(String),
    /// Set aside all segments and start a new log after the index's revision.
    NewLog { first: Revision },
    /// No repair is possible without losing data that exists nowhere else.
    Beyond,
}

pub(super) struct Diagnosis {
    pub(super) verdict: Verdict,
    pub(super) findings: Vec<String>,
    pub(super) advice: String,
    pub(super) cure: Cure,
}

impl Diagnosis {
    fn new(verdict: Verdict, cure: Cure, finding: impl Into<String>, advice: &str) -> Diagnosis {
        let findings = vec![finding.into()];
        Diagnosis { verdict, findings, advice: advice.to_owned(), cure }
    }

    fn healthy() -> Diagnosis {
        let advice = "Nothing needs to be done.".to_owned();
        Diagnosis { verdict: Verdict::Healthy, findings: Vec::new(), advice, cure: Cure::Nothing }
    }

    fn beyond(finding: impl Into<String>, advice: &str) -> Diagnosis {
        Diagnosis::new(Verdict::Beyond, Cure::Beyond, finding, advice)
    }

    fn salvage(cure: Cure, finding: impl Into<String>) -> Diagnosis {
        Diagnosis::new(Verdict::Salvage, cure, finding, SALVAGE)
    }
}

/// Returns whether the index could be rebuilt from the log alone.
pub(super) fn can_rebuild(log: &LogReport, index: &IndexReport) -> bool {
    let is_whole = log.problem.as_ref().is_none_or(|problem| problem.torn);
    let known = index.reach.unwrap_or(0).max(index.revision());
    reaches_back(log) && is_whole && log_end(log).unwrap_or(0) >= known
}

/// Adds the inconsistencies of runs, the outbox, keyed state and sessions.
pub(super) fn add_faults(
    diagnosis: &mut Diagnosis,
    (log, index): (&LogReport, &IndexReport),
    runs: &RunsReport,
) {
    if runs.faults.is_empty() && !runs.damaged {
        return;
    }
    let damage = runs.skipped.iter().filter(|_| runs.damaged);
    diagnosis.findings.extend(damage.map(|why| format!("Runs and the outbox: {why}.")));
    diagnosis.findings.extend(runs.faults.iter().map(ToString::to_string));
    let more = runs.all_faults.saturating_sub(runs.faults.len() as u64);
    if more > 0 {
        diagnosis.findings.push(format!("{more} more faults like these are not listed."));
    }
    diagnosis.verdict = Verdict::Disagrees;
    let (cure, advice) = if can_rebuild(log, index) {
        (Cure::CutLogAndRebuild, REBUILD)
    } else {
        (Cure::Nothing, NO_REBUILD)
    };
    diagnosis.cure = cure;
    diagnosis.advice = advice.to_owned();
}

/// Adds evidence in the log of concurrent writers. One opening creates its segments one after the
/// other, so the segments of one owner must be adjacent.
pub(super) fn add_writers(diagnosis: &mut Diagnosis, log: &LogReport) {
    let mut owners = Vec::new();
    for segment in log.segments.iter().filter(|segment| segment.owner != 0) {
        if owners.last() == Some(&segment.owner) {
            continue;
        }
        if owners.contains(&segment.owner) {
            let finding = format!(
                "{} was made by a program that had made an earlier segment, with one of another program between them.",
                segment.file
            );
            return contest(
                &mut diagnosis.verdict,
                &mut diagnosis.findings,
                &mut diagnosis.advice,
                finding,
            );
        }
        owners.push(segment.owner);
    }
}

/// Adds that the database is open, and that its lock file is not the locked one.
pub(super) fn add_lost_lock(report: &mut Report) {
    let finding = "The database is open in a process, but its file LOCK was removed or replaced: an earlier version of this \
                   program could open it a second time, and may have."
        .to_owned();
    contest(&mut report.verdict, &mut report.findings, &mut report.advice, finding);
}

/// Adds a finding about concurrent writers. Other damage is the worse verdict and keeps its own advice.
fn contest(
    verdict: &mut Verdict,
    findings: &mut Vec<String>,
    advice: &mut String,
    finding: String,
) {
    findings.push(finding);
    if *verdict == Verdict::Healthy {
        *verdict = Verdict::Contested;
        *advice = CONTESTED.to_owned();
    }
}

/// Returns whether the log begins at revision 1.
pub(super) fn reaches_back(log: &LogReport) -> bool {
    log.segments.first().is_some_and(|segment| segment.first_revision == 1)
}

pub(super) fn judge(
    directory: &Path,
    id: &DatabaseId,
    log: &LogReport,
    index: &IndexReport,
) -> Diagnosis {
    if let Some(other) = log.database.filter(|other| other != id) {
        let finding = format!("The log belongs to database {other}, not to this one.");
        return Diagnosis::beyond(finding, "Put this database's own log back.");
    }
    if let Some(problem) = log.problem.as_ref().filter(|found| found.code == Code::NewerFormat) {
        let finding = format!("{}: {}.", problem.file, problem.what);
        let advice = "Use the newer program that wrote it.";
        return Diagnosis::new(Verdict::Newer, Cure::Nothing, finding, advice);
    }
    let mut diagnosis = match &index.state {
        IndexState::Sound(mark) => with_index(directory, log, *mark, index.reach.unwrap_or(*mark)),
        IndexState::Damaged(why) => without_index(log, why, index.reach.unwrap_or(0)),
        IndexState::BadTable(why) => with_bad_table(log, why, index.reach.unwrap_or(0)),
        IndexState::Absent if !has_log(log) => Diagnosis::healthy(),
        IndexState::Absent => without_index(log, "the index is missing", 0),
    };
    if let Some(problem) = &log.problem {
        let is_torn = problem.torn && index.reach.is_none_or(|reach| reach < problem.expected);
        diagnosis.findings.insert(0, describe(log, problem, is_torn));
    }
    diagnosis
}

fn has_log(log: &LogReport) -> bool {
    !log.segments.is_empty() || log.problem.is_some()
}

fn is_damage(problem: &Problem) -> bool {
    !problem.torn
}

/// Describes the log's problem in a sentence.
fn describe(log: &LogReport, problem: &Problem, is_torn: bool) -> String {
    let Problem { file, offset, what, expected, .. } = problem;
    if is_torn {
        return format!(
            "A write was cut off at the end of {file} (byte {offset}: {what}). Nothing in it was \
             acknowledged as synced; the next open cuts it."
        );
    }
    let behind = match log.seen_behind {
        Some(seen) => format!("revisions {expected} to {seen} lie behind it"),
        None => "nothing readable lies behind it".to_owned(),
    };
    format!(
        "{file} is damaged at byte {offset}, where revision {expected} starts: {what}; {behind}."
    )
}

/// Diagnoses a database without a usable index. `marked` is the index's last known mark.
fn without_index(log: &LogReport, why: &str, marked: Revision) -> Diagnosis {
    let finding = format!("The index cannot be used: {why}.");
    let gone = gone_end(log, marked);
    let is_damaged = log.problem.as_ref().is_some_and(is_damage);
    let mut diagnosis = if !reaches_back(log) {
        Diagnosis::beyond(finding, &how_to_restore(log, gone.is_some()))
    } else if is_damaged && log_end(log).is_none() {
        Diagnosis::beyond(finding, "Restore a backup: the log begins with the damage.")
    } else if is_damaged || gone.is_some() {
        Diagnosis::salvage(Cure::CutLogAndRebuild, finding)
    } else {
        let advice =
            "Open the database: it rebuilds the index from the log, which holds everything.";
        Diagnosis::new(Verdict::Mends, Cure::CutLogAndRebuild, finding, advice)
    };
    diagnosis.findings.extend(gone);
    diagnosis
}

/// Returns a finding if the log ends before the index's mark.
fn gone_end(log: &LogReport, marked: Revision) -> Option<String> {
    let ends = match log.segments.last() {
        Some(newest) => {
            let end = log_end(log).unwrap_or(newest.first_revision.saturating_sub(1));
            (end < marked).then(|| format!("ends at revision {end}: its end is gone"))
        }
        None => (marked > 0).then(|| "has no readable segment: all of it is gone".to_owned()),
    };
    ends.map(|ends| format!("The index was marked with revision {marked}, but the log {ends}."))
}

fn how_to_restore(log: &LogReport, has_lost_its_end: bool) -> String {
    let begins = match log.segments.first() {
        Some(first) => format!("begins at revision {}", first.first_revision),
        None => "holds nothing that can be read".to_owned(),
    };
    let why = format!(
        "Restore a backup: the log {begins}, so the index cannot be rebuilt from it without \
         losing what the log no longer holds."
    );
    if has_lost_its_end {
        format!(
            "{why} With the directory `index` moved away, a backup that the log goes on from, opened with \
             `Options::base`, gives everything but what is gone."
        )
    } else {
        format!(
            "{why} Opened with `Options::base`, a backup that was taken with `Database::backup` and that the \
             log goes on from loses nothing."
        )
    }
}

/// Diagnoses a damaged table. Opening may not notice it, so the index has to be set aside for a
/// rebuild.
fn with_bad_table(log: &LogReport, why: &str, marked: Revision) -> Diagnosis {
    let Diagnosis { verdict, cure, .. } = without_index(log, why, marked);
    let gone = gone_end(log, marked);
    let finding = if gone.is_some() {
        format!("Reads of a damaged table of the index fail: {why}.")
    } else {
        format!("The database may open, but reads of a damaged table fail: {why}.")
    };
    let mut diagnosis = match verdict {
        Verdict::Beyond if gone.is_some() => Diagnosis::beyond(finding, &how_to_restore(log, true)),
        Verdict::Beyond => Diagnosis::beyond(
            finding,
            "Restore a backup, or open it and export what can still be read: the log no longer \
             holds enough to rebuild the index. With the directory `index` moved away, a backup \
             that the log goes on from, opened with `Options::base`, loses nothing.",
        ),
        _ => Diagnosis::salvage(cure, finding),
    };
    diagnosis.findings.extend(gone);
    diagnosis
}

fn with_index(directory: &Path, log: &LogReport, mark: Revision, reach: Revision) -> Diagnosis {
    let Some(first) = log.segments.first().map(|segment| segment.first_revision) else {
        return without_log(log, mark, reach);
    };
    if first > mark.saturating_add(1) {
        let finding = format!(
            "The index ends at revision {mark}, but the log begins at revision {first}: \
             segments in between are missing."
        );
        return Diagnosis::beyond(finding, "Put the missing segments back, or restore a backup.");
    }
    let end = log_end(log).unwrap_or(first.saturating_sub(1));
    match &log.problem {
        Some(problem) if problem.expected <= mark => old_damage(directory, log, problem, mark),
        Some(problem) if is_damage(problem) && end == 0 => {
            Diagnosis::beyond("Nothing lies before the damage.", "Restore a backup.")
        }
        Some(problem) if is_damage(problem) => {
            let finding = format!("Everything up to revision {end} can be kept.");
            Diagnosis::salvage(Cure::CutLog, finding)
        }
        _ if end >= mark && reach > end => {
            let finding = format!(
                "The index holds something of revision {reach}, but the log ends at revision {end}: \
                 its end is gone. Everything up to revision {end} can be kept."
            );
            Diagnosis::salvage(Cure::CutLog, finding)
        }
        problem if end >= mark => {
            let cure = if problem.is_some() { Cure::CutLog } else { Cure::Nothing };
            Diagnosis { cure, ..Diagnosis::healthy() }
        }
        _ => {
            let finding = format!(
                "The log ends at revision {end}, but the index holds everything up to revision \
                 {mark}: the end of the log is gone."
            );
            Diagnosis::salvage(Cure::NewLog { first: mark + 1 }, finding)
        }
    }
}

fn without_log(log: &LogReport, mark: Revision, reach: Revision) -> Diagnosis {
    match mark {
        0 if log.problem.is_none() && reach == 0 => Diagnosis::healthy(),
        0 => Diagnosis::beyond("The log was all there is.", "Restore a backup."),
        _ => {
            let finding = format!(
                "The log has no readable segment; the index holds everything up to revision {mark}."
            );
            Diagnosis::salvage(Cure::NewLog { first: mark + 1 }, finding)
        }
    }
}

/// Diagnoses damage to a part of the log that the index holds: only the log after the mark is needed.
fn old_damage(directory: &Path, log: &LogReport, problem: &Problem, mark: Revision) -> Diagnosis {
    let holds = format!("The index holds everything up to revision {mark}");
    match sound_from(directory, log, problem, mark) {
        Some(segment) => {
            let finding = format!(
                "{holds}, and the log is sound from {segment} on: only the feed's past is concerned."
            );
            Diagnosis::salvage(Cure::DropBefore(segment), finding)
        }
        None => {
            let finding = format!("{holds}, more than the sound part of the log.");
            Diagnosis::salvage(Cure::NewLog { first: mark.saturating_add(1) }, finding)
        }
    }
}

/// Returns the first segment after the problem from which the log is sound and covers the mark.
fn sound_from(
    directory: &Path,
    log: &LogReport,
    problem: &Problem,
    mark: Revision,
) -> Option<String> {
    let names = log.segments.iter().map(|segment| &segment.file).chain(&log.unchecked);
    let sound = |name: &&String| {
        let Ok(rest) = log::inspect(&LogSuffix::new(directory, name)) else { return false };
        let begins = rest.segments.first().is_some_and(|first| first.first_revision <= mark);
        let whole = rest.problem.as_ref().is_none_or(|p| p.torn && p.expected > mark);
        begins && whole && rest.database == log.database && rest.last_revision() >= Some(mark)
    };
    names.filter(|name| **name >= problem.file).find(sound).cloned()
}
