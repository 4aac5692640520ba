//! `portcullis credential`: requests a node's client certificate and renews it, as a kubelet does.

mod agent;
mod attested;
mod inspect;
mod serve_cert;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{ArgAction, Args, Subcommand};
use portcullis_client::SystemClock;
use portcullis_client::node_certificate::agent::{Agent, Settings};
use portcullis_client::node_certificate::error::CredentialError;
use portcullis_client::node_certificate::exec;
use portcullis_client::node_certificate::metrics::CertificateMetrics;
use portcullis_pki::Pair;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use self::agent::{failure, host_name, narrator};
use self::attested::{Asked, AttestedFlags};
use crate::failure::Failure;
use crate::health::{self, Health};
use crate::signals::StopSignals;

/// Get a node's client certificate, and renew it
///
/// Uses the certificate in the directory if it is valid. Otherwise generates a key, which never leaves the machine,
/// requests a certificate with the bootstrap kubeconfig, waits for approval, and writes kubelet-client-current.pem and
/// a kubeconfig that refers to it: the files of a kubelet, under its names. Then keeps running, and renews the
/// certificate at 70 to 90 percent of its lifetime.
///
/// With --once, and as a credential plugin of kubectl and other clients (KUBERNETES_EXEC_INFO is set), it exits as soon
/// as there is a certificate. It can be stopped at any time; the next start continues where it left off.
///
/// With --attestor, it proves the machine, and prints the credential for the client that runs it; see
/// docs/attestation.md.
///
/// Exit codes: 0 there is a certificate, or told to stop; 1 refused; 2 bad flags or files; 3 the server cannot be
/// reached, nobody has approved in time, or another process is at it. With --attestor: 0 there is a certificate; 1 try
/// again; 2 bad flags; 3 no credential to ask with; 4 refused by the controller; 5 no common version of evidence; 6 the
/// cache is not private, or broken.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct CredentialArgs {
    #[command(subcommand)]
    command: Option<CredentialCommand>,

    /// The kubeconfig for requesting the first certificate. Must be readable only by its owner
    #[arg(long, value_name = "FILE")]
    bootstrap_kubeconfig: Option<PathBuf>,

    /// The kubeconfig to write
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The directory of keys and certificates
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/pki")]
    cert_dir: PathBuf,

    /// The name of the node [default: the host's name in lower case]
    #[arg(long, visible_alias = "hostname-override", value_name = "NAME")]
    node_name: Option<String>,

    /// Keep running, and renew the certificate before it expires
    #[arg(
        long, visible_alias = "rotate-certificates", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, default_value = "true", default_missing_value = "true", require_equals = true
    )]
    rotate: bool,

    /// Exit as soon as there is a certificate; renew one that is due
    #[arg(long)]
    once: bool,

    /// The timeout for a first certificate with --once, --rotate=false and as a plugin. In seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    wait: u32,

    /// Also maintain a serving certificate for the addresses of the Node. It must be approved
    #[arg(long, conflicts_with = "once")]
    rotate_server_certificates: bool,

    /// The address of /healthz, /readyz and /metrics, over HTTP [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "once")]
    metrics_bind_address: Option<SocketAddr>,

    /// The requested lifetime of certificates, at least 600 [default: what the signer gives]. In seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(600..))]
    expiration_seconds: Option<i32>,

    /// Keep the bootstrap kubeconfig, to request a new certificate if the current one ever expires; false removes it
    /// once there is a certificate
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true",
        default_missing_value = "true", require_equals = true
    )]
    rebootstrap: bool,

    #[command(flatten)]
    attested: AttestedFlags,
}

#[derive(Debug, Subcommand)]
enum CredentialCommand {
    Inspect(inspect::InspectArgs),
    ServeCert(serve_cert::ServeCertArgs),
}

const EXAMPLES: &str = "\
Examples:
  portcullis credential --bootstrap-kubeconfig /etc/kubernetes/bootstrap-kubelet.conf --kubeconfig /etc/kubernetes/kubelet.conf
  portcullis credential --bootstrap-kubeconfig bootstrap.kubeconfig --kubeconfig node.kubeconfig --cert-dir pki --node-name node-1 --once
  portcullis credential --attestor tpm --provider-id metal://rack-1/node-1 --cache-dir /var/lib/kubelet/attested --bootstrap-kubeconfig bootstrap.kubeconfig
  portcullis credential inspect
  portcullis credential serve-cert --client-kubeconfig /var/lib/kubelet/attested/proxy.kubeconfig --signer cluster.x-k8s.io/kubelet-serving-tpm";

/// Runs the command.
///
/// # Errors
/// No certificate could be obtained.
pub fn run(args: &CredentialArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(CredentialCommand::Inspect(args)) => return inspect::run(args),
        Some(CredentialCommand::ServeCert(args)) => return serve_cert::run(args),
        None => {}
    }
    let node_name = args.node_name.clone().unwrap_or_else(host_name);
    if let Some(attestor) = args.attested.attestor {
        let asked = Asked {
            node_name,
            bootstrap_kubeconfig: args.bootstrap_kubeconfig.clone(),
            expiration_seconds: args.expiration_seconds,
            is_quiet: args.once,
        };
        return Ok(attested::run(attestor, &args.attested, asked));
    }
    let plugin = match std::env::var(exec::VARIABLE) {
        Ok(info) if !info.is_empty() => Some(exec::version(&info).map_err(Failure::input)?),
        Ok(_) | Err(std::env::VarError::NotPresent) => None,
        Err(error) => return Err(Failure::input(format_args!("{}: {error}", exec::VARIABLE))),
    };
    let settings = Settings {
        bootstrap_kubeconfig: args.bootstrap_kubeconfig.clone(),
        kubeconfig: args.kubeconfig.clone(),
        cert_dir: args.cert_dir.clone(),
        node_name: node_name.clone(),
        expiration_seconds: args.expiration_seconds,
        rebootstrap: args.rebootstrap,
        serving: None,
    };
    let agent = Agent::new(settings, Arc::new(SystemClock::new()), narrator(node_name)).map_err(failure)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wait = Duration::from_secs(args.wait.into());
    runtime.block_on(async {
        let (mut stop, mut stop_serving) = (StopSignals::handle()?, StopSignals::handle()?);
        if let Some(version) = plugin {
            let pair = until_stopped(agent.once(wait), &mut stop).await?;
            return print(version, &pair);
        }
        if args.once || !args.rotate {
            until_stopped(agent.once(wait), &mut stop).await?;
            return Ok(());
        }
        let mut tasks = JoinSet::new();
        let health = Arc::new(Told(agent.metrics().clone()));
        health::serve(args.metrics_bind_address, health, &mut tasks).await?;
        let ended = tokio::select! {
            ended = agent.run(stop.received()) => ended,
            ended = agent.serve(stop_serving.received()), if args.rotate_server_certificates => ended,
        };
        ended.map_err(failure)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The health and metrics of the certificates.
struct Told(CertificateMetrics);

impl Health for Told {
    fn unready(&self) -> Option<String> {
        let is_ready = self.0.has_client_certificate(SystemTime::now());
        (!is_ready).then(|| "there is no valid client certificate".to_owned())
    }

    fn register(&self, registry: &mut Registry) {
        self.0.register(registry, SystemTime::now());
    }
}

fn print(version: exec::Version, pair: &Pair) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", exec::credential(version, pair))?;
    Ok(out.flush()?)
}

async fn until_stopped(
    work: impl Future<Output = Result<Pair, CredentialError>>,
    stop: &mut StopSignals,
) -> Result<Pair, Failure> {
    tokio::select! {
        done = work => done.map_err(failure),
        () = stop.received() => Err(Failure::unreachable("stopped by a signal; the next start goes on from here")),
    }
}
