//! The flags of the audit log, under kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use portcullis_server::audit::sink::Rotation;
use portcullis_server::audit::{Audit, AuditMetrics, Mode, Policy, Sink, SinkOptions, WhenFull};

use crate::failure::Failure;

const MEGABYTE: u64 = 1024 * 1024;
const DAY: u64 = 24 * 60 * 60;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Audit log")]
pub struct AuditFlags {
    /// The file of the audit policy, which selects the logged requests and their level: an audit.k8s.io/v1 Policy in
    /// YAML or JSON
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,

    /// The file of the audit log, with one JSON object per line; - for standard output
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,

    /// Whether requests wait for their audit events
    ///
    /// DIVERGES from kube-apiserver, where blocking is the default.
    #[arg(long, value_name = "MODE", default_value = "batch")]
    audit_log_mode: AuditLogMode,

    /// In mode batch, whether requests wait or events are dropped when events cannot be written as fast as requests come
    ///
    /// DIVERGES from kube-apiserver, which drops events.
    #[arg(long, value_name = "ACTION", default_value = "wait")]
    audit_log_when_full: AuditLogWhenFull,

    /// Days that rotated files are kept; 0 for unlimited
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    audit_log_maxage: u32,

    /// The number of rotated files that are kept; 0 for all
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    audit_log_maxbackup: usize,

    /// The size in megabytes at which a file is rotated; 0 for never
    #[arg(long, value_name = "MB", default_value_t = 100)]
    audit_log_maxsize: u32,

    /// Compress rotated files
    #[arg(long)]
    audit_log_compress: bool,
}

/// See [`Mode`].
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuditLogMode {
    /// Requests do not wait until events are written; see --audit-log-when-full
    Batch,
    /// Requests wait until the event is written
    Blocking,
    /// Requests wait, and are refused if their first event cannot be written
    BlockingStrict,
}

/// See [`WhenFull`].
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuditLogWhenFull {
    /// Requests wait for space in the queue before anything is done, and are refused if there is none in time; only
    /// events of unauthenticated reads are dropped
    Wait,
    /// Requests never wait; events are dropped and counted
    Drop,
}

impl AuditFlags {
    /// Opens the audit log, if the flags configure one.
    ///
    /// DIVERGES: kube-apiserver starts without an audit log if only one of the two flags is set.
    ///
    /// # Errors
    /// Only one of the flags is set, the policy is invalid, or the file cannot be written.
    pub fn open(&self, metrics: &AuditMetrics) -> Result<Option<Audit>, Failure> {
        let (policy, log) = match (&self.audit_policy_file, &self.audit_log_path) {
            (None, None) => return Ok(None),
            (Some(policy), Some(log)) => (policy, log),
            (Some(_), None) => {
                return Err(Failure::input("--audit-policy-file requires --audit-log-path"));
            }
            (None, Some(_)) => {
                return Err(Failure::input("--audit-log-path requires --audit-policy-file"));
            }
        };
        let name = policy.display();
        let text = std::fs::read_to_string(policy).map_err(|error| {
            Failure::input(format_args!("cannot read --audit-policy-file {name}: {error}"))
        })?;
        let policy = Policy::read(&text)
            .map_err(|error| Failure::input(format_args!("--audit-policy-file {name}: {error}")))?;
        let options = SinkOptions {
            name: "audit log",
            path: (log.as_os_str() != "-").then(|| log.clone()),
            mode: match self.audit_log_mode {
                AuditLogMode::Batch => Mode::Batch,
                AuditLogMode::Blocking => Mode::Blocking,
                AuditLogMode::BlockingStrict => Mode::BlockingStrict,
            },
            when_full: match self.audit_log_when_full {
                AuditLogWhenFull::Wait => WhenFull::Wait,
                AuditLogWhenFull::Drop => WhenFull::Drop,
            },
            rotation: Rotation {
                max_bytes: u64::from(self.audit_log_maxsize) * MEGABYTE,
                max_files: self.audit_log_maxbackup,
                max_age: Duration::from_secs(u64::from(self.audit_log_maxage) * DAY),
                compress: self.audit_log_compress,
            },
        };
        let sink = Sink::open(&options, metrics.sink.clone())
            .map_err(|error| Failure::unreachable(format_args!("--audit-log-path: {error}")))?;
        Ok(Some(Audit::new(policy, sink, metrics.clone())))
    }
}
