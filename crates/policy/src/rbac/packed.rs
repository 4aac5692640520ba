//! Rules packed for deciding: for most roles all that a decision reads of them is one stretch of 64 bytes.

use super::matching::{Lists, rule_allows_by};
use super::short::ShortBytes;
use super::words::{Reader, Words, Writer};
use crate::objects::rbac::PolicyRule;
use crate::request::Attributes;

/// The rules of one role: for each a block of its five lists of words.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PackedRules(ShortBytes<62>);

const _: () = assert!(size_of::<Option<PackedRules>>() == 64, "rules are as long as a line of the cache");

/// One rule.
#[derive(Clone, Copy, Debug)]
struct PackedRule<'a>(Reader<'a>);

/// The places of the lists.
const VERBS: usize = 0;
const API_GROUPS: usize = 1;
const RESOURCES: usize = 2;
const RESOURCE_NAMES: usize = 3;
const URLS: usize = 4;

impl PackedRules {
    pub(super) fn pack(rules: &[PolicyRule]) -> Self {
        let mut packed = Writer::default();
        for rule in rules {
            let mut block = Writer::default();
            // In the order of their places.
            block.list(&rule.verbs);
            block.list(&rule.api_groups);
            block.list(&rule.resources);
            block.list(&rule.resource_names);
            block.list(&rule.non_resource_urls);
            packed.block(&block);
        }
        Self(packed.bytes().into())
    }

    /// The rules as they were packed.
    pub(super) fn unpack(&self) -> Vec<PolicyRule> {
        let rule = |rule: PackedRule<'_>| PolicyRule {
            verbs: rule.list(VERBS).texts(),
            api_groups: rule.list(API_GROUPS).texts(),
            resources: rule.list(RESOURCES).texts(),
            resource_names: rule.list(RESOURCE_NAMES).texts(),
            non_resource_urls: rule.list(URLS).texts(),
        };
        self.rules().map(rule).collect()
    }

    /// Whether any of the rules allows a request (RB-10 to RB-18).
    pub(super) fn allow(&self, attributes: &Attributes<'_>) -> bool {
        self.rules().any(|rule| rule_allows_by(&rule, attributes))
    }

    fn rules(&self) -> impl Iterator<Item = PackedRule<'_>> {
        let mut reader = Reader::new(&self.0);
        std::iter::from_fn(move || reader.block().map(PackedRule))
    }
}

impl<'a> PackedRule<'a> {
    fn list(self, place: usize) -> Words<'a> {
        let Self(mut reader) = self;
        for _ in 0..place {
            if reader.list().is_none() {
                return Words::default();
            }
        }
        reader.list().unwrap_or_default()
    }
}

impl Lists for PackedRule<'_> {
    fn verbs(&self) -> impl Iterator<Item = &[u8]> {
        self.list(VERBS)
    }

    fn api_groups(&self) -> impl Iterator<Item = &[u8]> {
        self.list(API_GROUPS)
    }

    fn resources(&self) -> impl Iterator<Item = &[u8]> {
        self.list(RESOURCES)
    }

    fn resource_names(&self) -> impl Iterator<Item = &[u8]> {
        self.list(RESOURCE_NAMES)
    }

    fn non_resource_urls(&self) -> impl Iterator<Item = &[u8]> {
        self.list(URLS)
    }
}
