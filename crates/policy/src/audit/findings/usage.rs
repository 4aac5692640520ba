//! What audit logs show (PC107 c, PC132 to PC134): identities of nodes that no node has, programs with the credentials of a node,
//! and permissions that nobody needs. Events are taken one by one, and nothing of them is kept but what a finding needs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_apimachinery::time::Instant;
use serde::Deserialize;

use super::finding::{Evidence, Instance};
use super::found::{All, Found};
use super::severity::Severity;
use crate::audit::Subject;
use crate::audit::reach::Vertex;
use crate::audit::state::State;
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
}

/// A rule that a binding gives to one account.
#[derive(Debug)]
struct OwnGrant<'a> {
    binding: &'a Binding,
    role: String,
    number: usize,
    rule: PolicyRule,
    is_used: bool,
}

impl<'a> Usage<'a> {
    /// Prepares for the events of a cluster.
    pub fn new(state: &'a State) -> Self {
        let hosted = state.hosted_accounts();
        let mut grants = HashMap::<Subject, Vec<OwnGrant<'a>>>::new();
        let rbac = &state.facts().rbac;
        for binding in rbac.cluster_role_bindings().chain(rbac.role_bindings()) {
            let namespace = &binding.metadata.namespace;
            let role = match (binding.role_ref.kind.as_str(), namespace.is_empty()) {
                ("ClusterRole", _) => rbac.cluster_role(&binding.role_ref.name),
                ("Role", false) => rbac.role(namespace, &binding.role_ref.name),
                _ => None,
            };
            let Some(role) = role else { continue };
            let subjects: BTreeSet<Subject> = Subject::all_of(binding).collect();
            for subject in subjects.into_iter().filter(|subject| hosted.contains(subject)) {
                let rules = rbac.rules_in_force(role).into_iter().enumerate();
                let own = rules.map(|(number, rule)| OwnGrant {
                    binding,
                    role: super::nodes::role_object(role),
                    number,
                    // What no request shows is not known to be unused.
                    is_used: !rule.verbs.iter().any(|verb| SHOWN.contains(&verb.as_str())),
                    rule,
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
        }
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
            None if is_in_group => note(&mut self.strangers, name, || event.received().to_owned()),
            _ => self.take_of_account(name, event),
        }
    }

    fn take_of_node(&mut self, node: &str, event: &AuditEvent<'_>) {
        let agent = event.user_agent();
        if !agent.is_empty() && !agent.starts_with("kubelet/") && !agent.starts_with("portcullis/") {
            note(&mut self.agents, node, || agent.to_owned());
        }
        if let (Some(credential), Some(source)) = (event.extra(CREDENTIAL_ID), event.source()) {
            self.take_credential(node, credential, source);
        }
        let user = User::default();
        let attributes = event.attributes(&user);
        let is_write = matches!(attributes.verb, "create" | "update" | "patch");
        if attributes.resource.is_some_and(|request| request.resource == "events")
            && is_write
            && event.is_success()
            && let Some(other) = event.request_object().and_then(|body| other_source(body, node))
        {
            note(&mut self.events, node, || other);
        }
    }

    /// PC107 c: a credential that comes back after another one, from elsewhere, was used: two machines have the node's name.
    fn take_credential(&mut self, node: &str, credential: &str, source: &str) {
        if !self.credentials.contains_key(node) && self.credentials.len() >= MAX_SUBJECTS {
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
            note(&mut self.shared, node, || {
                format!("{} from {} and {} from {}", last.0, last.1, now.0, now.1)
            });
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
        let evidence = |pointer: &str, value: &String| Evidence::field("audit-log", pointer, value.clone());
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
                let metadata = &grant.binding.metadata;
                let (object, instance) = match metadata.namespace.as_str() {
                    "" => (format!("clusterrolebinding/{}", metadata.name), Instance::Cluster),
                    namespace => (
                        format!("rolebinding/{namespace}/{}", metadata.name),
                        Instance::Namespace(namespace.to_owned()),
                    ),
                };
                let words = format!("{} {}", grant.rule.verbs.join(","), grant.rule.resources.join(","));
                let rule = Evidence::field(grant.role.clone(), format!("/rules/{}", grant.number), words);
                let evidence = vec![Evidence::object(object), rule];
                let found = Found::of_object("PC134", Severity::Low, subject.to_string(), instance, evidence);
                all.add(found.about(Vertex::of(subject)));
            }
        }
    }

    /// Whether the log is long enough to tell what is not used (PC134).
    pub(super) fn covers(&self, seconds: i64) -> bool {
        self.last.zip(self.first).is_some_and(|(last, first)| last.saturating_sub(first) >= seconds)
    }
}

/// Keeps the first thing that was seen of a name.
fn note(seen: &mut BTreeMap<String, String>, name: &str, value: impl FnOnce() -> String) {
    if !seen.contains_key(name) && seen.len() < MAX_SUBJECTS {
        seen.insert(name.to_owned(), value());
    }
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
