//! `portcullis approve`: the machine approver, for a cluster or for files.

mod files;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions, Tell};
use portcullis_client::{Connection, SystemClock};
use portcullis_policy::approval::machine::{Config, Request, Verdict};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::approver_config::{check_cluster, follow, read_config};
use crate::failure::Failure;
use crate::health::{self, Health};
use crate::kubeconfig;
use crate::lease_flags::LeaseFlags;
use crate::logging::{LoggingFormat, log};
use crate::signals::StopSignals;

/// Approve certificate requests of kubelets that match a Machine
///
/// Watches the CertificateSigningRequests of an API server and approves the first client certificate of a node for which
/// a Machine was just created, and serving certificates for the names and addresses of the node's Machine. Each decision
/// has a reason and a rule: in the request's annotation portcullis.dev/decision, in an Event, in the log and in metrics.
///
/// With --csr and --state no server is contacted: the checks of one request, evaluated over objects in files, are
/// printed in order, with the decision.
///
/// Exit codes: 0 stopped, or with --csr: the request would be approved; 1 with --csr: it would not; 2 bad flags or
/// input; 3 the API server cannot be connected to.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ApproveArgs {
    /// The kubeconfig of the API server with the certificate requests and the Nodes [default: as kubectl, or the pod's
    /// own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The kubeconfig of the API server with the Machines [default: the same server]
    #[arg(long, value_name = "FILE")]
    management_kubeconfig: Option<PathBuf>,

    /// The configuration, a YAML document; reloaded when it changes [default: machine.openshift.io, 2h after creation]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the decisions on standard output and write nothing, not even a lease
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    lease: LeaseFlags,

    /// The address of /healthz, /readyz and /metrics, over HTTP [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_bind_address: Option<SocketAddr>,

    /// A file with one CertificateSigningRequest, whose checks and decision are printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context", "management_kubeconfig", "dry_run"])]
    csr: Option<PathBuf>,

    /// Files with Machines, Nodes, ConfigMaps and other requests, in the output format of kubectl get. Repeatable
    #[arg(long, value_name = "FILE|DIR", requires = "csr")]
    state: Vec<PathBuf>,

    /// The time of the decision, such as 2026-01-02T03:04:05Z [default: now]
    #[arg(long, value_name = "TIME", requires = "csr")]
    now: Option<String>,

    /// The output format with --csr
    #[arg(short, long, value_name = "FORM", default_value = "table", requires = "csr")]
    output: Output,

    /// The format of the log
    #[arg(long, value_enum, default_value = "text")]
    logging_format: LoggingFormat,

    /// The log level
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

const EXAMPLES: &str = "\
Examples:
  portcullis approve --kubeconfig admin.kubeconfig --dry-run
  portcullis approve --config approver.yaml --metrics-bind-address 127.0.0.1:9191
  portcullis approve --csr csr.yaml --state cluster/ --now 2026-01-02T03:05:00Z";

/// Runs the command.
///
/// # Errors
/// Flags or files are invalid, or the API server cannot be connected to.
pub fn run(args: &ApproveArgs) -> Result<ExitCode, Failure> {
    let config = match &args.config {
        Some(path) => read_config(path).map_err(Failure::input)?,
        None => Config::default(),
    };
    if let Some(csr) = &args.csr {
        return files::run(csr, &args.state, args.now.as_deref(), args.output == Output::Json, &config);
    }
    log(args.logging_format, args.verbosity);
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))?;
    runtime.block_on(work(args, config))
}

async fn work(args: &ApproveArgs, config: Config) -> Result<ExitCode, Failure> {
    let workload = Connection::infer(args.kubeconfig.as_deref(), args.context.as_deref())
        .await
        .map_err(Failure::input)?;
    let management = match &args.management_kubeconfig {
        Some(path) => {
            check_cluster(&config)?;
            Connection::from_kubeconfig(path, None).await.map_err(Failure::input)?
        }
        None => workload.clone(),
    };
    let lease = args.lease.lease("portcullis-approver", &workload);
    lease.check().map_err(Failure::input)?;
    let metrics = ApproverMetrics::default();
    let tell: Tell = Arc::new(tell);
    let approver = Approver::new(ApproverOptions {
        management,
        metrics: metrics.clone(),
        is_dry_run: args.dry_run,
        tell: args.dry_run.then_some(tell),
        clock: Arc::new(SystemClock::new()),
        ..ApproverOptions::new(workload.clone(), config)
    });
    let mut stop = StopSignals::handle()?;
    tracing::info!(server = workload.server(), dry_run = args.dry_run, "approving certificate requests");
    let mut tasks = JoinSet::new();
    let health = Arc::new(Told { approver: approver.clone(), metrics });
    health::serve(args.metrics_bind_address, health, &mut tasks).await?;
    if let Some(path) = args.config.clone() {
        tasks.spawn(follow(path, approver.clone(), args.management_kubeconfig.is_some()));
    }
    tasks.spawn(kubeconfig::refresh(workload));
    if args.lease.leader_elect && !args.dry_run {
        approver.run_elected(lease, stop.received()).await.map_err(Failure::input)?;
    } else {
        approver.run(stop.received()).await;
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The health and metrics of the approver.
struct Told {
    approver: Approver,
    metrics: ApproverMetrics,
}

impl Health for Told {
    /// Waiting for the lease is not an error; this reports the current leader.
    fn unready(&self) -> Option<String> {
        (!self.approver.is_ready()).then(|| "waiting for the lease or for the first lists".to_owned())
    }

    fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }
}

/// Prints a decision of a dry run on standard output.
fn tell(request: &Request, verdict: &Verdict) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // The reader may be gone; the log continues.
    let _ = writeln!(
        out,
        "{} would {}: {} ({}) {}",
        request.name, verdict.outcome, verdict.reason, verdict.rule, verdict.detail
    );
    let _ = out.flush();
}
