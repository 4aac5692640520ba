//! What differs between two clusters (AU-110 to AU-112): who may do what on one side alone, and what nodes reach.
//!
//! Requests are compared by classes: two requests with the same words, of all words that rules of either side use, are decided
//! alike. [`compare`] answers as if every class had been asked on both sides, but looks only at what changed. Subjects are those
//! that are named on either side, each with the groups that an API server gives it (AU-31). `group/system:authenticated` and
//! `group/system:unauthenticated` are always among them: they stand for whoever is named nowhere, as `node/<any>` does for nodes.
//! Group `system:masters` is not, because it is always allowed everything (AC-63).
//!
//! Mode Node counts with what it allows a node to which nothing belongs; what belongs to nodes is compared as reach. Rules that the
//! aggregation controller is to add count as if they were there (AU-25). Mode Deny is not compared, and a webhook cannot be.
//!
//! Nothing here decides a request, reads the clock or does I/O.

mod compare;
mod grants;
mod missing;
mod node;
mod reach;
mod rights;
mod rows;
mod shapes;
mod words;

use serde::Serialize;

use self::grants::Side;
use super::Incomplete;
use super::reach as node_reach;
use super::state::State;
use crate::chain::{Member, Mode};

pub use self::missing::RULE;
pub use self::reach::{ClosureChange, Lists, NodeChange, ReachChanges, Totals};
pub use self::rows::{Change, Row, Target, Through, Wanted, WordList};

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What the new side alone allows; sorted by subject, and then by the words in their order.
    pub gained: Vec<Row>,
    /// What the old side alone allows.
    pub lost: Vec<Row>,
    /// What nodes reach.
    pub reach: ReachChanges,
    /// What was missing, and what was left out.
    pub incomplete: Vec<Incomplete>,
    /// Gains and losses in short, for people, but for those that a subject has as a member of a group that has the same.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// How many subjects have changes as members of such groups.
    #[serde(skip)]
    pub members: usize,
    /// Whether some subject could not be compared, so that there may be differences that nothing tells.
    #[serde(skip)]
    pub is_cut: bool,
}

/// Why two sides cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotCompare {
    /// A webhook cannot be asked about every class.
    #[error("mode Webhook cannot be compared: a webhook cannot be asked whom it allows")]
    Webhook,
    /// Deny rules have conditions that no class of requests holds. DIVERGES from AU-110, by which each side is compared as it
    /// decides.
    #[error("mode Deny is not compared: it must be the first mode on both sides, or on neither")]
    Deny,
}

impl Report {
    /// Whether something is allowed, or reached, on the new side alone.
    pub fn is_gain(&self) -> bool {
        self.changes.iter().any(|change| change.is_gain) || self.reach.nodes.iter().any(NodeChange::is_gain)
    }

    /// Whether something is allowed, or reached, on the old side alone.
    pub fn is_loss(&self) -> bool {
        self.changes.iter().any(|change| !change.is_gain) || self.reach.nodes.iter().any(NodeChange::is_loss)
    }
}

/// Compares two states.
///
/// # Errors
/// One of the modes cannot be compared.
pub fn compare(
    old: &State,
    new: &State,
    wanted: Wanted,
    asked: &node_reach::Asked<'_>,
) -> Result<Report, CannotCompare> {
    check(old, new)?;
    let (old_side, new_side) = (Side::of(old), Side::of(new));
    let rights = rights::compare(&old_side, &new_side, wanted);
    let everything = node_reach::Wanted::default();
    let was = node_reach::report(old, &everything, asked);
    let now = node_reach::report(new, &everything, asked);
    let of_rbac = |state: &State, side: &Side<'_>| missing::of_rbac(state, side.has(Mode::Rbac));
    let mut incomplete = rights.incomplete;
    incomplete.extend(missing::of_both(of_rbac(old, &old_side), of_rbac(new, &new_side)));
    incomplete.extend(missing::of_both(was.incomplete.clone(), now.incomplete.clone()));
    incomplete.extend(missing::of_lines(old_side.lines(), new_side.lines()));
    incomplete.extend(old_side.has(Mode::Deny).then(missing::of_deny));
    incomplete.sort();
    Ok(Report {
        gained: rights.gained.rows,
        lost: rights.lost.rows,
        reach: ReachChanges::between(&was, &now),
        incomplete,
        changes: rights.changes,
        members: rights.members,
        is_cut: rights.is_cut,
    })
}

fn check(old: &State, new: &State) -> Result<(), CannotCompare> {
    let modes =
        |state: &State| -> Vec<Mode> { state.engine().chain().members().iter().map(Member::mode).collect() };
    let modes = [modes(old), modes(new)];
    let any_has = |mode| modes.iter().any(|modes| modes.contains(&mode));
    if any_has(Mode::Webhook) {
        return Err(CannotCompare::Webhook);
    }
    let all_begin = modes.iter().all(|modes| modes.first() == Some(&Mode::Deny));
    if any_has(Mode::Deny) && !all_begin { Err(CannotCompare::Deny) } else { Ok(()) }
}
