//! From the flags and the state to the findings (AU-1, AU-150, AU-152).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use portcullis_pki::sha256;
use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::findings::{self, Severity, Usage, Wanted};
use portcullis_policy::audit::reach::{Asked, ReachMap};
use portcullis_policy::engine::EngineConfig;
use portcullis_server::certificate_requests::Pkcs10Reader;

use super::form::Form;
use super::html::{self, Audited, Content};
use super::selection::{self, Selected};
use super::{fixes, kubelets, logs, places, print, sarif};
use crate::audit_source::{AuditSource, KubeletFlags, Reading};
use crate::cluster_source::ClusterFlags;
use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::terminal::plain;
use crate::time;

/// See [`super::AuditArgs`].
#[derive(Args, Debug)]
pub(super) struct FindingsArgs {
    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    kubelets: KubeletFlags,

    /// Also list the Secrets and ConfigMaps of the cluster, without their values: this needs the right to read every value, and
    /// only the rules about tokens need it (PC114, PC126)
    #[arg(long, help_heading = "Cluster")]
    secret_metadata: bool,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,

    /// The configuration of a kubelet: a KubeletConfiguration, or the answer of /configz. Repeatable. Also read are files
    /// `kubelets/NODE.yaml`, `.json` and `.flags` below a directory of --state
    #[arg(long, value_name = "NODE=FILE", help_heading = "State and authorizers")]
    kubelet_config: Vec<String>,

    /// The audit log of an API server (audit.k8s.io/v1), plain or compressed with gzip or zstd; - for standard input. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Evidence")]
    audit_log: Vec<PathBuf>,

    /// How long an audit log must be before a permission counts as unused, in days
    #[arg(long, value_name = "DAYS", default_value_t = 7, help_heading = "Evidence")]
    unused_after: u32,

    /// The number of nodes that may reach a secret by themselves (PC123)
    #[arg(long, value_name = "NUMBER", default_value_t = 10, help_heading = "Rules")]
    secret_nodes: usize,

    /// Only these rules, as PC101,PC111
    #[arg(long, value_name = "IDS", value_delimiter = ',', help_heading = "Rules")]
    rule: Vec<String>,

    /// Also findings about users and groups that no thief of a node has
    #[arg(long, help_heading = "Rules")]
    all_subjects: bool,

    /// Also what the default policy of Kubernetes grants, as info
    #[arg(long, help_heading = "Rules")]
    include_built_in: bool,

    /// Findings that are not to be shown: a YAML list of entries with id, subject (* for any text), reason and expires
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    exclude: Option<PathBuf>,

    /// The JSON or SARIF of an earlier run: what it has is not shown again, and what is there no more is named as fixed
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    baseline: Option<PathBuf>,

    /// Write what was found as a baseline for later runs
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    write_baseline: Option<PathBuf>,

    /// Write the fixes that can be applied into this folder, as files for kubectl, with the commands; nothing is applied
    #[arg(long, value_name = "DIR")]
    fix_output: Option<PathBuf>,

    /// The least severity with which the exit code is 1
    #[arg(long, value_name = "SEVERITY", default_value = "low")]
    fail_on: FailOn,

    /// Exit with 0 although a part of the cluster was refused or could not be read
    #[arg(long)]
    allow_incomplete: bool,

    /// The time at which bootstrap tokens and exclusions must be valid, as 2026-01-31T12:00:00Z or 2026-01-31 [default: now]
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// The form of the answer: table, wide, json, yaml, sarif, html for a page, or name for the subjects alone. FORM=FILE writes to a
    /// file; repeatable
    #[arg(short, long, value_name = "FORM[=FILE]", default_value = "table")]
    output: Vec<Output<Form>>,

    /// The file for the form that has none of its own [default: standard output]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
}

/// The least severity that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Critical,
    High,
    Medium,
    Low,
    Info,
    None,
}

impl FailOn {
    /// Whether a finding of this severity fails.
    fn includes(self, severity: Severity) -> bool {
        let least = match self {
            Self::Critical => Severity::Critical,
            Self::High => Severity::High,
            Self::Medium => Severity::Medium,
            Self::Low => Severity::Low,
            Self::Info => Severity::Info,
            Self::None => return false,
        };
        severity >= least
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  kubectl get nodes,pods,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings -A -o json > cluster.json
  portcullis audit --state cluster.json
  portcullis audit --state cluster.json --rule PC101,PC111 -o wide
  portcullis audit --state cluster.json -o html=audit.html
  portcullis audit --state manifests/ --baseline known.json --fail-on high -o sarif=findings.sarif
  portcullis audit --state cluster.json --audit-log audit.log -o json
  portcullis audit kubelet-access --state cluster.json";

/// The `rules` of a missing input on which no rule depends.
const RULES: &str = "audit";
/// The seconds of a day.
const DAY: i64 = 24 * 60 * 60;

pub(super) fn run(args: &FindingsArgs) -> Result<ExitCode, Failure> {
    let outputs = output::all(&args.output, args.output_file.as_deref())?;
    let now = args.now.as_deref().map_or_else(|| Ok(Timestamp::now()), time::parse)?;
    let config = EngineConfig {
        default_policy: args.default_policy,
        certificate_requests: Some(Arc::new(Pkcs10Reader)),
        ..args.engine.config()?
    };
    let source = AuditSource {
        state: &args.engine.state,
        cluster: &args.cluster,
        secret_metadata: args.secret_metadata,
        kubelets: &args.kubelets,
    };
    let Reading { state, incomplete, kubelets } = source.read(config)?;
    let kubelets = kubelets::read(&args.kubelet_config, &kubelets, &state)?;
    let mut usage = (!args.audit_log.is_empty()).then(|| Usage::new(&state));
    if let Some(usage) = &mut usage {
        logs::read(&args.audit_log, usage)?;
    }
    let is_expired = |expiration: &str| time::parse(expiration).is_ok_and(|end| end <= now);
    let wanted = Wanted {
        kubelets: &kubelets,
        usage: usage.as_ref(),
        secret_nodes: args.secret_nodes,
        unused_after: i64::from(args.unused_after).saturating_mul(DAY),
        all_subjects: args.all_subjects,
        include_built_in: args.include_built_in,
        asked: Asked { is_expired: &is_expired },
        digest: &sha256,
    };
    let mut report = findings::report(&state, &wanted);
    unanswered(&mut report.incomplete, incomplete);
    let today = now.to_zoned(TimeZone::UTC).date();
    let exclude = args.exclude.as_deref();
    let (mut selected, warnings) =
        selection::select(report, &args.rule, exclude, args.baseline.as_deref(), today)?;
    warnings.iter().for_each(|warning| eprintln!("warning: {}", plain(warning)));
    if let Some(path) = &args.write_baseline {
        selection::write_baseline(path, &selected)?;
    }
    if !args.engine.state.is_empty() && outputs.iter().any(|output| output.form.has_places()) {
        let suppressed = selected.suppressed.iter_mut().map(|suppressed| &mut suppressed.finding);
        let all = selected.report.findings.iter_mut().chain(suppressed);
        places::locate(&args.engine.state, all)?;
    }
    if let Some(folder) = &args.fix_output {
        fixes::write(folder, &selected.report.findings)?;
    }
    let has_page = outputs.iter().any(|output| output.form == Form::Html);
    let map = if has_page { ReachMap::of(&state, &wanted.asked) } else { ReachMap::default() };
    for output in &outputs {
        output.write(&|form, out| match form {
            Form::Table => print::table(out, &selected),
            Form::Wide => print::wide(out, &selected),
            Form::Json => {
                writeln!(out, "{:#}", serde_json::to_value(&selected).map_err(std::io::Error::other)?)
            }
            Form::Yaml => write!(out, "{}", selection::as_yaml(&selected)),
            Form::Name => print::names(out, &selected),
            Form::Sarif => writeln!(out, "{:#}", sarif::document(&selected)),
            Form::Html => html::write(out, &page(&map, &selected, &args.rule)),
        })?;
    }
    Ok(ExitCode::from(u8::from(fails(args, &selected))))
}

/// What is on the page: reach lacks more than findings do.
fn page<'a>(map: &'a ReachMap, selected: &'a Selected, rules: &'a [String]) -> Content<'a> {
    let mut incomplete = map.incomplete.clone();
    incomplete.extend(selected.report.incomplete.iter().cloned());
    incomplete.sort();
    Content { map, audited: Some(Audited { selected, rules }), incomplete }
}

/// Adds what a source could not give: in place of that it was not given, where a rule needs it.
fn unanswered(known: &mut Vec<Incomplete>, incomplete: Vec<Incomplete>) {
    for missing in incomplete {
        let mut same = known.iter_mut().filter(|known| known.input == missing.input).peekable();
        if same.peek().is_none() {
            known.push(Incomplete { rules: vec![RULES], ..missing });
            continue;
        }
        same.for_each(|known| {
            known.why = missing.why;
            known.detail = format!("{}; {}", missing.detail, known.detail);
        });
    }
    known.sort();
}

/// Whether the exit code is 1 (AU-22, AU-132).
fn fails(args: &FindingsArgs, selected: &Selected) -> bool {
    let is_partial = selected.report.incomplete.iter().any(|missing| missing.why.is_failure());
    let has_finding = selected.report.findings.iter().any(|finding| args.fail_on.includes(finding.severity));
    has_finding || (is_partial && !args.allow_incomplete)
}
