//! The report of a rehearsal, at any time (BC-51).

use std::collections::BTreeMap;

use serde::Serialize;

use super::example::{Change, Example};
use super::tally::{Key, NoDecisions, Seen, Tally};
use super::unknown::Unknown;
use crate::audit::Subject;

/// What was lost before anything in it could be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lost {
    /// Documents that are no events: lines of a log, or bodies.
    pub unreadable: u64,
    /// Documents for which there was no room.
    pub overflowed: u64,
    /// The size of those. In bytes.
    pub overflowed_bytes: u64,
}

/// What a rehearsal comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Summary {
    /// Some requests would be decided differently.
    Differs,
    /// None is known to be, but some are unknown or lost.
    Unknown,
    /// There was no decision to make again.
    NothingJudged,
    /// Every request is decided as before.
    NothingDiffers,
}

/// See the module. Rows come in the order of their counts, the largest first, and then of their names.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<'t> {
    summary: Summary,
    requests: Seen,
    pub(super) unchanged: u64,
    pub(super) changed: Vec<Changed<'t>>,
    pub(super) without_row: Vec<WithoutRow>,
    pub(super) unknown: Vec<NotKnown<'t>>,
    by_subject: Vec<BySubject<'t>>,
    no_decisions: NoDecisions,
    pub(super) lost: Lost,
    #[serde(skip)]
    pub(super) counts: [(Change, u64); 2],
}

#[derive(Debug, Serialize)]
pub(super) struct Changed<'t> {
    #[serde(flatten)]
    pub(super) key: &'t Key,
    #[serde(flatten)]
    pub(super) seen: Seen,
    pub(super) example: &'t Example,
}

/// Requests that have no row, because there were too many.
#[derive(Debug, Serialize)]
pub(super) struct WithoutRow {
    pub(super) change: Change,
    #[serde(flatten)]
    pub(super) seen: Seen,
}

#[derive(Debug, Serialize)]
pub(super) struct NotKnown<'t> {
    pub(super) reason: Unknown,
    pub(super) meaning: &'static str,
    #[serde(flatten)]
    pub(super) seen: Seen,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) example: Option<&'t Example>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BySubject<'t> {
    subject: &'t Subject,
    newly_refused: u64,
    newly_allowed: u64,
}

impl<'t> Report<'t> {
    /// Reports what was counted, and what was lost before.
    pub fn new(tally: &'t Tally, lost: Lost) -> Self {
        let counts = Change::ALL.map(|change| (change, tally.count(change)));
        let mut changed: Vec<Changed<'t>> = tally
            .rows
            .iter()
            .map(|(key, row)| Changed { key, seen: row.seen, example: &row.example })
            .collect();
        changed.sort_by(|a, b| b.seen.count.cmp(&a.seen.count).then_with(|| a.key.cmp(b.key)));
        let without_row = tally.others.iter().filter(|(_, seen)| seen.count > 0);
        let unknown = tally.unknown.iter().map(|(reason, (seen, example))| NotKnown {
            reason: *reason,
            meaning: reason.meaning(),
            seen: *seen,
            example: example.as_ref(),
        });
        Self {
            summary: summary(tally, lost, counts),
            requests: tally.requests,
            unchanged: tally.unchanged,
            by_subject: by_subject(&changed),
            changed,
            without_row: without_row
                .map(|(change, seen)| WithoutRow { change: *change, seen: *seen })
                .collect(),
            unknown: unknown.collect(),
            no_decisions: tally.no_decisions,
            lost,
            counts,
        }
    }

    /// What it comes to.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Whether requests would be refused that have no row, because there were too many.
    pub fn has_refused_without_row(&self) -> bool {
        self.without_row.iter().any(|without| without.change == Change::NewlyRefused)
    }

    /// All requests that were judged, or could not be.
    pub fn requests(&self) -> Seen {
        self.requests
    }
}

fn summary(tally: &Tally, lost: Lost, counts: [(Change, u64); 2]) -> Summary {
    let is_lost = lost.unreadable > 0 || lost.overflowed > 0;
    match (counts.iter().any(|(_, count)| *count > 0), tally.count_unknown() > 0 || is_lost) {
        (true, _) => Summary::Differs,
        (false, true) => Summary::Unknown,
        (false, false) if tally.requests.count == 0 => Summary::NothingJudged,
        (false, false) => Summary::NothingDiffers,
    }
}

fn by_subject<'t>(changed: &[Changed<'t>]) -> Vec<BySubject<'t>> {
    let mut sums = BTreeMap::<&Subject, BySubject<'t>>::new();
    for Changed { key, seen, .. } in changed {
        let subject = &key.subject;
        let sum = sums.entry(subject).or_insert(BySubject { subject, newly_refused: 0, newly_allowed: 0 });
        match key.change {
            Change::NewlyRefused => sum.newly_refused += seen.count,
            Change::NewlyAllowed => sum.newly_allowed += seen.count,
        }
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.newly_refused.saturating_add(sum.newly_allowed)));
    sums
}
