//! Rules packed for deciding: the words of all lists side by side, so that a decision reads two stretches of memory
//! and not one per word.

use super::matching::{Lists, rule_allows_by};
use crate::objects::rbac::PolicyRule;
use crate::request::Attributes;

/// The rules of one role.
#[derive(Debug, Default)]
pub(super) struct PackedRules {
    /// All words, one after the other.
    text: Box<str>,
    /// For each rule, for each of its five lists, the number of words and of bytes; then the length of each word.
    shape: Box<[u32]>,
}

/// One list of a rule; an iterator over its words.
#[derive(Clone, Copy, Debug, Default)]
struct Words<'a> {
    text: &'a str,
    lengths: &'a [u32],
}

/// One rule.
#[derive(Clone, Copy, Debug)]
struct PackedRule<'a> {
    lists: [Words<'a>; LISTS],
}

/// Verbs, API groups, resources, resource names, URLs.
const LISTS: usize = 5;

impl PackedRules {
    /// Packs rules. Nothing if they are too large to be told apart by 32-bit lengths: nobody can send such a role, and
    /// it must not grant anything.
    pub(super) fn pack(rules: &[PolicyRule]) -> Option<Self> {
        let (mut text, mut shape) = (String::new(), Vec::new());
        for rule in rules {
            let lists = [
                &rule.verbs,
                &rule.api_groups,
                &rule.resources,
                &rule.resource_names,
                &rule.non_resource_urls,
            ];
            for list in lists {
                let bytes: usize = list.iter().map(String::len).sum();
                shape.extend([u32::try_from(list.len()).ok()?, u32::try_from(bytes).ok()?]);
            }
            for word in lists.into_iter().flatten() {
                shape.push(u32::try_from(word.len()).ok()?);
                text.push_str(word);
            }
        }
        Some(Self { text: text.into(), shape: shape.into() })
    }

    /// Whether any of the rules allows a request (RB-10 to RB-18).
    pub(super) fn allow(&self, attributes: &Attributes<'_>) -> bool {
        let (mut text, mut shape) = (&*self.text, &*self.shape);
        while let Some(rule) = next_rule(&mut text, &mut shape) {
            if rule_allows_by(&rule, attributes) {
                return true;
            }
        }
        false
    }
}

fn next_rule<'a>(text: &mut &'a str, shape: &mut &'a [u32]) -> Option<PackedRule<'a>> {
    let (sizes, mut lengths) = shape.split_first_chunk::<{ 2 * LISTS }>()?;
    let mut lists = [Words::default(); LISTS];
    for (list, size) in lists.iter_mut().zip(sizes.as_chunks::<2>().0) {
        let [words, bytes] = *size;
        (list.lengths, lengths) = lengths.split_at_checked(words as usize)?;
        (list.text, *text) = text.split_at_checked(bytes as usize)?;
    }
    *shape = lengths;
    Some(PackedRule { lists })
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (&length, lengths) = self.lengths.split_first()?;
        let (word, text) = self.text.split_at_checked(length as usize)?;
        *self = Self { text, lengths };
        Some(word)
    }
}

impl Lists for PackedRule<'_> {
    fn verbs(&self) -> impl Iterator<Item = &str> {
        let [verbs, ..] = self.lists;
        verbs
    }

    fn api_groups(&self) -> impl Iterator<Item = &str> {
        let [_, groups, ..] = self.lists;
        groups
    }

    fn resources(&self) -> impl Iterator<Item = &str> {
        let [_, _, resources, ..] = self.lists;
        resources
    }

    fn resource_names(&self) -> impl Iterator<Item = &str> {
        let [_, _, _, names, _] = self.lists;
        names
    }

    fn non_resource_urls(&self) -> impl Iterator<Item = &str> {
        let [_, _, _, _, urls] = self.lists;
        urls
    }
}
