//! States, questions and their answers.

use portcullis_policy::audit::explain::{Answer, Explain, HiddenPaths, Limits, Verdict};
use portcullis_policy::audit::who_can::Inventory;
use portcullis_policy::engine::{Builder, Engine, EngineConfig};
use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::{Attributes, FeatureGates, Mode, ResourceRequest, User};
use serde_json::{Value, json};

/// Everything is listed.
pub(crate) const ALL: Limits = Limits { paths: usize::MAX, misses: usize::MAX };

/// The engine over a state, and what is known beside it.
pub(crate) struct State {
    pub(crate) engine: Engine,
    inventory: Inventory,
    hidden: HiddenPaths,
}

/// A request that owns its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) verb: String,
    /// Empty for a request for a resource.
    pub(crate) path: String,
    pub(crate) namespace: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
}

pub(crate) fn modes(modes: &[Mode]) -> EngineConfig {
    EngineConfig { modes: modes.to_vec(), webhooks: true, ..EngineConfig::default() }
}

impl Request {
    /// `VERB RESOURCE[.GROUP][/SUBRESOURCE] NAMESPACE NAME`, `-` for nothing; or `VERB /PATH`.
    pub(crate) fn of(question: &str) -> Self {
        let words: Vec<&str> = question.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
        match words[..] {
            [verb, path] => Self { verb: verb.into(), path: path.into(), ..Self::default() },
            [verb, kind, namespace, name] => {
                let (kind, subresource) = kind.split_once('/').unwrap_or((kind, ""));
                let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
                Self {
                    verb: verb.into(),
                    path: String::new(),
                    namespace: namespace.into(),
                    group: group.into(),
                    resource: resource.into(),
                    subresource: subresource.into(),
                    name: name.into(),
                }
            }
            _ => panic!("{question}"),
        }
    }

    pub(crate) fn attributes<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        let resource = self.path.is_empty().then_some(ResourceRequest {
            namespace: &self.namespace,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            name: &self.name,
            ..ResourceRequest::default()
        });
        Attributes { user, verb: &self.verb, path: &self.path, resource }
    }
}

impl State {
    pub(crate) fn new<'v>(config: EngineConfig, objects: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut builder = Builder::new(config).unwrap();
        let (mut inventory, mut hidden) = (Inventory::default(), HiddenPaths::default());
        for object in objects {
            let kind = Kind::of(text(object, "/apiVersion"), text(object, "/kind")).unwrap();
            let json = object.to_string();
            let object = Object::parse(kind, &json).unwrap();
            inventory.take(&object);
            hidden.take(&object).unwrap();
            builder.take(object).unwrap();
        }
        hidden.finish();
        Self { engine: builder.finish(), inventory, hidden }
    }

    pub(crate) fn allows(&self, user: &User, request: &Request) -> bool {
        self.engine.chain().decide(&request.attributes(user)).is_allow()
    }

    pub(crate) fn explain(&self, user: &User, request: &Request, limits: Limits) -> Answer {
        let gates = FeatureGates::default();
        let explain = Explain::new(self.engine.chain(), gates, &self.inventory, &self.hidden);
        let answer = explain.ask(&request.attributes(user), limits);
        let is_allowed = self.allows(user, request);
        assert_eq!(answer.answer == Verdict::Yes, is_allowed, "{user:?} {request:?}: {answer:#?}");
        answer
    }

    pub(crate) fn ask(&self, user: &User, question: &str) -> Answer {
        self.explain(user, &Request::of(question), ALL)
    }
}

pub(crate) fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn texts(value: &Value, path: &str) -> Vec<String> {
    let items = value.pointer(path).and_then(Value::as_array).into_iter().flatten();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn named(name: &str) -> User {
    User::new(name, Vec::<String>::new())
}

pub(crate) fn node(name: &str) -> User {
    User::new(format!("system:node:{name}"), ["system:nodes"])
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A role: of the cluster, without a namespace.
pub(crate) fn role(namespace: &str, name: &str, rules: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({"apiVersion": RBAC, "kind": kind, "metadata": metadata(namespace, name), "rules": rules})
}

/// A binding: of the cluster, without a namespace. The role is `Kind/NAME`, and each subject `Kind/NAME` or
/// `ServiceAccount/NAMESPACE/NAME`.
pub(crate) fn binding(namespace: &str, name: &str, role: &str, subjects: &[&str]) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let (role_kind, role) = role.split_once('/').unwrap();
    let subject = |subject: &&str| {
        let words: Vec<&str> = subject.split('/').collect();
        match words[..] {
            [kind, namespace, name] => json!({"kind": kind, "namespace": namespace, "name": name}),
            [kind, name] => json!({"kind": kind, "name": name}),
            _ => panic!("{subject}"),
        }
    };
    let subjects: Vec<Value> = subjects.iter().map(subject).collect();
    json!({
        "apiVersion": RBAC, "kind": kind, "metadata": metadata(namespace, name),
        "roleRef": {"kind": role_kind, "name": role}, "subjects": subjects,
    })
}

pub(crate) fn metadata(namespace: &str, name: &str) -> Value {
    match namespace {
        "" => json!({"name": name}),
        namespace => json!({"namespace": namespace, "name": name}),
    }
}

/// A rule for the core group.
pub(crate) fn rule(verb: &str, resource: &str) -> Value {
    json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]})
}
