//! `portcullis bootstrap`: creates and revokes the credentials with which machines authenticate before they have an
//! identity of their own (NB-10 to NB-37).

mod check;
mod cluster;
mod common;
mod confirm;
mod control_plane;
mod inventory;
mod output;
mod posture;
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
  portcullis bootstrap check --node worker-0
  portcullis bootstrap control-plane revoke";

#[derive(Debug, Subcommand)]
enum Kind {
    /// Check that bootstrap credentials and nodes can do no more than they must
    ///
    /// Findings are what RBAC allows holders of bootstrap credentials beyond requesting certificates, by the roles that are
    /// bound to the account, to its groups, and to those of bootstrap tokens. Rules that let everybody discover the API and
    /// review their own permissions are not reported.
    ///
    /// The posture says whether the cluster has RBAC, the Node authorizer and NodeRestriction: pass, fail or unknown. It is
    /// found by reviews of the permissions of nodes, and by dry runs as a node. These need the permissions to create
    /// subjectaccessreviews, to list pods, to get persistentvolumeclaims, and to impersonate nodes with their groups;
    /// without them the answer is unknown.
    ///
    /// Exit codes: 0 all pass and nothing found; 1 findings, or a check failed; 2 bad flags or input; 3 the API server
    /// cannot be reached or refuses, or a check is unknown.
    Check(check::CheckArgs),
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
