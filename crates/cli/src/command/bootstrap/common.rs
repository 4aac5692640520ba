//! Shared parts of the bootstrap credential commands: flags, and how results are reported.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_apimachinery::duration::parse_unsigned;
use portcullis_client::{CallError, Connection};

use super::inventory::FormFlags;
use crate::bootstrap_flags::{Place, place};
use crate::failure::Failure;

/// The flags of the API server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "API server")]
pub(crate) struct ServerFlags {
    /// The kubeconfig to connect with [default: as kubectl]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ServerFlags {
    /// Connects to it.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        Connection::infer(self.kubeconfig.as_deref(), self.context.as_deref()).await.map_err(Failure::input)
    }
}

/// The flags for the objects that all kinds use.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceFlags {
    /// The service account that bootstraps nodes. The same as --bootstrap-account of serve
    #[arg(long, value_name = "NAMESPACE/NAME", default_value_t = Place::account(), value_parser = place)]
    pub(super) account: Place,

    /// A ConfigMap with bootstrap authorities. Repeatable; `create` writes to the first one. The same as
    /// --bootstrap-ca-configmap of serve
    #[arg(
        long = "ca-configmap",
        value_name = "NAMESPACE/NAME",
        value_parser = place,
        default_values = ["openshift-config/kubelet-bootstrap-kubeconfig", "openshift-config-managed/kubelet-bootstrap-kubeconfig"]
    )]
    pub(super) config_maps: Vec<Place>,
}

impl PlaceFlags {
    /// The user that the account is.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.account.namespace, self.account.name)
    }

    /// Returns the service account group of its namespace (NB-15).
    pub(super) fn group(&self) -> String {
        format!("system:serviceaccounts:{}", self.account.namespace)
    }
}

/// The flags of lists.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) server: ServerFlags,

    #[command(flatten)]
    pub(super) places: PlaceFlags,

    #[command(flatten)]
    pub(super) form: FormFlags,
}

/// Converts an error of a request, with its purpose.
pub(super) fn refused(what: impl std::fmt::Display) -> impl FnOnce(CallError) -> Failure {
    move |error| Failure::unreachable(format_args!("cannot {what}: {error}"))
}

/// Parses the value of a flag.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_unsigned(text).ok_or_else(|| format!("{text:?} is not a duration: write it like 30s or 1m30s"))
}

/// Prints a line on standard output.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn println_done(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}
