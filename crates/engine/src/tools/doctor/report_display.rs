//! Formats reports as text.

use super::{IndexReport, IndexState, LogReport, Report, RunsReport, SalvageReport, Verdict};
use std::fmt;

/// Sentences are wrapped before this column.
const LINE_WIDTH: usize = 78;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Database   {}", self.directory.display())?;
        writeln!(f, "           id {}, format {}", self.database, self.format)?;
        if self.in_use {
            writeln!(f, "           open in a process: what it is writing may look damaged here")?;
        }
        write_log(f, &self.log)?;
        write_index(f, &self.index)?;
        let rebuild = if self.can_rebuild() {
            "the index can be rebuilt from the log"
        } else {
            "the index cannot be rebuilt from the log alone: keep backups (`Database::backup`)"
        };
        writeln!(f, "           {rebuild}")?;
        write_runs(f, &self.runs)?;
        write!(f, "\n{}", self.verdict)?;
        self.findings.iter().try_for_each(|finding| write_wrapped(f, finding))?;
        write_wrapped(f, &self.advice)
    }
}

fn write_log(f: &mut fmt::Formatter<'_>, log: &LogReport) -> fmt::Result {
    let first = log.segments.first().map(|segment| segment.first_revision);
    match (first, log.last_revision()) {
        (Some(first), Some(last)) => writeln!(f, "\nLog        revisions {first} to {last}")?,
        (Some(first), None) => writeln!(f, "\nLog        empty, begins with revision {first}")?,
        _ => writeln!(f, "\nLog        no readable segment")?,
    }
    for segment in &log.segments {
        let revisions = match segment.last_revision {
            Some(last) => format!("{} to {last}", segment.first_revision),
            None => "no revisions".to_owned(),
        };
        let frames = segment.frames;
        let used = bytes(segment.bytes);
        writeln!(f, "           {}  {revisions}, {frames} frames, {used} used", segment.file)?;
    }
    log.unchecked.iter().try_for_each(|name| writeln!(f, "           {name}  not checked"))?;
    if let Some(name) = &log.unfinished {
        writeln!(f, "           {name}  never finished, the next open removes it")?;
    }
    let Some(problem) = &log.problem else { return Ok(()) };
    let kind = if problem.torn { "torn tail" } else { "DAMAGE" };
    writeln!(f, "           {kind} in {} at byte {}", problem.file, problem.offset)
}

fn write_index(f: &mut fmt::Formatter<'_>, index: &IndexReport) -> fmt::Result {
    match &index.state {
        IndexState::Absent => writeln!(f, "\nIndex      none")?,
        IndexState::Sound(0) => writeln!(f, "\nIndex      empty: opening replays the whole log")?,
        IndexState::Sound(mark) => {
            writeln!(f, "\nIndex      holds revisions up to {mark}; the log is replayed behind")?;
        }
        IndexState::Damaged(_) | IndexState::BadTable(_) => writeln!(f, "\nIndex      DAMAGED")?,
    }
    let width = index.stores.iter().map(|store| store.name.len()).max().unwrap_or(0);
    for store in &index.stores {
        let size = bytes(store.bytes);
        let state =
            if store.problem.is_some() || store.bad_table.is_some() { "DAMAGED" } else { "ok" };
        write!(
            f,
            "           {:width$}  {:>9}  {:>3} tables  {state}",
            store.name, size, store.tables
        )?;
        match store.floor {
            Some(floor) if floor > 0 => write!(f, ", readable from revision {floor}")?,
            _ => {}
        }
        match store.prefix.as_str() {
            "" => writeln!(f)?,
            prefix => writeln!(f, ", names beginning with {prefix:?}")?,
        }
    }
    Ok(())
}

fn write_runs(f: &mut fmt::Formatter<'_>, report: &RunsReport) -> fmt::Result {
    if let Some(why) = &report.skipped {
        return writeln!(f, "\nRuns       not checked: {why}");
    }
    let RunsReport { runs, events, messages, upto, all_faults, .. } = report;
    writeln!(
        f,
        "\nRuns       {runs} runs, {events} events, {messages} messages, as of revision {upto}"
    )?;
    if report.spaces > 0 {
        let RunsReport { spaces, entries, .. } = report;
        writeln!(f, "Keyed      {spaces} spaces, {entries} entries")?;
    }
    if report.sessions > 0 {
        let RunsReport { sessions, responses, letters, .. } = report;
        writeln!(
            f,
            "Sessions   {sessions} sessions, {responses} responses, {letters} requests to clients"
        )?;
    }
    match all_faults {
        0 => {
            writeln!(f, "           heads, keys, events, snapshots, sessions and the outbox agree")
        }
        faults => writeln!(f, "           {faults} FAULTS, see below"),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Healthy => "HEALTHY",
            Verdict::Mends => "MENDS ITSELF",
            Verdict::Salvage => "DAMAGED",
            Verdict::Disagrees => "DOES NOT AGREE WITH ITSELF",
            Verdict::Contested => "MORE THAN ONE WRITER",
            Verdict::Newer => "NEWER FORMAT",
            Verdict::Beyond => "DAMAGED BEYOND REPAIR",
        })
    }
}

impl fmt::Display for SalvageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\nSALVAGE", self.before)?;
        if self.done.is_empty() {
            return write!(f, "  Nothing had to be done.");
        }
        self.done.iter().try_for_each(|done| writeln!(f, "  {done}"))?;
        writeln!(f, "  Kept: everything up to revision {}.", self.kept)?;
        match self.lost {
            Some((first, last)) => writeln!(f, "  May be lost: revisions {first} to {last}.")?,
            None => writeln!(f, "  Nothing readable lies behind it.")?,
        }
        write!(f, "  What was taken out is kept:")?;
        self.aside.iter().try_for_each(|path| write!(f, "\n    {}", path.display()))
    }
}

/// Writes a sentence as an indented, wrapped paragraph.
fn write_wrapped(f: &mut fmt::Formatter<'_>, sentence: &str) -> fmt::Result {
    let mut column = 0;
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column == 0 || column + 1 + length > LINE_WIDTH {
            write!(f, "\n{}{word}", if column == 0 { "  - " } else { "    " })?;
            column = 4 + length;
        } else {
            write!(f, " {word}")?;
            column += 1 + length;
        }
    }
    Ok(())
}

/// Formats a size in human-readable units.
fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(units.len() as u32);
    let unit = units[power as usize - 1];
    format!("{:.1} {unit}", bytes as f64 / 1024_f64.powi(power as i32))
}
