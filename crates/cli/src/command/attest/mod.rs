//! `portcullis attest`: the attestation controller, and commands for identity records and evidence.

mod enroll;
mod records;
mod verify;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use portcullis_attestation::config::Serving;
use portcullis_client::attest::{AttestController, AttestMetrics, AttestOptions};
use portcullis_client::{Connection, SystemClock};
use portcullis_pki::CertificateAuthority;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::attest_config::{follow, read_settings};
use crate::failure::Failure;
use crate::health::{self, Health};
use crate::kubeconfig;
use crate::lease_flags::LeaseFlags;
use crate::logging::{LoggingFormat, log};
use crate::signals::StopSignals;

/// Give certificates to nodes that prove their machine
///
/// Watches the CertificateSigningRequests for the signers cluster.x-k8s.io/kube-apiserver-client-kubelet-*, challenges
/// the nodes, verifies their evidence, and approves and signs their certificates with its own authority. The API server
/// must trust this authority (--client-ca-file). See docs/attestation.md.
///
/// Exit codes: 0 stopped, or done; 1 the evidence is refused, or there is no such record; 2 bad flags or input; 3 the
/// API server cannot be reached.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct AttestArgs {
    #[command(subcommand)]
    command: Option<AttestCommand>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum AttestCommand {
    Enroll(enroll::EnrollArgs),
    Records(records::RecordsArgs),
    Revoke(records::StateArgs),
    Reset(records::StateArgs),
    Verify(Box<verify::VerifyArgs>),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// The kubeconfig of the API server with the certificate requests [default: as kubectl, or the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The kubeconfig of the API server with the Machines, the identity records and the keys [default: the same server]
    #[arg(long, value_name = "FILE")]
    management_kubeconfig: Option<PathBuf>,

    /// The configuration, a YAML document; reloaded when it changes
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,

    /// The namespace of the identity records and the keys
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    namespace: String,

    /// The certificate of the authority that signs, in PEM
    #[arg(long, value_name = "FILE", required = true)]
    cluster_signing_cert_file: Option<PathBuf>,

    /// The key of the authority that signs, in PEM
    #[arg(long, value_name = "FILE", required = true)]
    cluster_signing_key_file: Option<PathBuf>,

    /// The certificate of the authority that signs serving certificates, in PEM, for serving: sign
    #[arg(long, value_name = "FILE", requires = "cluster_signing_kubelet_serving_key_file")]
    cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,

    /// The key of the authority that signs serving certificates, in PEM
    #[arg(long, value_name = "FILE", requires = "cluster_signing_kubelet_serving_cert_file")]
    cluster_signing_kubelet_serving_key_file: Option<PathBuf>,

    #[command(flatten)]
    lease: LeaseFlags,

    /// The address of /healthz, /readyz and /metrics, over HTTP [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_bind_address: Option<SocketAddr>,

    /// The format of the log
    #[arg(long, value_enum, default_value = "text")]
    logging_format: LoggingFormat,

    /// The log level
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
}

const EXAMPLES: &str = "\
Examples:
  portcullis attest --config attest.yaml --cluster-signing-cert-file nodes-ca.crt --cluster-signing-key-file nodes-ca.key
  portcullis attest enroll node-1 --provider-id metal://rack-1/node-1 --inventory inventory.yaml --endorsement-key sha256:...
  portcullis attest records
  portcullis attest revoke node-1 --reason \"stolen\"
  portcullis attest verify --config attest.yaml --csr csr.yaml";

/// Runs the command.
///
/// # Errors
/// Flags or files are invalid, evidence is refused, or the API server cannot be reached.
pub fn run(args: &AttestArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(AttestCommand::Enroll(args)) => enroll::run(args),
        Some(AttestCommand::Verify(args)) => verify::run(args),
        Some(AttestCommand::Records(args)) => runtime()?.block_on(records::list(args)),
        Some(AttestCommand::Revoke(args)) => runtime()?.block_on(records::revoke(args)),
        Some(AttestCommand::Reset(args)) => runtime()?.block_on(records::reset(args)),
        None => {
            log(args.run.logging_format, args.run.verbosity);
            runtime()?.block_on(work(&args.run))
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))
}

async fn work(args: &RunArgs) -> Result<ExitCode, Failure> {
    let required = |file: &Option<PathBuf>, flag: &str| {
        file.clone().ok_or_else(|| Failure::input(format_args!("--{flag} is missing")))
    };
    let config = required(&args.config, "config")?;
    let certificate = required(&args.cluster_signing_cert_file, "cluster-signing-cert-file")?;
    let key = required(&args.cluster_signing_key_file, "cluster-signing-key-file")?;
    let settings = read_settings(&config).map_err(Failure::input)?;
    let serving_authority = match (
        &args.cluster_signing_kubelet_serving_cert_file,
        &args.cluster_signing_kubelet_serving_key_file,
    ) {
        (Some(certificate), Some(key)) => Some(Arc::new(authority(certificate, key)?)),
        _ if settings.config.serving == Serving::Sign => {
            return Err(Failure::input(
                "serving: sign needs --cluster-signing-kubelet-serving-cert-file and \
                 --cluster-signing-kubelet-serving-key-file",
            ));
        }
        _ => None,
    };
    let authority = authority(&certificate, &key)?;
    let workload = Connection::infer(args.kubeconfig.as_deref(), args.context.as_deref())
        .await
        .map_err(Failure::input)?;
    let management = match &args.management_kubeconfig {
        Some(path) => Connection::from_kubeconfig(path, None).await.map_err(Failure::input)?,
        None => workload.clone(),
    };
    let lease = args.lease.lease("portcullis-attest", &workload);
    lease.check().map_err(Failure::input)?;
    let metrics = AttestMetrics::default();
    let controller = AttestController::new(AttestOptions {
        workload: workload.clone(),
        management,
        namespace: args.namespace.clone(),
        settings,
        authority: Arc::new(authority),
        serving_authority,
        metrics: metrics.clone(),
        clock: Arc::new(SystemClock::new()),
    });
    let mut stop = StopSignals::handle()?;
    tracing::info!(server = workload.server(), "attesting nodes");
    let mut tasks = JoinSet::new();
    let health = Arc::new(Told { controller: controller.clone(), metrics });
    health::serve(args.metrics_bind_address, health, &mut tasks).await?;
    tasks.spawn(follow(config, controller.clone()));
    tasks.spawn(kubeconfig::refresh(workload));
    if args.lease.leader_elect {
        controller.run_elected(lease, stop.received()).await.map_err(Failure::input)?;
    } else {
        controller.run(stop.received()).await;
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn authority(certificate: &Path, key: &Path) -> Result<CertificateAuthority, Failure> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Failure::input(format_args!("cannot read {}: {error}", path.display())))
    };
    CertificateAuthority::from_single_pem(&read(certificate)?, &read(key)?)
        .map_err(|error| Failure::input(format_args!("{}: {error}", certificate.display())))
}

/// The health and metrics of the controller.
struct Told {
    controller: AttestController,
    metrics: AttestMetrics,
}

impl Health for Told {
    /// Waiting for the lease is not an error; this reports the current leader.
    fn unready(&self) -> Option<String> {
        (!self.controller.is_ready()).then(|| "waiting for the lease or for the first list".to_owned())
    }

    fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }
}
