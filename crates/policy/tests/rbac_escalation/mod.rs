//! Who may write roles and bindings, as a running Kubernetes 1.36 was recorded to answer; the vectors of the
//! specification for covers and aggregation.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where its own set-up fails"
)]

use std::collections::BTreeMap;

use portcullis_policy::objects::Object;
use portcullis_policy::objects::rbac::{Binding, PolicyRule, Role};
use portcullis_policy::rbac::aggregation::{aggregate, aggregated_rules};
use portcullis_policy::rbac::escalation::{
    RbacObject, RbacWrite, Refusal, differ_only_for_garbage_collection,
};
use portcullis_policy::rbac::{RbacIndex, covers, default_policy};
use portcullis_policy::{Attributes, Authorizer, FeatureGates, ResourceRequest, User};
use portcullis_testkit::recorded;
use serde_json::{Map, Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/";

/// A caller and where the write goes, with who is asked about `escalate` and `bind`.
struct Write<'a> {
    index: &'a RbacIndex,
    authorizer: &'a RbacIndex,
    user: &'a User,
    namespace: &'a str,
    name: &'a str,
    only_garbage_collection: bool,
}

impl Write<'_> {
    fn check(&self, object: RbacObject<'_>) -> Result<(), Refusal> {
        let Write { index, user, namespace, name, only_garbage_collection, .. } = *self;
        let write = RbacWrite { user, namespace, name, object, only_garbage_collection };
        match write.question(index)? {
            Some(asked) if !self.authorizer.authorize(&asked).is_allow() => write.check_held(index),
            _ => Ok(()),
        }
    }

    fn check_role(&self, new: &Role) -> Result<(), Refusal> {
        self.check(RbacObject::Role(new))
    }

    fn check_cluster_role(&self, new: &Role, old: Option<&Role>) -> Result<(), Refusal> {
        self.check(RbacObject::ClusterRole { new, old })
    }

    fn check_binding(&self, new: &Binding) -> Result<(), Refusal> {
        self.check(RbacObject::RoleBinding(new))
    }

    fn check_cluster_role_binding(&self, new: &Binding) -> Result<(), Refusal> {
        self.check(RbacObject::ClusterRoleBinding(new))
    }
}

/// As much of an API server as a recording needs: the objects by path, and the index over them.
struct Server {
    objects: BTreeMap<String, Value>,
    index: RbacIndex,
}

/// A path under the RBAC group, taken apart.
struct Target<'a> {
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let path = path.split('?').next()?.strip_prefix(RBAC)?;
        let parts: Vec<&str> = path.split('/').collect();
        Some(match *parts.as_slice() {
            ["namespaces", namespace, resource] => Self { namespace, resource, name: "" },
            ["namespaces", namespace, resource, name] => Self { namespace, resource, name },
            [resource] => Self { namespace: "", resource, name: "" },
            [resource, name] => Self { namespace: "", resource, name },
            _ => return None,
        })
    }
}

impl Server {
    fn new() -> Self {
        let mut server = Self { objects: BTreeMap::new(), index: RbacIndex::default() };
        let mut cluster_roles = Vec::new();
        for object in default_policy::objects(FeatureGates::default()) {
            match object {
                Object::ClusterRole(role) => cluster_roles.push(role),
                other => assert!(server.index.apply(other)),
            }
        }
        assert_eq!(aggregate(&mut cluster_roles), []);
        cluster_roles.into_iter().for_each(|role| server.index.apply_cluster_role(role));
        server
    }

    fn key(target: &Target<'_>, name: &str) -> String {
        format!("{}/{}/{name}", target.namespace, target.resource)
    }

    fn store(&mut self, target: &Target<'_>, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["uid"] = json!(name);
        self.apply(target.resource, &object);
        self.objects.insert(Self::key(target, &name), object);
    }

    fn apply(&mut self, resource: &str, object: &Value) {
        let role = || serde_json::from_value::<Role>(object.clone()).unwrap();
        let binding = || serde_json::from_value::<Binding>(object.clone()).unwrap();
        match resource {
            "roles" => self.index.apply_role(role()),
            "clusterroles" => self.index.apply_cluster_role(role()),
            "rolebindings" => self.index.apply_binding(binding()),
            "clusterrolebindings" => self.index.apply_cluster_role_binding(binding()),
            other => panic!("{other}"),
        }
    }

    fn delete(&mut self, target: &Target<'_>) {
        match target.resource {
            "roles" => self.index.delete_role(target.namespace, target.name),
            "clusterroles" => self.index.delete_cluster_role(target.name),
            "rolebindings" => self.index.delete_binding(target.namespace, target.name),
            "clusterrolebindings" => self.index.delete_cluster_role_binding(target.name),
            other => panic!("{other}"),
        }
        self.objects.remove(&Self::key(target, target.name)).unwrap();
    }

    fn check(
        &self,
        user: &User,
        target: &Target<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let write = Write {
            index: &self.index,
            authorizer: &self.index,
            user,
            namespace: target.namespace,
            name: target.name,
            only_garbage_collection: old
                .is_some_and(|old| differ_only_for_garbage_collection(map(old), map(new))),
        };
        let role = |object: &Value| serde_json::from_value::<Role>(object.clone()).unwrap();
        let binding = || serde_json::from_value::<Binding>(new.clone()).unwrap();
        match target.resource {
            "roles" => write.check_role(&role(new)),
            "clusterroles" => write.check_cluster_role(&role(new), old.map(role).as_ref()),
            "rolebindings" => write.check_binding(&binding()),
            "clusterrolebindings" => write.check_cluster_role_binding(&binding()),
            other => panic!("{other}"),
        }
    }
}

fn map(object: &Value) -> &Map<String, Value> {
    object.as_object().unwrap()
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

#[test]
fn every_recorded_write_of_a_role_or_binding_is_let_through_or_refused_alike_rb_50_to_rb_69() {
    let mut server = Server::new();
    let (mut let_through, mut refused) = (0, 0);
    for line in recorded::lines("http/rbac-escalation.jsonl") {
        let (method, path) = (line["method"].as_str().unwrap(), line["path"].as_str().unwrap());
        let Some(target) = Target::of(path) else { continue };
        let user = match line["imp"]["user"].as_str() {
            Some(name) => User::new(name, ["system:authenticated"]),
            None => User::new("admin", ["system:masters"]),
        };
        let code = line["expect"]["code"].as_u64().unwrap();
        let is_done = code < 300 && !path.contains("dryRun");
        if method == "DELETE" && is_done {
            server.delete(&target);
        }
        if !matches!(method, "POST" | "PUT" | "PATCH") {
            continue;
        }
        let old = server.objects.get(&Server::key(&target, target.name));
        let mut new = line["body"].clone();
        if method == "PATCH" {
            let mut patched = old.unwrap().clone();
            merge(&mut patched, &new);
            new = patched;
        }
        if !target.namespace.is_empty() {
            new["metadata"]["namespace"] = json!(target.namespace);
        }
        let verb = match (method, old) {
            ("PUT", Some(_)) => "update",
            ("PATCH", _) => "patch",
            _ => "create",
        };
        let request = ResourceRequest {
            namespace: target.namespace,
            group: "rbac.authorization.k8s.io",
            version: "v1",
            resource: target.resource,
            name: target.name,
            ..ResourceRequest::default()
        };
        let attributes = Attributes { user: &user, verb, path, resource: Some(request) };
        assert!(server.index.authorize(&attributes).is_allow(), "the check is what is tested: {line}");
        let answer = server.check(&user, &target, &new, old);
        let object = new["metadata"]["name"].as_str().unwrap();
        match (code, &answer) {
            // What is valid is not decided here: 422 comes after the check (RB-50).
            (200 | 201 | 422, Ok(())) => let_through += 1,
            (403, Err(Refusal::Forbidden(message))) => {
                refused += 1;
                let prefix =
                    format!("{}.rbac.authorization.k8s.io {object:?} is forbidden: ", target.resource);
                assert!(message.starts_with(&prefix), "{message}");
            }
            (404, Err(Refusal::NotFound { role, .. })) => {
                assert_eq!(role, line["expect"]["body"]["details"]["name"].as_str().unwrap());
            }
            (500, Err(Refusal::UnsupportedKind(_))) => {}
            _ => panic!("{answer:?}: {line}"),
        }
        if is_done {
            server.store(&target, new);
        }
    }
    assert!(let_through > 30 && refused > 20, "{let_through} let through, {refused} refused");
}

#[test]
fn every_recorded_aggregated_role_has_the_same_rules_rb_79() {
    let mut roles: Vec<Role> = Vec::new();
    let mut aggregated: BTreeMap<String, Vec<PolicyRule>> = BTreeMap::new();
    let mut compared = 0;
    for line in recorded::lines("http/rbac-aggregation.jsonl") {
        let Some(target) = Target::of(line["path"].as_str().unwrap()) else { continue };
        let accepted = line["expect"]["code"].as_u64().unwrap() < 300;
        if target.resource != "clusterroles" {
            continue;
        }
        let name = line["body"]["metadata"]["name"].as_str().unwrap_or(target.name);
        let place = roles.iter().position(|role| role.metadata.name == name);
        match line["method"].as_str().unwrap() {
            "POST" if !accepted => {
                let role: Role = serde_json::from_value(line["body"].clone()).unwrap();
                let selectors = role.aggregation_rule.unwrap().cluster_role_selectors;
                assert!(selectors.is_empty() || selectors.iter().any(|s| s.validate().is_err()), "{line}");
            }
            "POST" => roles.push(serde_json::from_value(line["body"].clone()).unwrap()),
            "PATCH" => {
                let role = &mut roles[place.unwrap()];
                let mut object = serde_json::to_value(&*role).unwrap();
                merge(&mut object, &line["body"]);
                *role = serde_json::from_value(object).unwrap();
            }
            "DELETE" => {
                roles.remove(place.unwrap());
            }
            "GET" => {
                let theirs = line["expect"]["body"]["rules"].clone();
                let theirs: Option<Vec<PolicyRule>> = serde_json::from_value(theirs).unwrap();
                assert_eq!(roles[place.unwrap()].rules, theirs.unwrap_or_default(), "{line}");
                compared += 1;
            }
            other => panic!("{other}"),
        }
        assert_eq!(aggregate(&mut roles), []);
        let others = roles.clone();
        for role in &mut roles {
            // Whoever computed the rules empties them as well when no role is left to take them from.
            let name = role.metadata.name.clone();
            match aggregated_rules(role, &others).unwrap() {
                Some(rules) if rules.is_empty() && aggregated.get(&name) == Some(&role.rules) => {
                    role.rules.clear()
                }
                Some(rules) if !rules.is_empty() => _ = aggregated.insert(name, rules),
                _ => {}
            }
        }
    }
    assert!(compared > 5, "{compared} compared");
}

fn rule(text: &str) -> PolicyRule {
    let fields: Vec<Vec<String>> = text
        .split('|')
        .map(|list| list.split_whitespace().map(|word| word.replace("core", "")).collect())
        .collect();
    let mut fields = fields.into_iter();
    let mut next = || fields.next().unwrap_or_default();
    PolicyRule {
        verbs: next(),
        api_groups: next(),
        resources: next(),
        resource_names: next(),
        non_resource_urls: next(),
    }
}

#[test]
fn the_cover_table_of_the_specification_holds_rb_66_rb_67() {
    let holds = |owner: &[&str], servant: &str| {
        let owner: Vec<PolicyRule> = owner.iter().map(|text| rule(text)).collect();
        covers(&owner, &[rule(servant)]).0
    };
    assert!(holds(&["get|core|*"], "get|core|pods pods/log */scale *"));
    assert!(holds(&["get|core|*/scale"], "get|core|deployments/scale */scale"));
    assert!(!holds(&["get|core|*/scale"], "get|core|deployments"));
    assert!(!holds(&["get|core|deployments/scale"], "get|core|*/scale"));
    assert!(!holds(&["get|core|pods"], "get|core|pods/log"));
    assert!(!holds(&["get list watch create update patch delete deletecollection|core|pods"], "*|core|pods"));
    assert!(!holds(&["get|core apps|pods"], "get|*|pods"));
    assert!(holds(&["get|core|pods|a b"], "get|core|pods|a"));
    assert!(!holds(&["get|core|pods|a b"], "get|core|pods"));
    assert!(holds(&["get|core|pods|a", "get|core|pods|b"], "get|core|pods|a b"));
    assert!(holds(&["get||||/api/*"], "get||||/api/v1 /api/* /api/"));
    assert!(!holds(&["get||||/api/v1/*"], "get||||/api/*"));
    assert!(holds(&["get||||*"], "get||||/anything /any/*"));
    assert!(!holds(&["*|*|*"], "get||||/metrics"));
    // RB-65: an empty list among the factors leaves nothing to cover.
    assert!(holds(&[], "get|core|"));
    assert!(holds(&[], "|core|pods"));
    assert!(!holds(&[], "get|core|pods"));
}

fn binding(name: &str, role_kind: &str, role: &str, user: &str) -> Binding {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns"},
        "roleRef": {"kind": role_kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }))
    .unwrap()
}

fn cluster_role(name: &str, rules: &[&str]) -> Role {
    Role {
        metadata: serde_json::from_value(json!({"name": name})).unwrap(),
        rules: rules.iter().map(|text| rule(text)).collect(),
        ..Role::default()
    }
}

#[test]
fn a_refusal_lists_what_is_missing_sorted_and_merged_rb_62_to_rb_64() {
    let mut index = RbacIndex::default();
    index.apply_cluster_role_binding(binding("gone", "ClusterRole", "ghost", "jane"));
    let user = User::new("jane", ["g1", "g2"]);
    let write = Write {
        index: &index,
        authorizer: &index,
        user: &user,
        namespace: "",
        name: "",
        only_garbage_collection: false,
    };
    let role = cluster_role("r", &["get list|apps|deployments|x", "get|core apps|pods", "get||||/b /a"]);
    // The sentence and the form of the lines are those of RB-62 and RB-64.
    let expected = concat!(
        "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: ",
        "user \"jane\" (groups=[\"g1\" \"g2\"]) is attempting to grant RBAC permissions not currently held:\n",
        "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}\n",
        "{APIGroups:[\"apps\"], Resources:[\"deployments\"], ResourceNames:[\"x\"], Verbs:[\"get\" \"list\"]}\n",
        "{APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\"]}\n",
        "{NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}\n",
        "{NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}",
        "; resolution errors: [clusterrole.rbac.authorization.k8s.io \"ghost\" not found]",
    );
    assert_eq!(write.check_cluster_role(&role, None), Err(Refusal::Forbidden(expected.to_owned())));
}

#[test]
fn a_role_that_stands_for_billions_of_permissions_is_refused_at_once() {
    let words = |prefix: &str| (0..3_000).map(|i| format!("{prefix}{i}")).collect::<Vec<String>>();
    let huge = Role {
        rules: vec![PolicyRule {
            verbs: words("v"),
            api_groups: words("g"),
            resources: words("r"),
            resource_names: words("n"),
            ..PolicyRule::default()
        }],
        ..cluster_role("huge", &[])
    };
    let mut index = RbacIndex::default();
    index.apply_cluster_role(cluster_role("all", &["*|*|*"]));
    index.apply_cluster_role_binding(binding("all", "ClusterRole", "all", "root"));
    let check = |user: &str| {
        let user = User::new(user, ["g"]);
        let nobody = RbacIndex::default();
        let write = Write {
            index: &index,
            authorizer: &nobody,
            user: &user,
            namespace: "",
            name: "",
            only_garbage_collection: false,
        };
        write.check_cluster_role(&huge, None)
    };
    assert!(matches!(check("jane"), Err(Refusal::Forbidden(_))));
    assert_eq!(check("root"), Ok(()), "one rule of the caller covers it all");
}

#[test]
fn an_aggregation_rule_takes_everything_even_if_only_the_old_role_has_it_rb_56() {
    let mut index = RbacIndex::default();
    index.apply_cluster_role(cluster_role("all-resources", &["*|*|*"]));
    index.apply_cluster_role(cluster_role("all", &["*|*|*", "*||||*"]));
    index.apply_cluster_role_binding(binding("a", "ClusterRole", "all-resources", "almost"));
    index.apply_cluster_role_binding(binding("b", "ClusterRole", "all", "root"));
    // Nobody has the verb itself: what is tested is the cover.
    let nobody = RbacIndex::default();
    let check = |user: &str, new: &Role, old: Option<&Role>| {
        let user = User::new(user, ["g"]);
        let write = Write {
            index: &index,
            authorizer: &nobody,
            user: &user,
            namespace: "",
            name: "r",
            only_garbage_collection: false,
        };
        write.check_cluster_role(new, old)
    };
    let plain = cluster_role("r", &[]);
    let aggregated = Role {
        aggregation_rule: serde_json::from_value(json!({"clusterRoleSelectors": [{}]})).unwrap(),
        ..plain.clone()
    };
    assert_eq!(check("almost", &plain, None), Ok(()));
    assert_eq!(check("root", &aggregated, None), Ok(()));
    for (new, old) in [(&aggregated, None), (&plain, Some(&aggregated))] {
        let Err(Refusal::Forbidden(message)) = check("almost", new, old) else { panic!("refused") };
        assert!(
            message.ends_with("must have cluster-admin privileges to use the aggregationRule"),
            "{message}"
        );
    }
}

#[test]
fn the_super_user_is_allowed_everything_and_an_empty_name_is_none_rb_125() {
    let index = RbacIndex::default().with_super_user("root");
    let asked = |index: &RbacIndex, name: &str| {
        let user = User::new(name, ["g"]);
        let attributes = Attributes { user: &user, verb: "get", path: "/x", resource: None };
        let decision = index.authorize(&attributes);
        (decision.is_allow(), decision.reason().is_none())
    };
    assert_eq!(asked(&index, "root"), (true, true));
    assert!(!asked(&index, "Root").0);
    assert!(!asked(&RbacIndex::default().with_super_user(""), "").0);
    let user = User::new("root", ["g"]);
    let nobody = RbacIndex::default();
    let write = Write {
        index: &index,
        authorizer: &nobody,
        user: &user,
        namespace: "ns",
        name: "",
        only_garbage_collection: false,
    };
    assert_eq!(write.check_binding(&binding("b", "Role", "ghost", "x")), Ok(()));
    assert_eq!(write.check_role(&cluster_role("r", &["*|*|*"])), Ok(()));
}

#[test]
fn bind_may_be_limited_to_names_and_to_a_namespace_and_does_not_reach_further_rb_57() {
    let mut index = RbacIndex::default();
    let bind = serde_json::from_value(json!({
        "metadata": {"name": "binder", "namespace": "ns"},
        "rules": [{
            "verbs": ["bind"],
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "resourceNames": ["edit"],
        }],
    }))
    .unwrap();
    index.apply_role(bind);
    index.apply_binding(binding("b", "Role", "binder", "jane"));
    index.apply_cluster_role(cluster_role("edit", &["*|*|*"]));
    index.apply_cluster_role(cluster_role("view", &["get|*|*"]));
    let user = User::new("jane", ["g"]);
    let write = |namespace: &'static str| Write {
        index: &index,
        authorizer: &index,
        user: &user,
        namespace,
        name: "",
        only_garbage_collection: false,
    };
    let to = |role: &str| binding("new", "ClusterRole", role, "x");
    assert_eq!(write("ns").check_binding(&to("edit")), Ok(()));
    assert!(matches!(write("ns").check_binding(&to("view")), Err(Refusal::Forbidden(_))));
    assert!(matches!(write("other").check_binding(&to("edit")), Err(Refusal::Forbidden(_))));
    assert!(matches!(write("").check_cluster_role_binding(&to("edit")), Err(Refusal::Forbidden(_))));
    assert_eq!(write("").check_binding(&to("edit")), Err(Refusal::NamespaceRequired));
    let missing = write("ns").check_binding(&binding("new", "Role", "edit", "x"));
    assert!(matches!(missing, Err(Refusal::NotFound { role, .. }) if role == "edit"));
}
