//! The cluster that `serve` keeps: the store, and the engine that decides over its objects.
//!
//! The engine applies every write before the writer gets its answer, so a client that sees the answer also sees its
//! effect. An object that the engine cannot apply is logged and counted, and grants nothing.

pub(crate) mod aggregation;
pub mod approver_access;
pub mod default_policy;
mod follow;
pub mod seed;

use std::path::PathBuf;
use std::sync::Arc;

use kinds::Kinds;
use policy::engine::{EngineConfig, EngineError, LiveEngine};
use portcullis_store::{List, Store as _, StoreError};

use self::follow::Follower;
use self::seed::{SeedError, Seeded};
use super::backend::{Backend, Options};
use super::{custom_kinds, storage, system_objects};
use crate::certificate_requests::Pkcs10Reader;
use crate::http::status::Status;
use crate::registry::metrics::StoreMetrics;
use crate::registry::right_changes::RightChanges;

/// See the module.
pub struct Cluster {
    /// The storage backend.
    pub backend: Arc<Backend>,
    /// The engine.
    pub engine: Arc<LiveEngine>,
    /// The kinds of the objects.
    pub kinds: Kinds,
    /// Tells watches to check their rights again.
    pub(crate) right_changes: Arc<RightChanges>,
}

/// The cluster cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The modes contradict each other.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The files for seeding an empty store are invalid.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The initial objects of a cluster cannot be written.
    #[error("{what} cannot be written: {why}")]
    Initial {
        /// A description of the objects.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Cluster {
    /// Opens a store, loads everything in it, and writes what every cluster has: its namespaces and other objects, and
    /// the default policy if `config` wants it. Must be done before serving.
    ///
    /// # Errors
    /// See [`ClusterError`]. Objects that the engine cannot apply are not an error.
    pub async fn open(
        options: impl Into<Options>,
        config: &EngineConfig,
        metrics: &StoreMetrics,
    ) -> Result<Self, ClusterError> {
        Ok(Self::open_seeded(options, config, metrics, Kinds::built_in(), &[]).await?.0)
    }

    /// As [`Self::open`], with these kinds; a store that is empty begins with the objects of these files, all or none of them.
    ///
    /// # Errors
    /// See [`Self::open`]; in addition, invalid files.
    pub async fn open_seeded(
        options: impl Into<Options>,
        config: &EngineConfig,
        metrics: &StoreMetrics,
        kinds: Kinds,
        files: &[PathBuf],
    ) -> Result<(Self, Seeded), ClusterError> {
        // The default policy is stored: what is deleted of it stays deleted until the next start (RB-102).
        let live = EngineConfig {
            default_policy: false,
            admission: true,
            certificate_requests: Some(Arc::new(Pkcs10Reader)),
            ..config.clone()
        };
        let engine = Arc::new(LiveEngine::new(&live)?);
        let follower = Arc::new(Follower::new(Arc::clone(&engine), &kinds, metrics));
        let observer: Arc<dyn portcullis_store::Observer> = Arc::<Follower>::clone(&follower);
        // Before the engine applies a change: see the invariant there.
        let right_changes = RightChanges::new(config.node_scope.clone());
        let changes: Arc<dyn portcullis_store::Observer> = Arc::<RightChanges>::clone(&right_changes);
        let options = options.into().observer(changes).observer(observer);
        let backend = options.parts(storage::parts(&kinds)).open().await?;
        let mut stored = Vec::new();
        for prefix in follower.prefixes() {
            let list = List { prefix: prefix.into(), ..List::default() };
            stored.extend(backend.list(&list).await?.entries);
        }
        custom_kinds::load(&backend, &kinds).await?;
        follower.load(&stored);
        follower.count(&backend).await?;
        engine.mark_complete();
        tracing::info!(objects = stored.len(), "objects loaded");
        let cluster = Self { backend: Arc::new(backend), engine, kinds, right_changes };
        let seeded = seed::seed(&cluster.backend, &cluster.kinds, files).await?;
        cluster.begin(config).await?;
        Ok((cluster, seeded))
    }

    async fn begin(&self, config: &EngineConfig) -> Result<(), ClusterError> {
        let failed =
            |what| move |status: Status| ClusterError::Initial { what, why: status.message().to_owned() };
        system_objects::ensure(&self.backend).await.map_err(failed("the objects of every cluster"))?;
        // RB-3: also without mode RBAC, so that it is there when that is added.
        if !config.default_policy {
            return Ok(());
        }
        let policy = failed("the default RBAC policy");
        default_policy::reconcile(&self.backend, config.gates).await.map_err(policy)?;
        // So that readers see the new roles with their aggregated rules.
        aggregation::settle(&self.backend).await.map_err(failed("the rules of aggregated ClusterRoles"))
    }
}
