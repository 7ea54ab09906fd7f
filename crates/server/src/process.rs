//! What the system knows about this process.

use std::fs;

/// The memory it holds; nothing where the system does not say.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Has the scheduler prefer the other threads of this process: for work that nobody should have to wait behind.
pub fn lower_priority() {
    // On Linux this is about the calling thread alone. Where it is refused the work is done all the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// The files it has open; nothing where the system does not say.
pub fn open_files() -> Option<u64> {
    // The one that lists them is among them.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// How many files it may have open; nothing where the system does not say, or sets no limit.
pub fn open_files_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
