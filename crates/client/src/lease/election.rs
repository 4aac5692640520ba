//! The state machine of leader election: decides from the lease that was read, when it was first seen unchanged, and
//! the time. No I/O, no clock.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::config::LeaseConfig;

/// The next step for a lease that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Another candidate holds it.
    Wait,
    /// We hold the lease if this spec can be written.
    Write(Value),
}

/// The state of one candidate.
pub(super) struct Election {
    config: LeaseConfig,
    /// The last seen spec, and when it was first seen, by our monotonic clock.
    seen: Option<(Value, Duration)>,
    /// The lease as we wrote it, and when that write started. Set only while we hold it.
    ours: Option<(Value, Duration)>,
}

impl Election {
    pub(super) fn new(config: LeaseConfig) -> Self {
        Self { config, seen: None, ours: None }
    }

    /// Returns when the last successful renewal started. None if we do not hold the lease.
    pub(super) fn renewed_at(&self) -> Option<Duration> {
        self.ours.as_ref().map(|(_, at)| *at)
    }

    /// Returns the last seen holder.
    pub(super) fn holder(&self) -> &str {
        self.seen.as_ref().map(|(spec, _)| holder(spec)).unwrap_or_default()
    }

    /// Returns whether we hold a lease that was read.
    pub(super) fn is_ours(&self, lease: &Value) -> bool {
        lease.get("spec").is_some_and(|spec| holder(spec) == self.config.identity)
    }

    /// Decides what to do with a lease that was read at a monotonic time and a date.
    pub(super) fn decide(&mut self, found: Option<&Value>, at: Duration, now: SystemTime) -> Step {
        let nothing = Value::Null;
        let spec = found.and_then(|lease| lease.get("spec")).unwrap_or(&nothing);
        let (seen_at, is_same) = match &self.seen {
            Some((seen, since)) if seen == spec => (*since, true),
            _ => (at, false),
        };
        if !is_same {
            self.seen = Some((spec.clone(), at));
        }
        let holder = holder(spec);
        let is_ours = holder == self.config.identity;
        let lasts =
            Duration::from_secs(spec.get("leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default());
        if !is_ours && !holder.is_empty() && at < seen_at.saturating_add(lasts) {
            self.ours = None;
            return Step::Wait;
        }
        if !is_ours {
            self.ours = None;
        }
        let now = micro(now);
        let transitions = spec.get("leaseTransitions").and_then(Value::as_i64).unwrap_or_default();
        let acquired = spec.get("acquireTime").filter(|time| is_ours && time.is_string());
        Step::Write(json!({
            "holderIdentity": self.config.identity,
            "leaseDurationSeconds": self.config.lease_duration.as_secs(),
            "acquireTime": acquired.cloned().unwrap_or_else(|| json!(now)),
            "renewTime": now,
            "leaseTransitions": if is_ours || found.is_none() { transitions } else { transitions.saturating_add(1) },
        }))
    }

    /// Records that the lease was written, when the write started, and when it finished.
    pub(super) fn written(&mut self, lease: &Value, asked_at: Duration, at: Duration) {
        self.seen = Some((lease.get("spec").cloned().unwrap_or_default(), at));
        self.ours = Some((lease.clone(), asked_at));
    }

    /// Returns the lease and its new spec for a release, if we hold it.
    pub(super) fn release(&mut self, now: SystemTime) -> Option<(Value, Value)> {
        let (lease, _) = self.ours.take()?;
        let now = micro(now);
        let spec = json!({
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
        });
        Some((lease, spec))
    }
}

fn holder(spec: &Value) -> &str {
    spec.get("holderIdentity").and_then(Value::as_str).unwrap_or_default()
}

/// Formats a date with microseconds as Kubernetes does.
fn micro(date: SystemTime) -> String {
    Timestamp::try_from(date).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(identity: &str) -> LeaseConfig {
        LeaseConfig {
            namespace: "kube-system".into(),
            name: "it".into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_exit: true,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held_by(holder: &str, renewed: &str) -> Value {
        json!({"metadata": {"name": "it"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": renewed, "leaseTransitions": 3}})
    }

    fn spec(step: Step) -> Value {
        let Step::Write(spec) = step else { panic!("it waits") };
        spec
    }

    #[test]
    fn a_lease_that_nobody_has_is_taken() {
        let date = SystemTime::UNIX_EPOCH + at(1);
        for found in [None, Some(json!({"metadata": {}})), Some(held_by("", "x"))] {
            let spec = spec(Election::new(config("me")).decide(found.as_ref(), at(0), date));
            assert_eq!(spec["holderIdentity"], "me");
            assert_eq!(spec["renewTime"], "1970-01-01T00:00:01.000000Z");
            assert_eq!(spec["acquireTime"], spec["renewTime"]);
        }
    }

    #[test]
    fn a_lease_is_abandoned_when_it_has_not_changed_for_its_duration_whatever_dates_it_bears() {
        let date = SystemTime::now();
        for renewed in ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
            let mut election = Election::new(config("me"));
            let other = held_by("other", renewed);
            assert_eq!(election.decide(Some(&other), at(100), date), Step::Wait);
            assert_eq!(election.decide(Some(&other), at(114), date), Step::Wait);
            let spec = spec(election.decide(Some(&other), at(115), date));
            assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("me"), &json!(4)));
        }
    }

    #[test]
    fn a_lease_that_is_renewed_is_not_abandoned() {
        let mut election = Election::new(config("me"));
        for second in 0..60 {
            let other = held_by("other", &second.to_string());
            assert_eq!(election.decide(Some(&other), at(second * 14), SystemTime::now()), Step::Wait);
        }
    }

    #[test]
    fn our_own_lease_is_renewed_since_when_it_was_ours() {
        let mut election = Election::new(config("me"));
        let spec = spec(election.decide(Some(&held_by("me", "x")), at(0), SystemTime::now()));
        assert_eq!(spec["acquireTime"], "2026-01-01T00:00:00.000000Z");
        assert_eq!(spec["leaseTransitions"], 3);
    }

    #[test]
    fn times_that_would_let_two_lead_are_refused() {
        let good = config("me");
        assert_eq!(good.check(), Ok(()));
        for bad in [
            LeaseConfig { renew_deadline: good.lease_duration, ..good.clone() },
            LeaseConfig { retry_period: at(9), ..good.clone() },
            LeaseConfig { retry_period: Duration::ZERO, ..good.clone() },
            LeaseConfig { lease_duration: Duration::from_millis(15_500), ..good.clone() },
            LeaseConfig { identity: String::new(), ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
