//! `portcullis can-i`: answers one access check of a user over a snapshot of a cluster.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use portcullis_policy::engine::EngineConfig;

use crate::engine_flags::{EngineFlags, load_from};
use crate::failure::Failure;
use crate::question::QuestionFlags;
use crate::store_flags::EtcdSourceFlags;
use crate::user_flags::UserFlags;

/// Check whether a user may do something, over a snapshot of a cluster
///
/// The snapshot is that of files (--state), or of etcd at one revision (--etcd-servers), which is only read.
///
/// The arguments are those of `kubectl auth can-i`: VERB TYPE, VERB TYPE/NAME, VERB TYPE NAME, or VERB /PATH. TYPE is
/// plural, singular or short (pods, pod, po) and may include its group (deployments.apps, deployments.v1.apps).
///
/// The user gets the groups that an API server adds to an impersonated user: system:authenticated, and without
/// --as-group those of a service account. They are named on the standard error. For a node pass --as-group system:nodes,
/// which its certificate says and not its name.
///
/// Exit codes: 0 yes; 1 no; 2 bad flags or input; 3 etcd cannot be read, or the output cannot be
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
    source: EtcdSourceFlags,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,
}

const EXAMPLES: &str = "\
Examples:
  portcullis can-i --state cluster.json --as system:node:n1 --as-group system:nodes get secrets/db -n shop --explain
  portcullis can-i --state cluster.json --as system:serviceaccount:shop:web create deploy -n shop
  portcullis can-i --default-policy --as anyone get /version
  portcullis can-i --etcd-servers http://127.0.0.1:2379 --as jane list pods -n shop";

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid, or the question makes no sense.
pub fn run(args: &CanIArgs) -> Result<ExitCode, Failure> {
    let question = args.question.read()?;
    let user = args.user.user(args.quiet)?;
    let config = EngineConfig { default_policy: args.default_policy, ..args.engine.config()? };
    let engine = load_from(config, &args.engine.state, &args.source, args.quiet)?;
    let attributes = question.attributes(&user);
    let outcome = engine.chain().decide(&attributes);
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
            writeln!(out, "\n{}", engine.chain().explain(&attributes))?;
        }
    }
    Ok(ExitCode::from(u8::from(!allowed)))
}
