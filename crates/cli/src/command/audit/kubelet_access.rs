//! `portcullis audit kubelet-access`: lists the holders of `nodes/proxy`, and sufficient replacements.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use portcullis_policy::audit::kubelet_access::{Evidence, Objects, replacements};
use portcullis_policy::features::FeatureGates;
use portcullis_policy::kubelet_api::Settings;
use portcullis_policy::objects::Kind;
use portcullis_policy::rbac::default_policy;
use serde_json::Value;

use super::print_access as print;
use crate::cluster_source::{ClusterFlags, ClusterSource};
use crate::failure::Failure;
use crate::lines::Lines;
use crate::store_flags::EtcdSourceFlags;

/// List everybody who holds nodes/proxy and so can run code in every container, and print sufficient permissions
/// instead
///
/// Holders of `get nodes/proxy` can run commands in any container of a node: a WebSocket is opened by a GET, and a
/// kubelet checks no other verb. The list contains users, groups and service accounts that hold it with any verb, by
/// any ClusterRoleBinding: by name, by */proxy, by *, and through aggregated ClusterRoles. RoleBindings grant nothing
/// on nodes. Authorization modes other than RBAC are not considered. With --etcd-servers the roles and bindings are those
/// of etcd at one revision, which is only read.
///
/// With a log of the actual use, the printed rules allow exactly that. Without one they are an estimate: the finer
/// subresources that cover reading.
///
/// Exit codes: 0 nobody holds it; 1 somebody does; 2 bad flags or input; 3 the cluster cannot be read, or the output
/// cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct KubeletAccessArgs {
    /// RBAC objects in the output format of `kubectl get -o json|yaml`: a file, or a directory that is read recursively
    /// (.json .yaml .yml). Repeatable [default: those of the cluster of the kubeconfig]
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "etcd_servers")]
    state: Vec<PathBuf>,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long)]
    default_policy: bool,

    #[command(flatten)]
    source: EtcdSourceFlags,

    /// The actual use, from the access log of `portcullis guard`, one JSON object per line. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Evidence")]
    access_log: Vec<PathBuf>,

    /// The actual use, from the audit log of an API server, one event (audit.k8s.io/v1) per line. It requires level
    /// Request for subjectaccessreviews, and Metadata for nodes/proxy. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Evidence")]
    audit_log: Vec<PathBuf>,

    /// Print nodes/exec, nodes/attach, nodes/run, nodes/portforward and nodes/containerlogs where they are sufficient:
    /// a guard can be configured to check them, a kubelet does not
    #[arg(long, help_heading = "Evidence")]
    finer_subresources: bool,

    /// Leave this group out, for instance system:masters. Repeatable
    #[arg(long, value_name = "NAME", help_heading = "Well-known holders")]
    ignore_group: Vec<String>,

    /// Leave out permissions that are held through this ClusterRole, for instance system:kubelet-api-admin.
    #[arg(long, value_name = "NAME", help_heading = "Well-known holders")]
    ignore_role: Vec<String>,

    /// The output format: a table for people, with the rules below it; a wide one, with binding, role and rule;
    /// everything as JSON; only the rules as YAML, for kubectl apply; or the names of the holders
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

const EXAMPLES: &str = "\
Examples:
  portcullis audit kubelet-access
  kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o json > rbac.json
  portcullis audit kubelet-access --state rbac.json
  portcullis audit kubelet-access --etcd-servers http://127.0.0.1:2379
  portcullis audit kubelet-access --state rbac.json --ignore-group system:masters --ignore-role system:kubelet-api-admin
  portcullis audit kubelet-access --state rbac.json --access-log guard.jsonl -o yaml | kubectl apply -f -";

/// The kinds that the audit reads.
const KINDS: [Kind; 4] = [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];
/// The name of the audit in lists of what is incomplete.
const RULE: &str = "kubelet-access";

/// Runs the command.
///
/// # Errors
/// Flags, objects or lines are invalid; nothing was written to standard output.
pub(super) fn run(args: &KubeletAccessArgs) -> Result<ExitCode, Failure> {
    let (objects, revision) = objects(args)?;
    let report = objects.report().without(&args.ignore_group, &args.ignore_role);
    let evidence = evidence(args)?;
    let replacements = replacements(&report, evidence.as_ref());
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Table => print::table(&mut out, &report, &replacements, revision, false)?,
        Output::Wide => print::table(&mut out, &report, &replacements, revision, true)?,
        Output::Json => print::json(&mut out, &report, &replacements, revision)?,
        Output::Yaml => print::manifests(&mut out, &replacements)?,
        Output::Name => print::names(&mut out, &report)?,
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(!report.holders.is_empty())))
}

/// Reads the objects, and the revision if they are those of etcd.
fn objects(args: &KubeletAccessArgs) -> Result<(Objects, Option<u64>), Failure> {
    let mut objects = Objects::default();
    if args.default_policy {
        for object in default_policy::objects(FeatureGates::default()) {
            objects.take(object);
        }
    }
    let mut sink = |object: portcullis_policy::objects::Object<'_>| {
        objects.take(object);
        Ok(())
    };
    let source = ClusterSource { state: &args.state, etcd: &args.source, cluster: &args.cluster };
    let reading = source.read(&KINDS.into(), &[RULE], &mut sink)?;
    // What etcd has and cannot be used was told; a list that a cluster does not give may hold anything.
    match reading.incomplete.first().filter(|_| reading.revision.is_none()) {
        Some(missing) => Err(Failure::unreachable(&missing.detail)),
        None => Ok((objects, reading.revision)),
    }
}

/// Reads the logs; none without a log.
fn evidence(args: &KubeletAccessArgs) -> Result<Option<Evidence>, Failure> {
    if args.access_log.is_empty() && args.audit_log.is_empty() {
        return Ok(None);
    }
    let settings = Settings { finer_subresources: args.finer_subresources, ..Settings::default() };
    let mut evidence = Evidence::new(settings);
    for path in &args.access_log {
        each(path, |line| evidence.take_access(line))?;
    }
    for path in &args.audit_log {
        each(path, |line| evidence.take_audit(line).map(drop))?;
    }
    Ok(Some(evidence))
}

fn each(path: &std::path::Path, mut take: impl FnMut(&Value) -> Result<(), String>) -> Result<(), Failure> {
    let lines = Lines::read(Some(path))?;
    for (number, line) in lines.iter() {
        let value: Value = serde_json::from_str(line).map_err(|error| lines.fault(number, error))?;
        take(&value).map_err(|reason| lines.fault(number, reason))?;
    }
    Ok(())
}
