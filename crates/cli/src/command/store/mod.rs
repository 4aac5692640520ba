//! `portcullis store`: moves the objects of a cluster between an embedded store, etcd and a directory of YAML, checks them, and
//! rewrites them in today's form (ET-60).

mod check;
mod directory;
mod export;
mod import;
mod report;
mod rewrite;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::engine_flags::runtime;
use crate::failure::Failure;

/// Move the objects of a cluster, check them, and rewrite them in today's form
///
/// Works on the data directory of a server that is stopped (--data-dir), or on etcd (--etcd-servers). Objects that the store
/// encrypts need the --encryption-provider-config of its servers.
#[derive(Args, Debug)]
pub struct StoreArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Rewrite(rewrite::RewriteArgs),
    Check(check::CheckArgs),
}

/// Runs the command.
///
/// # Errors
/// Flags or files are invalid, or a store cannot be reached, read or written.
pub fn run(args: &StoreArgs) -> Result<ExitCode, Failure> {
    runtime()?.block_on(async {
        match &args.what {
            What::Export(args) => export::run(args).await,
            What::Import(args) => import::run(args).await,
            What::Rewrite(args) => rewrite::run(args).await,
            What::Check(args) => check::run(args).await,
        }
    })
}
