//! `portcullis audit`: finds dangerous permissions among the objects of a cluster.

mod kubelet_access;
mod print;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Find dangerous permissions among the objects of a cluster
#[derive(Args, Debug)]
pub struct AuditArgs {
    #[command(subcommand)]
    what: What,
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
        What::KubeletAccess(args) => kubelet_access::run(args),
    }
}
