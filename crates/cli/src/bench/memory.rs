//! How much memory is in use.

/// The bytes that the allocator has handed out and not got back.
pub fn allocated() -> u64 {
    // The figures are those of the last epoch; a failure leaves them older, not wrong.
    let _ = tikv_jemalloc_ctl::epoch::advance();
    tikv_jemalloc_ctl::stats::allocated::read().map_or(0, |bytes| bytes as u64)
}

/// The bytes of this process that are in memory, or zero where the system does not tell.
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
