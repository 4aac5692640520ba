//! Who approves certificate requests of kubelets in `serve`: `--approver`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions};
use portcullis_client::connect::{Connection, Credential, Parts};
use portcullis_policy::approval::machine::Config;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::cluster::approver_access;
use tokio::task::JoinHandle;

use crate::command::approve::read_config;
use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers and certificates")]
pub struct ApproverFlags {
    /// Who approves certificate requests of kubelets
    #[arg(long, value_name = "WHO", default_value = "kubernetes")]
    approver: Who,

    /// How --approver machine decides, a YAML document as for `portcullis approve --config`
    #[arg(long, value_name = "FILE")]
    approver_config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// As kube-controller-manager: whoever may create certificatesigningrequests/nodeclient gets any name.
    Kubernetes,
    /// Nodes for which a Machine was just created; see docs/approver.md.
    Machine,
    /// Nobody: kubectl certificate approve does.
    None,
}

/// Who approves, made ready before anything is served.
#[derive(Debug)]
pub(crate) enum Prepared {
    Kubernetes,
    Machine(Box<Config>),
    None,
}

impl ApproverFlags {
    /// Reads what there is to read.
    ///
    /// # Errors
    /// Flags that contradict each other, or a configuration that cannot be used.
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
            (Who::Machine, None) => Prepared::Machine(Box::default()),
            (Who::Machine, Some(path)) => {
                Prepared::Machine(Box::new(read_config(path).map_err(Failure::input)?))
            }
        })
    }
}

/// The machine approver at work, as a client of the server that it runs in: what it may do is said by RBAC, and what it
/// writes is admitted, as if it ran anywhere else.
pub(crate) struct Working(JoinHandle<()>);

impl Working {
    /// Starts it, for a server at this URL.
    ///
    /// # Errors
    /// No certificate for it can be made.
    pub(crate) async fn start(
        config: Config,
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
        tracing::info!("the machine approver is at work");
        Ok(Self(tokio::spawn(async move { approver.run(std::future::pending()).await })))
    }

    /// Stops it. Whatever is under way is done again after the next start.
    pub(crate) fn stop(&self) {
        self.0.abort();
    }
}

/// The figures of an approver, to be registered before they are served.
pub(crate) fn metrics(
    prepared: &Prepared,
    server: &mut portcullis_server::metrics::Metrics,
) -> ApproverMetrics {
    let metrics = ApproverMetrics::default();
    if let Prepared::Machine(_) = prepared {
        metrics.register(server.registry_mut());
    }
    metrics
}
