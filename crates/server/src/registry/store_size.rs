//! Reports how full the store is, in metrics and in the log, before and when it refuses writes (`--quota-backend-bytes`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_client::metrics::{Counter, Family};
use portcullis_store::Store as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::sleep;

use super::backend::Backend;

/// How often the size is read.
const PAUSE: Duration = Duration::from_secs(2);
/// How often etcd is asked for its size, as in kube-apiserver.
const ETCD_PAUSE: Duration = Duration::from_secs(30);
/// A store of which less than this part is free is almost full.
const ALMOST: u64 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabels {
    /// As kube-apiserver names its etcd; empty for the embedded store.
    storage_cluster_id: &'static str,
}

/// The metrics of the size of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeMetrics {
    bytes: Family<StoreLabels, Gauge>,
    quota: Gauge,
    full: Gauge,
    refused: Counter,
}

impl SizeMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_storage_size_bytes",
            "Size of all stored keys and objects, or of the file of etcd",
            self.bytes.clone(),
        );
        registry.register(
            "portcullis_storage_quota_bytes",
            "The most that all stored keys and objects may have; 0 without a limit",
            self.quota.clone(),
        );
        registry.register(
            "portcullis_storage_full",
            "1 while the store refuses writes because it is full",
            self.full.clone(),
        );
        registry.register(
            "portcullis_storage_full_refusals_total",
            "Writes that were refused because the store was full",
            self.refused.clone(),
        );
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Free,
    AlmostFull,
    Full,
}

/// How full a store of this size is. It stays full until something fits again.
fn fill(size: u64, quota: u64, has_refused: bool, before: Fill) -> Fill {
    let almost = size >= quota.saturating_sub(quota / ALMOST);
    match (has_refused, almost) {
        (true, _) => Fill::Full,
        (false, true) if before == Fill::Full => Fill::Full,
        (false, true) => Fill::AlmostFull,
        (false, false) => Fill::Free,
    }
}

/// Follows the size of a store, until this is dropped. A scrape asks nobody.
pub(crate) async fn follow(
    backend: Arc<Backend>,
    quota: Option<u64>,
    metrics: SizeMetrics,
    undecodable: Gauge,
) {
    let shown = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    metrics.quota.set(quota.map_or(0, shown));
    let storage_cluster_id = if backend.is_shared() { "etcd-0" } else { "" };
    let bytes = metrics.bytes.get_or_create_owned(&StoreLabels { storage_cluster_id });
    let (mut before, mut counted) = (Fill::Free, 0);
    let pause = if backend.is_shared() { ETCD_PAUSE } else { PAUSE };
    let (mut asked, mut size) = (None::<Instant>, 0);
    loop {
        let refused = backend.refused();
        if asked.is_none_or(|asked| asked.elapsed() >= pause) {
            asked = Some(Instant::now());
            // The last size stays while etcd does not answer, which others report.
            size = backend.size().await.unwrap_or(size);
        }
        let new = refused.saturating_sub(counted);
        counted = refused;
        bytes.set(shown(size));
        undecodable.set(i64::try_from(backend.unreadable()).unwrap_or(i64::MAX));
        metrics.refused.inc_by(new);
        if let Some(quota) = quota {
            let now = fill(size, quota, new > 0, before);
            metrics.full.set(i64::from(now == Fill::Full));
            match now {
                _ if now == before => {}
                Fill::Free => tracing::info!(size, quota, "the store has room again"),
                Fill::AlmostFull => tracing::warn!(
                    size,
                    quota,
                    "the store is almost full: delete objects, or raise --quota-backend-bytes"
                ),
                Fill::Full => tracing::error!(
                    size,
                    quota,
                    "the store is full and refuses what adds to it: delete objects, or raise --quota-backend-bytes"
                ),
            }
            before = now;
        }
        sleep(PAUSE).await;
    }
}
