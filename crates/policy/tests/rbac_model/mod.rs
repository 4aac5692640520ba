//! The index, updated change by change, decides as a newly built index and as a model that checks every object.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::objects::rbac::{Binding, OwnedMetadata, PolicyRule, Role, RoleRef, Subject};
use portcullis_policy::rbac::{RbacIndex, covers, rule_allows};
use portcullis_policy::rules::aggregate;
use portcullis_policy::{Attributes, Authorizer, ResourceRequest, User};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

const NAMESPACES: [&str; 3] = ["", "a", "b"];
const NAMES: [&str; 3] = ["x", "y", "z"];
const USERS: [&str; 4] = ["", "u", "system:serviceaccount:a:x", "system:serviceaccount:b:y"];
const GROUPS: [&str; 3] = ["g", "h", "u"];

/// All objects, as a cluster has them: no index, no order.
#[derive(Clone, Debug, Default)]
struct Cluster {
    roles: BTreeMap<(String, String), Role>,
    cluster_roles: BTreeMap<String, Role>,
    bindings: BTreeMap<(String, String), Binding>,
    cluster_bindings: BTreeMap<String, Binding>,
}

#[derive(Clone, Debug)]
enum Change {
    Role(Role),
    ClusterRole(Role),
    Binding(Binding),
    ClusterBinding(Binding),
    DeleteRole(String, String),
    DeleteClusterRole(String),
    DeleteBinding(String, String),
    DeleteClusterBinding(String),
}

impl Cluster {
    fn apply(&mut self, change: Change) {
        let key = |m: &OwnedMetadata| (m.namespace.clone(), m.name.clone());
        match change {
            Change::Role(role) => _ = self.roles.insert(key(&role.metadata), role),
            Change::ClusterRole(role) => _ = self.cluster_roles.insert(role.metadata.name.clone(), role),
            Change::Binding(binding) => _ = self.bindings.insert(key(&binding.metadata), binding),
            Change::ClusterBinding(binding) => {
                _ = self.cluster_bindings.insert(binding.metadata.name.clone(), binding);
            }
            Change::DeleteRole(namespace, name) => _ = self.roles.remove(&(namespace, name)),
            Change::DeleteClusterRole(name) => _ = self.cluster_roles.remove(&name),
            Change::DeleteBinding(namespace, name) => _ = self.bindings.remove(&(namespace, name)),
            Change::DeleteClusterBinding(name) => _ = self.cluster_bindings.remove(&name),
        }
    }

    fn index(&self) -> RbacIndex {
        let mut index = RbacIndex::default();
        self.cluster_bindings.values().cloned().for_each(|b| index.apply_cluster_role_binding(b));
        self.bindings.values().cloned().for_each(|b| index.apply_binding(b));
        self.cluster_roles.values().cloned().for_each(|r| index.apply_cluster_role(r));
        self.roles.values().cloned().for_each(|r| index.apply_role(r));
        index
    }

    /// The bindings that mean the user, with the namespace that they are in: RB-30, RB-20 to RB-23 word by word.
    fn bindings_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Binding, &'a str)> {
        let cluster_wide = self.cluster_bindings.values().map(|b| (b, ""));
        let here = self.bindings.iter().filter(move |((ns, _), _)| !namespace.is_empty() && ns == namespace);
        cluster_wide.chain(here.map(move |(_, b)| (b, namespace))).filter(move |(binding, namespace)| {
            binding.subjects.iter().any(|subject| match subject.kind.as_str() {
                "User" => subject.name == user.name,
                "Group" => user.groups.contains(&subject.name),
                "ServiceAccount" => {
                    let own = [subject.namespace.as_str(), *namespace].into_iter().find(|ns| !ns.is_empty());
                    own.is_some_and(|ns| user.name == format!("system:serviceaccount:{ns}:{}", subject.name))
                }
                _ => false,
            })
        })
    }

    fn role_of(&self, binding: &Binding, namespace: &str) -> Result<&Role, String> {
        let name = binding.role_ref.name.clone();
        let (found, kind) = match binding.role_ref.kind.as_str() {
            "ClusterRole" => (self.cluster_roles.get(&name), "clusterrole"),
            "Role" if namespace.is_empty() => (None, "role"),
            "Role" => (self.roles.get(&(namespace.to_owned(), name.clone())), "role"),
            kind => return Err(format!("unsupported role reference kind: {kind:?}")),
        };
        found.ok_or_else(|| format!("{kind}.rbac.authorization.k8s.io {name:?} not found"))
    }

    /// Whether the request is allowed, and if not, what could not be resolved.
    fn decide(&self, attributes: &Attributes<'_>) -> Result<(), BTreeSet<String>> {
        let namespace = attributes.resource.map_or("", |r| r.namespace);
        let mut errors = BTreeSet::new();
        for (binding, namespace) in self.bindings_of(attributes.user, namespace) {
            match self.role_of(binding, namespace) {
                Ok(role) if role.rules.iter().any(|rule| allows(rule, attributes)) => return Ok(()),
                Ok(_) => {}
                Err(error) => _ = errors.insert(error),
            }
        }
        Err(errors)
    }
}

/// A rule as explanations print it, such as `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
fn rule_of(text: &str) -> PolicyRule {
    let list = |name: &str| -> Vec<String> {
        let Some((_, rest)) = text.split_once(&format!("{name}:[")) else { return Vec::new() };
        let words = rest.split(']').next().unwrap_or_default();
        words.split(' ').map(|word| word.trim_matches('"').to_owned()).collect()
    };
    PolicyRule {
        verbs: list("Verbs"),
        api_groups: list("APIGroups"),
        resources: list("Resources"),
        resource_names: list("ResourceNames"),
        non_resource_urls: list("NonResourceURLs"),
    }
}

/// A line such as `  rule 1: {...}`.
fn numbered_rule(line: &str) -> Option<(usize, PolicyRule)> {
    let (number, rule) = line.strip_prefix("  rule ")?.split_once(": ")?;
    Some((number.parse().ok()?, rule_of(rule)))
}

/// RB-10 to RB-18, by making the texts that an entry must equal.
fn allows(rule: &PolicyRule, attributes: &Attributes<'_>) -> bool {
    let has = |list: &[String], wanted: &[&str]| list.iter().any(|entry| wanted.contains(&entry.as_str()));
    if !has(&rule.verbs, &["*", attributes.verb]) {
        return false;
    }
    let Some(request) = attributes.resource else {
        return rule.non_resource_urls.iter().any(|url| {
            url == attributes.path
                || url.ends_with('*') && attributes.path.starts_with(url.trim_end_matches('*'))
        });
    };
    let combined = match request.subresource {
        "" => vec!["*".to_owned(), request.resource.to_owned()],
        sub => vec!["*".to_owned(), format!("{}/{sub}", request.resource), format!("*/{sub}")],
    };
    has(&rule.api_groups, &["*", request.group])
        && rule.resources.iter().any(|entry| combined.contains(entry))
        && (rule.resource_names.is_empty() || has(&rule.resource_names, &[request.name]))
}

fn one(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(of).prop_map(str::to_owned)
}

fn some(of: &'static [&'static str], at_most: usize) -> impl Strategy<Value = Vec<String>> {
    subsequence(of, 0..=at_most).prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    (
        some(&["*", "get", "list"], 2),
        some(&["*", "", "apps"], 2),
        some(&["*", "pods", "pods/log", "*/log", "nodes"], 2),
        some(&["", "n", "m"], 1),
        some(&["*", "/x", "/x/*", "/y"], 2),
    )
        .prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        })
}

fn metadata(namespaces: &'static [&'static str]) -> impl Strategy<Value = OwnedMetadata> {
    (one(namespaces), one(&NAMES)).prop_map(|(namespace, name)| OwnedMetadata {
        name,
        namespace,
        ..OwnedMetadata::default()
    })
}

fn role(namespaces: &'static [&'static str]) -> impl Strategy<Value = Role> {
    let rules = prop::collection::vec(rule(), 0..3);
    (metadata(namespaces), rules).prop_map(|(metadata, rules)| Role {
        metadata,
        rules,
        aggregation_rule: None,
    })
}

fn subject() -> impl Strategy<Value = Subject> {
    let named = |kind: &'static str, names: &'static [&'static str]| {
        (one(names), one(&NAMESPACES)).prop_map(move |(name, namespace)| Subject {
            kind: kind.to_owned(),
            name,
            namespace,
            ..Subject::default()
        })
    };
    prop_oneof![
        named("User", &USERS),
        named("Group", &GROUPS),
        named("ServiceAccount", &NAMES),
        named("Robot", &USERS)
    ]
}

fn binding(namespaces: &'static [&'static str]) -> impl Strategy<Value = Binding> {
    let role_ref = (one(&["ClusterRole", "Role", "ClusterRole", "Role", "Thing"]), one(&NAMES));
    let role_ref = role_ref.prop_map(|(kind, name)| RoleRef { kind, name, ..RoleRef::default() });
    (metadata(namespaces), prop::collection::vec(subject(), 0..4), role_ref)
        .prop_map(|(metadata, subjects, role_ref)| Binding { metadata, subjects, role_ref })
}

fn change() -> impl Strategy<Value = Change> {
    let (ns, name) = (|| one(&NAMESPACES[1..]), || one(&NAMES));
    prop_oneof![
        2 => role(&["a", "b"]).prop_map(Change::Role),
        2 => role(&[""]).prop_map(Change::ClusterRole),
        3 => binding(&["a", "b"]).prop_map(Change::Binding),
        3 => binding(&[""]).prop_map(Change::ClusterBinding),
        1 => (ns(), name()).prop_map(|(ns, name)| Change::DeleteRole(ns, name)),
        1 => name().prop_map(Change::DeleteClusterRole),
        1 => (ns(), name()).prop_map(|(ns, name)| Change::DeleteBinding(ns, name)),
        1 => name().prop_map(Change::DeleteClusterBinding),
    ]
}

fn change_index(index: &mut RbacIndex, change: Change) {
    match change {
        Change::Role(role) => index.apply_role(role),
        Change::ClusterRole(role) => index.apply_cluster_role(role),
        Change::Binding(binding) => index.apply_binding(binding),
        Change::ClusterBinding(binding) => index.apply_cluster_role_binding(binding),
        Change::DeleteRole(namespace, name) => index.delete_role(&namespace, &name),
        Change::DeleteClusterRole(name) => index.delete_cluster_role(&name),
        Change::DeleteBinding(namespace, name) => index.delete_binding(&namespace, &name),
        Change::DeleteClusterBinding(name) => index.delete_cluster_role_binding(&name),
    }
}

/// Every request that the words above can make, for one user.
fn requests() -> Vec<(&'static str, &'static str, Option<ResourceRequest<'static>>)> {
    let mut requests = Vec::new();
    for verb in ["get", "list"] {
        for path in ["/x", "/x/y", "/z"] {
            requests.push((verb, path, None));
        }
        for namespace in NAMESPACES {
            for (group, resource, subresource) in
                [("", "pods", ""), ("", "pods", "log"), ("apps", "nodes", "log"), ("apps", "pods/log", "")]
            {
                for name in ["", "n"] {
                    let request = ResourceRequest {
                        namespace,
                        group,
                        resource,
                        subresource,
                        name,
                        ..ResourceRequest::default()
                    };
                    requests.push((verb, "", Some(request)));
                }
            }
        }
    }
    requests
}

/// A decision as the model gives it.
fn decided(index: &RbacIndex, attributes: &Attributes<'_>) -> Result<(), BTreeSet<String>> {
    let decision = index.authorize(attributes);
    if decision.is_allow() {
        return Ok(());
    }
    Err(errors(&decision.reason().render(attributes).to_string()))
}

fn errors(reason: &str) -> BTreeSet<String> {
    let list = reason.trim_start_matches("RBAC: ").trim_start_matches('[').trim_end_matches(']');
    list.split(", ").filter(|error| !error.is_empty()).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_index_decides_and_lists_as_a_new_one_and_as_the_model(
        changes in prop::collection::vec(change(), 1..40),
        name in one(&USERS),
        groups in some(&GROUPS, 3),
        moment in any::<Index>(),
    ) {
        let user = User::new(name, groups);
        let (mut cluster, mut index) = (Cluster::default(), RbacIndex::default());
        let moment = moment.index(changes.len());
        let mut held = None;
        for (i, change) in changes.into_iter().enumerate() {
            cluster.apply(change.clone());
            change_index(&mut index, change);
            if i == moment {
                // A reason given out says later what it would have said then.
                let request = ResourceRequest { namespace: "a", resource: "none", ..ResourceRequest::default() };
                let attributes = Attributes { user: &user, verb: "none", path: "", resource: Some(request) };
                let decision = index.authorize(&attributes);
                held = Some((decision.reason().render(&attributes).to_string(), decision));
            }
        }
        let rebuilt = cluster.index();
        let is_nobody = user.name.is_empty() && user.groups.is_empty();
        for (verb, path, resource) in requests() {
            let attributes = Attributes { user: &user, verb, path, resource };
            let model = if is_nobody { Err(BTreeSet::new()) } else { cluster.decide(&attributes) };
            prop_assert_eq!(decided(&index, &attributes), model.clone(), "{:?}", attributes);
            prop_assert_eq!(decided(&rebuilt, &attributes), model.clone(), "{:?}", attributes);
            // BC-40: whatever is allowed lies where it is looked for, from everywhere or from its namespace.
            if let (Ok(()), Some(request)) = (&model, resource) {
                for from in ["", request.namespace] {
                    let question = ResourceRequest { namespace: from, name: "", ..request };
                    let extent = index.extent(&Attributes { resource: Some(question), ..attributes });
                    let is_inside = extent.is_everywhere || extent.namespaces.contains(request.namespace);
                    prop_assert!(is_inside, "{:?} in {:?}", attributes, extent);
                }
            }
            let text = index.explain(&attributes);
            let rules: Vec<(usize, PolicyRule)> = text.lines().filter_map(numbered_rule).collect();
            if let Some(grant) = text.strip_prefix("allowed by ") {
                let [(number, rule)] = rules.as_slice() else { panic!("{text}") };
                prop_assert!(model.is_ok() && rule_allows(rule, &attributes), "{}", text);
                let reason = index.authorize(&attributes).reason().render(&attributes).to_string();
                prop_assert_eq!(reason.strip_prefix("RBAC: allowed by "), grant.lines().next());
                let is_held = index.bindings().any(|binding| {
                    let namespace = (!binding.is_cluster_wide()).then(|| binding.namespace());
                    let role = index.resolve(&binding.role_ref(), namespace);
                    role.is_some_and(|role| role.rules.get(*number) == Some(rule))
                });
                prop_assert!(is_held, "{}", text);
            } else {
                let unresolved: Vec<String> = model.unwrap_err().into_iter().collect();
                let found = text.lines().find_map(|line| line.strip_prefix("not found: "));
                prop_assert_eq!(found.map(str::to_owned), aggregate(&unresolved));
                let needed = text.lines().find_map(|line| line.strip_prefix("needed: ")).map(rule_of).unwrap();
                prop_assert!(rule_allows(&needed, &attributes), "{}", text);
                let misses = text.lines().filter_map(|line| line.strip_prefix("near miss, other "));
                for (miss, (_, rule)) in misses.zip(&rules) {
                    let fits = rule_allows(rule, &attributes);
                    prop_assert_eq!(fits, miss.starts_with("namespace: "), "{}", text);
                }
            }
        }
        for namespace in NAMESPACES {
            let (mut rules, _) = index.policy_rules_for(&user, namespace);
            let mut expected: Vec<PolicyRule> = cluster
                .bindings_of(&user, namespace)
                .filter_map(|(binding, namespace)| cluster.role_of(binding, namespace).ok())
                .flat_map(|role| role.rules.clone())
                .collect();
            rules.sort();
            expected.sort();
            prop_assert_eq!(rules, expected);
        }
        let (text, decision) = held.unwrap();
        let attributes = Attributes { user: &user, verb: "none", path: "", resource: None };
        prop_assert_eq!(errors(&decision.reason().render(&attributes).to_string()), errors(&text));
    }

    #[test]
    fn an_index_that_lost_all_its_objects_allows_nothing_and_misses_nothing(
        changes in prop::collection::vec(change(), 1..30),
        name in one(&USERS),
    ) {
        let mut index = RbacIndex::default();
        changes.into_iter().for_each(|change| change_index(&mut index, change));
        for name in NAMES {
            for namespace in NAMESPACES {
                index.delete_role(namespace, name);
                index.delete_binding(namespace, name);
            }
            index.delete_cluster_role_binding(name);
            index.delete_cluster_role(name);
        }
        prop_assert_eq!(index.bindings().count(), 0);
        let user = User::new(name, GROUPS);
        for (verb, path, resource) in requests() {
            prop_assert_eq!(decided(&index, &Attributes { user: &user, verb, path, resource }), Err(BTreeSet::new()));
        }
    }

    #[test]
    fn rules_cover_themselves_and_whatever_others_are_added_to_them_rb_66(
        rules in prop::collection::vec(rule(), 0..4),
        more in prop::collection::vec(rule(), 0..4),
    ) {
        // A rule for both resources and URLs that has names does not cover its own URLs, in Kubernetes neither.
        let rules: Vec<PolicyRule> = rules
            .into_iter()
            .filter(|rule| rule.resource_names.is_empty() || rule.non_resource_urls.is_empty())
            .collect();
        prop_assert_eq!(covers(&rules, &rules), (true, vec![]));
        let both: Vec<PolicyRule> = [more, rules.clone()].concat();
        prop_assert_eq!(covers(&both, &rules), (true, vec![]));
    }

    #[test]
    fn whoever_holds_covering_rules_is_allowed_whatever_the_covered_rules_allow(
        owner in prop::collection::vec(rule(), 0..4),
        servant in prop::collection::vec(rule(), 0..3),
    ) {
        prop_assume!(covers(&owner, &servant).0);
        let user = User::default();
        // A rule for `*/log` covers one for `pods/log`, but a request for a resource that is itself called `pods/log`, as
        // only a review can ask, is not below anything: Kubernetes covers and matches so as well.
        let is_from_a_path = |resource: &Option<ResourceRequest<'_>>| resource.is_none_or(|r| !r.resource.contains('/'));
        for (verb, path, resource) in requests().into_iter().filter(|(.., resource)| is_from_a_path(resource)) {
            let attributes = Attributes { user: &user, verb, path, resource };
            let granted = |rules: &[PolicyRule]| rules.iter().any(|rule| allows(rule, &attributes));
            prop_assert!(granted(&owner) || !granted(&servant), "{:?}", attributes);
        }
    }
}
