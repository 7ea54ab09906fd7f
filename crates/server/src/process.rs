//! Resource usage of this process, as reported by the system.

use std::fs;

/// Returns the resident memory in bytes; `None` if the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Lowers the scheduling priority of the calling thread, for background work that should not delay other
/// threads.
pub fn lower_priority() {
    // On Linux the priority applies to the calling thread only. If the system refuses, the work runs at
    // normal priority.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Returns the number of open file descriptors; `None` if the system does not report it.
pub fn open_files() -> Option<u64> {
    // The directory handle used for counting is one of them.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// Returns the limit of open file descriptors; `None` if the system does not report it or sets no limit.
pub fn open_files_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
