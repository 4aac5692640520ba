//! `portcullis audit`: what the objects of a cluster allow that they had better not.

mod kubelet_access;
mod print;
mod yaml;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Find what the objects of a cluster allow that they had better not
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
/// Flags or input that cannot be used; nothing has been written to standard output then.
pub fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        What::KubeletAccess(args) => kubelet_access::run(args),
    }
}
