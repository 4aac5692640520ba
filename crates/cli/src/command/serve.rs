//! `portcullis serve`: an API server, or an API endpoint that decides over a snapshot of a cluster.

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use portcullis_policy::engine::EngineConfig;
use portcullis_server::api::rest::system_namespaces;
use portcullis_server::authn::Authentication;
use portcullis_server::authz::Authorization;
use portcullis_server::backend::Backend;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::config::{Limits, RuntimeConfig, ServeConfig};
use portcullis_server::metrics::Metrics;
use portcullis_server::state::{Source, Watch};
use portcullis_server::token_file::TokenFile;
use portcullis_server::{App, Server};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::engine_flags::{EngineFlags, threads};
use crate::failure::Failure;

/// How often the state files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Serve the Kubernetes API over HTTPS, on a store of its own or over a snapshot of a cluster
///
/// The first start makes a certificate authority, a serving certificate, and a client certificate with a kubeconfig for
/// the administrator in the data directory. Objects are kept there as well. With --state nothing is kept: access
/// reviews alone are answered, over the objects in those files, which are read again when they change; a broken file
/// leaves the old state in force. DIVERGES from kube-apiserver: the default modes are Node,RBAC, not AlwaysAllow.
///
/// Exit codes: 0 told to stop; 2 bad flags or input; 3 the address or the data directory cannot be had.
#[derive(Args, Debug)]
pub struct ServeArgs {
    #[command(flatten)]
    engine: EngineFlags,

    /// Where keys, certificates and admin.kubeconfig are kept
    #[arg(long, value_name = "DIR", default_value = "./portcullis-data")]
    data_dir: PathBuf,

    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// Serve requests without credentials as system:anonymous
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    anonymous_auth: bool,

    /// Take these static tokens: a CSV file of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Switch API versions on or off: authorization.k8s.io/v1beta1=true
    #[arg(long, value_name = "VERSIONS", default_value = "", hide_default_value = true)]
    runtime_config: String,

    /// Have the default RBAC policy of Kubernetes beside the objects; objects of the same name win
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    default_policy: bool,

    /// How the log on standard error is written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    logging_format: LoggingFormat,
}

/// Forms of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoggingFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Runs the command.
///
/// # Errors
/// Flags or objects that cannot be used, or an address or a directory that cannot be had.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    log(args.logging_format);
    let config = ServeConfig {
        data_dir: args.data_dir.clone(),
        bind_address: args.bind_address,
        secure_port: args.secure_port,
        anonymous_auth: args.anonymous_auth,
        runtime_config: RuntimeConfig::parse(&args.runtime_config).map_err(Failure::input)?,
        limits: Limits::default(),
    };
    let engine =
        EngineConfig { default_policy: args.default_policy, masters_first: true, ..args.engine.config()? };
    let source = Source { paths: args.engine.state.clone(), config: engine, threads: threads() };
    let started = Instant::now();
    let (watch, engine, summary) = Watch::start(source).map_err(Failure::input)?;
    let loaded = started.elapsed();
    tracing::info!(
        files = summary.files,
        objects = summary.object_count(),
        ignored = summary.ignored_count(),
        seconds = loaded.as_secs_f64(),
        "state loaded"
    );
    let bootstrap = Bootstrap::prepare(&config.data_dir, config.bind_address, SystemTime::now())
        .map_err(Failure::unreachable)?;
    let tokens = tokens(args.token_auth_file.as_deref())?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        let authentication =
            Authentication::new(bootstrap.clients.clone(), config.anonymous_auth).with_tokens(tokens);
        let metrics = Metrics::default();
        metrics.state.loaded(&engine, &summary, loaded);
        let authorization = Authorization::new(engine);
        let app = App::new(authentication, authorization, config.runtime_config, config.limits);
        let mut app = app.with_metrics(metrics);
        if args.engine.state.is_empty() {
            app = app.with_backend(objects(&config.data_dir).await?);
        }
        let app = Arc::new(app);
        let address = SocketAddr::new(config.bind_address, config.secure_port);
        let server =
            Server::bind(address, bootstrap.tls.clone(), Arc::clone(&app)).await.map_err(|error| {
                Failure::unreachable(format_args!(
                    "cannot listen on {address}: {error} (--bind-address, --secure-port)"
                ))
            })?;
        let address = server
            .local_addr()
            .map_err(|error| Failure::unreachable(format_args!("cannot tell the address: {error}")))?;
        let kubeconfig = bootstrap.write_kubeconfig(address.port()).map_err(Failure::unreachable)?;
        tracing::info!(%address, "listening");
        println!("Serving on https://{address}");
        let first = if app.backend().is_some() { "get namespaces" } else { "auth can-i --list" };
        println!("Try: kubectl --kubeconfig {} {first}", kubeconfig.display());
        let stop = Arc::new(AtomicBool::new(false));
        let watching = std::thread::spawn({
            let (app, stop) = (Arc::clone(&app), Arc::clone(&stop));
            move || follow(watch, &app, &stop)
        });
        server.serve(told_to_stop()).await;
        stop.store(true, Ordering::Relaxed);
        watching.thread().unpark();
        if watching.join().is_err() {
            tracing::error!("the thread that watches the state files had failed");
        }
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    })
}

/// The users of the file of tokens.
fn tokens(path: Option<&Path>) -> Result<TokenFile, Failure> {
    let Some(path) = path else { return Ok(TokenFile::default()) };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::input(format_args!("{}: {error} (--token-auth-file)", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    TokenFile::read(&text).map_err(|error| failed(&error))
}

/// The store in the data directory, with the namespaces that every cluster has.
async fn objects(data_dir: &Path) -> Result<Backend, Failure> {
    let path = data_dir.join("objects.redb");
    let backend = Backend::open(&path)
        .map_err(|error| Failure::unreachable(format_args!("{}: {error} (--data-dir)", path.display())))?;
    system_namespaces::ensure(&backend)
        .await
        .map_err(|status| Failure::unreachable(format_args!("{}: {}", path.display(), status.message())))?;
    Ok(backend)
}

fn log(format: LoggingFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .with_writer(std::io::stderr);
    // A second log cannot be set; the first one goes on then.
    let _ = match format {
        LoggingFormat::Json => log.json().try_init(),
        LoggingFormat::Text => log.try_init(),
    };
}

/// Takes every change of the state files in. A file that cannot be used changes nothing but the log and a metric.
fn follow(mut watch: Watch, app: &App, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(LOOK);
        let started = Instant::now();
        match watch.check() {
            None => {}
            Some(Ok((engine, summary))) => {
                app.metrics().state.loaded(&engine, &summary, started.elapsed());
                app.authorization().replace(engine);
                tracing::info!(files = summary.files, objects = summary.object_count(), "state reloaded");
            }
            Some(Err(error)) => {
                app.metrics().state.refused();
                tracing::error!(%error, "the changed state cannot be used; the old one stays in force");
            }
        }
    }
}

/// Waits for the signals that mean stop.
async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be received; stopping");
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
