//! The attestation controller: issues challenges to nodes, verifies their evidence, and signs their certificates
//! (AT-72, AT-80 to AT-88, AT-101).
//!
//! The rules are in `portcullis_attestation`. This module reads what they need, and writes what they decide: the challenge,
//! then the identity record, then the approval, then the certificate. Every write is for the version that was read, so a
//! process that is killed between two steps does nothing twice. Several replicas may run, of which the holder of a Lease is
//! active.

mod evaluate;
mod keys;
mod machines;
mod metrics;
mod records;
mod report;
mod work;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use portcullis_attestation::config::Config;
use portcullis_attestation::inventory::Inventory;
use portcullis_attestation::judge::Rules;
use portcullis_pki::CertificateAuthority;
use portcullis_policy::approval::machine::Config as MachineConfig;
use tokio::sync::Notify;

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use crate::lease::{Leadership, LeaseConfig, LeaseConfigError, lead_again};

pub use keys::ChallengeKeys;
pub use metrics::AttestMetrics;
pub use records::{RecordError, Records, Versioned};

/// What a cluster asks of its nodes, and the machines that it knows.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// The rules that follow from it.
    pub rules: Rules,
    /// The machines of an inventory file.
    pub inventory: Inventory,
    /// The Machine APIs; none if all machines are in the inventory.
    pub machine_apis: Option<MachineConfig>,
}

/// The options of a controller.
pub struct AttestOptions {
    /// The API server with the certificate requests.
    pub workload: Connection,
    /// The API server with the Machines, the identity records and the keys; the same if there is only one.
    pub management: Connection,
    /// The namespace of the identity records and the keys.
    pub namespace: String,
    /// What the cluster asks of its nodes.
    pub settings: Settings,
    /// The authority that signs the certificates.
    pub authority: Arc<CertificateAuthority>,
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
            settings,
            authority,
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

/// What the parts of a controller share.
struct Shared {
    workload: Connection,
    management: Connection,
    records: Records,
    namespace: String,
    settings: ArcSwap<Settings>,
    authority: Arc<CertificateAuthority>,
    metrics: AttestMetrics,
    clock: Arc<dyn Clock>,
    is_ready: AtomicBool,
    /// The challenges that this process issued: until when, by the UID of the request.
    offers: Mutex<HashMap<String, SystemTime>>,
    /// Notified when the settings change.
    reconfigured: Notify,
}

impl Shared {
    /// Until when the challenge of a request can be answered; none if this process issued none.
    fn offered(&self, uid: &str) -> Option<SystemTime> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).get(uid).copied()
    }

    fn keep_offer(&self, uid: &str, until: SystemTime) {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), until);
    }

    fn forget_offer(&self, uid: &str) {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

impl AttestController {
    /// Creates a controller, which is not running yet.
    pub fn new(options: AttestOptions) -> Self {
        let AttestOptions { workload, management, namespace, settings, authority, metrics, clock } = options;
        Self {
            shared: Arc::new(Shared {
                workload,
                records: Records::new(management.clone(), namespace.clone()),
                management,
                namespace,
                settings: ArcSwap::from_pointee(settings),
                authority,
                metrics,
                clock,
                is_ready: AtomicBool::new(false),
                offers: Mutex::default(),
                reconfigured: Notify::new(),
            }),
        }
    }

    /// Replaces the settings, and evaluates pending requests again.
    pub fn reconfigure(&self, settings: Settings) {
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
        let work = |leadership: Leadership| work::work(Arc::clone(shared), Some(leadership));
        let ended = || shared.is_ready.store(false, Ordering::Release);
        lead_again(&shared.workload, &lease, &shared.clock, stop, work, ended).await
    }
}
