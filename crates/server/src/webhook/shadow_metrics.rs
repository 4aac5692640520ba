//! The metrics of a rehearsal (BC-50).

use std::fmt;

use policy::rehearsal::{Change, Lost, Tally, Unknown};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The counts of a rehearsal at one time.
#[derive(Debug)]
pub(super) struct Counts {
    requests: Vec<(&'static str, u64)>,
    unknown: Vec<(&'static str, u64)>,
    events: Vec<(&'static str, u64)>,
    lost: Lost,
}

impl Counts {
    pub(super) fn new(tally: &Tally, lost: Lost) -> Self {
        let changes = Change::ALL.map(|change| (change.name(), tally.count(change)));
        let others = [("unchanged", tally.unchanged), ("unknown", tally.count_unknown())];
        let unknown =
            Unknown::ALL.map(|why| (why.name(), tally.unknown.get(&why).map_or(0, |(seen, _)| seen.count)));
        let none = tally.no_decisions;
        Self {
            requests: changes.into_iter().chain(others).collect(),
            unknown: unknown.to_vec(),
            events: vec![
                ("early", none.early),
                ("repeated", none.repeated),
                ("not-authenticated", none.not_authenticated),
                ("not-asked", none.not_asked),
            ],
            lost,
        }
    }
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut write = |name: &str, help: &str, label: &str, values: &[(&str, u64)]| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, count) in values {
                // The encoder of counters would add a suffix to the name.
                ConstGauge::new(*count).encode(family.encode_family(&[(label, *value)])?)?;
            }
            Ok::<_, fmt::Error>(())
        };
        write(
            "portcullis_webhook_shadow_requests_total",
            "Requests of audit events whose decisions were made again, by what became of them",
            "result",
            &self.requests,
        )?;
        write(
            "portcullis_webhook_shadow_unknown_total",
            "Requests of audit events whose decisions cannot be made again, by the reason",
            "reason",
            &self.unknown,
        )?;
        write(
            "portcullis_webhook_shadow_events_without_decision_total",
            "Audit events by which no request counts",
            "reason",
            &self.events,
        )?;
        let lost = self.lost;
        write(
            "portcullis_webhook_shadow_lost_bodies_total",
            "Bodies of audit events that were lost: for lack of room, or because they cannot be read",
            "reason",
            &[("overflow", lost.overflowed), ("unreadable", lost.unreadable)],
        )
    }
}
