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
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
