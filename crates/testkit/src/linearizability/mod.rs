//! Whether a history of operations on keys could have happened on one register for each key, one operation at a time,
//! each between its invocation and its response: linearizability (Herlihy and Wing, 1990).
//!
//! It knows nothing of the store under test. Every write has a value of its own, so that a value stands for a version.
//! All keys are absent at first. A history that passes proves nothing about one that was not recorded.

mod history;
mod search;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

pub use history::{Action, Call, History, Operation, Outcome, Value};

/// How many of the operations before are shown.
const SHOWN: usize = 8;

/// Why a history is not linearizable: the earliest response that cannot be true, whatever came before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The operation with that response.
    pub operation: Operation,
    /// The operation that wrote the value which it names.
    pub writer: Option<Operation>,
    /// What overlapped with it.
    pub concurrent: Vec<Operation>,
    /// The last operations that ended before it began.
    pub before: Vec<Operation>,
}

/// Checks a history, each key by itself.
///
/// # Errors
/// It is not linearizable. The violation is that of the first such key.
///
/// # Panics
/// It is no history: two operations write the same value, an operation ends before it begins, or has an outcome that
/// its action cannot have.
pub fn check(history: &History) -> Result<(), Box<Violation>> {
    let operations = history.operations();
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in &operations {
        keys.entry(&operation.key).or_default().push(operation);
    }
    keys.into_values().try_for_each(|operations| {
        must_be_sound(&operations);
        check_key(operations)
    })
}

fn must_be_sound(operations: &[&Operation]) {
    let mut written = BTreeSet::new();
    for operation in operations {
        if let Some(value) = operation.action.writes() {
            assert!(written.insert(value), "two operations write {value}: {operation}");
        }
        let Some((responded, outcome)) = operation.response else { continue };
        assert!(operation.invoked <= responded, "an operation ends before it begins: {operation}");
        let is_read = operation.action == Action::Read;
        assert_eq!(
            is_read,
            matches!(outcome, Outcome::Observed(_)),
            "an outcome of another action: {operation}"
        );
    }
}

/// Every prefix of a linearizable history is linearizable, so that the first that is not can be searched by halves.
fn check_key(mut operations: Vec<&Operation>) -> Result<(), Box<Violation>> {
    operations.sort_by_key(|operation| operation.responded());
    let known = operations.iter().filter(|operation| operation.response.is_some()).count();
    let Err(furthest) = search::find_an_order(&prefix(&operations, known)) else { return Ok(()) };
    // The search fails early where it knows what comes later. The first bad prefix is seldom far from there.
    let mut good = operations.partition_point(|operation| operation.responded() < furthest);
    let (mut bad, mut stride) = (known, 1);
    while bad - good > 1 {
        let middle = (good + stride).min(usize::midpoint(good, bad));
        match search::find_an_order(&prefix(&operations, middle)) {
            Ok(()) => good = middle,
            Err(_) => bad = middle,
        }
        stride *= 2;
    }
    Err(Box::new(Violation::of(&operations, good)))
}

/// What was known when this many operations had ended. Expects them in the order of their responses.
fn prefix(operations: &[&Operation], ended: usize) -> Vec<Operation> {
    let mut prefix: Vec<Operation> = operations.iter().map(|&operation| operation.clone()).collect();
    prefix.iter_mut().skip(ended).for_each(|operation| operation.response = None);
    prefix
}

impl Violation {
    fn of(operations: &[&Operation], index: usize) -> Self {
        let operation = operations[index];
        let named = match (operation.action, operation.response) {
            (Action::Read, Some((_, Outcome::Observed(value)))) => value,
            (Action::CompareAndSwap { expected, .. }, _) => Some(expected),
            _ => None,
        };
        let writer = |other: &&&Operation| named.is_some() && other.action.writes() == named;
        let overlaps = |other: &&&Operation| {
            !std::ptr::eq(**other, operation)
                && other.invoked <= operation.responded()
                && operation.invoked <= other.responded()
        };
        let ended = operations.partition_point(|other| other.responded() < operation.invoked);
        let owned = |operation: &&Operation| (*operation).clone();
        Self {
            operation: operation.clone(),
            writer: operations.iter().find(writer).map(owned),
            concurrent: operations.iter().filter(overlaps).map(owned).collect(),
            before: operations[ended.saturating_sub(SHOWN)..ended].iter().map(owned).collect(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable: no order of what came before explains\n  {}", self.operation)?;
        if let Some(writer) = &self.writer {
            writeln!(f, "the value is that of\n  {writer}")?;
        }
        for (title, operations) in [("at the same time", &self.concurrent), ("before", &self.before)] {
            writeln!(f, "{title}:")?;
            for operation in operations {
                writeln!(f, "  {operation}")?;
            }
        }
        Ok(())
    }
}

impl Error for Violation {}
