//! Runs the webhook.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use portcullis_client::feed::Feed;
use portcullis_client::{Connection, SystemClock};
use portcullis_policy::Kind;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{EngineConfig, LiveEngine};
use portcullis_server::authn::callers::{CallerFiles, Callers};
use portcullis_server::authz::deny_file::DenyFile;
use portcullis_server::authz::secret_alarm::SecretAlarm;
use portcullis_server::certificate_requests::Pkcs10Reader;
use portcullis_server::http::limits::Limits;
use portcullis_server::http::listener::Server;
use portcullis_server::http::serving_certificate;
use portcullis_server::metrics::FeatureMetrics;
use portcullis_server::webhook::metrics::WebhookMetrics;
use portcullis_server::webhook::{Cluster, Following, Parts, Webhook};
use serde_json::json;
use tokio::task::JoinSet;

use crate::alarm_flags::AlarmFlags;
use crate::engine_flags::{EngineFlags, load, runtime};
use crate::failure::Failure;
use crate::limit_flags::duration;
use crate::logging::{LoggingFormat, log};
use crate::serving::serving;
use crate::signals::StopSignals;
use crate::store_flags::EtcdSourceFlags;
use crate::{kubeconfig, memory, open_files};

pub(super) const EXAMPLES: &str = "\
Examples:
  portcullis webhook --kubeconfig webhook.kubeconfig --tls-cert-file tls.crt --tls-private-key-file tls.key \\
    --client-ca-file ca.crt --allowed-names kube-apiserver
  portcullis webhook --etcd-servers https://127.0.0.1:2379 --etcd-cafile ca.crt --etcd-certfile etcd.crt \\
    --etcd-keyfile etcd.key --tls-cert-file tls.crt --tls-private-key-file tls.key
  portcullis webhook --state cluster.json --tls-cert-file tls.crt --tls-private-key-file tls.key
  portcullis webhook rbac | kubectl apply -f -";

/// A body has at most 3 MiB, as in kube-apiserver, and what an AdmissionReview adds to an object. In bytes (BC-6).
const BODY_BYTES: usize = (3 << 20) + (64 << 10);
/// The maximum size of what one caller makes the webhook hold, in bytes. All API servers of a cluster may share one certificate.
const HELD_BYTES: usize = 48 << 20;

/// The flags of the webhook. Names are those of `serve` and `guard` where these have them.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The kubeconfig of the cluster to follow [default: as kubectl, or the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    etcd: EtcdSourceFlags,

    #[command(flatten)]
    callers: CallerFlags,

    #[command(flatten)]
    knowledge: KnowledgeFlags,

    #[command(flatten)]
    alarm: AlarmFlags,

    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind_address: IpAddr,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    secure_port: u16,

    /// The serving certificate, in PEM. Reloaded when it changes
    #[arg(long, value_name = "FILE", required = true)]
    tls_cert_file: Option<PathBuf>,

    /// The key of --tls-cert-file
    #[arg(long, value_name = "FILE", required = true)]
    tls_private_key_file: Option<PathBuf>,

    /// How long to continue serving after a stop signal, with /readyz failing, so that callers go elsewhere
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    shutdown_delay_duration: Duration,

    /// The format of the log
    #[arg(long, value_enum, default_value = "text")]
    logging_format: LoggingFormat,

    /// The log level
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
}

/// The flags for authenticating callers.
#[derive(Args, Debug)]
#[command(next_help_heading = "Callers")]
struct CallerFlags {
    /// Answer callers with a client certificate of these authorities, in PEM. Reloaded when it changes. Without this flag and
    /// --caller-token-file, only callers on the same host are answered
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// The common names of client certificates that are answered [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allowed_names: Vec<String>,

    /// The organizations of client certificates that are answered, whatever their common name [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allowed_organizations: Vec<String>,

    /// Answer callers with a bearer token of this file, which has one token in each line. Reloaded when it changes
    #[arg(long, value_name = "FILE")]
    caller_token_file: Option<PathBuf>,
}

/// When decisions wait, and when they end.
#[derive(Args, Debug)]
#[command(next_help_heading = "Knowledge of the cluster")]
struct KnowledgeFlags {
    /// How long a node that is about to be refused waits for objects that may not have arrived yet; 0 for not at all
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    wait_for_graph: Duration,

    /// After how long without an event or a bookmark a kind of objects counts as unknown
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = duration)]
    max_staleness: Duration,
}

/// Runs the webhook until it is told to stop.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    log(args.logging_format, args.verbosity);
    open_files::raise_limit();
    memory::keep_small();
    runtime()?.block_on(webhook(args))
}

async fn webhook(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_private_key_file) else {
        return Err(Failure::input("--tls-cert-file and --tls-private-key-file are required"));
    };
    let config = config(&args.engine)?;
    let (callers, files) = callers(&args.callers)?;
    let (tls, certificate) = serving(certificate, key, callers.asks_for_certificates())?;
    let mut tasks = JoinSet::new();
    let gates = config.gates;
    let modes: Vec<&str> = config.modes.iter().map(|mode| mode.name()).collect();
    let configz = json!({"portcullis.dev/webhook": {
        "authorizationModes": modes,
        "maxStaleness": format!("{:?}", args.knowledge.max_staleness),
        "waitForGraph": format!("{:?}", args.knowledge.wait_for_graph),
        "shutdownDelayDuration": format!("{:?}", args.shutdown_delay_duration),
    }});
    let metrics = WebhookMetrics::new(FeatureMetrics::of_gates(gates.all()));
    let connections = metrics.connections.clone();
    // Objects of files are all there; of a cluster only the kinds that something needs are followed.
    let has_namespaces =
        !args.engine.state.is_empty() || Following::kinds(&config).contains(&Kind::Namespace);
    let deny_file = args
        .engine
        .deny_file
        .clone()
        .zip(config.deny.clone())
        .map(|(path, rules)| DenyFile::new(path, rules, has_namespaces, metrics.deny_rules.clone()));
    // Events would need the right to write them; the metric and the log need none.
    let alarm =
        args.alarm.node_secret_alarm.map(|most| SecretAlarm::new(most, metrics.secret_alarm.clone(), None));
    let cluster = cluster(args, config, &mut tasks).await?;
    if let Some(file) = deny_file {
        tasks.spawn(file.run(|| {}));
    }
    let webhook = Webhook::new(Parts {
        callers: Arc::clone(&callers),
        cluster: Arc::new(cluster),
        alarm,
        limits: Limits { body_bytes: BODY_BYTES, held_bytes: HELD_BYTES, ..Limits::default() },
        metrics,
        configz,
    });
    let webhook =
        Arc::new(webhook.map_err(|error| Failure::unreachable(format_args!("cannot start: {error}")))?);
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let server = Server::bind(address, tls.clone(), Arc::clone(&webhook)).await.map_err(|error| {
        Failure::unreachable(format_args!(
            "cannot listen on {address}: {error}; see --bind-address and --secure-port"
        ))
    })?;
    let bound = server.local_addr()?;
    tasks.spawn(certificate.follow(tls, connections, serving_certificate::INTERVAL));
    tasks.spawn(files.follow(Arc::clone(&callers)));
    let mut stop = StopSignals::handle()?;
    if callers.is_local_only() {
        tracing::warn!(
            "only callers on this host are answered; see --client-ca-file and --caller-token-file"
        );
    }
    if callers.takes_every_certificate() {
        tracing::warn!(
            "every certificate of --client-ca-file is answered, those of nodes as well; name the API server with \
             --allowed-names"
        );
    }
    tracing::info!(address = %bound, "answering reviews");
    println!("Answering reviews at https://{bound}");
    Webhook::serve(server)
        .until(async {
            stop.received().await;
            tracing::info!("stopping: not ready from now on");
            webhook.drain();
            // A second signal ends the wait.
            tokio::select! {
                () = tokio::time::sleep(args.shutdown_delay_duration) => {}
                () = stop.received() => {}
            }
        })
        .await;
    webhook.stop_following();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The configuration of the engine (BC-10). Modes that decide without looking are refused: a webhook that allows everything would
/// be a mistake.
fn config(flags: &EngineFlags) -> Result<EngineConfig, Failure> {
    let modes = flags.modes()?;
    if let Some(mode) =
        modes.iter().find(|mode| !matches!(mode, Mode::Deny | Mode::Node | Mode::Rbac | Mode::Abac))
    {
        return Err(Failure::input(format_args!(
            "--authorization-mode {}: a webhook has the modes Deny, Node, RBAC and ABAC",
            mode.name()
        )));
    }
    let config = flags.config_of(modes, false)?;
    Ok(EngineConfig { admission: true, certificate_requests: Some(Arc::new(Pkcs10Reader)), ..config })
}

fn callers(flags: &CallerFlags) -> Result<(Arc<Callers>, CallerFiles), Failure> {
    let (callers, files) = Callers::read(
        flags.client_ca_file.clone(),
        flags.allowed_names.clone(),
        flags.allowed_organizations.clone(),
        flags.caller_token_file.clone(),
    )
    .map_err(Failure::input)?;
    Ok((Arc::new(callers), files))
}

/// The objects of files, or a cluster that is followed: by its API server, or its etcd.
async fn cluster(args: &RunArgs, config: EngineConfig, tasks: &mut JoinSet<()>) -> Result<Cluster, Failure> {
    let has_kubeconfig = args.kubeconfig.is_some() || args.context.is_some();
    let is_fixed = !args.engine.state.is_empty();
    if [has_kubeconfig, is_fixed, args.etcd.etcd.is_given()].into_iter().filter(|given| *given).count() > 1 {
        return Err(Failure::input(
            "--state, --kubeconfig and --etcd-servers name several states: leave all but one out",
        ));
    }
    let content = args.etcd.content().await?;
    if is_fixed {
        let (engine, _) = load(config, &args.engine.state)?;
        return Ok(Cluster::Fixed(Box::new(engine)));
    }
    let engine = Arc::new(LiveEngine::new(&config).map_err(Failure::input)?);
    let kinds = Following::kinds(&config);
    let KnowledgeFlags { wait_for_graph, max_staleness } = args.knowledge;
    let clock = Arc::new(SystemClock::new());
    // A quiet kind is heard of in time.
    let silence = max_staleness / 3;
    let feed = match content {
        Some(content) => {
            let (etcd, reloading) = content.follow()?;
            tasks.spawn(reloading);
            let source = |kind: &Kind| Ok::<_, Failure>((*kind, etcd.source(*kind, silence)?));
            let sources = kinds.iter().map(source).collect::<Result<_, _>>()?;
            let first = kinds.first().copied();
            Feed::of(sources, move || etcd.clone().newest(first), Arc::clone(&engine), clock)
        }
        None => {
            let connection = Connection::infer(args.kubeconfig.as_deref(), args.context.as_deref())
                .await
                .map_err(Failure::input)?;
            tasks.spawn(kubeconfig::refresh(connection.clone()));
            Feed::follow(&connection, &kinds, Arc::clone(&engine), clock, silence)
        }
    };
    let following = Following::new((engine, &config), feed, max_staleness, wait_for_graph);
    Ok(Cluster::Followed(following))
}
