//! `portcullis bootstrap`: what machines show before they have an identity of their own, made and taken away again
//! (NB-10 to NB-37).

mod cluster;
mod control_plane;
mod inventory;
mod output;
mod token;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use portcullis_client::{CallError, Connection};

use crate::bootstrap_flags::{Place, place};
use crate::failure::Failure;

/// Make, list and revoke the credentials that machines bootstrap with
///
/// There are three kinds. `control-plane` is a client certificate that is valid for ten years and needs no API server to
/// be made; `worker` is the token of a service account; `token` is a bootstrap token as kubeadm's. `create` writes a
/// kubeconfig for kubelets (--bootstrap-kubeconfig). What is revoked is refused with the next request, on open
/// connections too.
///
/// Exit codes: 0 done; 1 there was nothing to revoke; 2 bad flags or input; 3 the API server cannot be reached or refuses.
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
  portcullis bootstrap control-plane revoke";

#[derive(Debug, Subcommand)]
enum Kind {
    ControlPlane(control_plane::ControlPlaneArgs),
    List(ListArgs),
    Token(token::TokenArgs),
    Worker(worker::WorkerArgs),
}

/// List the credentials of all kinds: kind, subject, SHA-256, end, and whether they are revoked. Never a token
#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    places: PlaceFlags,

    #[command(flatten)]
    form: inventory::FormFlags,
}

/// The API server to talk to.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "API server")]
pub(crate) struct ServerFlags {
    /// The kubeconfig to connect with; as kubectl finds one if not given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; its current one if not given
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ServerFlags {
    async fn connect(&self) -> Result<Connection, Failure> {
        Connection::infer(self.kubeconfig.as_deref(), self.context.as_deref()).await.map_err(Failure::input)
    }
}

/// Where things are that every kind has to do with.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceFlags {
    /// The service account that bootstraps nodes. As --bootstrap-account of serve
    #[arg(long, value_name = "NAMESPACE/NAME", default_value_t = Place::account(), value_parser = place)]
    account: Place,

    /// A ConfigMap with authorities of bootstrap credentials. Repeatable; `create` writes to the first one. As
    /// --bootstrap-ca-configmap of serve
    #[arg(
        long = "ca-configmap",
        value_name = "NAMESPACE/NAME",
        value_parser = place,
        default_values = ["openshift-config/kubelet-bootstrap-kubeconfig", "openshift-config-managed/kubelet-bootstrap-kubeconfig"]
    )]
    config_maps: Vec<Place>,
}

impl PlaceFlags {
    /// The user that the account is.
    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.account.namespace, self.account.name)
    }

    /// The group of the accounts of its namespace (NB-15).
    fn group(&self) -> String {
        format!("system:serviceaccounts:{}", self.account.namespace)
    }
}

/// Runs the command.
///
/// # Errors
/// Flags that cannot be used, a file that cannot be written, or an API server that cannot be reached or refuses.
pub fn run(args: &BootstrapArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        match &args.kind {
            Kind::ControlPlane(args) => control_plane::run(args).await,
            Kind::List(args) => list(args).await,
            Kind::Token(args) => token::run(args).await,
            Kind::Worker(args) => worker::run(args).await,
        }
    })
}

async fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let mut rows = control_plane::rows(&connection, &args.places).await?;
    rows.extend(worker::rows(&connection, &args.places).await?);
    rows.extend(token::rows(&connection).await?);
    inventory::print(&rows, &args.form)?;
    Ok(ExitCode::SUCCESS)
}

/// A request that failed, and what it was for.
fn refused(what: impl std::fmt::Display) -> impl FnOnce(CallError) -> Failure {
    move |error| Failure::unreachable(format_args!("cannot {what}: {error}"))
}
