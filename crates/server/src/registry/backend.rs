//! Where objects are kept: the embedded store or etcd. Nothing else in the server names a store, but for `content`, which
//! works without one.

use std::sync::Arc;
use std::time::Duration;

pub use portcullis_store::etcd::Tls;
use portcullis_store::watch::Subscription;

use portcullis_store::{
    Amender, Committed, Embedded, Entry, Etcd, List, Listing, Observer, Revision, Standing, Store,
    StoreError, Write, embedded, etcd,
};

use super::etcd_certificates::CertificateFiles;

/// How long etcd has to say how large it is.
const SIZE_WITHIN: Duration = Duration::from_secs(5);

/// The store.
#[derive(Debug)]
pub enum Backend {
    /// A store in this process.
    Embedded(Embedded),
    /// A store in etcd, which several servers share.
    Etcd(Etcd),
}

/// The etcd of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The addresses of its members (`--etcd-servers`).
    pub servers: Vec<String>,
    /// The prefix of all keys (`--etcd-prefix`).
    pub prefix: String,
    /// The certificates (`--etcd-cafile`, `--etcd-certfile`, `--etcd-keyfile`).
    pub tls: Tls,
    /// The files from which the certificates were read. They are followed while the server runs.
    pub files: CertificateFiles,
    /// How often etcd is compacted; none for never (`--etcd-compaction-interval`).
    pub compaction: Option<Duration>,
    /// How long etcd has to answer for the health check `etcd` (`--etcd-healthcheck-timeout`).
    pub health_timeout: Duration,
    /// How long etcd has to answer for the health check `etcd-readiness` (`--etcd-readycheck-timeout`).
    pub ready_timeout: Duration,
}

/// How long etcd has to answer for health checks, as in kube-apiserver.
const ETCD_TIMEOUT: Duration = Duration::from_secs(2);

impl Default for EtcdConfig {
    /// As kube-apiserver, but without servers and without compaction.
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            prefix: "/registry".to_owned(),
            tls: Tls::default(),
            files: CertificateFiles::default(),
            compaction: None,
            health_timeout: ETCD_TIMEOUT,
            ready_timeout: ETCD_TIMEOUT,
        }
    }
}

impl EtcdConfig {
    /// How etcd is opened, with the certificates as they were read.
    pub(crate) fn options(&self, layout: impl etcd::Layout) -> etcd::Options {
        let options = etcd::Options::new(self.servers.clone(), Arc::new(layout))
            .prefix(&self.prefix)
            .tls(self.tls.clone());
        match self.compaction {
            Some(interval) => options.compaction(interval),
            None => options,
        }
    }
}

/// A watch of the store.
pub type BackendWatch = <Backend as Store>::Watch;

/// How to open the store.
#[derive(Clone)]
pub enum Options {
    /// A store in this process.
    Embedded(embedded::Options),
    /// A store in etcd.
    Etcd(etcd::Options),
}

impl From<embedded::Options> for Options {
    fn from(options: embedded::Options) -> Self {
        Self::Embedded(options)
    }
}

impl From<etcd::Options> for Options {
    fn from(options: etcd::Options) -> Self {
        Self::Etcd(options)
    }
}

impl Options {
    /// Adds an observer of every commit.
    #[must_use]
    pub fn observer(self, observer: Arc<dyn Observer>) -> Self {
        match self {
            Self::Embedded(options) => Self::Embedded(options.observer(observer)),
            Self::Etcd(options) => Self::Etcd(options.observer(observer)),
        }
    }

    /// Sets the amender of commits.
    #[must_use]
    pub fn amender(self, amender: Arc<dyn Amender>) -> Self {
        match self {
            Self::Embedded(options) => Self::Embedded(options.amender(amender)),
            Self::Etcd(options) => Self::Etcd(options.amender(amender)),
        }
    }

    /// Sets how collections are divided into parts.
    #[must_use]
    pub fn parts(self, part_of: impl Fn(&Entry) -> Option<Box<str>> + Send + Sync + 'static) -> Self {
        match self {
            Self::Embedded(options) => Self::Embedded(options.parts(part_of)),
            Self::Etcd(options) => Self::Etcd(options.parts(part_of)),
        }
    }

    /// Opens the store. Waits for etcd.
    ///
    /// # Errors
    /// See [`embedded::Options::open`] and [`etcd::Options::open`].
    pub async fn open(self) -> Result<Backend, StoreError> {
        match self {
            Self::Embedded(options) => options.open().map(Backend::Embedded),
            Self::Etcd(options) => options.open().await.map(Backend::Etcd),
        }
    }
}

impl Backend {
    /// The size of what is stored, in bytes: of all keys and their newest values, or of the file of etcd.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn size(&self) -> Result<u64, StoreError> {
        match self {
            Self::Embedded(store) => Ok(store.size()),
            Self::Etcd(store) => store.status(SIZE_WITHIN).await.map(|(_, size)| size),
        }
    }

    /// Why etcd is not well, which has this time to answer; none if all is well, or there is no etcd. See [`Etcd::trouble`].
    #[must_use]
    pub fn trouble(&self, within: Duration) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Etcd(store) => store.trouble(within),
        }
    }

    /// The number of stored values that cannot be read (ET-12).
    #[must_use]
    pub fn unreadable(&self) -> usize {
        match self {
            Self::Embedded(_) => 0,
            Self::Etcd(store) => store.unreadable(),
        }
    }

    /// The keys with this prefix whose values cannot be read, and why (ET-12).
    #[must_use]
    pub fn unreadable_below(&self, prefix: &str) -> Vec<(Box<str>, String)> {
        match self {
            Self::Embedded(_) => Vec::new(),
            Self::Etcd(store) => store.unreadable_below(prefix),
        }
    }

    /// Writes a copy of the store to a file that does not exist yet. Blocks. Returns the revision of the copy.
    ///
    /// # Errors
    /// The file cannot be written; or the objects are in etcd, which has its own backups.
    pub fn backup(&self, path: &std::path::Path) -> Result<Revision, StoreError> {
        match self {
            Self::Embedded(store) => store.backup(path),
            Self::Etcd(_) => Err(StoreError::Refused(
                "the objects are in etcd: back them up with `etcdctl snapshot save`".to_owned(),
            )),
        }
    }

    /// Writes values anew that would now be converted differently, such as encrypted with another key. In etcd they are converted
    /// when their objects are written next.
    ///
    /// # Errors
    /// See [`Embedded::rewrite`].
    pub async fn rewrite(&self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(store) => store.rewrite().await,
            Self::Etcd(_) => Ok(()),
        }
    }

    /// The number of commits that were refused because the store was full. etcd counts its own.
    #[must_use]
    pub fn refused(&self) -> u64 {
        match self {
            Self::Embedded(store) => store.refused(),
            Self::Etcd(_) => 0,
        }
    }
}

// The futures of etcd are large. They are boxed, so that requests to the embedded store do not need that much memory as well.
impl Store for Backend {
    type Watch = Subscription;

    fn revision(&self) -> Revision {
        match self {
            Self::Embedded(store) => store.revision(),
            Self::Etcd(store) => store.revision(),
        }
    }

    async fn fresh(&self) -> Result<Revision, StoreError> {
        match self {
            Self::Embedded(store) => store.fresh().await,
            Self::Etcd(store) => Box::pin(store.fresh()).await,
        }
    }

    fn is_current(&self) -> bool {
        match self {
            Self::Embedded(store) => store.is_current(),
            Self::Etcd(store) => store.is_current(),
        }
    }

    fn is_shared(&self) -> bool {
        match self {
            Self::Embedded(store) => store.is_shared(),
            Self::Etcd(store) => store.is_shared(),
        }
    }

    fn most_writes(&self) -> usize {
        match self {
            Self::Embedded(store) => store.most_writes(),
            Self::Etcd(store) => store.most_writes(),
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        match self {
            Self::Embedded(store) => store.get(key).await,
            Self::Etcd(store) => Box::pin(store.get(key)).await,
        }
    }

    async fn get_at(&self, key: &str, at: Revision) -> Result<Option<Arc<Entry>>, StoreError> {
        match self {
            Self::Embedded(store) => store.get_at(key, at).await,
            Self::Etcd(store) => Box::pin(store.get_at(key, at)).await,
        }
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        match self {
            Self::Embedded(store) => store.standing(entry).await,
            Self::Etcd(store) => Box::pin(store.standing(entry)).await,
        }
    }

    async fn remove_unreadable(&self, key: &str) -> Result<bool, StoreError> {
        match self {
            Self::Embedded(store) => store.remove_unreadable(key).await,
            Self::Etcd(store) => Box::pin(store.remove_unreadable(key)).await,
        }
    }

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        match self {
            Self::Embedded(store) => store.list(list).await,
            Self::Etcd(store) => Box::pin(store.list(list)).await,
        }
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        match self {
            Self::Embedded(store) => store.commit(writes).await,
            Self::Etcd(store) => Box::pin(store.commit(writes)).await,
        }
    }

    async fn commit_beyond_quota(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        match self {
            Self::Embedded(store) => store.commit_beyond_quota(writes).await,
            Self::Etcd(store) => Box::pin(store.commit_beyond_quota(writes)).await,
        }
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Subscription, StoreError> {
        match self {
            Self::Embedded(store) => store.watch(prefix, after).await,
            Self::Etcd(store) => Box::pin(store.watch(prefix, after)).await,
        }
    }

    async fn watch_part(
        &self,
        prefix: &str,
        part: &str,
        after: Revision,
    ) -> Result<Subscription, StoreError> {
        match self {
            Self::Embedded(store) => store.watch_part(prefix, part, after).await,
            Self::Etcd(store) => Box::pin(store.watch_part(prefix, part, after)).await,
        }
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        match self {
            Self::Embedded(store) => store.compact(before).await,
            Self::Etcd(store) => Box::pin(store.compact(before)).await,
        }
    }
}
