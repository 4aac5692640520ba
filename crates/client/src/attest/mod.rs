//! The attestation controller: issues challenges to nodes, verifies their evidence, and signs their certificates
//! (AT-1, AT-3, AT-5, AT-72, AT-80 to AT-88, AT-93, AT-101).
//!
//! The rules are in `portcullis_attestation`. This module reads what they need, and writes what they decide: the challenge,
//! then the identity record, then the approval, then the certificate. Every write is for the version that was read, so a
//! process that is killed between two steps does nothing twice. Several replicas may run, of which the holder of a Lease is
//! active.

mod duties;
mod evaluate;
mod fleet;
mod keys;
mod looked;
mod machines;
mod metrics;
mod records;
mod report;
mod serving;
mod shared;
mod work;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use portcullis_attestation::config::Serving;
use portcullis_pki::CertificateAuthority;
use tokio::sync::Notify;

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use crate::lease::{Leadership, LeaseConfig, LeaseConfigError, lead_again};

pub use fleet::{Fleet, Member};
pub use keys::ChallengeKeys;
pub use metrics::AttestMetrics;
pub use records::{RecordError, Records, Versioned};
pub use shared::Settings;

use shared::Shared;

/// The options of a controller.
pub struct AttestOptions {
    /// The API server with the certificate requests.
    pub workload: Connection,
    /// The API server with the Machines, the identity records and the keys; the same if there is only one.
    pub management: Connection,
    /// The namespace of the identity records and the keys.
    pub namespace: String,
    /// The workload cluster among the others whose records are on the same server; none for one cluster alone.
    pub member: Option<Member>,
    /// What the cluster asks of its nodes.
    pub settings: Settings,
    /// The authority that signs the client certificates.
    pub authority: Arc<CertificateAuthority>,
    /// The authority that signs the serving certificates; none if the cluster's own signer signs them (AT-172).
    pub serving_authority: Option<Arc<CertificateAuthority>>,
    /// The metrics.
    pub metrics: AttestMetrics,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl AttestOptions {
    /// The options for one API server.
    pub fn new(
        connection: Connection,
        namespace: String,
        settings: Settings,
        authority: Arc<CertificateAuthority>,
    ) -> Self {
        Self {
            workload: connection.clone(),
            management: connection,
            namespace,
            member: None,
            settings,
            authority,
            serving_authority: None,
            metrics: AttestMetrics::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// An attestation controller. Clones share the controller.
#[derive(Clone)]
pub struct AttestController {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for AttestController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttestController").finish_non_exhaustive()
    }
}

impl AttestController {
    /// Creates a controller, which is not running yet.
    pub fn new(options: AttestOptions) -> Self {
        let AttestOptions {
            workload,
            management,
            namespace,
            member,
            settings,
            authority,
            serving_authority,
            metrics,
            clock,
        } = options;
        let cluster = member.as_ref().map(|member| member.name.clone());
        let fleet = member.as_ref().map(|member| Arc::clone(&member.fleet)).unwrap_or_default();
        let controller = Self {
            shared: Arc::new(Shared {
                workload,
                records: Records::new(management.clone(), namespace.clone()).of_cluster(cluster),
                fleet,
                management,
                namespace,
                settings: ArcSwap::from_pointee(settings),
                authority,
                serving_authority,
                metrics,
                clock,
                is_ready: AtomicBool::new(false),
                offers: Mutex::default(),
                machines: tokio::sync::Mutex::default(),
                nodes: std::array::from_fn(|_| tokio::sync::Mutex::default()),
                reconfigured: Notify::new(),
            }),
        };
        if let Some(Member { name, fleet }) = member {
            let shared = Arc::downgrade(&controller.shared);
            fleet.join(name, move |uid| {
                let shared = shared.clone();
                Box::pin(async move {
                    // A controller that is gone decides nothing: the machine may exist.
                    let Some(shared) = shared.upgrade() else { return Ok(true) };
                    let settings = shared.settings.load_full();
                    machines::exists(&shared, &settings, &uid).await
                })
            });
        }
        controller
    }

    /// Replaces the settings, and evaluates pending requests again.
    pub fn reconfigure(&self, settings: Settings) {
        if settings.config.serving == Serving::Sign && self.shared.serving_authority.is_none() {
            tracing::warn!("serving: sign has no effect without an authority of serving certificates");
        }
        self.shared.settings.store(Arc::new(settings));
        self.shared.reconfigured.notify_one();
    }

    /// Returns whether the controller has seen all existing requests, and makes decisions.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready.load(Ordering::Acquire)
    }

    /// Runs until `stop` completes.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = work::work(Arc::clone(&self.shared), None) => {}
            () = duties::keep(Arc::clone(&self.shared), None) => {}
            () = stop => {}
        }
        self.shared.is_ready.store(false, Ordering::Release);
    }

    /// Runs as the leader while it holds a lease, and waits while another replica does, until `stop` completes.
    ///
    /// # Errors
    /// The times of the lease are inconsistent.
    pub async fn run_elected(
        &self,
        lease: LeaseConfig,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), LeaseConfigError> {
        let shared = &self.shared;
        let work = |leadership: Leadership| {
            let requests = work::work(Arc::clone(shared), Some(leadership.clone()));
            let duties = duties::keep(Arc::clone(shared), Some(leadership));
            async move {
                tokio::join!(requests, duties);
            }
        };
        let ended = || shared.is_ready.store(false, Ordering::Release);
        lead_again(&shared.workload, &lease, &shared.clock, stop, work, ended).await
    }
}
