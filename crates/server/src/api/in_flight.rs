//! Limits of concurrent requests (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
//!
//! Watches are not counted, because they are long-running. Neither are health checks, which matter most under load, nor
//! requests of group `system:masters`, so that an administrator can always reach an overloaded server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use policy::User;
use policy::chain::MASTERS_GROUP;
use prometheus_client::metrics::gauge::Gauge;

use crate::api::route::{Action, Route};
use crate::http::status::{Answer, text};

/// The limits and counts of concurrent requests.
pub(crate) struct InFlight {
    read_only: Pool,
    mutating: Pool,
}

struct Pool {
    /// 0 for no limit.
    limit: usize,
    under_way: Arc<AtomicUsize>,
    shown: Gauge,
}

/// A counted request, until this is dropped.
pub(crate) struct Entered {
    under_way: Arc<AtomicUsize>,
    shown: Gauge,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.shown.dec();
    }
}

impl Pool {
    fn new(limit: usize, shown: Gauge) -> Self {
        Self { limit, under_way: Arc::default(), shown }
    }

    fn enter(&self, is_privileged: bool) -> Option<Entered> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        if self.limit > 0 && before >= self.limit && !is_privileged {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.shown.inc();
        Some(Entered { under_way: Arc::clone(&self.under_way), shown: self.shown.clone() })
    }
}

impl InFlight {
    /// Creates limits of these sizes; 0 for no limit. The gauges show the current numbers.
    pub(crate) fn new((read_only, mutating): (usize, usize), [read, write]: [Gauge; 2]) -> Self {
        Self { read_only: Pool::new(read_only, read), mutating: Pool::new(mutating, write) }
    }

    /// Admits a request, which counts until the guard is dropped; returns none for requests that are not counted.
    ///
    /// # Errors
    /// 429 if there are too many requests.
    pub(crate) fn enter(
        &self,
        route: Route,
        verb: &str,
        user: &User,
    ) -> Result<Option<Entered>, Box<Answer>> {
        if matches!(route, Route::Health(_) | Route::Object { action: Action::Watch, .. }) {
            return Ok(None);
        }
        let pool = match verb {
            "get" | "list" | "watch" => &self.read_only,
            _ => &self.mutating,
        };
        pool.enter(user.in_group(MASTERS_GROUP)).map(Some).ok_or_else(|| Box::new(too_many()))
    }
}

/// Returns the 429 response of kube-apiserver.
fn too_many() -> Answer {
    let mut answer = text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
