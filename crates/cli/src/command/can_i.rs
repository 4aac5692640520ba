//! `portcullis can-i`: answers one access check of a user over a snapshot of a cluster.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use portcullis_policy::Attributes;
use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::explain;
use portcullis_policy::engine::{Builder, Engine, EngineConfig};

use crate::cluster_source::{ClusterFlags, ClusterSource};
use crate::engine_flags::{EngineFlags, load_from};
use crate::failure::Failure;
use crate::program_name;
use crate::question::{DEFAULT_NAMESPACE, QuestionFlags};
use crate::store_flags::EtcdSourceFlags;
use crate::user_flags::UserFlags;

/// Check whether a user may do something, over a snapshot of a cluster
///
/// The snapshot is that of files (--state), of etcd at one revision (--etcd-servers), or else of the cluster of the kubeconfig. It is
/// only read. --default-policy alone is a state, too: no cluster is asked then, unless --kubeconfig or --context name one.
///
/// The arguments are those of `kubectl auth can-i`: VERB TYPE, VERB TYPE/NAME, VERB TYPE NAME, or VERB /PATH. TYPE is
/// plural, singular or short (pods, pod, po) and may include its group (deployments.apps, deployments.v1.apps).
///
/// The user gets the groups that an API server adds to an impersonated user: system:authenticated, and without
/// --as-group those of a service account. They are named on the standard error. For a node pass --as-group system:nodes,
/// which its certificate says and not its name.
///
/// Exit codes: 0 yes; 1 no; 2 bad flags or input; 3 etcd or the cluster cannot be read, or the output cannot be
/// written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CanIArgs {
    #[command(flatten)]
    question: QuestionFlags,

    #[command(flatten)]
    user: UserFlags,

    /// Explain the decision as the modes are asked, until one decides: by which path or rule, or the nearest match and what is
    /// missing. `portcullis explain` finds every path and rule of every mode, and more near misses
    #[arg(long)]
    explain: bool,

    /// Print nothing; the exit code is the answer
    #[arg(short, long, conflicts_with = "explain")]
    quiet: bool,

    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    source: EtcdSourceFlags,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,
}

const EXAMPLES: &str = "\
Examples:
  portcullis can-i list secrets -n shop --as jane
  portcullis can-i --state cluster.json --as system:node:n1 --as-group system:nodes get secrets/db -n shop --explain
  portcullis can-i --state cluster.json --as system:serviceaccount:shop:web create deploy -n shop
  portcullis can-i --default-policy --as anyone get /version
  portcullis can-i --etcd-servers http://127.0.0.1:2379 --as jane list pods -n shop";

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid, the question makes no sense, or the objects cannot be read.
pub fn run(args: &CanIArgs) -> Result<ExitCode, Failure> {
    let source = ClusterSource { state: &args.engine.state, etcd: &args.source, cluster: &args.cluster };
    let asks_cluster = source.is_cluster() && (args.cluster.is_given() || !args.default_policy);
    args.cluster.check(!args.engine.state.is_empty(), args.source.etcd.is_given())?;
    let namespace = if asks_cluster { source.namespace() } else { DEFAULT_NAMESPACE.to_owned() };
    let find = |written: &_| if asks_cluster { source.find_type(written) } else { None };
    let question = args.question.read(&namespace, find)?;
    let user = args.user.user(args.quiet)?;
    let config = EngineConfig { default_policy: args.default_policy, ..args.engine.config()? };
    let attributes = question.attributes(&user);
    let engine = match asks_cluster {
        true => of_cluster(&source, config, &attributes)?,
        false => load_from(config, &args.engine.state, &args.source, args.quiet)?,
    };
    let outcome = engine.authorize(&attributes);
    let allowed = outcome.is_allow();
    if !args.quiet {
        let mut out = std::io::stdout().lock();
        let reason = outcome.reason(&attributes);
        let reason = if allowed || reason.is_empty() {
            String::new()
        } else {
            format!(" - {}", reason.replace('\n', "; "))
        };
        writeln!(out, "{}{reason}", if allowed { "yes" } else { "no" })?;
        if args.explain {
            writeln!(out, "\n{}", engine.explain(&attributes))?;
        }
    }
    Ok(ExitCode::from(u8::from(!allowed)))
}

/// An engine over the objects of the cluster that decide this request. Without all of them the answer is not known.
fn of_cluster(
    source: &ClusterSource<'_>,
    config: EngineConfig,
    attributes: &Attributes<'_>,
) -> Result<Engine, Failure> {
    let kinds = explain::deciding_kinds(&config, attributes);
    let mut builder = Builder::new(config).map_err(Failure::input)?;
    let reading =
        source.read(&kinds, &[], &mut |object| builder.take(object).map_err(|error| error.to_string()))?;
    match reading.incomplete.first() {
        Some(Incomplete { input, detail, .. }) => Err(Failure::unreachable(format_args!(
            "the answer is not known without all {input} of the cluster: {detail}; `{} explain` answers from what can be read",
            program_name::of_this_process()
        ))),
        None => Ok(builder.finish()),
    }
}
