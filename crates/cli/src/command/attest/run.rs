//! `portcullis attest`: runs the controller, for one workload cluster or for several.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use portcullis_attestation::config::Serving;
use portcullis_client::attest::{AttestController, AttestMetrics, AttestOptions, Fleet, Member, Settings};
use portcullis_client::lease::LeaseConfig;
use portcullis_client::{Connection, SystemClock};
use portcullis_pki::CertificateAuthority;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clusters::{self, Cluster};
use crate::attest_config::{follow, read_settings};
use crate::failure::Failure;
use crate::health::{self, Health};
use crate::kubeconfig;
use crate::lease_flags::LeaseFlags;
use crate::logging::{LoggingFormat, log};
use crate::signals::StopSignals;

#[derive(Args, Debug)]
pub(super) struct RunArgs {
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
    #[arg(long, value_name = "FILE", required_unless_present = "clusters")]
    config: Option<PathBuf>,

    /// Several workload clusters, a YAML document: for each a name, a kubeconfig, a configuration and authorities
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "kubeconfig", "context",
        "cluster_signing_cert_file", "cluster_signing_key_file", "cluster_signing_kubelet_serving_cert_file"])]
    clusters: Option<PathBuf>,

    /// The namespace of the identity records and the keys
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    namespace: String,

    /// The certificate of the authority that signs, in PEM
    #[arg(long, value_name = "FILE", required_unless_present = "clusters")]
    cluster_signing_cert_file: Option<PathBuf>,

    /// The key of the authority that signs, in PEM
    #[arg(long, value_name = "FILE", required_unless_present = "clusters")]
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

impl RunArgs {
    /// Sets up logging.
    pub(super) fn log(&self) {
        log(self.logging_format, self.verbosity);
    }

    /// The clusters: those of the file, or the one of the flags.
    fn clusters(&self) -> Result<Vec<Cluster>, Failure> {
        if let Some(path) = &self.clusters {
            return clusters::read(path).map_err(Failure::input);
        }
        let required = |file: &Option<PathBuf>, flag: &str| {
            file.clone().ok_or_else(|| Failure::input(format_args!("--{flag} is missing")))
        };
        Ok(vec![Cluster {
            name: None,
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            config: required(&self.config, "config")?,
            signing_cert_file: required(&self.cluster_signing_cert_file, "cluster-signing-cert-file")?,
            signing_key_file: required(&self.cluster_signing_key_file, "cluster-signing-key-file")?,
            kubelet_serving_cert_file: self.cluster_signing_kubelet_serving_cert_file.clone(),
            kubelet_serving_key_file: self.cluster_signing_kubelet_serving_key_file.clone(),
        }])
    }
}

/// A controller that can be started.
struct Ready {
    controller: AttestController,
    workload: Connection,
    lease: LeaseConfig,
    config: PathBuf,
}

/// Runs until it is told to stop.
pub(super) async fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let metrics = AttestMetrics::default();
    let fleet = Arc::<Fleet>::default();
    let mut controllers = Vec::new();
    for cluster in args.clusters()? {
        controllers.push(prepare(args, cluster, &metrics, &fleet).await?);
    }
    let mut stop = StopSignals::handle()?;
    let mut tasks = JoinSet::new();
    let all = controllers.iter().map(|ready| ready.controller.clone()).collect();
    let health = Arc::new(Told { controllers: all, metrics });
    health::serve(args.metrics_bind_address, health, &mut tasks).await?;
    let (stopping, _) = watch::channel(());
    let mut running = JoinSet::new();
    for Ready { controller, workload, lease, config } in controllers {
        tracing::info!(server = workload.server(), "attesting nodes");
        tasks.spawn(follow(config, controller.clone()));
        tasks.spawn(kubeconfig::refresh(workload));
        let (mut stopped, is_elected) = (stopping.subscribe(), args.lease.leader_elect);
        running.spawn(async move {
            let stop = async move {
                // The sender is gone as well when the process ends.
                let _ = stopped.changed().await;
            };
            if is_elected {
                controller.run_elected(lease, stop).await
            } else {
                controller.run(stop).await;
                Ok(())
            }
        });
    }
    tokio::select! {
        () = stop.received() => {}
        // None ends by itself: one that does has failed, and the others must not hide that.
        Some(ended) = running.join_next() => {
            ended.map_err(Failure::unreachable)?.map_err(Failure::input)?;
        }
    }
    drop(stopping);
    while let Some(ended) = running.join_next().await {
        ended.map_err(Failure::unreachable)?.map_err(Failure::input)?;
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Reads what a cluster needs, and creates its controller.
async fn prepare(
    args: &RunArgs,
    cluster: Cluster,
    metrics: &AttestMetrics,
    fleet: &Arc<Fleet>,
) -> Result<Ready, Failure> {
    let settings = read_settings(&cluster.config).map_err(Failure::input)?;
    let serving_authority = serving_authority(&cluster, &settings)?;
    let authority = authority(&cluster.signing_cert_file, &cluster.signing_key_file)?;
    let workload = Connection::infer(cluster.kubeconfig.as_deref(), cluster.context.as_deref())
        .await
        .map_err(Failure::input)?;
    let management = match &args.management_kubeconfig {
        Some(path) => Connection::from_kubeconfig(path, None).await.map_err(Failure::input)?,
        None => workload.clone(),
    };
    let lease = args.lease.lease("portcullis-attest", &workload);
    lease.check().map_err(Failure::input)?;
    let controller = AttestController::new(AttestOptions {
        workload: workload.clone(),
        management,
        namespace: args.namespace.clone(),
        member: cluster.name.map(|name| Member { name, fleet: Arc::clone(fleet) }),
        settings,
        authority: Arc::new(authority),
        serving_authority,
        metrics: metrics.clone(),
        clock: Arc::new(SystemClock::new()),
    });
    Ok(Ready { controller, workload, lease, config: cluster.config })
}

fn serving_authority(
    cluster: &Cluster,
    settings: &Settings,
) -> Result<Option<Arc<CertificateAuthority>>, Failure> {
    match (&cluster.kubelet_serving_cert_file, &cluster.kubelet_serving_key_file) {
        (Some(certificate), Some(key)) => Ok(Some(Arc::new(authority(certificate, key)?))),
        _ if settings.config.serving == Serving::Sign => Err(Failure::input(format_args!(
            "{}: serving: sign needs the authority of serving certificates \
             (--cluster-signing-kubelet-serving-cert-file and --cluster-signing-kubelet-serving-key-file)",
            cluster.config.display()
        ))),
        _ => Ok(None),
    }
}

fn authority(certificate: &Path, key: &Path) -> Result<CertificateAuthority, Failure> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Failure::input(format_args!("cannot read {}: {error}", path.display())))
    };
    CertificateAuthority::from_single_pem(&read(certificate)?, &read(key)?)
        .map_err(|error| Failure::input(format_args!("{}: {error}", certificate.display())))
}

/// The health and metrics of the controllers.
struct Told {
    controllers: Vec<AttestController>,
    metrics: AttestMetrics,
}

impl Health for Told {
    /// Waiting for the lease is not an error; this reports the current leader.
    fn unready(&self) -> Option<String> {
        let waiting = self.controllers.iter().filter(|controller| !controller.is_ready()).count();
        let of = self.controllers.len();
        (waiting > 0)
            .then(|| format!("{waiting} of {of} clusters: waiting for the lease or for the first list"))
    }

    fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }
}
