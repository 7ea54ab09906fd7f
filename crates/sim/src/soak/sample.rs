//! Resource samples, one per second: memory, open files, disk usage, latencies and processor load.

use super::histogram::Latencies;
use crate::drill::Outcome;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The measurements of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The second, counted from the start of the load.
    pub second: u64,
    /// The resident memory of the process.
    pub memory_bytes: u64,
    /// The number of open file descriptors.
    pub descriptors: u64,
    /// The disk space of the directory's files.
    pub disk_bytes: u64,
    /// The latencies of the operations that ended in this second.
    pub latencies: Latencies,
    /// The number of operations that should have started by now but have not.
    pub backlog: u64,
    /// The share of the machine's processors that other programs used in this second, in percent.
    pub others_percent: u64,
}

/// Processor time since the machine was started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// All ticks.
    all: u64,
    /// The ticks that any process used.
    busy: u64,
    /// The ticks that this process used.
    own: u64,
}

impl Ticks {
    pub fn now() -> Outcome<Ticks> {
        let read =
            |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let machine = read("/proc/stat")?;
        let own = read("/proc/self/stat")?;
        Ticks::of(&machine, &own).ok_or_else(|| "/proc tells of no processors".to_owned())
    }

    /// Parses `/proc/stat` and `/proc/self/stat`. The first line of the former covers all processors:
    /// user, nice, system, idle, iowait and so on. In the latter the name ends with a parenthesis, and
    /// user and system time are the twelfth and thirteenth field after it.
    fn of(machine: &str, own: &str) -> Option<Ticks> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let all = ticks.iter().take(8).sum();
        let fields: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let of_own = |place: usize| fields.get(place).and_then(|word| word.parse::<u64>().ok());
        Some(Ticks {
            all,
            busy: all - ticks.get(3)? - ticks.get(4)?,
            own: of_own(11)? + of_own(12)?,
        })
    }

    /// Returns the share of other programs since an earlier sample.
    pub fn others_percent(self, before: Ticks) -> u64 {
        let all = self.all.saturating_sub(before.all).max(1);
        let busy = self.busy.saturating_sub(before.busy);
        busy.saturating_sub(self.own.saturating_sub(before.own)) * 100 / all
    }
}

/// Returns the resident memory of this process.
pub(super) fn memory_bytes() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "/proc/self/status tells of no memory".to_owned())
}

/// Returns the number of open file descriptors of this process, without the one that this function
/// opens.
pub(super) fn descriptors() -> Outcome<u64> {
    let entries = fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?;
    Ok((entries.count() as u64).saturating_sub(1))
}

/// Returns the disk space of a directory. Files may vanish meanwhile; a vanished file counts as 0.
pub(super) fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk_bytes(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_take_is_what_is_busy_without_us() {
        let own = |ticks| format!("7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 {ticks} 5 0 0 20");
        let before = Ticks::of("cpu  100 10 40 800 50 0 0 0 0 0\ncpu0 1", &own(100)).unwrap();
        assert_eq!(before, Ticks { all: 1000, busy: 150, own: 105 });
        let after = Ticks::of("cpu  210 10 90 830 50 0 5 5 0 0\ncpu0 1", &own(170)).unwrap();
        assert_eq!(after.others_percent(before), 50);
        assert_eq!(before.others_percent(before), 0);
        assert!(Ticks::now().unwrap().busy > 0 && Ticks::of("", "").is_none());
    }

    #[test]
    fn the_process_has_memory_and_files_and_a_directory_its_bytes() {
        assert!(memory_bytes().unwrap() > 1 << 20);
        let before = descriptors().unwrap();
        let home = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            (0..50).map(|k| fs::File::create(home.path().join(k.to_string())).unwrap()).collect();
        // Other tests open and close files, too.
        assert!(descriptors().unwrap() > before + 25);
        drop(files);
        fs::create_dir(home.path().join("below")).unwrap();
        fs::write(home.path().join("below/file"), vec![7; 100_000]).unwrap();
        assert!((100_000..200_000).contains(&disk_bytes(home.path())));
    }
}
