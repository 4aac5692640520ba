//! `portcullis approve`: the machine approver, for a cluster or for files.

mod files;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{ArgAction, Args, ValueEnum};
use portcullis_client::approver::{Approver, ApproverMetrics, ApproverOptions, Tell};
use portcullis_client::lease::LeaseConfig;
use portcullis_client::{Connection, SystemClock};
use portcullis_policy::approval::machine::{Config, Request, Verdict};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::approver_config::{check_cluster, follow, read_config};
use crate::failure::Failure;
use crate::health::{self, Health};
use crate::kubeconfig;
use crate::limit_flags::duration;
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

    /// Be active only while holding a Lease, so that several replicas can run
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true",
        default_missing_value = "true", require_equals = true
    )]
    leader_elect: bool,

    /// How long other replicas wait for a leader that does not renew
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = duration)]
    leader_elect_lease_duration: Duration,

    /// How long a leader tries to renew before it stops
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,

    /// The interval between attempts
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,

    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "portcullis-approver")]
    leader_elect_resource_name: String,

    /// The namespace of the Lease [default: that of the kubeconfig or the pod]
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,

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
    let lease = lease(args, &workload);
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
    if args.leader_elect && !args.dry_run {
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

/// DIVERGES: NB-57 has the times of cluster-machine-approver, by which the nodes of a cluster that grows wait for up to three
/// minutes after a leader was killed.
fn lease(args: &ApproveArgs, connection: &Connection) -> LeaseConfig {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    LeaseConfig {
        namespace: args.leader_elect_resource_namespace.clone().unwrap_or_else(|| connection.namespace()),
        name: args.leader_elect_resource_name.clone(),
        identity: format!("{host}_{}_{started:x}", std::process::id()),
        lease_duration: args.leader_elect_lease_duration,
        renew_deadline: args.leader_elect_renew_deadline,
        retry_period: args.leader_elect_retry_period,
        release_on_exit: true,
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ApproveArgs,
    }

    #[test]
    fn by_default_another_replica_takes_over_within_twenty_seconds_of_a_kill_nb_57() {
        let args = Line::try_parse_from(["approve"]).unwrap().args;
        let lease = LeaseConfig {
            namespace: "n".to_owned(),
            name: "l".to_owned(),
            identity: "i".to_owned(),
            lease_duration: args.leader_elect_lease_duration,
            renew_deadline: args.leader_elect_renew_deadline,
            retry_period: args.leader_elect_retry_period,
            release_on_exit: true,
        };
        assert_eq!(lease.check(), Ok(()));
        // The rest is for the first lists.
        assert!(lease.longest_takeover() <= Duration::from_secs(17), "{:?}", lease.longest_takeover());
    }
}
