//! Rules packed for decisions: for most roles a decision reads only one block of 64 bytes.

use super::matching::{Lists, may_allow_by, rule_allows_by};
use super::short::ShortBytes;
use super::words::{Reader, Words, Writer};
use crate::objects::rbac::PolicyRule;
use crate::request::Attributes;

/// The rules of one role, each as a block of five word lists.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PackedRules(ShortBytes<62>);

const _: () = assert!(size_of::<Option<PackedRules>>() == 64, "rules are as long as a line of the cache");

/// One rule: its lists, in storage order.
#[derive(Clone, Copy, Debug)]
struct PackedRule<'a> {
    verbs: Words<'a>,
    api_groups: Words<'a>,
    resources: Words<'a>,
    resource_names: Words<'a>,
    non_resource_urls: Words<'a>,
}

impl PackedRules {
    pub(super) fn pack(rules: &[PolicyRule]) -> Self {
        let mut packed = Writer::default();
        for rule in rules {
            let mut block = Writer::default();
            block.list(&rule.verbs);
            block.list(&rule.api_groups);
            block.list(&rule.resources);
            block.list(&rule.resource_names);
            block.list(&rule.non_resource_urls);
            packed.block(&block);
        }
        Self(packed.bytes().into())
    }

    /// Unpacks the rules.
    pub(super) fn unpack(&self) -> Vec<PolicyRule> {
        let rule = |rule: PackedRule<'_>| PolicyRule {
            verbs: rule.verbs.texts(),
            api_groups: rule.api_groups.texts(),
            resources: rule.resources.texts(),
            resource_names: rule.resource_names.texts(),
            non_resource_urls: rule.non_resource_urls.texts(),
        };
        self.rules().map(rule).collect()
    }

    /// Returns whether any of the rules allows a request (RB-10 to RB-18).
    pub(super) fn allow(&self, attributes: &Attributes<'_>) -> bool {
        self.rules().any(|rule| rule_allows_by(&rule, attributes))
    }

    /// Returns whether any of the rules allows a request for a resource if its name is the right one.
    pub(super) fn may_allow(&self, attributes: &Attributes<'_>) -> bool {
        self.rules().any(|rule| may_allow_by(&rule, attributes))
    }

    fn rules(&self) -> impl Iterator<Item = PackedRule<'_>> {
        let mut reader = Reader::new(&self.0);
        std::iter::from_fn(move || PackedRule::read(reader.block()?))
    }
}

impl<'a> PackedRule<'a> {
    #[inline]
    fn read(mut block: Reader<'a>) -> Option<Self> {
        Some(Self {
            verbs: block.list()?,
            api_groups: block.list()?,
            resources: block.list()?,
            resource_names: block.list()?,
            non_resource_urls: block.list()?,
        })
    }
}

impl Lists for PackedRule<'_> {
    #[inline]
    fn verbs(&self) -> impl Iterator<Item = &[u8]> {
        self.verbs
    }

    #[inline]
    fn api_groups(&self) -> impl Iterator<Item = &[u8]> {
        self.api_groups
    }

    #[inline]
    fn resources(&self) -> impl Iterator<Item = &[u8]> {
        self.resources
    }

    #[inline]
    fn resource_names(&self) -> impl Iterator<Item = &[u8]> {
        self.resource_names
    }

    #[inline]
    fn non_resource_urls(&self) -> impl Iterator<Item = &[u8]> {
        self.non_resource_urls
    }
}
