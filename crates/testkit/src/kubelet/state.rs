//! The state that all connections of a fake kubelet share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::options::Options;

/// A request that reached the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its path and query as they were sent.
    pub path: String,
    /// Its headers: names in lower case.
    pub headers: Vec<(String, String)>,
    /// The CN of the client certificate, whoever signed it; `None` if the client had none.
    pub certificate: Option<String>,
}

impl Seen {
    /// The first value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Shared by all connections.
pub(super) struct State {
    pub(super) options: Options,
    pub(super) pod_list: Bytes,
    pub(super) log: AtomicBool,
    pub(super) seen: Mutex<Vec<Seen>>,
    pub(super) strays: Mutex<Vec<Vec<u8>>>,
    pub(super) connections: AtomicUsize,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) received: AtomicU64,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn note(&self, seen: impl FnOnce() -> Seen) {
        if self.log.load(Ordering::Relaxed) {
            locked(&self.seen).push(seen());
        }
    }

    pub(super) fn stray(&self, bytes: &[u8]) -> usize {
        let mut strays = locked(&self.strays);
        strays.push(bytes.to_vec());
        strays.len() - 1
    }

    pub(super) fn stray_more(&self, at: usize, bytes: &[u8]) {
        locked(&self.strays)[at].extend_from_slice(bytes);
    }
}

/// One open stream, counted as long as this lives.
pub(super) struct Open(Arc<AtomicUsize>);

impl Open {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
