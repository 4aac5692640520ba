//! The machine approver at work: watches certificate requests, asks the rules, and writes what they say.
//!
//! It decides nothing by itself: `portcullis_policy::approval::machine` does. It runs inside `serve` and as a program of
//! its own against any API server; several may run, of which the holder of a Lease works (NB-57).
//!
//! Nothing is kept that is not read again after a restart. A request is decided on as it was read, and the approval is
//! written for that version only: who is killed between two steps approves nothing twice (NB-62).

mod dispatch;
mod evaluate;
mod facts;
mod follow;
mod kubelet;
mod lookup;
mod metrics;
mod report;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use portcullis_policy::approval::machine::{Config, Grant, Grants, Request, Verdict};
use tokio::sync::Notify;

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use crate::lease::{Leadership, LeaseConfig, LeaseConfigError, Led, lead};

pub use facts::{instant, pkcs10};
pub use metrics::ApproverMetrics;

/// How many requests are denied in one go (NB-75).
const DENIALS: usize = 20;
/// How long one go is.
const DENIAL_PERIOD: Duration = Duration::from_secs(10);

/// Told of each decision that is news.
pub type Tell = Arc<dyn Fn(&Request, &Verdict) + Send + Sync>;

/// What an approver needs.
pub struct ApproverOptions {
    /// The API server with the requests and the Nodes.
    pub workload: Connection,
    /// The API server with the Machines; the same where there is only one (NB-121).
    pub management: Connection,
    /// How it decides.
    pub config: Config,
    /// What it counts.
    pub metrics: ApproverMetrics,
    /// Whether it writes nothing at all.
    pub is_dry_run: bool,
    /// Told of each decision that is news, beside the log.
    pub tell: Option<Tell>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl ApproverOptions {
    /// An approver for one API server, that writes.
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

/// A machine approver. Clones are the same one.
#[derive(Clone)]
pub struct Approver {
    shared: Arc<Shared>,
}

/// What its parts share.
struct Shared {
    workload: Connection,
    management: Connection,
    config: ArcSwap<Config>,
    metrics: ApproverMetrics,
    is_dry_run: bool,
    tell: Option<Tell>,
    clock: Arc<dyn Clock>,
    api_server_names: Vec<String>,
    /// What was approved, kept for longer than the requests are (NB-94).
    grants: Mutex<Grants>,
    /// What was told last of each request, by its unique id.
    told: Mutex<HashMap<String, [String; 4]>>,
    /// When requests were denied, by the clock that runs.
    denials: Mutex<VecDeque<Duration>>,
    is_ready: AtomicBool,
    /// Told when it decides by another configuration.
    reconfigured: Notify,
}

impl std::fmt::Debug for Approver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approver").field("workload", &self.shared.workload).finish_non_exhaustive()
    }
}

impl Approver {
    /// An approver that does nothing yet.
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
                grants: Mutex::default(),
                told: Mutex::default(),
                denials: Mutex::default(),
                is_ready: AtomicBool::new(false),
                reconfigured: Notify::new(),
            }),
        }
    }

    /// Decides by another configuration from now on, also on what was held. Which Machines are watched stays as it was:
    /// all that are configured are read for each decision.
    pub fn reconfigure(&self, config: Config) {
        self.shared.config.store(Arc::new(config));
        self.shared.reconfigured.notify_one();
    }

    /// Whether it has seen what there is, and decides.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready.load(Ordering::Acquire)
    }

    /// Works until `stop` ends.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = dispatch::work(Arc::clone(&self.shared), None) => {}
            () = stop => {}
        }
        self.shared.is_ready.store(false, Ordering::Release);
    }

    /// Works while it holds a lease, and waits while another one does, until `stop` ends (NB-57).
    ///
    /// # Errors
    /// The times of the lease do not fit together.
    pub async fn run_elected(
        &self,
        lease: LeaseConfig,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), LeaseConfigError> {
        let (stopped, mut asked) = tokio::sync::watch::channel(false);
        let contend = async {
            loop {
                let mut asked = stopped.subscribe();
                let stop = async move {
                    let _ = asked.wait_for(|stop| *stop).await;
                };
                let (shared, config) = (Arc::clone(&self.shared), lease.clone());
                let clock = Arc::clone(&self.shared.clock);
                let work = move |leadership: Leadership| dispatch::work(shared, Some(leadership));
                let led = lead(&self.shared.workload, config, clock, stop, work).await?;
                self.shared.is_ready.store(false, Ordering::Release);
                match led {
                    Led::Lost { why } => {
                        tracing::warn!(lease = lease.name, why, "the lease is lost; contending for it again");
                    }
                    Led::Done(()) | Led::Stopped => return Ok(()),
                }
            }
        };
        let _ = asked.borrow_and_update();
        let mut contend = std::pin::pin!(contend);
        tokio::select! {
            ended = &mut contend => return ended,
            () = stop => {}
        }
        // The lease is given away before this ends.
        let _ = stopped.send(true);
        contend.await
    }
}

impl Shared {
    fn memory(&self) -> Grants {
        locked(&self.grants).clone()
    }

    fn remember(&self, grant: Grant) {
        let mut grants = locked(&self.grants);
        grants.forget_old(instant(self.clock.now()));
        grants.remember(grant);
    }

    /// Whether a decision has not been told yet, neither by this process nor, as the annotation says, by one before it.
    fn is_news(&self, request: &Request, decision: [String; 4], annotated: Option<[String; 4]>) -> bool {
        let is_annotated = annotated.as_ref() == Some(&decision);
        let before = locked(&self.told).insert(request.uid.clone(), decision.clone());
        !is_annotated && before != Some(decision)
    }

    fn forget(&self, uid: &str) {
        locked(&self.told).remove(uid);
    }

    /// Whether another request may be denied now.
    fn may_deny(&self) -> bool {
        let now = self.clock.running();
        let mut denials = locked(&self.denials);
        denials.retain(|at| now.saturating_sub(*at) < DENIAL_PERIOD);
        let may = denials.len() < DENIALS;
        if may {
            denials.push_back(now);
        }
        may
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these hold is whole after every change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The DNS name in a server's URL; nothing for an address, which a control-plane node may have (NB-107).
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
