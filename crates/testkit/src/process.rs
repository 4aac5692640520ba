//! Numbers of running processes.

use std::fs;
use std::process::Command;
use std::time::Duration;

/// Returns the resident memory of a process, in bytes.
///
/// # Panics
/// The process does not run.
pub fn resident_bytes(process: u32) -> usize {
    bytes(process, "VmRSS:")
}

/// Returns the resident memory of a process that is not mapped from files (`RssAnon`), in bytes.
///
/// # Panics
/// The process does not run.
pub fn anonymous_bytes(process: u32) -> usize {
    bytes(process, "RssAnon:")
}

/// Returns the most resident memory that a process has had so far, in bytes.
///
/// # Panics
/// The process does not run.
pub fn most_resident_bytes(process: u32) -> usize {
    bytes(process, "VmHWM:")
}

fn bytes(process: u32, what: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a process has memory");
    let kibibytes: usize =
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// Returns the processor time that all threads of a process have used so far, to a hundredth of a second.
///
/// # Panics
/// The process does not run.
pub fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    // The name of the program, in parentheses, may contain spaces.
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks = |field: usize| -> u64 {
        fields.split_whitespace().nth(field).and_then(|number| number.parse().ok()).expect("a number")
    };
    // In user mode and in the kernel. Linux counts in hundredths of a second here on every machine.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Returns the bytes that all processes of this machine have sent over the loopback interface so far.
///
/// # Panics
/// There is no such interface.
pub fn loopback_bytes() -> u64 {
    let interfaces = fs::read_to_string("/proc/net/dev").expect("the system counts what is sent");
    let loopback = interfaces.lines().find_map(|line| line.trim_start().strip_prefix("lo:"));
    let sent = loopback.and_then(|line| line.split_whitespace().nth(8));
    sent.and_then(|number| number.parse().ok()).expect("the loopback interface counts what is sent")
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
