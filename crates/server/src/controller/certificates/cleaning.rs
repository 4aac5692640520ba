//! Deletes old certificate requests (CS-90, CS-91).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kinds::resources::certificates::{APPROVED, DENIED, FAILED};
use pki::cert;
use portcullis_store::Event;

use super::view::{REQUESTS, View, seconds_of};
use super::{PREFIX, changed};
use crate::clock::Clock;
use crate::controller::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;

const HOUR: i64 = 60 * 60;
/// How long decided requests are kept.
const DECIDED: i64 = HOUR;
/// How long pending requests are kept.
const WAITING: i64 = 24 * HOUR;
/// The clock can be changed, so long delays are split. In seconds.
const LONGEST_WAIT: i64 = HOUR;

/// See the module.
pub(in crate::controller) struct Cleaning {
    backend: Arc<Backend>,
    clock: Clock,
    /// Seconds since 1970.
    started: i64,
}

impl Cleaning {
    pub(in crate::controller) fn new(backend: Arc<Backend>, clock: Clock) -> Self {
        let started = seconds_of(clock.now());
        Self { backend, clock, started }
    }

    /// Returns the time of the last round over all requests: rounds are at startup and every hour. Requests created
    /// since then stay until the next round, whatever times they contain, because the writers of conditions can choose
    /// any (CS-33).
    fn last_round(&self, now: i64) -> i64 {
        let since = now.saturating_sub(self.started).max(0);
        self.started.saturating_add(since - since.rem_euclid(HOUR))
    }
}

impl Controller for Cleaning {
    const NAME: &'static str = "certificatesigningrequest-cleaner-controller";
    const LISTED: &'static str = PREFIX;
    const WATCHED: &'static str = PREFIX;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        changed(event)
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = write::find(&self.backend, &REQUESTS, "", name).await? else {
            return Ok(Next::OnChange);
        };
        let request = View(&stored.object);
        let Some(end) = end(request) else { return Ok(Next::OnChange) };
        let now = seconds_of(self.clock.now());
        let last_round = self.last_round(now);
        let is_new = request.created().is_none_or(|created| created >= last_round);
        let end = if is_new { end.max(last_round.saturating_add(HOUR)) } else { end };
        let left = end.saturating_sub(now);
        if left >= 0 {
            // Slightly late, so that the request need not be checked twice.
            let wait = left.saturating_add(1).min(LONGEST_WAIT);
            return Ok(Next::After(Duration::from_secs(u64::try_from(wait).unwrap_or_default())));
        }
        // Deletes only the object that was checked, and no other of its name.
        if write::delete(&self.backend, &REQUESTS, &stored).await? {
            tracing::info!(request = name, "deleted an old certificate request");
        }
        Ok(Next::OnChange)
    }
}

/// Returns when a request is to be deleted. In seconds since 1970; none if it is to be kept.
fn end(request: View<'_>) -> Option<i64> {
    let after = |since: Option<i64>, limit| Some(since?.saturating_add(limit));
    let approved = request.written(APPROVED);
    let certificate = request.certificate();
    let ends = [
        after(request.written(DENIED), DECIDED),
        after(request.written(FAILED), DECIDED),
        after(request.created().filter(|_| !request.has_conditions()), WAITING),
        after(approved, if certificate.is_empty() { WAITING } else { DECIDED }),
        not_after(&certificate).filter(|_| request.is_approved()),
    ];
    ends.into_iter().flatten().min()
}

/// Returns the expiry of the first certificate.
fn not_after(certificate: &[u8]) -> Option<i64> {
    let end = cert::not_after(certificate).ok()?;
    (end > SystemTime::UNIX_EPOCH).then(|| seconds_of(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(conditions: &Value) -> Value {
        json!({"metadata": {"creationTimestamp": "1970-01-01T01:00:00Z"}, "status": {"conditions": conditions}})
    }

    fn ends(object: &Value) -> Option<i64> {
        end(View(object.as_object().unwrap()))
    }

    #[test]
    fn each_state_has_its_limit_cs_90() {
        let of = |kind: &str| request(&json!([{"type": kind, "lastUpdateTime": "1970-01-01T02:00:00Z"}]));
        assert_eq!(ends(&request(&json!([]))), Some(25 * HOUR));
        assert_eq!(ends(&of("Approved")), Some(26 * HOUR));
        assert_eq!(ends(&of("Denied")), Some(3 * HOUR));
        assert_eq!(ends(&of("Failed")), Some(3 * HOUR));
        let mut issued = of("Approved");
        // Not a valid certificate, but the request is no longer pending.
        issued["status"]["certificate"] = "eA==".into();
        assert_eq!(ends(&issued), Some(3 * HOUR));
    }

    #[test]
    fn what_has_no_time_and_what_others_judge_stays_cs_91() {
        assert_eq!(ends(&request(&json!([{"type": "Denied"}]))), None);
        assert_eq!(
            ends(&request(&json!([{"type": "Denied", "lastUpdateTime": "0001-01-01T00:00:00Z"}]))),
            None
        );
        let custom = json!([{"type": "Seen", "lastUpdateTime": "1970-01-01T02:00:00Z"}]);
        assert_eq!(ends(&request(&custom)), None);
    }
}
