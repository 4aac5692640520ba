//! Whether a role allows something that a deny rule denies (BC-31).
//!
//! Conservative: where it cannot be excluded, the answer is that it may. Comparing takes a bounded number of steps, because whoever
//! writes a role chooses its words.

use super::namespaces::Namespaces;
use super::{Rule, is_without_namespace};
use crate::objects::rbac::PolicyRule;

/// How many words may still be compared.
pub(super) struct Steps(u32);

/// Comparing would take too long.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLong;

impl Steps {
    /// Enough for any role that people write: some tens of milliseconds.
    pub(super) fn new() -> Self {
        Self(1 << 24)
    }

    fn take(&mut self, words: usize) -> Result<(), TooLong> {
        let left = u32::try_from(words).ok().and_then(|words| self.0.checked_sub(words));
        self.0 = left.ok_or(TooLong)?;
        Ok(())
    }

    /// Whether some word of one list and one of the other fit together.
    fn any(
        &mut self,
        ones: &[String],
        others: &[String],
        fit: impl Fn(&str, &str) -> bool,
    ) -> Result<bool, TooLong> {
        for one in ones {
            self.take(others.len())?;
            if others.iter().any(|other| fit(one, other)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a rule of a role may allow what a deny rule denies. The role is granted in this namespace; in all of them and beyond them if
/// it is empty.
pub(super) fn may_allow(
    granted: &PolicyRule,
    denied: &Rule,
    namespace: &str,
    namespaces: Option<&Namespaces>,
    steps: &mut Steps,
) -> Result<bool, TooLong> {
    let rule = &denied.rule;
    if !steps.any(&granted.verbs, &rule.verbs, words_meet)? {
        return Ok(false);
    }
    // A role of a namespace grants no paths.
    if namespace.is_empty() && steps.any(&granted.non_resource_urls, &rule.non_resource_urls, urls_meet)? {
        return Ok(true);
    }
    if !namespace.is_empty() && denied.reaches_namespace(namespace, namespaces).is_none() {
        return Ok(false);
    }
    Ok(names_meet(granted, denied, steps)? && resources_meet(granted, denied, namespace, steps)?)
}

fn resources_meet(
    granted: &PolicyRule,
    denied: &Rule,
    namespace: &str,
    steps: &mut Steps,
) -> Result<bool, TooLong> {
    let rule = &denied.rule;
    if namespace.is_empty() && !denied.is_namespaced() {
        return Ok(steps.any(&granted.api_groups, &rule.api_groups, words_meet)?
            && steps.any(&granted.resources, &rule.resources, entries_meet)?);
    }
    // What is in no namespace is not granted by a role of a namespace, and not denied by a rule about namespaces.
    for one in &granted.resources {
        for other in rule.resources.iter() {
            steps.take(1)?;
            if !entries_meet(one, other) {
                continue;
            }
            let plural = plural(if plural(one) == "*" { other } else { one });
            let is_namespaced = |one: &str, other: &str| {
                let group = if one == "*" { other } else { one };
                words_meet(one, other) && !is_without_namespace(group, plural)
            };
            if steps.any(&granted.api_groups, &rule.api_groups, is_namespaced)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn names_meet(granted: &PolicyRule, denied: &Rule, steps: &mut Steps) -> Result<bool, TooLong> {
    if granted.resource_names.is_empty() || denied.names.is_empty() {
        return Ok(true);
    }
    for name in &granted.resource_names {
        // Comparing a pattern takes time for each byte of the name.
        steps.take(denied.names.len().saturating_mul(1 + name.len() / 16))?;
        // The empty name is that of a request for many objects.
        if name.is_empty() || denied.names.iter().any(|pattern| pattern.matches(name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Verbs and groups: a word or `*`.
fn words_meet(one: &str, other: &str) -> bool {
    one == other || one == "*" || other == "*"
}

/// The resource of an entry without its subresource.
fn plural(entry: &str) -> &str {
    entry.split('/').next().unwrap_or_default()
}

/// Entries of `resources`: `*` for all, a resource, a resource and a subresource, or `*/` and a subresource.
fn entries_meet(one: &str, other: &str) -> bool {
    let of_all = |entry: &str, other: &str| {
        entry.strip_prefix("*/").is_some_and(|subresource| {
            other.split_once('/').is_some_and(|(_, other_subresource)| other_subresource == subresource)
        })
    };
    words_meet(one, other) || of_all(one, other) || of_all(other, one)
}

/// Paths: `*`, a path, or the beginning of paths and `*`.
fn urls_meet(one: &str, other: &str) -> bool {
    let begin = |url: &str| url.strip_suffix('*').map(|begin| begin.trim_end_matches('*').len());
    let starts = |begin: usize, of: &str, other: &str| {
        of.as_bytes().get(..begin).is_some_and(|begin| other.as_bytes().starts_with(begin))
    };
    match (begin(one), begin(other)) {
        (None, None) => one == other,
        (Some(begin), None) => starts(begin, one, other),
        (None, Some(begin)) => starts(begin, other, one),
        (Some(first), Some(second)) => starts(first.min(second), one, other),
    }
}
