//! The approver of kubelets' certificate requests in `serve`: `--approver`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions};
use portcullis_client::connect::{Connection, Credential, Parts};
use portcullis_policy::approval::machine::Config;
use portcullis_server::Metrics;
use portcullis_server::api_server::{self as server, ApiServer};
use portcullis_server::registry::cluster::approver_access;
use tokio::task::JoinSet;

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

/// The machine approver, before it runs. It is a client of the server that it runs in, so RBAC and admission apply to it
/// as if it ran anywhere else.
pub(crate) struct MachineApprover {
    config: Config,
    /// The file of the configuration.
    file: Option<PathBuf>,
    metrics: ApproverMetrics,
}

impl ApproverFlags {
    /// Returns which approver is chosen.
    pub(crate) fn approver(&self) -> server::Approver {
        match self.approver {
            Who::Kubernetes => server::Approver::Kubernetes,
            Who::Machine => server::Approver::Machine,
            Who::None => server::Approver::Nobody,
        }
    }

    /// Reads the configuration of the machine approver, if it is chosen, and registers its metrics.
    ///
    /// # Errors
    /// The flags are inconsistent, or the configuration is invalid.
    pub(crate) fn machine(
        &self,
        has_foreign_certificate: bool,
        metrics: &mut Metrics,
    ) -> Result<Option<MachineApprover>, Failure> {
        if self.approver != Who::Machine {
            return match self.approver_config {
                Some(_) => Err(Failure::input("--approver-config is for --approver machine")),
                None => Ok(None),
            };
        }
        if has_foreign_certificate {
            return Err(Failure::input(
                "--approver machine reaches the server by its own certificate: leave --tls-cert-file out, or run \
                 portcullis approve beside",
            ));
        }
        let config = self.approver_config.as_deref().map(read_config).transpose().map_err(Failure::input)?;
        let approver = MachineApprover {
            config: config.unwrap_or_default(),
            file: self.approver_config.clone(),
            metrics: ApproverMetrics::default(),
        };
        approver.metrics.register(metrics.registry_mut());
        Ok(Some(approver))
    }
}

impl MachineApprover {
    /// Starts the approver for a server, in these tasks. A configuration file is reloaded when it changes. Interrupted
    /// work is repeated after the next start.
    ///
    /// # Errors
    /// The client certificate cannot be issued.
    pub(crate) async fn start(self, server: &ApiServer, tasks: &mut JoinSet<()>) -> Result<(), Failure> {
        let bootstrap = server.bootstrap();
        let (certificate, key) =
            bootstrap.issue_client(approver_access::USER).map_err(Failure::unreachable)?;
        let parts = Parts {
            server: bootstrap.url(server.address().port()),
            certificate_authority: bootstrap.authority_pem().as_bytes().to_vec(),
            credential: Credential::Certificate {
                certificate: certificate.into_bytes(),
                key: key.into_bytes(),
            },
        };
        let connection = Connection::from_parts(parts).await.map_err(Failure::unreachable)?;
        let options = ApproverOptions::new(connection, self.config);
        let approver = Approver::new(ApproverOptions { metrics: self.metrics, ..options });
        tracing::info!("the machine approver is running");
        if let Some(path) = self.file {
            tasks.spawn(follow(path, approver.clone(), false));
        }
        tasks.spawn(async move { approver.run(std::future::pending()).await });
        Ok(())
    }
}
