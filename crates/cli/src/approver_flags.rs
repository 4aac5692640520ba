//! The approver of kubelets' certificate requests in `serve`: `--approver`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions};
use portcullis_client::attest::{AttestController, AttestMetrics, AttestOptions, Settings};
use portcullis_client::connect::{Connection, Credential, Parts};
use portcullis_policy::approval::machine::Config;
use portcullis_server::Metrics;
use portcullis_server::api_server::{self as server, ApiServer};
use portcullis_server::registry::cluster::approver_access;
use tokio::task::JoinSet;

use crate::approver_config::{follow, read_config};
use crate::attest_config;
use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers and certificates")]
pub struct ApproverFlags {
    /// The approver of certificate requests of kubelets
    #[arg(long, value_name = "WHO", default_value = "kubernetes")]
    approver: Who,

    /// The configuration of --approver machine or attested, a YAML document as for `portcullis approve --config` or
    /// `portcullis attest --config`; reloaded when it changes
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
    /// Approves and signs nodes that prove their machine; see docs/attestation.md. Needs --approver-config.
    Attested,
    /// Approves nothing: use kubectl certificate approve.
    None,
}

/// The approver, before it runs. It is a client of the server that it runs in, so RBAC and admission apply to it as if it
/// ran anywhere else.
pub(crate) enum InProcess {
    /// The machine approver, with the file of its configuration.
    Machine(Box<Config>, Option<PathBuf>, ApproverMetrics),
    /// The attestation controller, with the file of its configuration.
    Attested(Box<Settings>, PathBuf, AttestMetrics),
}

impl ApproverFlags {
    /// Returns which approver is chosen.
    pub(crate) fn approver(&self) -> server::Approver {
        match self.approver {
            Who::Kubernetes => server::Approver::Kubernetes,
            Who::Machine => server::Approver::Machine,
            Who::Attested => server::Approver::Attested,
            Who::None => server::Approver::Nobody,
        }
    }

    /// Reads the configuration of the approver that runs in this process, if one is chosen, and registers its metrics.
    ///
    /// # Errors
    /// The flags are inconsistent, or the configuration is invalid.
    pub(crate) fn in_process(
        &self,
        has_foreign_certificate: bool,
        metrics: &mut Metrics,
    ) -> Result<Option<InProcess>, Failure> {
        let name = match self.approver {
            Who::Machine => "machine",
            Who::Attested => "attested",
            Who::Kubernetes | Who::None => {
                return match self.approver_config {
                    Some(_) => Err(Failure::input("--approver-config is for --approver machine or attested")),
                    None => Ok(None),
                };
            }
        };
        if has_foreign_certificate {
            return Err(Failure::input(format_args!(
                "--approver {name} reaches the server by its own certificate: leave --tls-cert-file out, or run \
                 portcullis {} beside",
                if name == "machine" { "approve" } else { "attest" }
            )));
        }
        let file = self.approver_config.clone();
        if self.approver == Who::Machine {
            let config = file.as_deref().map(read_config).transpose().map_err(Failure::input)?;
            let own = ApproverMetrics::default();
            own.register(metrics.registry_mut());
            return Ok(Some(InProcess::Machine(Box::new(config.unwrap_or_default()), file, own)));
        }
        let file = file.ok_or_else(|| {
            Failure::input("--approver attested needs --approver-config: it says which machines there are")
        })?;
        let settings = attest_config::read_settings(&file).map_err(Failure::input)?;
        let own = AttestMetrics::default();
        own.register(metrics.registry_mut());
        Ok(Some(InProcess::Attested(Box::new(settings), file, own)))
    }
}

impl InProcess {
    /// Starts the approver for a server, in these tasks. A configuration file is reloaded when it changes. Interrupted
    /// work is repeated after the next start.
    ///
    /// # Errors
    /// The client certificate cannot be issued.
    pub(crate) async fn start(self, server: &ApiServer, tasks: &mut JoinSet<()>) -> Result<(), Failure> {
        match self {
            Self::Machine(config, file, metrics) => {
                let connection = connect(server, approver_access::USER).await?;
                let options = ApproverOptions::new(connection, *config);
                let approver = Approver::new(ApproverOptions { metrics, ..options });
                tracing::info!("the machine approver is running");
                if let Some(path) = file {
                    tasks.spawn(follow(path, approver.clone(), false));
                }
                tasks.spawn(server.elected("portcullis-approver", move || {
                    let approver = approver.clone();
                    async move { approver.run(std::future::pending()).await }
                }));
            }
            Self::Attested(settings, file, metrics) => {
                let connection = connect(server, approver_access::ATTESTATION_USER).await?;
                let authority = server.bootstrap().authority().map_err(Failure::unreachable)?;
                let namespace = approver_access::ATTESTATION_NAMESPACE.to_owned();
                let authority = Arc::new(authority);
                // The server's own authority signs both, as it does for the signers of Kubernetes.
                let serving_authority = Some(Arc::clone(&authority));
                let options = AttestOptions::new(connection, namespace, *settings, authority);
                let controller =
                    AttestController::new(AttestOptions { serving_authority, metrics, ..options });
                tracing::info!("the attestation controller is running");
                tasks.spawn(attest_config::follow(file, controller.clone()));
                tasks.spawn(server.elected("portcullis-attest", move || {
                    let controller = controller.clone();
                    async move { controller.run(std::future::pending()).await }
                }));
            }
        }
        Ok(())
    }
}

/// Connects to the server of this process as one of its own users.
async fn connect(server: &ApiServer, user: &str) -> Result<Connection, Failure> {
    let bootstrap = server.bootstrap();
    let (certificate, key) = bootstrap.issue_client(user).map_err(Failure::unreachable)?;
    let parts = Parts {
        server: bootstrap.url(server.address().port()),
        certificate_authority: bootstrap.authority_pem().as_bytes().to_vec(),
        credential: Credential::Certificate { certificate: certificate.into_bytes(), key: key.into_bytes() },
    };
    Connection::from_parts(parts).await.map_err(Failure::unreachable)
}
