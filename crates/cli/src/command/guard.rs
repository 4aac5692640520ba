//! `portcullis guard`: least privilege on a kubelet's own port.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use portcullis_client::Connection;
use portcullis_client::rbac::{self, LocalRbac};
use portcullis_client::review::cache::Ttl;
use portcullis_client::review::{ReviewMetrics, Reviews, Settings as ReviewSettings};
use portcullis_policy::features::{Feature, FeatureGates};
use portcullis_policy::kubelet_api::Settings;
use portcullis_server::audit::sink::Rotation;
use portcullis_server::audit::{Mode as LogMode, Sink, SinkOptions, WhenFull};
use portcullis_server::authn::delegated::{ClientAuthorities, Delegated};
use portcullis_server::guard::access_log::AccessLog;
use portcullis_server::guard::metrics::GuardMetrics;
use portcullis_server::guard::rates::Rates;
use portcullis_server::guard::upstream::{Kubelet, KubeletConfig};
use portcullis_server::guard::{Authorization, Guard, Member, Parts};
use portcullis_server::http::limits::Limits;
use portcullis_server::http::listener::Server;
use portcullis_server::http::serving_certificate;
use portcullis_server::metrics::FeatureMetrics;
use prometheus_client::registry::Registry;

use crate::failure::Failure;
use crate::health::{self, Health};
use crate::limit_flags::duration;
use crate::logging::{LoggingFormat, log};
use crate::serving::serving;
use crate::signals::StopSignals;
use crate::{kubeconfig, memory, open_files};

/// Run in front of a kubelet, and forward only authorized requests
///
/// Serves the kubelet's API on the node's address: callers are authenticated by client certificates and TokenReviews,
/// and authorized by SubjectAccessReviews on nodes/pods, nodes/healthz, nodes/configz and the other subresources of
/// nodes, for a kubelet of any version. The kubelet itself listens on the loopback address and trusts only the guard's
/// certificate.
///
/// Unlike with a kubelet, exec, attach, run and port-forward also require the verb create, whatever the HTTP method, so
/// that get on nodes/proxy no longer runs commands (--exec-requires-create=false for the behaviour of a kubelet).
///
/// docs/guard.md is a tutorial; docs/kubelet-api.md lists every endpoint and the permissions that it requires.
///
/// Exit codes: 0 stopped; 2 bad flags or input; 3 the address is not available.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GuardArgs {
    /// The kubeconfig of the API server for authentication and authorization [default: as kubectl, or the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The name of the node, as the kubelet registers it [default: the host's name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,

    /// The address to listen on: the node's, with the kubelet on 127.0.0.1
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    address: IpAddr,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    port: u16,

    /// The serving certificate, in PEM: may be the kubelet's own. Reloaded when it changes
    #[arg(long, value_name = "FILE")]
    tls_cert_file: PathBuf,

    /// The key of --tls-cert-file; may be the same file
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: PathBuf,

    #[command(flatten)]
    kubelet: KubeletFlags,

    #[command(flatten)]
    callers: CallerFlags,

    #[command(flatten)]
    log: LogFlags,

    /// Requests per second for each user; 0 for no limit. Requests above it are answered with 429
    #[arg(long, value_name = "COUNT", default_value_t = 0.0, value_parser = rate)]
    user_qps: f64,

    /// The burst of requests for each user [default: twice --user-qps]
    #[arg(long, value_name = "COUNT")]
    user_burst: Option<u32>,

    /// The time without any byte after which an exec, attach or port-forward is closed; 0 for no limit
    #[arg(long, value_name = "TIME", default_value = "4h0m0s", value_parser = duration)]
    streaming_connection_idle_timeout: Duration,

    /// The address of /healthz, /readyz and /metrics of the guard, over HTTP [default: none]
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
Example, on a node whose kubelet has `address: 127.0.0.1` in its configuration:
  portcullis guard --address 192.0.2.10 --node-name node-1 --kubeconfig /etc/portcullis/guard.kubeconfig \\
    --tls-cert-file /var/lib/kubelet/pki/kubelet-server-current.pem \\
    --tls-private-key-file /var/lib/kubelet/pki/kubelet-server-current.pem \\
    --client-ca-file /etc/kubernetes/pki/ca.crt \\
    --kubelet-certificate-authority /etc/kubernetes/pki/ca.crt \\
    --kubelet-client-certificate /etc/portcullis/guard.crt --kubelet-client-key /etc/portcullis/guard.key";

/// The kubelet behind the guard. Names are kube-apiserver's.
#[derive(Args, Debug)]
#[command(next_help_heading = "The kubelet")]
struct KubeletFlags {
    /// The address of the kubelet
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:10250")]
    kubelet_address: String,

    /// The name that the kubelet's certificate must contain [default: the node's name]
    #[arg(long, value_name = "NAME")]
    kubelet_server_name: Option<String>,

    /// The CA of the kubelet's certificate, in PEM: an authority, or the self-signed certificate itself
    #[arg(long, value_name = "FILE")]
    kubelet_certificate_authority: PathBuf,

    /// The guard's client certificate for the kubelet, in PEM
    #[arg(long, value_name = "FILE")]
    kubelet_client_certificate: PathBuf,

    /// The key of --kubelet-client-certificate; may be the same file
    #[arg(long, value_name = "FILE")]
    kubelet_client_key: PathBuf,

    /// Whether the kubelet serves exec, logs and other debugging endpoints, as its own flag of this name says
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true",
        default_missing_value = "true", require_equals = true
    )]
    enable_debugging_handlers: bool,
}

/// The flags of authentication and authorization. Names are the kubelet's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Who may do what")]
struct CallerFlags {
    /// The client certificate authorities, in PEM. Reloaded when it changes
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Authenticate bearer tokens by the API server
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true",
        default_missing_value = "true", require_equals = true
    )]
    authentication_token_webhook: bool,

    /// How long responses about tokens are cached
    #[arg(long, value_name = "TIME", default_value = "2m0s", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Duration,

    /// Allow requests without credentials as system:anonymous, with the permissions of that user
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "false",
        default_missing_value = "true", require_equals = true
    )]
    anonymous_auth: bool,

    /// The authorizers, in order; the first that allows wins. RBAC watches the cluster's roles and bindings, and sends
    /// no review for what they allow
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "Webhook")]
    authorization_mode: Vec<Mode>,

    /// How long reviews that allow are cached
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Duration,

    /// How long all other reviews are cached
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,

    /// KubeletFineGrainedAuthz=false: nodes/pods, nodes/healthz and nodes/configz grant nothing, as before Kubernetes 1.33
    #[arg(action = ArgAction::Set, long, value_name = "GATES", default_value = "", hide_default_value = true, value_parser = gates)]
    feature_gates: bool,

    /// Also require create where a request runs code in a container or connects to one
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true",
        default_missing_value = "true", require_equals = true
    )]
    exec_requires_create: bool,

    /// Accept nodes/containerlogs, nodes/exec, nodes/attach, nodes/run and nodes/portforward as permissions for their
    /// endpoints
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "false",
        default_missing_value = "true", require_equals = true
    )]
    finer_subresources: bool,
}

/// See [`Member`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Mode {
    /// Every authenticated user is allowed
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// The roles and bindings of the cluster
    #[value(name = "RBAC")]
    Rbac,
    /// The API server
    #[value(name = "Webhook")]
    Webhook,
}

/// The access log, if any.
#[derive(Args, Debug)]
#[command(next_help_heading = "Access log")]
struct LogFlags {
    /// The file of the access log, with one JSON object per line; - for standard output [default: none]
    #[arg(long, value_name = "FILE")]
    access_log_path: Option<PathBuf>,

    /// Days that rotated files are kept; 0 for unlimited
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    access_log_maxage: u32,

    /// The number of rotated files that are kept; 0 for all
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    access_log_maxbackup: usize,

    /// The size in megabytes at which a file is rotated; 0 for never
    #[arg(long, value_name = "MB", default_value_t = 100)]
    access_log_maxsize: u32,

    /// Compress rotated files
    #[arg(long)]
    access_log_compress: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    (number.is_finite() && number >= 0.0).then_some(number).ok_or_else(|| format!("{text} is below 0"))
}

/// Parses whether fine-grained authorization is enabled. DIVERGES: the gate is locked in Kubernetes 1.36; here it can
/// be disabled, as in the kubelets of older releases.
fn gates(text: &str) -> Result<bool, String> {
    match text {
        "" | "KubeletFineGrainedAuthz=true" => Ok(true),
        "KubeletFineGrainedAuthz=false" => Ok(false),
        _ => Err("the only gate is KubeletFineGrainedAuthz: set it to true or false".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// Flags or files are invalid, or the address is not available.
pub fn run(args: &GuardArgs) -> Result<ExitCode, Failure> {
    log(args.logging_format, args.verbosity);
    open_files::raise_limit();
    memory::keep_small();
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    runtime.block_on(guard(args))
}

async fn guard(args: &GuardArgs) -> Result<ExitCode, Failure> {
    let node_name = node_name(args);
    let callers = &args.callers;
    let asks_clients = callers.client_ca_file.is_some();
    let (tls, certificate) = serving(&args.tls_cert_file, &args.tls_private_key_file, asks_clients)?;
    let kubelet = Arc::new(kubelet(&args.kubelet, &node_name)?);
    let authorities = callers
        .client_ca_file
        .clone()
        .map(ClientAuthorities::read)
        .transpose()
        .map_err(|error| Failure::input(format_args!("--client-ca-file: {error}")))?;
    let (authorities, clients) = authorities.unzip();
    let modes: BTreeSet<Mode> = callers.authorization_mode.iter().copied().collect();
    if modes.len() != callers.authorization_mode.len() {
        return Err(Failure::input("--authorization-mode names a mode twice"));
    }
    let reviews = ReviewMetrics::default();
    let needs_server = callers.authentication_token_webhook || modes.iter().any(|m| *m != Mode::AlwaysAllow);
    let api = match needs_server {
        true => Some(Api::connect(args, &modes, reviews.clone()).await?),
        false => None,
    };
    let tokens = api.as_ref().filter(|_| callers.authentication_token_webhook).map(|api| api.reviews.clone());
    let authentication = Arc::new(Delegated::new(clients, tokens, callers.anonymous_auth));
    let metrics = GuardMetrics::default();
    let settings = Settings {
        fine_grained: callers.feature_gates,
        exec_requires_create: callers.exec_requires_create,
        finer_subresources: callers.finer_subresources,
    };
    let guard = Arc::new(Guard::new(Parts {
        authentication: Arc::clone(&authentication),
        authorization: Authorization::new(members(&callers.authorization_mode, api.as_ref())),
        node_name: node_name.clone(),
        settings,
        debugging_handlers: args.kubelet.enable_debugging_handlers,
        kubelet: Arc::clone(&kubelet),
        rates: rates(args),
        tunnel_idle: Some(args.streaming_connection_idle_timeout).filter(|limit| !limit.is_zero()),
        limits: Limits::default(),
        metrics: metrics.clone(),
        access_log: access_log(&args.log, &metrics)?,
    }));
    let address = SocketAddr::new(args.address, args.port);
    let server = Server::bind(address, tls.clone(), guard).await.map_err(|error| {
        Failure::unreachable(format_args!("cannot listen on {address}: {error}; see --address and --port"))
    })?;
    let bound = server.local_addr()?;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(certificate.follow(tls, metrics.connections.clone(), serving_certificate::INTERVAL));
    tasks.spawn(Arc::clone(&kubelet).follow());
    if let Some(authorities) = authorities {
        tasks.spawn(authorities.follow(authentication));
    }
    if let Some(api) = &api {
        tasks.spawn(kubeconfig::refresh(api.connection.clone()));
    }
    let told_of = Arc::new(Told {
        api,
        asks: modes.contains(&Mode::Webhook),
        metrics,
        reviews,
        features: FeatureMetrics::of_gates(gate(settings)),
    });
    health::serve(args.metrics_bind_address, told_of.clone(), &mut tasks).await?;
    let mut stop = StopSignals::handle()?;
    tracing::info!(address = %bound, node = node_name, kubelet = %kubelet.authority(), "guarding");
    println!("Guarding the kubelet of {node_name} at https://{bound}");
    Guard::serve(server).until(stop.received()).await;
    if let Some(rbac) = told_of.api.as_ref().and_then(|api| api.rbac.as_ref()) {
        rbac.stop();
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn gate(settings: Settings) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    let gates = FeatureGates::default().with(Feature::KubeletFineGrainedAuthz, settings.fine_grained);
    gates.all().filter(|(name, _, _)| *name == "KubeletFineGrainedAuthz")
}

/// The API server, and how it is used.
struct Api {
    connection: Connection,
    reviews: Reviews,
    rbac: Option<LocalRbac>,
}

impl Api {
    async fn connect(
        args: &GuardArgs,
        modes: &BTreeSet<Mode>,
        metrics: ReviewMetrics,
    ) -> Result<Self, Failure> {
        let callers = &args.callers;
        let connection = Connection::infer(args.kubeconfig.as_deref(), args.context.as_deref())
            .await
            .map_err(Failure::input)?;
        let settings = ReviewSettings {
            token_ttl: callers.authentication_token_webhook_cache_ttl,
            access_ttl: Ttl {
                authorized: callers.authorization_webhook_cache_authorized_ttl,
                unauthorized: callers.authorization_webhook_cache_unauthorized_ttl,
            },
            metrics,
            ..ReviewSettings::default()
        };
        let reviews = Reviews::new(connection.clone(), settings).map_err(|error| {
            Failure::unreachable(format_args!("the system has no random numbers: {error}"))
        })?;
        let follows = modes.contains(&Mode::Rbac);
        let rbac = follows.then(|| LocalRbac::follow(&connection, rbac::Settings::default()));
        let rbac = rbac.transpose().map_err(Failure::input)?;
        Ok(Self { connection, reviews, rbac })
    }
}

fn members(modes: &[Mode], api: Option<&Api>) -> Vec<Member> {
    let member = |mode: &Mode| match mode {
        Mode::AlwaysAllow => Some(Member::AlwaysAllow),
        Mode::Rbac => Some(Member::Rbac(api?.rbac.clone()?)),
        Mode::Webhook => Some(Member::Webhook(api?.reviews.clone())),
    };
    modes.iter().filter_map(member).collect()
}

/// The health and metrics of the guard.
struct Told {
    api: Option<Api>,
    /// Whether SubjectAccessReviews are sent.
    asks: bool,
    metrics: GuardMetrics,
    reviews: ReviewMetrics,
    features: FeatureMetrics,
}

impl Health for Told {
    fn unready(&self) -> Option<String> {
        let api = self.api.as_ref()?;
        // If the API server is an authorizer as well, it decides what cannot be decided locally.
        let is_blind = api.rbac.as_ref().is_some_and(|rbac| !rbac.is_fresh());
        if is_blind && !self.asks {
            return Some("roles and bindings are not known, or were not heard of for too long".to_owned());
        }
        let why = api.reviews.unreachable()?;
        Some(format!("the API server does not answer: {why}"))
    }

    fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        self.reviews.register(registry);
        self.features.register(registry);
    }
}

fn node_name(args: &GuardArgs) -> String {
    let host = || rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase();
    args.node_name.clone().unwrap_or_else(host)
}

fn kubelet(flags: &KubeletFlags, node_name: &str) -> Result<Kubelet, Failure> {
    let authority =
        flags.kubelet_address.parse().ok().filter(|a: &http::uri::Authority| a.port_u16().is_some());
    let authority = authority.ok_or_else(|| {
        let address = &flags.kubelet_address;
        Failure::input(format_args!(
            "--kubelet-address {address}: write host and port, such as 127.0.0.1:10250"
        ))
    })?;
    Kubelet::new(KubeletConfig {
        authority,
        server_name: flags.kubelet_server_name.clone().unwrap_or_else(|| node_name.to_owned()),
        certificate_authority: flags.kubelet_certificate_authority.clone(),
        client_certificate: flags.kubelet_client_certificate.clone(),
        client_key: flags.kubelet_client_key.clone(),
    })
    .map_err(|error| {
        Failure::input(format_args!(
            "{error} (--kubelet-certificate-authority, --kubelet-client-certificate, --kubelet-client-key, \
             --kubelet-server-name)"
        ))
    })
}

fn rates(args: &GuardArgs) -> Option<Rates> {
    let per_second = args.user_qps;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bound of requests, rounded up"
    )]
    let usual = (2.0 * per_second).ceil().min(f64::from(u32::MAX)) as u32;
    (per_second > 0.0).then(|| Rates::new(per_second, args.user_burst.unwrap_or(usual)))
}

fn access_log(flags: &LogFlags, metrics: &GuardMetrics) -> Result<Option<AccessLog>, Failure> {
    let Some(path) = &flags.access_log_path else { return Ok(None) };
    let options = SinkOptions {
        name: "access log",
        path: (path.as_os_str() != "-").then(|| path.clone()),
        mode: LogMode::Batch,
        when_full: WhenFull::Wait,
        rotation: Rotation {
            max_bytes: u64::from(flags.access_log_maxsize) * 1024 * 1024,
            max_files: flags.access_log_maxbackup,
            max_age: Duration::from_secs(u64::from(flags.access_log_maxage) * 24 * 60 * 60),
            compress: flags.access_log_compress,
        },
    };
    let sink = Sink::open(&options, metrics.log.clone())
        .map_err(|error| Failure::unreachable(format_args!("--access-log-path: {error}")))?;
    Ok(Some(AccessLog::new(sink)))
}
