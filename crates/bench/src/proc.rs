//! Process statistics from `/proc`.

use crate::context::Outcome;

/// Peak memory of a process.
pub const PEAK: &str = "VmHWM";
/// Current memory of a process.
pub const NOW: &str = "VmRSS";

/// Reads one memory figure of a process in KiB: `PEAK` or `NOW`.
pub fn memory_kib(process: u32, figure: &str) -> Outcome<u64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {path}: {error}; it is there on Linux"))?;
    find_kib(&status, figure).ok_or_else(|| format!("{path} has no {figure}").into())
}

fn find_kib(status: &str, figure: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(figure)?.strip_prefix(':').map(String::from))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_whole_name() {
        let status = "Name:\tbench\nVmHWMark:\t 1 kB\nVmHWM:\t  204800 kB\nVmRSS:\t 7 kB\n";
        assert_eq!(find_kib(status, PEAK), Some(204_800));
        assert_eq!(find_kib(status, NOW), Some(7));
        assert_eq!(find_kib("VmHWM:\tmuch\n", PEAK), None);
        assert_eq!(find_kib("", PEAK), None);
    }

    #[test]
    fn this_process_holds_memory() {
        let process = std::process::id();
        assert!(memory_kib(process, PEAK).unwrap() > 100);
        assert!(memory_kib(process, NOW).unwrap() > 100);
        assert!(memory_kib(process, "VmNone").is_err());
    }
}
