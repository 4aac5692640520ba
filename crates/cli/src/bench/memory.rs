//! Memory usage.

/// Returns the number of allocated bytes.
pub fn allocated() -> u64 {
    // The figures are those of the last epoch; after a failure they are only outdated.
    let _ = tikv_jemalloc_ctl::epoch::advance();
    tikv_jemalloc_ctl::stats::allocated::read().map_or(0, |bytes| bytes as u64)
}

/// Returns the resident memory of this process in bytes, or zero if the system does not provide it.
pub fn resident() -> u64 {
    let _ = tikv_jemalloc_ctl::epoch::advance();
    field("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// Returns how many bytes of memory this system can give without swapping, if it says so.
pub fn available() -> Option<u64> {
    field("/proc/meminfo", "MemAvailable:")
}

/// Reads a field of a file of Linux, in kilobytes, as bytes.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
