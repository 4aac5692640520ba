//! `portcullis audit`: what gives a thief of a node more than the node (AU-1), and who can run code through kubelets (AU-8).
//!
//! * `run`: the flags, from the state to the answer
//! * `selection`: what of it is shown: rules, exclusions, a baseline
//! * `print`, `sarif`: the forms of the answer
//! * `fixes`: files for kubectl; `places`: files and lines of the evidence
//! * `html`: the page, which `reach` writes too
//! * `kubelet_access`: the holders of `nodes/proxy`

mod fixes;
mod form;
pub(super) mod html;
mod kubelet_access;
mod kubelets;
mod logs;
mod places;
mod print;
mod print_access;
mod run;
mod sarif;
mod selection;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Find what gives a thief of one node more than that node: permissions, workloads, secrets, settings of kubelets and API servers
///
/// Each finding says how bad it is, whom it is about, why, and what to change. Rules that cannot be checked, because the state lacks
/// something, are named as not checked: nothing is called safe because it is not known. Permissions that the default policy of
/// Kubernetes grants are no findings.
///
/// The state is what `kubectl get -o json|yaml` prints, and manifests as they are kept in Git. Values of Secrets are skipped while
/// reading. Nothing is written to a cluster.
///
/// Exit codes: 0 nothing at or above --fail-on; 1 something, or a part of the cluster was refused or could not be read; 2 bad flags or
/// input; 3 the cluster cannot be reached, or the output cannot be written.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = run::EXAMPLES)]
pub struct AuditArgs {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    findings: run::FindingsArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    KubeletAccess(kubelet_access::KubeletAccessArgs),
}

/// Runs the command.
///
/// # Errors
/// Flags or input are invalid; nothing was written to standard output.
pub fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        Some(What::KubeletAccess(args)) => kubelet_access::run(args),
        None => run::run(&args.findings),
    }
}
