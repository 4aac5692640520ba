//! The machine approver: watches certificate requests, evaluates them and writes the decisions.
//!
//! The rules are in `portcullis_policy::approval::machine`. The approver runs inside `serve`, or as a separate program
//! against any API server. Several replicas may run, of which the holder of a Lease is active (NB-57).
//!
//! All state is read again after a restart. A request is decided on as it was read, and the approval is written for
//! that version only, so a process that is killed between two steps approves nothing twice (NB-62).

mod dispatch;
mod evaluate;
pub(crate) mod facts;
mod follow;
mod kubelet;
pub(crate) mod lookup;
mod metrics;
mod outlived;
mod report;
mod shared;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use portcullis_policy::approval::machine::Config;
use tokio::sync::Notify;

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use crate::lease::{Leadership, LeaseConfig, LeaseConfigError, lead_again};

pub use facts::{instant, pkcs10};
pub use metrics::ApproverMetrics;
pub use shared::Tell;

use shared::Shared;

/// The options of an approver.
pub struct ApproverOptions {
    /// The API server with the certificate requests and the Nodes.
    pub workload: Connection,
    /// The API server with the Machines; the same if there is only one (NB-121).
    pub management: Connection,
    /// The configuration of the rules.
    pub config: Config,
    /// The metrics.
    pub metrics: ApproverMetrics,
    /// Whether it writes nothing at all (NB-142).
    pub is_dry_run: bool,
    /// Notified of each new decision, in addition to the log.
    pub tell: Option<Tell>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl ApproverOptions {
    /// Creates the options for one API server, without a dry run.
    pub fn new(connection: Connection, config: Config) -> Self {
        Self {
            workload: connection.clone(),
            management: connection,
            config,
            metrics: ApproverMetrics::default(),
            is_dry_run: false,
            tell: None,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// A machine approver. Clones share the approver.
#[derive(Clone)]
pub struct Approver {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Approver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approver").field("workload", &self.shared.workload).finish_non_exhaustive()
    }
}

impl Approver {
    /// Creates an approver, which is not running yet.
    pub fn new(options: ApproverOptions) -> Self {
        let api_server_names = host_of(&options.workload.server()).into_iter().collect();
        Self {
            shared: Arc::new(Shared {
                workload: options.workload,
                management: options.management,
                config: ArcSwap::from_pointee(options.config),
                metrics: options.metrics,
                is_dry_run: options.is_dry_run,
                tell: options.tell,
                clock: options.clock,
                api_server_names,
                limits: Mutex::default(),
                contested: Mutex::default(),
                grants: Mutex::default(),
                told: Mutex::default(),
                denials: Mutex::default(),
                is_ready: AtomicBool::new(false),
                reconfigured: Notify::new(),
                dialling: AtomicUsize::new(0),
                freed: Notify::new(),
            }),
        }
    }

    /// Replaces the configuration, and evaluates pending requests again. The set of watched Machines does not change,
    /// but all configured ones are read for each decision.
    pub fn reconfigure(&self, config: Config) {
        self.shared.config.store(Arc::new(config));
        self.shared.reconfigured.notify_one();
    }

    /// Returns whether the approver has seen all existing objects, and makes decisions.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready.load(Ordering::Acquire)
    }

    /// Runs until `stop` completes.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = dispatch::work(Arc::clone(&self.shared), None) => {}
            () = stop => {}
        }
        self.shared.is_ready.store(false, Ordering::Release);
    }

    /// Runs as the leader while it holds a lease, and waits while another replica does, until `stop` completes (NB-57).
    ///
    /// # Errors
    /// The times of the lease are inconsistent.
    pub async fn run_elected(
        &self,
        lease: LeaseConfig,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), LeaseConfigError> {
        let shared = &self.shared;
        let work = |leadership: Leadership| dispatch::work(Arc::clone(shared), Some(leadership));
        let ended = || shared.is_ready.store(false, Ordering::Release);
        lead_again(&shared.workload, &lease, &shared.clock, stop, work, ended).await
    }
}

/// Returns the DNS name in a server's URL; none for an IP address, which a control-plane node may have (NB-107).
fn host_of(server: &str) -> Option<String> {
    let host = server.parse::<http::Uri>().ok()?.host()?.to_owned();
    let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    (!is_address).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_api_server_is_reserved_and_its_address_is_not_nb_107() {
        assert_eq!(host_of("https://api.example.com:6443").as_deref(), Some("api.example.com"));
        assert_eq!(host_of("https://api.example.com/prefix").as_deref(), Some("api.example.com"));
        for address in ["https://10.0.0.1:6443", "https://[fd00::1]:6443", "https://127.0.0.1", ""] {
            assert_eq!(host_of(address), None, "{address}");
        }
    }
}
