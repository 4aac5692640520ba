//! `portcullis serve`: a Kubernetes API server with its own store.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use portcullis_client::approver::ApproverMetrics;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::EngineConfig;
use portcullis_server::admission::AdmissionPlugins;
use portcullis_server::audit::Audit;
use portcullis_server::authz::Authorization;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::config::ServeConfig;
use portcullis_server::controller::selection::Selection;
use portcullis_server::controller::{ControllerSettings, Controllers};
use portcullis_server::http::serving_certificate::{self, ServingCertificate};
use portcullis_server::registry::bootstrap_authorities::BootstrapAuthorities;
use portcullis_server::registry::cluster::seed::{SeedError, Seeded};
use portcullis_server::registry::cluster::{Cluster, ClusterError, approver_access};
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_server::signing::Signing;
use portcullis_server::{App, Kinds, Metrics, Server};
use portcullis_store::embedded::Options;
use tokio::signal::unix::{SignalKind, signal};

use crate::approver_flags::{self, ApproverFlags, Prepared as Approver, Working};
use crate::audit_flags::AuditFlags;
use crate::authentication_flags::{AuthenticationFlags, AuthenticationSettings};
use crate::authorization::{AuthorizationFlags, Prepared};
use crate::bootstrap_flags::BootstrapFlags;
use crate::controller_flags::ControllerFlags;
use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::limit_flags::LimitFlags;
use crate::logging::{LoggingFormat, log};
use crate::{backups, open_files};

/// The file of the store, in the data directory.
const STORE: &str = "objects.redb";
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
    bootstrap: BootstrapFlags,

    #[command(flatten)]
    audit: AuditFlags,

    #[command(flatten)]
    controllers: ControllerFlags,

    #[command(flatten)]
    approver: ApproverFlags,

    #[command(flatten)]
    limits: LimitFlags,

    /// The directory of objects, keys, certificates and admin.kubeconfig
    #[arg(long, value_name = "DIR", default_value = "./portcullis-data")]
    data_dir: PathBuf,

    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// Enable optional API versions: GROUP/VERSION=true, comma separated. The optional versions are
    /// authorization.k8s.io/v1beta1, rbac.authorization.k8s.io/v1beta1 and rbac.authorization.k8s.io/v1alpha1
    #[arg(long, value_name = "VERSIONS", default_value = "", hide_default_value = true)]
    runtime_config: String,

    /// Admission plugins to enable, comma separated. All plugins are enabled by default
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,

    /// Admission plugins to disable, comma separated, such as NodeRestriction
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

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
}

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid, or the address or the directory is not available.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    log(args.logging_format, args.verbosity);
    open_files::raise_limit();
    let config = ServeConfig {
        data_dir: args.data_dir.clone(),
        bind_address: args.bind_address,
        secure_port: args.secure_port,
        runtime_config: RuntimeConfig::parse(&args.runtime_config).map_err(Failure::input)?,
        limits: args.limits.limits()?,
    };
    let admission = AdmissionPlugins::switched(
        args.enable_admission_plugins.iter().map(String::as_str),
        args.disable_admission_plugins.iter().map(String::as_str),
    )
    .map_err(Failure::input)?;
    let selection = args.controllers.selection()?;
    let approver = args.approver.prepare(args.limits.serving_certificate().is_some())?;
    let mut metrics = Metrics::default();
    let approver_metrics = approver_flags::metrics(&approver, &mut metrics);
    let (engine, authorization) = args.authorization.prepare(&args.engine, &metrics.webhooks)?;
    let engine = EngineConfig { default_policy: args.default_policy, masters_first: true, ..engine };
    metrics.features.tell(engine.gates.all());
    // A configuration file that allows everything says so explicitly (AN-111).
    let allows_all = engine.modes.contains(&Mode::AlwaysAllow) && !authorization.is_file();
    let authentication = args.authentication.settings(allows_all)?;
    let bootstrap = Bootstrap::prepare(&config.data_dir, config.bind_address, SystemTime::now())
        .map_err(Failure::unreachable)?;
    let signing = Arc::new(args.controllers.signing(&bootstrap)?);
    let background = Background { approver, approver_metrics, selection, signing };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    let certificate = serving_certificate(&args.limits, &config.data_dir, &bootstrap)?;
    let audit = args.audit.open(&metrics.audit)?;
    runtime.spawn(certificate.follow(bootstrap.tls.clone(), serving_certificate::INTERVAL));
    let decisions = Decisions { admission, engine, authorization, metrics };
    runtime.block_on(serve(args, &config, decisions, background, authentication, &bootstrap, audit))
}

/// The authorization, with its metrics.
struct Decisions {
    admission: AdmissionPlugins,
    engine: EngineConfig,
    authorization: Prepared,
    metrics: Metrics,
}

/// Background work: the approver and the controllers.
struct Background {
    approver: Approver,
    approver_metrics: ApproverMetrics,
    selection: Selection,
    signing: Arc<Signing>,
}

async fn serve(
    args: &ServeArgs,
    config: &ServeConfig,
    decisions: Decisions,
    background: Background,
    authentication: AuthenticationSettings,
    bootstrap: &Bootstrap,
    audit: Option<Audit>,
) -> Result<ExitCode, Failure> {
    let Decisions { admission, engine, authorization: prepared, metrics } = decisions;
    let store = config.data_dir.join(STORE);
    let bootstrappers = BootstrapAuthorities::new(args.bootstrap.settings());
    let options = bootstrappers.follow(Options::file(&store));
    let kinds = Kinds::built_in();
    let opened = Cluster::open_seeded(options, &engine, &metrics.store, kinds, &args.engine.state).await;
    let (cluster, seeded) = opened.map_err(|error| match error {
        ClusterError::Seed(SeedError::File(error)) => Failure::input(error),
        ClusterError::Engine(error) => Failure::input(error),
        error => Failure::unreachable(error),
    })?;
    tell(&seeded, &store);
    bootstrappers.load(&cluster.backend).await.map_err(Failure::unreachable)?;
    let (authentication, accounts, authorities) = authentication.over(bootstrap, &cluster.backend)?;
    let authentication = authentication.with_bootstrap_authorities(bootstrappers);
    let authorization = Authorization::new(Arc::clone(&cluster.engine), &metrics.webhooks);
    let members = cluster.engine.chain().members();
    let (authorization, reloader) = prepared.begin(authorization, members, &metrics.webhooks)?;
    let reloading = reloader.map(|reloader| tokio::spawn(reloader.run()));
    let app = App::new(authentication, authorization, config.runtime_config, config.limits);
    let mut app = app.with_admission(admission);
    if let Some(audit) = audit {
        app = app.with_audit(audit);
    }
    let app = Arc::new(app.with_metrics(metrics).with_backend(Arc::clone(&cluster.backend)));
    let backups = backups::write_when_told(Arc::clone(&cluster.backend), config.data_dir.join(BACKUPS));
    let backups = tokio::spawn(backups);
    let reloads = tokio::spawn(authorities.follow(Arc::clone(app.authentication())));
    let selection = match &background.approver {
        Approver::None => background.selection.without("certificatesigningrequest-approving-controller"),
        Approver::Kubernetes | Approver::Machine(..) => background.selection,
    };
    if let Approver::Machine(..) = &background.approver {
        let access = approver_access::ensure(&cluster.backend).await;
        access.map_err(|status| Failure::unreachable(status.message()))?;
    }
    let settings = ControllerSettings {
        approves_renewals_only: matches!(background.approver, Approver::Machine(..)),
        authority: bootstrap.authority_pem().to_owned(),
        accounts: Some(accounts),
        authorization: Some(Arc::clone(app.authorization())),
        signing: Some(background.signing),
        selection,
        bootstrap: args.bootstrap.settings(),
        ..ControllerSettings::default()
    };
    let controllers = Controllers::start(&cluster.backend, settings).await;
    let address = SocketAddr::new(config.bind_address, config.secure_port);
    let server = Server::bind(address, bootstrap.tls.clone(), Arc::clone(&app)).await.map_err(|error| {
        Failure::unreachable(format_args!(
            "cannot listen on {address}: {error} (--bind-address, --secure-port)"
        ))
    })?;
    let address = server
        .local_addr()
        .map_err(|error| Failure::unreachable(format_args!("cannot determine the local address: {error}")))?;
    let kubeconfig = bootstrap.write_kubeconfig(address.port()).map_err(Failure::unreachable)?;
    tracing::info!(%address, "listening");
    let approver = match background.approver {
        Approver::Machine(config, file) => {
            let server = bootstrap.url(address.port());
            Some(Working::start(*config, file, server, bootstrap, background.approver_metrics).await?)
        }
        Approver::Kubernetes | Approver::None => None,
    };
    // Nobody may be reading standard output; that must not stop the server.
    let _ = writeln!(
        std::io::stdout().lock(),
        "Serving on https://{address}\nTry: kubectl --kubeconfig {} get namespaces",
        kubeconfig.display()
    );
    server.serve(told_to_stop(&app, args.limits.shutdown_delay_duration)).await;
    approver.inspect(Working::stop);
    backups.abort();
    reloading.inspect(tokio::task::JoinHandle::abort);
    reloads.abort();
    controllers.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Reports the result of `--state`.
fn tell(seeded: &Seeded, store: &Path) {
    match seeded {
        Seeded::NoFiles => {}
        Seeded::PassedOver => tracing::warn!(
            "--state is passed over: {} holds objects already, and files fill an empty store only. Change objects with \
             kubectl, or begin anew with another --data-dir",
            store.display()
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

/// Returns the serving certificate: a given one, or our own, which can be renewed as well.
fn serving_certificate(
    flags: &LimitFlags,
    dir: &Path,
    bootstrap: &Bootstrap,
) -> Result<ServingCertificate, Failure> {
    let own = || (dir.join("apiserver.crt"), dir.join("apiserver.key"));
    let (certificate, key) = flags.serving_certificate().unwrap_or_else(own);
    let mut serving = ServingCertificate::new(certificate, key);
    serving
        .take_up(&bootstrap.tls)
        .map_err(|error| Failure::input(format_args!("{error} (--tls-cert-file, --tls-private-key-file)")))?;
    Ok(serving)
}

/// Waits for a stop signal, and then for the shutdown delay; a second signal ends the delay.
async fn told_to_stop(app: &App, delay: Duration) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot handle signals; stopping");
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    app.begin_shutdown();
    tracing::info!(?delay, "told to stop");
    tokio::select! {
        () = tokio::time::sleep(delay) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
