//! Numbers of running processes.

use std::fs;
use std::process::Command;

/// Returns the resident memory of a process, in bytes.
///
/// # Panics
/// The process does not run.
pub fn resident_bytes(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    let kibibytes: usize =
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// Raises this process's limit of open files to its hard limit, and returns that.
///
/// # Panics
/// `prlimit` (Debian package util-linux) does not run.
pub fn raise_open_files() -> usize {
    let id = std::process::id().to_string();
    let limits = fs::read_to_string("/proc/self/limits").expect("the limits of this process");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit");
    let hard = line.split_whitespace().nth(1).expect("a hard limit").parse().unwrap_or(1 << 20);
    let raised = Command::new("prlimit").args(["--pid", &id, &format!("--nofile={hard}:{hard}")]).status();
    assert!(raised.is_ok_and(|status| status.success()), "prlimit (Debian package util-linux) does not run");
    hard
}
