//! `portcullis preflight`: makes the decisions of an audit log again, by other modes, rules and objects (AU-6, AU-154).

use std::fmt::Display;
use std::hash::RandomState;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use portcullis_policy::chain::{Chain, Mode};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::rehearsal::{Kept, Lost, Rehearsal, Report, Summary, each_event};

use crate::audit_log::{AuditLogs, Line};
use crate::engine_flags::{EngineFlags, load_from};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::store_flags::EtcdSourceFlags;
use crate::terminal::{self, plain};
use crate::yaml;

/// Make the decisions of an audit log again, and report what would differ
///
/// Reads audit events of an API server (audit.k8s.io/v1, level Metadata or higher), one Event or EventList per line, plain or
/// compressed with gzip or zstd. Each request is decided again by the given modes and rules over a snapshot of the cluster, and compared
/// with the decision that the log tells of. The snapshot is that of files (--state), or of etcd at one revision
/// (--etcd-servers), which is only read. Group system:masters is allowed everything, as by an API server.
///
/// A request that cannot be decided again is unknown, and the report gives the reason. Most are requests of nodes for objects that
/// no longer exist. Admission is not rehearsed. docs/rehearsal.md is a tutorial, also for a running API server.
///
/// Exit codes: 0 nothing differs; 1 something differs, is unknown or cannot be read, or there was nothing to judge; 2 bad flags
/// or input; 3 etcd cannot be read, or the output cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PreflightArgs {
    /// The audit log; - for standard input. Repeatable
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    audit_log: Vec<PathBuf>,

    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    source: EtcdSourceFlags,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,

    /// The output format: a table; a wide one, with the first request of each row whole; everything as JSON; or, as YAML, the roles
    /// that keep working what would be refused
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
}

const EXAMPLES: &str = "\
Examples:
  portcullis preflight --audit-log audit.log --state cluster.json
  portcullis preflight --audit-log audit-*.log.gz --state cluster.json -o wide
  portcullis preflight --audit-log audit.log --state cluster.json \\
    --authorization-mode Deny,Node,RBAC --deny-file deny.yaml
  portcullis preflight --audit-log audit.log --state planned.yaml -o yaml > roles.yaml";

/// How many damaged lines are named.
const NAMED: u64 = 20;

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid, or a log cannot be read.
pub fn run(args: &PreflightArgs) -> Result<ExitCode, Failure> {
    let logs = AuditLogs::find(&args.audit_log)?;
    let config = EngineConfig { default_policy: args.default_policy, ..args.engine.config()? };
    let gates = config.gates;
    if args.output == Output::Yaml && !config.modes.contains(&Mode::Rbac) {
        return Err(Failure::input(
            "-o yaml: without mode RBAC no role keeps anything working: add it to --authorization-mode",
        ));
    }
    let engine = load_from(config, &args.engine.state, &args.source, false)?;
    let mut rehearsal = Rehearsal::new(gates, RandomState::new());
    if args.output == Output::Yaml {
        rehearsal = rehearsal.keeping_roles();
    }
    let lost = rehearse(&logs, &mut rehearsal, &engine.chain().clone().with_masters())?;
    let report = Report::new(rehearsal.tally(), lost);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Table => write!(out, "{}", report.table(terminal::width(), false))?,
        Output::Wide => write!(out, "{}", report.table(terminal::width(), true))?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        Output::Yaml => manifests(&mut out, &rehearsal.roles(), &report)?,
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(report.summary() != Summary::NothingDiffers)))
}

/// Prints the roles for `kubectl apply`. What to know about them are comments.
fn manifests(out: &mut dyn Write, roles: &[Kept], report: &Report<'_>) -> io::Result<()> {
    if roles.is_empty() {
        writeln!(out, "# nothing that was allowed would be refused: no role is needed")?;
    }
    for Kept { subject, remarks, objects } in roles {
        writeln!(out, "# {}", plain(&subject.to_string()))?;
        remarks.iter().try_for_each(|remark| writeln!(out, "# {}", plain(remark)))?;
        objects.iter().try_for_each(|object| write!(out, "---\n{}", yaml::block(object)))?;
    }
    if report.has_refused_without_row() {
        writeln!(
            out,
            "# more would be refused than rows are kept: run this again with these roles in the state"
        )?;
    }
    Ok(())
}

/// Judges every event of the logs.
fn rehearse(logs: &AuditLogs, rehearsal: &mut Rehearsal, chain: &Chain) -> Result<Lost, Failure> {
    let mut progress = Progress::new("kilobytes of the audit log read");
    let mut lost = Lost::default();
    let mut damaged = 0;
    let mut damage = |progress: &mut Progress, path: &Path, number: usize, reason: &dyn Display| {
        damaged += 1;
        if damaged <= NAMED {
            progress.clear();
            eprintln!("warning: {}:{number}: {}", path.display(), plain(&reason.to_string()));
        }
    };
    logs.each(&mut |path, line| {
        match line {
            Line::Text(number, text) => {
                let mut faults = Vec::new();
                let read = each_event(text, &mut |event| {
                    // Many items of a list may be damaged. One names the line.
                    if let (Err(reason), true) = (&event, faults.is_empty()) {
                        faults.push(reason.clone());
                    }
                    rehearsal.take(event, Some(chain));
                });
                faults.iter().for_each(|reason| damage(&mut progress, path, number, reason));
                if let Err(error) = read {
                    lost.unreadable += 1;
                    damage(&mut progress, path, number, &error);
                }
            }
            Line::Damaged(number, reason) => {
                lost.unreadable += 1;
                damage(&mut progress, path, number, &reason);
            }
        }
        if let Some((done, total)) = logs.progress() {
            progress.at(done / 1024, total / 1024);
        }
    })?;
    progress.clear();
    if damaged > NAMED {
        eprintln!("warning: {} more lines cannot be read", damaged - NAMED);
    }
    Ok(lost)
}
