//! A cluster of one's own: what is stored, and the engine that decides over it.
//!
//! The engine learns of every write before the writer is told that it is done: who sees an answer sees what follows
//! from it. What it cannot take in is logged and counted, and grants nothing.

pub mod approver_access;
pub mod default_policy;
mod follow;
pub mod seed;
pub(crate) mod write;

use std::path::PathBuf;
use std::sync::Arc;

use policy::chain::Mode;
use policy::engine::{EngineConfig, EngineError, LiveEngine};
use portcullis_policy as policy;
use portcullis_store::embedded::Options;
use portcullis_store::{List, Store as _, StoreError};

use self::follow::Follower;
use self::seed::{SeedError, Seeded};
use crate::api::rest::{part, system_namespaces};
use crate::backend::Backend;
use crate::controller::aggregation;
use crate::metrics::Metrics;
use crate::status::Status;

/// See the module.
pub struct Cluster {
    /// Where objects are kept.
    pub backend: Arc<Backend>,
    /// What decides.
    pub engine: Arc<LiveEngine>,
}

/// A cluster that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The modes contradict each other.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The files that an empty store is to begin with cannot be used.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// What every cluster has cannot be written.
    #[error("{what} cannot be written: {why}")]
    Initial {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Cluster {
    /// Opens a store, takes in everything that is stored, and writes what every cluster has: its namespaces and, with
    /// mode RBAC, the default policy if `config` wants it. Nothing is to be served before that.
    ///
    /// # Errors
    /// See [`ClusterError`]. Objects that the engine cannot take in are none.
    pub async fn open(
        options: Options,
        config: &EngineConfig,
        metrics: &Metrics,
    ) -> Result<Self, ClusterError> {
        Ok(Self::open_seeded(options, config, metrics, &[]).await?.0)
    }

    /// As [`Self::open`]; a store that is empty begins with the objects of these files, all or none of them.
    ///
    /// # Errors
    /// As [`Self::open`], and files that cannot be used.
    pub async fn open_seeded(
        options: Options,
        config: &EngineConfig,
        metrics: &Metrics,
        files: &[PathBuf],
    ) -> Result<(Self, Seeded), ClusterError> {
        // The default policy is stored: what is deleted of it is gone until the next start (RB-102).
        let live = EngineConfig { default_policy: false, admission: true, ..config.clone() };
        let engine = Arc::new(LiveEngine::new(&live)?);
        let follower = Arc::new(Follower::new(Arc::clone(&engine), metrics));
        let observer: Arc<dyn portcullis_store::Observer> = Arc::<Follower>::clone(&follower);
        let backend = Backend::Embedded(options.observer(observer).parts(part::of).open()?);
        let mut stored = Vec::new();
        for prefix in follow::prefixes() {
            let list = List { prefix: prefix.into(), ..List::default() };
            stored.extend(backend.list(&list).await?.entries);
        }
        follower.load(&stored);
        follower.count(&backend).await?;
        engine.mark_complete();
        tracing::info!(objects = stored.len(), "objects loaded");
        let cluster = Self { backend: Arc::new(backend), engine };
        let seeded = seed::seed(&cluster.backend, files).await?;
        cluster.begin(config).await?;
        Ok((cluster, seeded))
    }

    async fn begin(&self, config: &EngineConfig) -> Result<(), ClusterError> {
        let failed =
            |what| move |status: Status| ClusterError::Initial { what, why: status.message().to_owned() };
        system_namespaces::ensure(&self.backend).await.map_err(failed("the namespaces of every cluster"))?;
        if !config.default_policy || !config.modes.contains(&Mode::Rbac) {
            return Ok(());
        }
        let policy = failed("the default RBAC policy");
        default_policy::reconcile(&self.backend, config.gates).await.map_err(policy)?;
        // Whoever reads the new roles reads them whole.
        aggregation::settle(&self.backend).await.map_err(failed("the rules of aggregated ClusterRoles"))
    }
}
