//! The options of a store in etcd.

use std::sync::Arc;
use std::time::Duration;

use super::certificates::LiveTls;
use super::layout::{GroupResource, Layout};
use crate::history::History;
use crate::{Amender, Entry, Observer, PartOf};

/// How to connect to etcd, and what to keep there.
#[derive(Clone)]
pub struct Options {
    pub(super) servers: Vec<String>,
    pub(super) tls: Arc<LiveTls>,
    pub(super) prefix: Box<str>,
    pub(super) layout: Arc<dyn Layout>,
    pub(super) history: History,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) amender: Option<Arc<dyn Amender>>,
    pub(super) part_of: Option<PartOf>,
    pub(super) compaction: Option<Duration>,
    pub(super) requests: Option<Arc<dyn RequestObserver>>,
}

/// Is told of every request to etcd, for metrics. Must be fast.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request has ended: its operation, as kube-apiserver names it, the resource that it was about, how long it took with all
    /// attempts, and whether it succeeded. A transaction whose conditions did not hold has succeeded; it is about the resource of
    /// its first write.
    fn request(&self, operation: &'static str, resource: GroupResource, took: Duration, is_success: bool);
}

impl Options {
    /// A store in these etcd servers (`http://` or `https://` addresses), below the key prefix `/registry`.
    #[must_use]
    pub fn new(servers: Vec<String>, layout: Arc<dyn Layout>) -> Self {
        Self {
            servers,
            tls: Arc::default(),
            prefix: "/registry".into(),
            layout,
            history: History::default(),
            observers: Vec::new(),
            amender: None,
            part_of: None,
            compaction: None,
            requests: None,
        }
    }

    /// Sets other servers.
    #[must_use]
    pub fn servers(mut self, servers: Vec<String>) -> Self {
        self.servers = servers;
        self
    }

    /// Sets the certificates: [`Tls`](super::Tls), or a [`LiveTls`] in which they can be replaced.
    #[must_use]
    pub fn tls(mut self, tls: impl Into<Arc<LiveTls>>) -> Self {
        self.tls = tls.into();
        self
    }

    /// Sets the prefix of all keys. A leading `/` is added if it is missing, and a trailing one is removed.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = format!("/{}", prefix.trim_matches('/')).into();
        self
    }

    /// Sets how much history is kept in memory.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Adds an observer of every commit, also of other servers; see [`crate::Options::observer`].
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the amender of this server's commits.
    #[must_use]
    pub fn amender(mut self, amender: Arc<dyn Amender>) -> Self {
        self.amender = Some(amender);
        self
    }

    /// Sets how collections are divided into parts that can be watched separately.
    #[must_use]
    pub fn parts(mut self, part_of: impl Fn(&Entry) -> Option<Box<str>> + Send + Sync + 'static) -> Self {
        self.part_of = Some(Arc::new(part_of));
        self
    }

    /// Sets how often etcd is compacted, to the revision of one interval before (ET-40). All servers together do it once.
    #[must_use]
    pub fn compaction(mut self, interval: Duration) -> Self {
        self.compaction = Some(interval);
        self
    }

    /// Sets the observer of requests.
    #[must_use]
    pub fn requests(mut self, observer: Arc<dyn RequestObserver>) -> Self {
        self.requests = Some(observer);
        self
    }
}
