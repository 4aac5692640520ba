//! `portcullis bootstrap`: creates and revokes the credentials with which machines authenticate before they have an
//! identity of their own (NB-10 to NB-37).

mod check;
mod cluster;
mod common;
mod confirm;
mod control_plane;
mod inventory;
mod output;
mod token;
mod worker;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::common::ListArgs;
use crate::failure::Failure;

/// Create, list and revoke bootstrap credentials of machines
///
/// There are three kinds. `control-plane` is a client certificate that is valid for ten years and can be created
/// without an API server; `worker` is the token of a service account; `token` is a bootstrap token as in kubeadm.
/// `create` writes a kubeconfig for kubelets (--bootstrap-kubeconfig). A revoked credential is refused with the next
/// request, also on open connections.
///
/// Exit codes: 0 success; 1 there was nothing to revoke, or a check has findings; 2 bad flags or input; 3 the API
/// server cannot be reached or refuses.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BootstrapArgs {
    #[command(subcommand)]
    kind: Kind,
}

const EXAMPLES: &str = "\
Examples:
  portcullis bootstrap control-plane create --output control-plane.kubeconfig
  portcullis bootstrap worker create --output worker.kubeconfig
  portcullis bootstrap token create --ttl 2h --output token.kubeconfig
  portcullis bootstrap list
  portcullis bootstrap check
  portcullis bootstrap control-plane revoke";

#[derive(Debug, Subcommand)]
enum Kind {
    /// Find what RBAC allows holders of bootstrap credentials beyond requesting certificates
    ///
    /// Checks the roles that are bound to the account, to its groups, and to those of bootstrap tokens. Rules that let
    /// everybody discover the API and review their own permissions are not reported. Other authorizers are not considered.
    ///
    /// Exit codes: 0 nothing found; 1 findings; 2 bad flags or input; 3 the API server cannot be reached or refuses.
    Check(ListArgs),
    #[command(subcommand)]
    ControlPlane(control_plane::Verb),
    /// List the credentials of all kinds: kind, subject, SHA-256, expiry, and whether they are revoked. Tokens are never
    /// shown
    List(ListArgs),
    #[command(subcommand)]
    Token(token::Verb),
    #[command(subcommand)]
    Worker(worker::Verb),
}

/// Runs the command.
///
/// # Errors
/// Flags are invalid, a file cannot be written, or the API server cannot be reached or refuses.
pub fn run(args: &BootstrapArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        match &args.kind {
            Kind::Check(args) => check::run(args).await,
            Kind::ControlPlane(verb) => control_plane::run(verb).await,
            Kind::List(args) => list(args).await,
            Kind::Token(verb) => token::run(verb).await,
            Kind::Worker(verb) => worker::run(verb).await,
        }
    })
}

async fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let mut rows = control_plane::rows(&connection, &args.places).await?;
    rows.extend(worker::rows(&connection, &args.places).await?);
    rows.extend(token::rows(&connection).await?);
    inventory::print(&rows, args.form)
}
