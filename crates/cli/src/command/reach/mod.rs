//! `portcullis reach`: what each node reaches, by itself and in the end (AU-2).

mod dot;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::reach::{
    self, Asked, Closure, ClusterAdmin, NodeReach, ReachMap, Report, Wanted,
};
use portcullis_policy::engine::EngineConfig;
use serde_json::Value;

use super::audit::html::{self, Content};
use crate::audit_source::{AuditSource, KubeletFlags, Reading, tell_missing};
use crate::cluster_source::ClusterFlags;
use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::{table, time, yaml};

/// Show what each node reaches: what a stolen node could read, and what follows from that
///
/// By itself a node reaches what the Node authorizer allows it: the secrets and volumes of its pods, and tokens of their service
/// accounts. In the end it also has the rights of these accounts, and the pods, nodes and secrets that those open. With JSON,
/// each of them comes with the shortest path: the edges, and the binding, role and rule that make them.
///
/// What it leaves out: where pods will be scheduled by chance, networks, the cloud credentials of machines, container images,
/// admission other than NodeRestriction and pod security labels, and resources that others have defined.
///
/// The state is what `kubectl get -o json|yaml` prints, or an archive of `portcullis collect`; without --state the cluster of the
/// kubeconfig is read. What is not in it is named on the standard error, and in JSON as `incomplete`: nothing is called safe because
/// it is not known.
///
/// Exit codes: 0 answered; 1 a part of the cluster was refused or could not be read; 2 bad flags or input; 3 the cluster cannot be
/// reached, or the output cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReachArgs {
    /// Only this node. Repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,

    /// Only what nodes reach by themselves
    #[arg(long)]
    direct: bool,

    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// List Secrets and ConfigMaps of the cluster too, as their metadata alone. The right to list them gives their values too
    #[arg(long, help_heading = "Cluster")]
    secret_metadata: bool,

    /// Exit with 0 although a part of the cluster was refused or could not be read
    #[arg(long)]
    allow_incomplete: bool,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,

    /// The order of the nodes: by name, or who reaches most first
    #[arg(long, value_name = "ORDER", default_value = "name")]
    sort: Order,

    /// How many paths to nodes, service accounts and secrets are described in JSON, of each kind, the nearest first
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    paths: usize,

    /// Also name, in JSON and YAML, what nodes reach by themselves and no object has: who can create it chooses what they read
    #[arg(long)]
    wide: bool,

    /// The time at which bootstrap tokens must be valid, as 2026-01-31T12:00:00Z or 2026-01-31 [default: now]
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// The form of the answer: table with counts; wide, with the path to everything; json or yaml with everything; dot for Graphviz;
    /// or html for a page. FORM=FILE writes to a file; repeatable
    #[arg(short, long, value_name = "FORM[=FILE]", default_value = "table")]
    output: Vec<Output<Form>>,

    /// The file for the form that has none of its own [default: standard output]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Name,
    Reach,
}

/// A form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Wide,
    Json,
    Yaml,
    Dot,
    Html,
}

const EXAMPLES: &str = "\
Examples:
  portcullis reach
  portcullis reach --state cluster.json
  portcullis reach --state cluster.json --sort reach -o wide
  portcullis reach --state cluster.json --node node-1 -o json
  portcullis reach --state cluster.json -o html=reach.html
  portcullis reach --state cluster.json --node node-1 -o dot | dot -Tsvg > reach.svg
  portcullis reach --state cluster.json --direct -o yaml";

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid; nothing was written to standard output.
pub fn run(args: &ReachArgs) -> Result<ExitCode, Failure> {
    let outputs = output::all(&args.output, args.output_file.as_deref())?;
    let has = |forms: &[Form]| outputs.iter().any(|output| forms.contains(&output.form));
    let has_page = has(&[Form::Html]);
    if has_page && (args.direct || !args.node.is_empty()) {
        return Err(Failure::input(
            "-o html: a page shows what all nodes reach in the end: leave out --direct and --node",
        ));
    }
    let now = args.now.as_deref().map_or_else(|| Ok(Timestamp::now()), time::parse)?;
    let config = EngineConfig { default_policy: args.default_policy, ..args.engine.config()? };
    let source = AuditSource {
        state: &args.engine.state,
        cluster: &args.cluster,
        secret_metadata: args.secret_metadata,
        // Reach does not depend on the configuration of kubelets.
        kubelets: &KubeletFlags::default(),
    };
    let Reading { state, incomplete, .. } = source.read(config)?;
    let nodes = state.nodes();
    if let Some(name) = args.node.iter().find(|name| !nodes.contains(name.as_str())) {
        return Err(Failure::input(format_args!("--node {name:?}: the state has no such node")));
    }
    let has_paths = has(&[Form::Json, Form::Yaml, Form::Wide, Form::Dot]);
    let wanted = Wanted {
        nodes: args.node.clone(),
        direct_alone: args.direct,
        absent: args.wide,
        paths: if has_paths { args.paths } else { 0 },
    };
    let is_expired = |expiration: &str| time::parse(expiration).is_ok_and(|end| end <= now);
    let asked = Asked { is_expired: &is_expired };
    let map = if has_page { ReachMap::of(&state, &asked) } else { ReachMap::default() };
    let mut report = match has_paths || has(&[Form::Table]) {
        true => reach::report(&state, &wanted, &asked),
        false => Report { nodes: Vec::new(), incomplete: map.incomplete.clone() },
    };
    unanswered(&mut report, incomplete);
    if args.sort == Order::Reach {
        report.nodes.sort_by_key(|node| std::cmp::Reverse(size(node)));
    }
    for output in &outputs {
        output.write(&|form, out| match form {
            Form::Table => table::columns(out, &tables::rows(&report, false)),
            Form::Wide => table::columns(out, &tables::rows(&report, true)),
            Form::Json => writeln!(out, "{:#}", value(&report)),
            Form::Yaml => write!(out, "{}", yaml::block(&value(&report))),
            Form::Dot => dot::write(out, &report),
            Form::Html => {
                let incomplete = report.incomplete.clone();
                html::write(out, &Content { map: &map, audited: None, incomplete })
            }
        })?;
    }
    tell_missing(&report.incomplete);
    // AU-22
    let is_partial = report.incomplete.iter().any(|missing| missing.why.is_failure());
    Ok(ExitCode::from(u8::from(is_partial && !args.allow_incomplete)))
}

fn value(report: &Report) -> Value {
    // Serializing strings, numbers and lists cannot fail.
    serde_json::to_value(report).unwrap_or_default()
}

/// How much a node reaches, as nodes are compared (AU-67).
fn size(node: &NodeReach) -> (bool, bool, usize, usize, usize) {
    match &node.closure {
        Some(Closure { cluster_admin, counts, .. }) => (
            *cluster_admin == ClusterAdmin::Yes,
            *cluster_admin == ClusterAdmin::Conditional,
            counts.secrets.count,
            counts.pods.count,
            counts.nodes,
        ),
        None => (false, false, node.direct.secrets.len(), node.direct.pods.len(), 0),
    }
}

/// The inputs beside objects on which reach depends.
const ALSO_NEEDED: [&str; 1] = ["kube-apiserver-version"];

/// Adds what was refused, in place of that it was not given.
fn unanswered(report: &mut Report, incomplete: Vec<Incomplete>) {
    for missing in incomplete.into_iter().filter(|missing| ALSO_NEEDED.contains(&&*missing.input)) {
        for known in report.incomplete.iter_mut().filter(|known| known.input == missing.input) {
            known.why = missing.why;
            known.detail = format!("{}; {}", missing.detail, known.detail);
        }
    }
}
