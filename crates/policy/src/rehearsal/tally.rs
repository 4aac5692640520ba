//! Counts what would differ, in bounded memory (BC-50, AU-124).

use std::collections::BTreeMap;

use hashbrown::HashMap;
use portcullis_apimachinery::time::Instant;
use serde::{Serialize, Serializer};

use super::event::AuditEvent;
use super::example::{Change, Example};
use super::needs::Needs;
use super::text::cut;
use super::unknown::Unknown;
use crate::audit::Subject;
use crate::chain::Outcome;
use crate::identity::{NODES_GROUP, NodeIdentity};
use crate::request::{Attributes, User};

/// The maximum number of rows.
pub const ROWS: usize = 10_000;
/// The maximum number of rows of one subject, so that nobody takes those of others.
pub const ROWS_OF_SUBJECT: usize = 1_000;
/// The group of clients with bootstrap tokens, and what their names begin with.
const BOOTSTRAPPERS: &str = "system:bootstrappers";
const BOOTSTRAP_PREFIX: &str = "system:bootstrap:";

/// How often something was seen, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// How often.
    pub count: u64,
    /// The earliest time; none if no event had one.
    #[serde(rename = "firstSeen", serialize_with = "as_text")]
    pub first: Option<Instant>,
    /// The latest time.
    #[serde(rename = "lastSeen", serialize_with = "as_text")]
    pub last: Option<Instant>,
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn as_text<S: Serializer>(time: &Option<Instant>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(serializer)
}

impl Seen {
    pub(super) fn add(&mut self, time: Option<Instant>) {
        self.count = self.count.saturating_add(1);
        let Some(time) = time else { return };
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }
}

/// What a row counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// How the decision differs.
    pub change: Change,
    /// Who asks: the user, or the group of those that are many and alike: nodes, and clients with bootstrap tokens.
    pub subject: Subject,
    /// The verb.
    pub verb: String,
    /// `pods`, `pods/exec`, `deployments.apps/scale`, or a path.
    pub resource: String,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// How often, and when.
    pub seen: Seen,
    /// The first event.
    pub example: Example,
    /// What a role would have to grant; none if no role can, because a rule denies, or if that is not kept.
    pub(super) needs: Option<Needs>,
}

/// How many events are no decisions, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoDecisions {
    /// Events of a stage before the one by which the request counts.
    pub early: u64,
    /// Further events of requests that were counted.
    pub repeated: u64,
    /// Requests of which nobody was authenticated.
    pub not_authenticated: u64,
    /// Requests that were answered before the authorizers were asked.
    pub not_asked: u64,
}

/// All counts.
#[derive(Clone, Debug)]
pub struct Tally {
    /// All requests that were judged, or could not be.
    pub requests: Seen,
    /// Those that are decided as before.
    pub unchanged: u64,
    /// Those that are decided differently, by row.
    pub rows: HashMap<Key, Row>,
    /// The number of rows of each subject.
    rows_of: HashMap<Subject, usize>,
    /// Those without a row: there were too many.
    pub others: [(Change, Seen); 2],
    /// Those of which nobody knows how they would be decided: each reason, how often, and the first event.
    pub unknown: BTreeMap<Unknown, (Seen, Option<Example>)>,
    /// Events that are no decisions.
    pub no_decisions: NoDecisions,
    /// Whether it is kept what roles would have to grant.
    pub(super) keeps_needs: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            requests: Seen::default(),
            unchanged: 0,
            rows: HashMap::new(),
            rows_of: HashMap::new(),
            others: Change::ALL.map(|change| (change, Seen::default())),
            unknown: BTreeMap::new(),
            no_decisions: NoDecisions::default(),
            keeps_needs: false,
        }
    }
}

impl Tally {
    /// Counts a request that is decided differently. Returns its example if it is the first of its row.
    pub(super) fn changed(
        &mut self,
        change: Change,
        event: &AuditEvent<'_>,
        (asked, outcome): (&Attributes<'_>, &Outcome),
    ) -> Option<&Example> {
        let time = time(event);
        let key = Key {
            change,
            subject: subject(asked.user),
            verb: cut(asked.verb),
            resource: cut(&resource(asked)),
        };
        // No role grants what a rule denies. Other requests of the same row may still need one.
        let has_needs = self.keeps_needs && change == Change::NewlyRefused && !outcome.is_deny();
        if let Some(row) = self.rows.get_mut(&key) {
            row.seen.add(time);
            match &mut row.needs {
                Some(needs) if has_needs => needs.add(asked),
                needs if has_needs => *needs = Some(Needs::of(asked)),
                _ => {}
            }
            return None;
        }
        let of_subject = self.rows_of.get(&key.subject).copied().unwrap_or_default();
        if self.rows.len() >= ROWS || of_subject >= ROWS_OF_SUBJECT {
            self.others.iter_mut().filter(|(other, _)| *other == change).for_each(|(_, seen)| seen.add(time));
            return None;
        }
        self.rows_of.insert(key.subject.clone(), of_subject + 1);
        let mut seen = Seen::default();
        seen.add(time);
        let example = Example::changed(change, event, asked, outcome);
        let needs = has_needs.then(|| Needs::of(asked));
        Some(&self.rows.entry(key).insert(Row { seen, example, needs }).into_mut().example)
    }

    /// Counts a request that cannot be judged. Returns its example if it is the first for its reason.
    pub(super) fn unknown(
        &mut self,
        why: Unknown,
        event: Option<&AuditEvent<'_>>,
        asked: Option<&Attributes<'_>>,
    ) -> Option<&Example> {
        let (seen, example) = self.unknown.entry(why).or_default();
        seen.add(event.and_then(time));
        match (&example, event) {
            (None, Some(event)) => Some(example.insert(Example::unknown(why, event, asked))),
            _ => None,
        }
    }

    /// The number of requests that are decided differently in this way, with and without a row.
    pub fn count(&self, change: Change) -> u64 {
        let rows = self.rows.iter().filter(|(key, _)| key.change == change).map(|(_, row)| row.seen.count);
        let others = self.others.iter().filter(|(other, _)| *other == change).map(|(_, seen)| seen.count);
        rows.chain(others).sum()
    }

    /// The number of requests that cannot be judged.
    pub fn count_unknown(&self) -> u64 {
        self.unknown.values().map(|(seen, _)| seen.count).sum()
    }
}

/// When the request came; none if the event does not say.
pub(super) fn time(event: &AuditEvent<'_>) -> Option<Instant> {
    Instant::parse(&event.request_received_timestamp).ok()
}

fn subject(user: &User) -> Subject {
    let group = |name: &str| Subject::Group { name: name.to_owned() };
    if NodeIdentity::of(user).is_some() {
        return group(NODES_GROUP);
    }
    if user.name.starts_with(BOOTSTRAP_PREFIX) && user.in_group(BOOTSTRAPPERS) {
        return group(BOOTSTRAPPERS);
    }
    Subject::of_user(&cut(&user.name))
}

fn resource(asked: &Attributes<'_>) -> String {
    let Some(resource) = &asked.resource else { return asked.path.to_owned() };
    let mut text = resource.resource.to_owned();
    for (separator, part) in [('.', resource.group), ('/', resource.subresource)] {
        if !part.is_empty() {
            text.push(separator);
            text.push_str(part);
        }
    }
    text
}
