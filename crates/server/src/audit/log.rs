//! The audit log: its policy, and where it is written.

use super::metrics::AuditMetrics;
use super::policy::Policy;
use super::sink::Sink;

/// An audit policy, and the sink for its events.
pub struct Audit {
    pub(super) policy: Policy,
    pub(super) sink: Sink,
    pub(super) metrics: AuditMetrics,
}

impl Audit {
    /// Writes what this policy wants, and counts it.
    pub fn new(policy: Policy, sink: Sink, metrics: AuditMetrics) -> Self {
        Self { policy, sink, metrics }
    }
}
