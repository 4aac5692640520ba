//! How many requests are answered at one time (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
//!
//! Watches are not counted: they are few calls that last long. Neither are health checks, which must be answered most of
//! all when there is too much to do, nor the group `system:masters`, which must be able to come in and help.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use policy::User;
use policy::chain::MASTERS_GROUP;
use portcullis_policy as policy;
use prometheus_client::metrics::gauge::Gauge;

use crate::api::route::{Action, Route};
use crate::status::{Answer, text};

/// The requests under way.
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

/// A request under way, until this is dropped.
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
    /// Pools of these sizes; 0 for no limit. The gauges show how many there are.
    pub(crate) fn new((read_only, mutating): (usize, usize), [read, write]: [Gauge; 2]) -> Self {
        Self { read_only: Pool::new(read_only, read), mutating: Pool::new(mutating, write) }
    }

    /// Lets a request in, to be counted until the guard is dropped; what is not counted has none.
    ///
    /// # Errors
    /// 429: too many are under way.
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

/// As kube-apiserver answers it.
fn too_many() -> Answer {
    let mut answer = text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
