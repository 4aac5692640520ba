//! `portcullis store`: moves the objects of a cluster between an embedded store, etcd and a directory of YAML, checks them, and
//! rewrites them in today's form (ET-60).

mod check;
mod directory;
mod export;
mod import;
mod rewrite;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use portcullis_server::registry::content::Unreadable;

use crate::engine_flags::runtime;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::terminal::plain;

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

/// Reports a value that cannot be read.
fn report(progress: &mut Progress, Unreadable { key, why }: &Unreadable) {
    progress.clear();
    eprintln!("error: {}", plain(&format!("the value of {key} {why}")));
}

/// The usual name of a resource that is written as in keys: `deployments.apps` for `apps/deployments`.
fn usual_name(resource: &str) -> String {
    match resource.split_once('/') {
        Some(("core", plural)) => plural.to_owned(),
        Some((group, plural)) => format!("{plural}.{group}"),
        None => resource.to_owned(),
    }
}

/// `1 object`, `2 objects`.
fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
