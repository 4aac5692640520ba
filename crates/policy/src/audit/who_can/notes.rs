//! What an answer lacks, and what else there is to know (AU-21, AU-24).

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Note;
use super::found::{Dependence, Found};
use super::way::ObjectName;
use super::{RULE, WhoCan};
use crate::abac::Policy;
use crate::audit::{Incomplete, Why};
use crate::chain::{Chain, Member};
use crate::objects::Kind;
use crate::objects::rbac::RBAC_GROUP;
use crate::request::{Attributes, ResourceRequest, User};

impl WhoCan<'_> {
    /// What the answer lacks as far as the modes tell; which kinds the state lacks is for who has read it (AU-23).
    pub(super) fn incomplete(&self, attributes: &Attributes<'_>, found: &Found) -> Vec<Incomplete> {
        let unresolved = |input: &str, detail: String| Incomplete {
            input: input.to_owned(),
            why: Why::Unresolved,
            rules: vec![RULE],
            detail,
        };
        let mut incomplete = BTreeSet::new();
        // AU-93
        if self.chain.members().iter().any(|member| matches!(member, Member::Webhook)) {
            let detail = "a webhook cannot be asked whom it allows: it may allow others, and deny what modes after it allow";
            incomplete.insert(unresolved("authorization-webhook", detail.to_owned()));
        }
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        for dependence in found.dependences() {
            if let Dependence::Namespace { rule } = dependence {
                let detail = format!(
                    "deny rule {rule:?} selects namespaces by their labels, and namespace {namespace:?} is not in the state"
                );
                incomplete.insert(unresolved("namespaces", detail));
            }
        }
        if !self.inventory.has(Kind::ClusterRole)
            && dangling(self.chain, namespace).keys().any(|role| role.kind == "ClusterRole")
        {
            let detail = "the state has no ClusterRole, so bindings of ClusterRoles grant nothing here";
            incomplete.insert(unresolved("clusterroles", detail.to_owned()));
        }
        incomplete.into_iter().collect()
    }

    pub(super) fn notes(&self, attributes: &Attributes<'_>, found: &Found) -> Vec<Note> {
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let mut notes = BTreeSet::new();
        let mut creators: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        for (role, bindings) in dangling(self.chain, namespace) {
            let may_create = match role.kind.as_str() {
                "ClusterRole" => self.creators("clusterroles", "", &mut creators),
                "Role" => self.creators("roles", &role.namespace, &mut creators),
                _ => Vec::new(),
            };
            notes.insert(Note::DanglingBinding { role, bindings, may_create });
        }
        // Whoever is in group system:masters is never denied.
        if found.subjects().count() > 1 {
            let rules = self.chain.deny().map(|deny| deny.rules_about(attributes)).unwrap_or_default();
            notes.extend(rules.into_iter().map(|rule| Note::DenyRule { rule }));
        }
        let both = self.abac_lines(attributes).filter(|line| !line.user.is_empty() && !line.group.is_empty());
        notes.extend(both.map(|line| Note::AbacLine {
            line: line.line,
            user: line.user.clone(),
            group: line.group.clone(),
        }));
        notes.into_iter().collect()
    }

    /// The lines of the ABAC policy file that cover a request.
    pub(super) fn abac_lines<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> impl Iterator<Item = &'a Policy> {
        let files = self.chain.members().iter().filter_map(|member| match member {
            Member::Abac(file) => Some(file),
            _ => None,
        });
        files.flat_map(move |file| file.covering(attributes))
    }

    /// Who may create roles in a namespace, or ClusterRoles (AU-24). Asked once.
    fn creators<'r>(
        &self,
        resource: &'r str,
        namespace: &str,
        known: &mut BTreeMap<(&'r str, String), Vec<String>>,
    ) -> Vec<String> {
        let ask = || {
            let user = User::default();
            let request =
                ResourceRequest { group: RBAC_GROUP, resource, namespace, ..ResourceRequest::default() };
            let attributes = Attributes { user: &user, verb: "create", path: "", resource: Some(request) };
            self.found(&attributes).subjects().map(ToString::to_string).collect()
        };
        known.entry((resource, namespace.to_owned())).or_insert_with(ask).clone()
    }
}

/// The roles that bindings name and that are not in the state, with these bindings.
fn dangling(chain: &Chain, namespace: &str) -> BTreeMap<ObjectName, Vec<ObjectName>> {
    let mut dangling: BTreeMap<ObjectName, Vec<ObjectName>> = BTreeMap::new();
    for member in chain.members() {
        member.with_rbac(|index| {
            for bound in index.dangling(namespace) {
                dangling.entry(ObjectName::role(bound)).or_default().push(ObjectName::binding(bound));
            }
        });
    }
    dangling.values_mut().for_each(|bindings| bindings.sort_unstable());
    dangling
}
