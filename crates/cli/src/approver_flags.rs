//! The approver of kubelets' certificate requests in `serve`: `--approver`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions};
use portcullis_client::connect::{Connection, Credential, Parts};
use portcullis_policy::approval::machine::Config;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::registry::cluster::approver_access;
use tokio::task::JoinHandle;

use crate::approver_config::{follow, read_config};
use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers and certificates")]
pub struct ApproverFlags {
    /// The approver of certificate requests of kubelets
    #[arg(long, value_name = "WHO", default_value = "kubernetes")]
    approver: Who,

    /// The configuration of --approver machine, a YAML document as for `portcullis approve --config`; reloaded when it
    /// changes
    #[arg(long, value_name = "FILE")]
    approver_config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// As in kube-controller-manager: users who may create certificatesigningrequests/nodeclient get a certificate with
    /// any name.
    Kubernetes,
    /// Approves nodes for which a Machine was just created; see docs/approver.md.
    Machine,
    /// Approves nothing: use kubectl certificate approve.
    None,
}

/// The approver, prepared before serving.
#[derive(Debug)]
pub(crate) enum Prepared {
    Kubernetes,
    /// The configuration of the machine approver, and its file.
    Machine(Box<Config>, Option<PathBuf>),
    None,
}

impl ApproverFlags {
    /// Reads the configuration.
    ///
    /// # Errors
    /// The flags are inconsistent, or the configuration is invalid.
    pub(crate) fn prepare(&self, has_foreign_certificate: bool) -> Result<Prepared, Failure> {
        if self.approver != Who::Machine && self.approver_config.is_some() {
            return Err(Failure::input("--approver-config is for --approver machine"));
        }
        if self.approver == Who::Machine && has_foreign_certificate {
            return Err(Failure::input(
                "--approver machine reaches the server by its own certificate: leave --tls-cert-file out, or run \
                 portcullis approve beside",
            ));
        }
        Ok(match (self.approver, &self.approver_config) {
            (Who::Kubernetes, _) => Prepared::Kubernetes,
            (Who::None, _) => Prepared::None,
            (Who::Machine, None) => Prepared::Machine(Box::default(), None),
            (Who::Machine, Some(path)) => {
                let config = read_config(path).map_err(Failure::input)?;
                Prepared::Machine(Box::new(config), Some(path.clone()))
            }
        })
    }
}

/// The running machine approver. It is a client of the server that it runs in, so RBAC and admission apply to it as if
/// it ran anywhere else.
pub(crate) struct Working {
    approver: JoinHandle<()>,
    configuration: Option<JoinHandle<()>>,
}

impl Working {
    /// Starts the approver for a server at this URL. A configuration file is reloaded when it changes.
    ///
    /// # Errors
    /// The client certificate cannot be issued.
    pub(crate) async fn start(
        config: Config,
        file: Option<PathBuf>,
        server: String,
        bootstrap: &Bootstrap,
        metrics: ApproverMetrics,
    ) -> Result<Self, Failure> {
        let (certificate, key) =
            bootstrap.issue_client(approver_access::USER).map_err(Failure::unreachable)?;
        let parts = Parts {
            server,
            certificate_authority: bootstrap.authority_pem().as_bytes().to_vec(),
            credential: Credential::Certificate {
                certificate: certificate.into_bytes(),
                key: key.into_bytes(),
            },
        };
        let connection = Connection::from_parts(parts).await.map_err(Failure::unreachable)?;
        let approver = Approver::new(ApproverOptions { metrics, ..ApproverOptions::new(connection, config) });
        tracing::info!("the machine approver is running");
        let configuration = file.map(|path| tokio::spawn(follow(path, approver.clone(), false)));
        let approver = tokio::spawn(async move { approver.run(std::future::pending()).await });
        Ok(Self { approver, configuration })
    }

    /// Stops the approver. Interrupted work is repeated after the next start.
    pub(crate) fn stop(&self) {
        self.approver.abort();
        self.configuration.as_ref().inspect(|following| following.abort());
    }
}

/// Creates the metrics of an approver, which must be registered before serving.
pub(crate) fn metrics(prepared: &Prepared, server: &mut portcullis_server::Metrics) -> ApproverMetrics {
    let metrics = ApproverMetrics::default();
    if let Prepared::Machine(..) = prepared {
        metrics.register(server.registry_mut());
    }
    metrics
}
