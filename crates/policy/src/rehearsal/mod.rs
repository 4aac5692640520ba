//! Rehearsal: makes the decisions of an audit log again, by other modes, rules and objects, and counts what would differ
//! (BC-50, BC-51, AU-120 to AU-125).
//!
//! It never answers a request, and what it cannot judge is unknown, never unchanged. Whatever the events say, it holds a bounded
//! number of rows with bounded texts.

mod event;
mod example;
mod impersonation;
mod judge;
mod needs;
mod report;
mod requests;
mod roles;
mod table;
mod tally;
mod text;
mod unknown;

use std::hash::RandomState;

use self::judge::{Judge, Verdict};
use self::requests::{Requests, Turn};
use crate::chain::Chain;
use crate::features::FeatureGates;

pub use self::event::{AuditEvent, DocumentError, each_event};
pub use self::example::{Change, Example};
pub use self::report::{Lost, Report, Summary};
pub use self::roles::Kept;
pub use self::tally::{Key, NoDecisions, ROWS, ROWS_OF_SUBJECT, Row, Seen, Tally};
pub use self::unknown::Unknown;

/// See the module.
#[derive(Debug)]
pub struct Rehearsal {
    judge: Judge,
    requests: Requests,
    tally: Tally,
}

impl Rehearsal {
    /// Begins, with the feature gates of the modes that will decide. The hasher needs a random key: events must not choose
    /// what they are taken for.
    pub fn new(gates: FeatureGates, hasher: RandomState) -> Self {
        Self { judge: Judge::new(gates), requests: Requests::new(hasher), tally: Tally::default() }
    }

    /// Takes an event, or the reason why it cannot be read, and makes its decision again by a chain. Without a chain the
    /// cluster is not known at the moment. A chain should allow group `system:masters` first, as API servers do (AC-63).
    ///
    /// Returns the example if the event is the first of its kind.
    pub fn take(&mut self, event: Result<AuditEvent<'_>, String>, chain: Option<&Chain>) -> Option<&Example> {
        let Ok(event) = event else { return self.lost(Unknown::Undecodable, None) };
        let stage = match event.stage() {
            Ok(stage) => stage,
            Err(why) => return self.lost(why, Some(&event)),
        };
        let tally = &mut self.tally;
        let verdict = match self.requests.turn(&event, stage) {
            Turn::Counts => self.judge.judge(&event, chain),
            Turn::Early => return none(&mut tally.no_decisions.early),
            Turn::Repeated => return none(&mut tally.no_decisions.repeated),
        };
        if !matches!(verdict, Verdict::NotAuthenticated | Verdict::NotAsked) {
            tally.requests.add(tally::time(&event));
        }
        match &verdict {
            Verdict::NotAuthenticated => none(&mut tally.no_decisions.not_authenticated),
            Verdict::NotAsked => none(&mut tally.no_decisions.not_asked),
            Verdict::Unchanged => none(&mut tally.unchanged),
            Verdict::Refused(question, outcome) => {
                tally.changed(Change::NewlyRefused, &event, (&question.attributes(), outcome))
            }
            Verdict::Allowed(question, outcome) => {
                tally.changed(Change::NewlyAllowed, &event, (&question.attributes(), outcome))
            }
            Verdict::Unknown(why, question) => {
                let asked = question.as_ref().map(judge::Question::attributes);
                tally.unknown(*why, Some(&event), asked.as_ref())
            }
        }
    }

    fn lost(&mut self, why: Unknown, event: Option<&AuditEvent<'_>>) -> Option<&Example> {
        self.tally.requests.add(event.and_then(tally::time));
        self.tally.unknown(why, event, None)
    }

    /// Also keeps what roles would have to grant, for [`Rehearsal::roles`]: at most 16 names in each row.
    #[must_use]
    pub fn keeping_roles(mut self) -> Self {
        self.tally.keeps_needs = true;
        self
    }

    /// The roles that keep working what would be refused (AU-125), sorted by subject. They are whole only if the rehearsal began with
    /// [`Rehearsal::keeping_roles`].
    pub fn roles(&self) -> Vec<Kept> {
        roles::roles(&self.tally)
    }

    /// What was counted so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// Counts an event that is no example of anything.
fn none<'e>(count: &mut u64) -> Option<&'e Example> {
    *count = count.saturating_add(1);
    None
}
