//! Who approves certificate requests of kubelets in `serve`: `--approver`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions};
use portcullis_client::connect::{Connection, Credential, Parts};
use portcullis_policy::approval::machine::Config;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::cluster::approver_access;
use tokio::task::JoinHandle;

use crate::command::approve::{follow, read_config};
use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers and certificates")]
pub struct ApproverFlags {
    /// Who approves certificate requests of kubelets
    #[arg(long, value_name = "WHO", default_value = "kubernetes")]
    approver: Who,

    /// How --approver machine decides, a YAML document as for `portcullis approve --config`; looked at again as it changes
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
    /// With its configuration, and where that comes from.
    Machine(Box<Config>, Option<PathBuf>),
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
            (Who::Machine, None) => Prepared::Machine(Box::default(), None),
            (Who::Machine, Some(path)) => {
                let config = read_config(path).map_err(Failure::input)?;
                Prepared::Machine(Box::new(config), Some(path.clone()))
            }
        })
    }
}

/// The machine approver at work, as a client of the server that it runs in: what it may do is said by RBAC, and what it
/// writes is admitted, as if it ran anywhere else.
pub(crate) struct Working {
    approver: JoinHandle<()>,
    configuration: Option<JoinHandle<()>>,
}

impl Working {
    /// Starts it, for a server at this URL. A configuration in a file is followed.
    ///
    /// # Errors
    /// No certificate for it can be made.
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
        tracing::info!("the machine approver is at work");
        let configuration = file.map(|path| tokio::spawn(follow(path, approver.clone(), false)));
        let approver = tokio::spawn(async move { approver.run(std::future::pending()).await });
        Ok(Self { approver, configuration })
    }

    /// Stops it. Whatever is under way is done again after the next start.
    pub(crate) fn stop(&self) {
        self.approver.abort();
        self.configuration.as_ref().inspect(|following| following.abort());
    }
}

/// The figures of an approver, to be registered before they are served.
pub(crate) fn metrics(
    prepared: &Prepared,
    server: &mut portcullis_server::metrics::Metrics,
) -> ApproverMetrics {
    let metrics = ApproverMetrics::default();
    if let Prepared::Machine(..) = prepared {
        metrics.register(server.registry_mut());
    }
    metrics
}
