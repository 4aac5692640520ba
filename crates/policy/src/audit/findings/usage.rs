//! What audit logs show (PC107 c, PC132 to PC134): identities of nodes that no node has, programs with the credentials of a node,
//! and permissions that nobody needs. Events are taken one by one, and nothing of them is kept but what a finding needs.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use portcullis_apimachinery::time::Instant;
use serde::Deserialize;

use super::finding::{Evidence, Instance};
use super::found::{AUDIT_LOG, All, Found};
use super::names::{of_binding, of_role, scope};
use super::severity::Severity;
use crate::audit::in_force::InForce;
use crate::audit::reach::Vertex;
use crate::audit::state::State;
use crate::audit::{Subject, Why};
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};
use crate::objects::rbac::{Binding, PolicyRule};
use crate::rbac::rule_allows;
use crate::rehearsal::AuditEvent;
use crate::request::User;

/// The number of subjects about which findings of one rule are kept: whoever fills a log with names must not fill memory.
const MAX_SUBJECTS: usize = 10_000;
/// The number of credentials of a node, each with an address, that are remembered.
const MAX_CREDENTIALS: usize = 16;
/// The verbs that audit events show. Others, such as `bind`, are asked about while a request is worked on.
const SHOWN: [&str; 10] =
    ["*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate"];
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What was seen in audit logs.
#[derive(Debug)]
pub struct Usage<'a> {
    /// Seen with group `system:nodes` and another name (PC107).
    strangers: BTreeMap<String, String>,
    /// Nodes whose credentials were used at two places in turn (PC107).
    shared: BTreeMap<String, String>,
    credentials: HashMap<String, Vec<(String, String)>>,
    /// Nodes that wrote events of others (PC132), and nodes with other user agents (PC133), each with what was seen.
    events: BTreeMap<String, String>,
    agents: BTreeMap<String, String>,
    grants: HashMap<Subject, Vec<OwnGrant<'a>>>,
    first: Option<i64>,
    last: Option<i64>,
    gaps: Gaps,
}

/// Gaps in the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gaps {
    /// Lines could not be read.
    damaged: bool,
    /// More names were seen than are kept.
    names: bool,
    /// Nodes wrote events, and the log has no bodies (PC132).
    bodies: bool,
    /// Nodes made requests, and the log does not say with which credential (PC107 c).
    credentials: bool,
}

/// A rule that a binding gives to one account.
#[derive(Debug)]
struct OwnGrant<'a> {
    binding: &'a Binding,
    role: String,
    /// The index of the rule; none for one that the role is to aggregate.
    number: Option<usize>,
    rule: PolicyRule,
    is_used: bool,
}

impl<'a> Usage<'a> {
    /// Prepares for the events of a cluster.
    pub fn new(state: &'a State) -> Self {
        let hosted = state.hosted_accounts();
        let mut grants = HashMap::<Subject, Vec<OwnGrant<'a>>>::new();
        let rbac = &state.facts().rbac;
        let in_force = InForce::new(rbac);
        for binding in rbac.bindings() {
            let Some(role) = rbac.role_of(binding) else { continue };
            let subjects: BTreeSet<Subject> = Subject::all_of(binding).collect();
            for subject in subjects.into_iter().filter(|subject| hosted.contains(subject)) {
                let own = in_force.rules(role).enumerate().map(|(number, rule)| OwnGrant {
                    binding,
                    role: of_role(role),
                    number: (number < role.rules.len()).then_some(number),
                    // What no request shows is not known to be unused.
                    is_used: !rule.verbs.iter().any(|verb| SHOWN.contains(&verb.as_str())),
                    rule: rule.clone(),
                });
                grants.entry(subject).or_default().extend(own);
            }
        }
        Self {
            strangers: BTreeMap::new(),
            shared: BTreeMap::new(),
            credentials: HashMap::new(),
            events: BTreeMap::new(),
            agents: BTreeMap::new(),
            grants,
            first: None,
            last: None,
            gaps: Gaps::default(),
        }
    }

    /// Notes that a part of the logs could not be read.
    pub fn note_damage(&mut self) {
        self.gaps.damaged = true;
    }

    /// Takes one event.
    pub fn take(&mut self, event: &AuditEvent<'_>) {
        let Some((name, groups)) = event.caller() else { return };
        if let Ok(time) = Instant::parse(event.received()) {
            self.first = Some(self.first.map_or(time.seconds, |first| first.min(time.seconds)));
            self.last = Some(self.last.map_or(time.seconds, |last| last.max(time.seconds)));
        }
        let node = name.strip_prefix(NODE_USER_PREFIX).filter(|node| !node.is_empty());
        let is_in_group = groups.iter().any(|group| group == NODES_GROUP);
        match node {
            Some(node) if is_in_group => self.take_of_node(node, event),
            None if is_in_group => {
                self.gaps.names |= !note(&mut self.strangers, name, || event.received().to_owned());
            }
            _ => self.take_of_account(name, event),
        }
    }

    fn take_of_node(&mut self, node: &str, event: &AuditEvent<'_>) {
        let agent = event.user_agent();
        if !agent.is_empty() && !agent.starts_with("kubelet/") && !agent.starts_with("portcullis/") {
            self.gaps.names |= !note(&mut self.agents, node, || agent.to_owned());
        }
        match (event.extra(CREDENTIAL_ID), event.source()) {
            (Some(credential), Some(source)) => self.take_credential(node, credential, source),
            _ => self.gaps.credentials = true,
        }
        let user = User::default();
        let attributes = event.attributes(&user);
        let is_write = matches!(attributes.verb, "create" | "update" | "patch");
        if attributes.resource.is_some_and(|request| request.resource == "events")
            && is_write
            && event.is_success()
        {
            match event.request_object() {
                None => self.gaps.bodies = true,
                Some(body) => {
                    if let Some(other) = other_source(body, node) {
                        self.gaps.names |= !note(&mut self.events, node, || other);
                    }
                }
            }
        }
    }

    /// PC107 c: a credential that comes back after another one, from elsewhere, was used: two machines have the node's name.
    fn take_credential(&mut self, node: &str, credential: &str, source: &str) {
        if !self.credentials.contains_key(node) && self.credentials.len() >= MAX_SUBJECTS {
            self.gaps.names = true;
            return;
        }
        let seen = self.credentials.entry(node.to_owned()).or_default();
        let now = (credential.to_owned(), source.to_owned());
        let Some(last) = seen.last().filter(|last| **last != now) else {
            if seen.is_empty() {
                seen.push(now);
            }
            return;
        };
        let is_other = last.0 != now.0 && last.1 != now.1;
        if is_other && seen.contains(&now) {
            let words = || format!("{} from {} and {} from {}", last.0, last.1, now.0, now.1);
            self.gaps.names |= !note(&mut self.shared, node, words);
        }
        seen.retain(|pair| *pair != now);
        if seen.len() >= MAX_CREDENTIALS {
            seen.remove(0);
        }
        seen.push(now);
    }

    fn take_of_account(&mut self, name: &str, event: &AuditEvent<'_>) {
        let user = User::default();
        let Some(grants) = self.grants.get_mut(&Subject::of_user(name)) else { return };
        let attributes = event.attributes(&user);
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        for grant in grants.iter_mut().filter(|grant| !grant.is_used) {
            let of_binding = &grant.binding.metadata.namespace;
            let is_in_scope = of_binding.is_empty() || of_binding == namespace;
            // A request in another's name needs the permission to do that.
            grant.is_used = (is_in_scope && rule_allows(&grant.rule, &attributes))
                || (event.is_impersonated()
                    && grant.rule.verbs.iter().any(|verb| verb == "impersonate" || verb == "*"));
        }
    }

    /// Adds the findings. Grants count as unused only if the log covers this many seconds (PC134).
    pub(super) fn find(&self, unused_after: i64, all: &mut All) {
        let node_user = |node: &String| format!("user/{NODE_USER_PREFIX}{node}");
        let evidence = |pointer: &str, value: &String| Evidence::field(AUDIT_LOG, pointer, value.clone());
        for (name, received) in &self.strangers {
            let subject = Subject::of_user(name).to_string();
            let evidence = evidence("/requestReceivedTimestamp", received);
            all.add(Found::of_object("PC107", Severity::High, subject, Instance::Cluster, evidence));
        }
        for (id, severity, seen, pointer) in [
            ("PC107", Severity::High, &self.shared, "/user/extra"),
            ("PC132", Severity::Low, &self.events, "/requestObject/source/host"),
            ("PC133", Severity::Medium, &self.agents, "/userAgent"),
        ] {
            for (node, value) in seen {
                let instance = Instance::Node(node.clone());
                let evidence = evidence(pointer, value);
                all.add(Found::of_object(id, severity, node_user(node), instance, evidence));
            }
        }
        let span = self.last.zip(self.first).map_or(0, |(last, first)| last.saturating_sub(first));
        if span < unused_after || self.first.is_none() {
            return;
        }
        for (subject, grants) in &self.grants {
            for grant in grants.iter().filter(|grant| !grant.is_used) {
                let words = format!("{} {}", grant.rule.verbs.join(","), grant.rule.resources.join(","));
                let rule = Evidence {
                    pointer: grant.number.map(|number| format!("/rules/{number}")),
                    value: Some(words),
                    ..Evidence::object(grant.role.clone())
                };
                let evidence = vec![Evidence::object(of_binding(grant.binding)), rule];
                let instance = scope(&grant.binding.metadata.namespace);
                let found = Found::of_object("PC134", Severity::Low, subject.to_string(), instance, evidence);
                all.add(found.about(Vertex::of(subject)));
            }
        }
    }

    /// The gaps in the logs: the reason, the affected rules, and a description (AU-21).
    pub(super) fn lacks(&self, unused_after: i64) -> Vec<(Why, &'static [&'static str], &'static str)> {
        let is_long =
            self.last.zip(self.first).is_some_and(|(last, first)| last.saturating_sub(first) >= unused_after);
        let lacks: [(bool, Why, &[&str], &str); 5] = [
            (self.gaps.damaged, Why::Undecodable, &ALL, "lines of the audit log cannot be read"),
            (self.gaps.names, Why::Unresolved, &OF_NODES, "the audit log has more names than are kept"),
            (
                self.gaps.bodies,
                Why::Unresolved,
                &["PC132"],
                "nodes wrote events, and the audit log has no bodies of them",
            ),
            (
                self.gaps.credentials,
                Why::Unresolved,
                &["PC107"],
                "the audit log does not say of every request of a node with which credential and from where it came",
            ),
            (!is_long, Why::Unresolved, &["PC134"], "the audit log is too short to tell what is not used"),
        ];
        let found = lacks.into_iter().filter(|(is_lacking, ..)| *is_lacking);
        found.map(|(_, why, rules, detail)| (why, rules, detail)).collect()
    }
}

/// The rules about audit logs, and those about nodes in them.
pub(super) const ALL: [&str; 4] = ["PC107", "PC132", "PC133", "PC134"];
const OF_NODES: [&str; 3] = ["PC107", "PC132", "PC133"];

/// Keeps the first thing that was seen of a name. Returns whether there was room.
fn note(seen: &mut BTreeMap<String, String>, name: &str, value: impl FnOnce() -> String) -> bool {
    if seen.contains_key(name) {
        return true;
    }
    let has_room = seen.len() < MAX_SUBJECTS;
    if has_room {
        seen.insert(name.to_owned(), value());
    }
    has_room
}

/// The source that an Event names, its host or what reports it, if it is another than the node.
fn other_source(event: &str, node: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event {
        #[serde(default)]
        source: Option<Source>,
        #[serde(default)]
        reporting_instance: Option<String>,
    }
    #[derive(Deserialize)]
    struct Source {
        #[serde(default)]
        host: Option<String>,
    }
    let event: Event = serde_json::from_str(event).ok()?;
    let host = event.source.and_then(|source| source.host);
    [host, event.reporting_instance].into_iter().flatten().find(|name| !name.is_empty() && name != node)
}
