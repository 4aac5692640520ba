//! Helpers of the checks: which parts of a pod set a field, and lists of names in messages.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use portcullis_apimachinery::quote::Quoted;

use super::violation::Violation;
use crate::Map;
use crate::fields::Members;
use crate::pod_security::pod::Pod;

/// Returns what is wrong with a pod.
pub(super) type Rule = fn(Pod<'_>) -> Option<Violation>;

/// The most names that a message lists. A pod can have thousands of containers.
const LISTED: usize = 20;

/// The parts of a pod that set a field to a forbidden value: the pod itself, and containers by name.
#[derive(Default)]
pub(super) struct Setters<'a> {
    pub(super) pod: bool,
    pub(super) containers: Vec<&'a str>,
}

impl<'a> Setters<'a> {
    /// The containers for which the condition holds.
    pub(super) fn containers(pod: Pod<'a>, is_wrong: impl FnMut(&&'a Map) -> bool) -> Self {
        let names = pod.containers().filter(is_wrong).map(|container| container.text("name"));
        Self { pod: false, containers: names.collect() }
    }

    /// The pod and those of its containers whose security context is wrong.
    pub(super) fn contexts(pod: Pod<'a>, mut is_wrong: impl FnMut(&'a Map) -> bool) -> Self {
        let of_pod = is_wrong(pod.security());
        let containers = Self::containers(pod, |container| is_wrong(container.object("securityContext")));
        Self { pod: of_pod, ..containers }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }

    /// `pod and containers "a", "b"`.
    pub(super) fn named(&self) -> String {
        match (self.pod, self.containers.is_empty()) {
            (true, true) => "pod".to_owned(),
            (true, false) => format!("pod and {}", counted("container", &self.containers)),
            (false, _) => counted("container", &self.containers),
        }
    }

    /// The violation whose detail begins with the setters; nothing if there are none.
    pub(super) fn violation(&self, reason: &'static str, rest: impl FnOnce() -> String) -> Option<Violation> {
        let detail = || format!("{} {}", self.named(), rest());
        (!self.is_empty()).then(|| Violation { reason, detail: detail() })
    }
}

/// Adds values to those of a message; whether there were any.
pub(super) fn note<T: Ord>(known: &mut BTreeSet<T>, values: impl IntoIterator<Item = T>) -> bool {
    values.into_iter().fold(false, |_, value| {
        known.insert(value);
        true
    })
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn counted<'a>(
    noun: &str,
    names: impl IntoIterator<Item = &'a &'a str, IntoIter: ExactSizeIterator>,
) -> String {
    let names = names.into_iter();
    let s = if names.len() == 1 { "" } else { "s" };
    format!("{noun}{s} {}", quoted_list(names.copied()))
}

/// `"a", "b"`, with the number of those beyond the first few.
pub(super) fn quoted_list<'a>(
    names: impl IntoIterator<Item = &'a str, IntoIter: ExactSizeIterator>,
) -> String {
    listed(names.into_iter().map(|name| Quoted(name).to_string()))
}

/// `a, b`, with the number of those beyond the first few.
pub(super) fn listed(texts: impl ExactSizeIterator<Item = String>) -> String {
    let rest = texts.len().saturating_sub(LISTED);
    let mut list = texts.take(LISTED).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        let _ = write!(list, " and {rest} more");
    }
    list
}

/// The values of a set, in order and in quotes.
pub(super) fn quoted_set(values: &BTreeSet<&str>) -> String {
    quoted_list(values.iter().copied())
}
