//! Background controllers: they collect objects without owners, empty namespaces that are being deleted, hold volumes and
//! claims that are in use, follow the health of nodes and delete the pods of those that are lost, keep service accounts and
//! the tokens in their secrets, count what quotas limit, put the serving authority into every namespace, write the rules of
//! aggregated roles, remove expired bootstrap tokens, approve, sign and clean up certificate requests, and remove old events.
//!
//! Each controller follows the changes of the store and looks again at the objects that they concern. What fails is tried
//! again, later each time. None polls, but that nodes that are not ready are looked at every few seconds and quotas are
//! counted every few minutes. If several servers share a store, the controllers run on one of them at a time.

mod account_tokens;
mod aggregation;
mod bootstrap_account;
mod bootstrap_bundles;
mod certificates;
mod definitions;
mod event_ttl;
mod events;
mod garbage_collector;
pub(crate) mod leader;
mod namespaces;
mod node_lifecycle;
mod pod_gc;
mod pods_by_node;
mod protection;
mod queue;
mod resource_quotas;
mod root_ca;
mod runner;
pub(crate) mod secret_alarm;
pub mod selection;
mod service_accounts;
pub mod settings;
mod taint_eviction;
mod token_cleaner;

use std::sync::Arc;

use kinds::Kinds;
use portcullis_store::Store as _;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use self::bootstrap_account::BootstrapAccount;
use self::bootstrap_bundles::BootstrapBundles;
use self::pods_by_node::PodsByNode;
use self::selection::Selection;
use self::settings::ControllerSettings;
use crate::authn::service_account::ServiceAccounts;
use crate::authz::Authorization;
use crate::clock::Clock;
use crate::registry::backend::Backend;
use crate::registry::bootstrap_authorities::Settings;
use crate::registry::reservation::QuotaTurns;
use crate::signing::Signing;

/// The name of the lease of the controllers.
const LEASE: &str = "portcullis-controllers";

/// The running controllers of a server. They end when this is dropped.
pub struct Controllers {
    tasks: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

/// The configuration of the controllers, and which of them are enabled.
#[derive(Clone)]
pub struct ControllerConfig {
    /// The CA certificate of the server, in PEM.
    pub authority: String,
    /// Issues the tokens that are stored in secrets.
    pub accounts: Arc<ServiceAccounts>,
    /// Authorizes the automatic approval of certificates.
    pub authorization: Arc<Authorization>,
    /// Whether to approve only nodes that renew their own certificate, because another approver handles the others
    /// (NB-130).
    pub approves_renewals_only: bool,
    /// Signs certificates.
    pub signing: Arc<Signing>,
    /// The clock for certificate requests.
    pub clock: Clock,
    /// The bootstrap settings.
    pub bootstrap: Settings,
    /// The kinds of objects in namespaces.
    pub kinds: Kinds,
    /// Shared with the admission of objects that quotas count.
    pub(crate) quota_turns: Arc<QuotaTurns>,
    /// The enabled controllers (`--controllers`).
    pub selection: Selection,
    /// The numbers that they follow.
    pub settings: ControllerSettings,
}

impl Controllers {
    /// Starts the enabled controllers, and returns when the objects of every namespace were reconciled once. If other servers
    /// share the store, they start when this server is elected, and this returns at once.
    pub async fn start(backend: &Arc<Backend>, config: ControllerConfig, identity: String) -> Self {
        if !backend.is_shared() {
            return Self::start_here(backend, config).await;
        }
        let mut controllers = Self { tasks: JoinSet::new(), stopping: watch::Sender::new(false) };
        let mut stopping = controllers.stopping.subscribe();
        let stop = async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        let backend = Arc::clone(backend);
        controllers.tasks.spawn(async move {
            let work = async || {
                let _running = Self::start_here(&backend, config.clone()).await;
                std::future::pending().await
            };
            leader::lead(Arc::clone(&backend), LEASE, identity, stop, work).await;
        });
        controllers
    }

    /// Starts the enabled controllers on this server.
    async fn start_here(backend: &Arc<Backend>, config: ControllerConfig) -> Self {
        let is_shared = backend.is_shared();
        let ControllerConfig { authority, signing, clock, bootstrap, settings, .. } = config;
        let mut controllers = Self { tasks: JoinSet::new(), stopping: watch::Sender::new(false) };
        let backend = || Arc::clone(backend);
        let mut spawn =
            Spawn { controllers: &mut controllers, backend: backend(), selection: &config.selection };
        let first_looks = [
            spawn.one(service_accounts::ServiceAccounts::new(backend())),
            spawn.one(root_ca::RootCa::new(backend(), authority.clone())),
        ];
        spawn.one(aggregation::Aggregation::new(backend()));
        spawn.one(garbage_collector::GarbageCollector::new(backend(), config.kinds.clone()));
        spawn.always(definitions::Definitions::new(backend(), &config.kinds));
        spawn.one(resource_quotas::ResourceQuotas::new(
            backend(),
            config.kinds.clone(),
            config.quota_turns,
            settings.resource_quota_sync_period,
        ));
        spawn.one(namespaces::Namespaces::new(backend(), config.kinds));
        spawn.nodes(settings);
        // In a shared store events end by themselves.
        if !settings.event_ttl.is_zero() && !is_shared {
            spawn.always(event_ttl::EventTtl::new(backend(), settings.event_ttl));
        }
        spawn.one(protection::ClaimProtection::new(backend()));
        spawn.one(protection::VolumeProtection::new(backend()));
        spawn.one(token_cleaner::TokenCleaner::new(backend()));
        spawn.one(account_tokens::AccountTokens::new(backend(), config.accounts, authority));
        spawn.one(BootstrapBundles::new(backend(), &bootstrap));
        spawn.one(BootstrapAccount::new(backend(), bootstrap.account));
        spawn.one(certificates::Approving::new(
            backend(),
            config.authorization,
            clock.clone(),
            config.approves_renewals_only,
        ));
        spawn.one(certificates::Signing::new(backend(), Arc::clone(&signing), clock.clone()));
        let mut stopping = spawn.controllers.stopping.subscribe();
        spawn.controllers.tasks.spawn(async move {
            tokio::select! {
                () = signing.follow() => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        });
        spawn.one(certificates::Cleaning::new(backend(), clock));
        for first_look in first_looks.into_iter().flatten() {
            // A controller that failed has already logged its error.
            let _ = first_look.await;
        }
        controllers
    }

    /// Stops all controllers and waits for them.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller had failed");
            }
        }
    }
}

/// Starts controllers.
struct Spawn<'a> {
    controllers: &'a mut Controllers,
    backend: Arc<Backend>,
    selection: &'a Selection,
}

impl Spawn<'_> {
    /// Starts the controllers of nodes and their pods.
    fn nodes(&mut self, settings: ControllerSettings) {
        let pods = PodsByNode::new(Arc::clone(&self.backend));
        let backend = Arc::clone(&self.backend);
        let started = [
            self.one(pod_gc::PodGc::new(Arc::clone(&backend), Arc::clone(&pods), settings)),
            self.one(node_lifecycle::NodeLifecycle::new(Arc::clone(&backend), Arc::clone(&pods), settings)),
            self.one(taint_eviction::TaintEviction::new(backend, Arc::clone(&pods))),
        ];
        if started.iter().any(Option::is_some) {
            let listed = self.always(pods_by_node::Follower(Arc::clone(&pods)));
            let mut stopping = self.controllers.stopping.subscribe();
            self.controllers.tasks.spawn(async move {
                tokio::select! {
                    listed = listed => if listed.is_ok() { pods.complete() },
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                }
            });
        }
    }

    /// Starts a controller, if it is enabled. The returned receiver is notified when all existing objects were
    /// reconciled.
    fn one<C: runner::Controller>(&mut self, controller: C) -> Option<oneshot::Receiver<()>> {
        self.selection.has(C::NAME).then(|| self.always(controller))
    }

    /// Starts what is not a controller of Kubernetes, and so cannot be disabled.
    fn always<C: runner::Controller>(&mut self, controller: C) -> oneshot::Receiver<()> {
        let (looked, first_look) = oneshot::channel();
        let mut stopping = self.controllers.stopping.subscribe();
        let backend = Arc::clone(&self.backend);
        self.controllers.tasks.spawn(async move {
            tokio::select! {
                () = runner::run(Arc::new(controller), &backend, looked) => {}
                // Work in progress can be dropped: every commit is atomic, and the next start reconciles again.
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        });
        first_look
    }
}
