//! Process metrics, under the names that all Prometheus clients use.

use std::fmt;
use std::fs;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Memory, files and processor time of this process, read on each scrape. Values that the system does not provide are left out.
#[derive(Debug)]
pub struct ProcessMetrics;

/// Bytes in a page and ticks in a second, as on every Linux platform that Rust supports by default.
const PAGE: f64 = 4096.0;
const TICKS: f64 = 100.0;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut write = |name: &str, help: &str, value: Option<f64>| match value {
            Some(value) => {
                let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(metric)
            }
            None => Ok(()),
        };
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Skip the program name, which may contain any characters.
        let fields: Vec<f64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().skip(1).map(|f| f.parse().unwrap_or_default()).collect())
            .unwrap_or_default();
        let field = |at: usize| fields.get(at).copied();
        write("process_resident_memory_bytes", "Memory in use", field(20).map(|pages| pages * PAGE))?;
        write("process_virtual_memory_bytes", "Memory mapped", field(19))?;
        write(
            "process_open_fds",
            "Open files",
            fs::read_dir("/proc/self/fd").ok().map(|d| count(d.count())),
        )?;
        write("process_max_fds", "How many files may be open", max_files())?;
        write(
            "process_start_time_seconds",
            "When the program was started, in seconds since 1970",
            field(18).and_then(started),
        )?;
        if let Some((user, system)) = field(10).zip(field(11)) {
            let help = "Processor time used";
            let metric =
                encoder.encode_descriptor("process_cpu_seconds_total", help, None, MetricType::Counter)?;
            // The encoder of counters would add a suffix to the name.
            ConstGauge::new((user + system) / TICKS).encode(metric)?;
        }
        Ok(())
    }
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn max_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok())
}

/// Returns the time of this many ticks after boot.
fn started(ticks: f64) -> Option<f64> {
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs_f64();
    Some(now - uptime + ticks / TICKS)
}
