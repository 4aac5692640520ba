//! `portcullis webhook`: the decisions of Portcullis beside a kube-apiserver.

mod configure;
mod rbac;
mod run;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Answer the authorization and admission webhooks of a kube-apiserver
///
/// Follows the objects of the cluster that decisions depend on, or reads fixed ones (--state), and answers over HTTPS:
/// POST /authorize (SubjectAccessReview), POST /admit (AdmissionReview), POST /audit (EventList), GET /shadow, /livez, /readyz,
/// /healthz, /metrics and /configz.
/// "No" is no opinion, so that the authorizers after the webhook decide; a write of a node that NodeRestriction does not admit
/// is refused.
///
/// A node that asks for an object of a pod that has not arrived here yet waits for it (--wait-for-graph). Of what was not
/// heard of for too long (--max-staleness) there is no opinion, and writes of nodes are refused.
///
/// The decisions of audit events are made again by the same modes, and change nothing; /shadow reports what differs
/// (?output=table, wide or json).
///
/// docs/webhook.md is a tutorial; docs/rehearsal.md is one for audit events.
///
/// Exit codes: 0 stopped; 2 bad flags or input; 3 the address is not available.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = run::EXAMPLES)]
pub struct WebhookArgs {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Other {
    Configure(configure::ConfigureArgs),
    Rbac(rbac::RbacArgs),
}

/// Runs the command.
///
/// # Errors
/// Flags or files are invalid, or the address is not available.
pub fn run(args: &WebhookArgs) -> Result<ExitCode, Failure> {
    match &args.other {
        None => run::run(&args.run),
        Some(Other::Configure(args)) => configure::run(args),
        Some(Other::Rbac(args)) => rbac::run(args),
    }
}
