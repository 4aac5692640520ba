//! `portcullis serve`: a Kubernetes API server with its own store.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use portcullis_policy::FeatureGates;
use portcullis_policy::engine::EngineConfig;
use portcullis_server::admission::{AdmissionConfiguration, AdmissionPlugins};
use portcullis_server::encryption::EncryptionConfig;
use portcullis_server::registry::cluster::seed::Seeded;
use portcullis_server::registry::definition_sets::DefinitionSet;
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_server::{
    AddressRanges, ApiServer, App, Config, Metrics, PortRange, ServiceRanges, StartError,
};
use sd_notify::NotifyState;
use tokio::task::JoinSet;

use crate::alarm_flags::AlarmFlags;
use crate::approver_flags::{ApproverFlags, InProcess};
use crate::audit_flags::AuditFlags;
use crate::authentication_flags::AuthenticationFlags;
use crate::authorization::AuthorizationFlags;
use crate::bootstrap_flags::BootstrapFlags;
use crate::controller_flags::ControllerFlags;
use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::filter_flags::FilterFlags;
use crate::kube_apiserver_flags::KubeApiserverFlags;
use crate::kubelet_flags::KubeletFlags;
use crate::lease_flags::identity;
use crate::limit_flags::LimitFlags;
use crate::logging::{LoggingFormat, log};
use crate::signals::StopSignals;
use crate::storage_flags::StorageFlags;
use crate::{backups, open_files};

/// The folder of the backups, in the data directory.
const BACKUPS: &str = "backups";

/// Serve the Kubernetes API over HTTPS, for kubectl, kubelets and controllers
///
/// Objects are stored in the data directory. The first start also creates a certificate authority, a serving
/// certificate, and a client certificate with a kubeconfig for the administrator there. An empty store can be seeded
/// with the objects of files (--state); once it contains objects, the files are ignored.
///
/// SIGUSR1 writes a backup to DIR/backups while serving; docs/backup.md says how to restore it.
///
/// DIVERGES from kube-apiserver: the default modes are Node,RBAC, not AlwaysAllow.
///
/// Exit codes: 0 stopped; 2 bad flags or input; 3 the address or the data directory is not available.
#[derive(Args, Debug)]
pub struct ServeArgs {
    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    authentication: AuthenticationFlags,

    #[command(flatten)]
    authorization: AuthorizationFlags,

    #[command(flatten)]
    alarm: AlarmFlags,

    #[command(flatten)]
    bootstrap: BootstrapFlags,

    #[command(flatten)]
    audit: AuditFlags,

    #[command(flatten)]
    controllers: ControllerFlags,

    #[command(flatten)]
    approver: ApproverFlags,

    #[command(flatten)]
    kubelets: KubeletFlags,

    #[command(flatten)]
    limits: LimitFlags,

    #[command(flatten)]
    filter: FilterFlags,

    #[command(flatten)]
    storage: StorageFlags,

    /// The directory of objects, keys, certificates and admin.kubeconfig
    #[arg(long, value_name = "DIR", default_value = "./portcullis-data")]
    data_dir: PathBuf,

    /// Definitions of custom kinds to create at start, unless they are there: machines (those of Cluster API and of OpenShift)
    #[arg(long, value_name = "SETS", value_delimiter = ',')]
    install_crds: Vec<DefinitionSet>,

    /// The EncryptionConfiguration for stored objects. After the configuration has changed, the server rewrites the file of the
    /// embedded store when it starts; objects in etcd are encrypted anew when they are written next
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,

    /// Whether a changed --encryption-provider-config is used without a restart. The file is read every second; an invalid one
    /// is logged and changes nothing. After a change the server rewrites the file of the store
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    encryption_provider_config_automatic_reload: bool,

    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,

    /// The address at which the cluster reaches the server, for the endpoints of the service default/kubernetes [default:
    /// --bind-address, unless that is a loopback address or all addresses]
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// The range of the cluster IPs of services, such as 10.96.0.0/12; with a comma, one range each for IPv4 and IPv6, of
    /// which the first is the default
    #[arg(long, value_name = "CIDRS", default_value = "10.0.0.0/24")]
    service_cluster_ip_range: AddressRanges,

    /// The range of the node ports of services: FIRST-LAST, both inclusive
    #[arg(long, value_name = "PORTS", default_value = "30000-32767")]
    service_node_port_range: PortRange,

    /// Enable optional API versions: GROUP/VERSION=true, comma separated. Repeatable. The optional versions are
    /// authorization.k8s.io/v1beta1, certificates.k8s.io/v1beta1, rbac.authorization.k8s.io/v1beta1 and
    /// rbac.authorization.k8s.io/v1alpha1. Other versions of Kubernetes 1.36 are accepted without effect
    #[arg(long, value_name = "VERSIONS")]
    runtime_config: Vec<String>,

    /// Admission plugins to enable, comma separated. All plugins are enabled by default
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,

    /// Admission plugins to disable, comma separated, such as NodeRestriction
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

    /// The AdmissionConfiguration: defaults and exemptions of PodSecurity, and the resources that need a quota (ResourceQuota)
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,

    /// Write the missing parts of the default RBAC policy of Kubernetes at each start
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    default_policy: bool,

    /// The log level: 0 to 2 the usual messages, 3 a line for each request, 4 and 5 debug messages, 6 and more
    /// everything. The environment variable RUST_LOG, if set, takes precedence
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,

    /// The format of the log on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    logging_format: LoggingFormat,

    #[command(flatten)]
    kube_apiserver: KubeApiserverFlags,
}

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid, or the address or the directory is not available.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    log(args.logging_format, args.verbosity);
    open_files::raise_limit();
    let mut metrics = Metrics::default();
    let approver = args.approver.in_process(args.limits.serving_certificate().is_some(), &mut metrics)?;
    let config = config(args, metrics)?;
    tell_without_effect(args);
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    runtime.block_on(serve(args, config, approver))
}

/// Reads the flags and the files that they name.
fn config(args: &ServeArgs, metrics: Metrics) -> Result<Config, Failure> {
    let admission = AdmissionPlugins::switched(
        args.enable_admission_plugins.iter().map(String::as_str),
        args.disable_admission_plugins.iter().map(String::as_str),
    );
    let (engine, authorization) = args.authorization.prepare(&args.engine, &metrics.webhooks)?;
    let engine = EngineConfig { default_policy: args.default_policy, masters_first: true, ..engine };
    metrics.features.tell(engine.gates.all());
    Ok(Config {
        data_dir: args.data_dir.clone(),
        storage: args.storage.storage()?,
        identity: identity(),
        state: args.engine.state.clone(),
        bind_address: args.bind_address,
        secure_port: args.secure_port,
        advertise_address: args.advertise_address,
        serving_certificate: args.limits.serving_certificate(),
        filter_lists: args.filter.filter_lists(),
        limits: args.limits.limits()?,
        store_quota: args.limits.store_quota(),
        encryption: encryption(args)?,
        install_definitions: args.install_crds.clone(),
        runtime_config: RuntimeConfig::parse(&args.runtime_config.join(",")).map_err(Failure::input)?,
        authentication: args.authentication.config()?,
        service_ranges: ServiceRanges {
            addresses: args.service_cluster_ip_range.clone(),
            ports: args.service_node_port_range.clone(),
        },
        bootstrap_authorities: args.bootstrap.settings(),
        engine,
        deny_file: args.engine.deny_file.clone(),
        node_secret_alarm: args.alarm.node_secret_alarm,
        authorization,
        admission: admission.map_err(Failure::input)?,
        admission_configuration: admission_configuration(args)?,
        controllers: args.controllers.selection()?,
        controller_settings: args.controllers.settings()?,
        approver: args.approver.approver(),
        kubelets: args.kubelets.settings(),
        signing: args.controllers.signing()?,
        signing_duration: args.controllers.cluster_signing_duration,
        audit: args.audit.open(&metrics.audit)?,
        metrics,
        ..Config::default()
    })
}

/// Reads the file with the configurations of admission plugins.
fn admission_configuration(args: &ServeArgs) -> Result<AdmissionConfiguration, Failure> {
    let Some(file) = &args.admission_control_config_file else {
        return Ok(AdmissionConfiguration::default());
    };
    AdmissionConfiguration::load(file).map_err(|error| {
        Failure::input(format_args!("--admission-control-config-file {}: {error}", file.display()))
    })
}

/// Reads the file of encryption at rest.
fn encryption(args: &ServeArgs) -> Result<EncryptionConfig, Failure> {
    let is_reloaded = args.encryption_provider_config_automatic_reload;
    match &args.encryption_provider_config {
        Some(file) => EncryptionConfig::load(file, is_reloaded).map_err(|error| {
            Failure::input(format_args!("--encryption-provider-config {}: {error}", file.display()))
        }),
        None if is_reloaded => Err(Failure::input(
            "--encryption-provider-config-automatic-reload needs --encryption-provider-config",
        )),
        None => Ok(EncryptionConfig::default()),
    }
}

/// Tells once what was accepted and changes nothing.
fn tell_without_effect(args: &ServeArgs) {
    let flags: Vec<String> = args.kube_apiserver.given.iter().map(|name| format!("--{name}")).collect();
    let gates = args.engine.feature_gates.join(",");
    let versions = args.runtime_config.join(",");
    let plugins = args.enable_admission_plugins.iter().map(String::as_str);
    let lists = [
        flags.join(" "),
        FeatureGates::without_effect(&gates).collect::<Vec<_>>().join(" "),
        RuntimeConfig::without_effect(&versions).collect::<Vec<_>>().join(" "),
        AdmissionPlugins::without_effect(plugins).collect::<Vec<_>>().join(" "),
    ];
    if lists.iter().any(|list| !list.is_empty()) {
        let [flags, gates, versions, plugins] = &lists;
        tracing::warn!(flags, gates, versions, plugins, "accepted from the command line without effect");
    }
}

async fn serve(args: &ServeArgs, config: Config, approver: Option<InProcess>) -> Result<ExitCode, Failure> {
    let mut stop = StopSignals::handle()?;
    let started = tokio::select! {
        started = ApiServer::new(config) => started,
        // It may wait for etcd for long.
        () = stop.received() => {
            tracing::info!("stopped before it was ready");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let server = started.map_err(|error| match error {
        StartError::Invalid(error) => Failure::input(error),
        StartError::Unavailable(error) => Failure::unreachable(error),
    })?;
    tell(server.seeded(), &args.storage.describe(&args.data_dir));
    let address = server.address();
    tracing::info!(%address, "ready");
    let mut background = JoinSet::new();
    background.spawn(backups::write_on(
        backups::signals()?,
        Arc::clone(server.backend()),
        args.data_dir.join(BACKUPS),
    ));
    if let Some(approver) = approver {
        approver.start(&server, &mut background).await?;
    }
    let mut greeting = format!(
        "Serving on https://{address}\nTry: kubectl --kubeconfig {} get namespaces",
        server.kubeconfig().display()
    );
    // A warning in the log is easily missed, and every answer would be about other objects.
    if matches!(server.seeded(), Seeded::PassedOver) {
        greeting.push_str(
            "\nNote: --state was not used, because there are objects from before. The log says more.",
        );
    }
    // Nobody may be reading standard output; that must not stop the server.
    let _ = writeln!(std::io::stdout().lock(), "{greeting}");
    // For units of systemd with `Type=notify`. Without systemd there is nobody to tell.
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        tracing::warn!(%error, "cannot tell systemd that the server is ready");
    }
    let app = Arc::clone(server.app());
    server.serve(told_to_stop(stop, &app, args.limits.shutdown_delay_duration)).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Reports the result of `--state`.
fn tell(seeded: &Seeded, store: &str) {
    match seeded {
        Seeded::NoFiles => {}
        Seeded::PassedOver => tracing::warn!(
            "--state is passed over: {} holds objects already, and files fill an empty store only. Change objects with \
             kubectl, or begin anew with another --data-dir",
            store
        ),
        Seeded::Done(summary) => {
            tracing::info!(
                files = summary.files,
                objects = summary.objects,
                ignored = summary.ignored,
                "the store begins with the objects of --state"
            );
            if !summary.namespaces.is_empty() {
                tracing::info!(namespaces = summary.namespaces.join(","), "created the missing namespaces");
            }
            if summary.unknown_fields > 0 {
                tracing::warn!(count = summary.unknown_fields, "ignored unknown fields");
            }
        }
    }
}

/// Waits for a stop signal, and then for the shutdown delay; a second signal ends the delay.
async fn told_to_stop(mut stop: StopSignals, app: &App, delay: Duration) {
    stop.received().await;
    app.begin_shutdown();
    tracing::info!(?delay, "told to stop");
    tokio::select! {
        () = tokio::time::sleep(delay) => {}
        () = stop.received() => {}
    }
}
