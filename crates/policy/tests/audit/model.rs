//! A naive closure: every edge of AU-62 is evaluated for every pair of vertices, until nothing is added. Rights are asked of an
//! engine, one request at a time.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::{Attributes, Engine, Mode, ResourceRequest, User};
use serde_json::Value;

/// Type, namespace, name.
pub(crate) type Vertex = (&'static str, String, String);

pub(crate) struct Model {
    documents: Vec<Value>,
    engine: Engine,
    vertices: Vec<Vertex>,
    /// Names that a rule lists, and one that none lists.
    listed: Vec<String>,
    /// All edges by the vertex that they leave, as if a node with a claim were in the closure.
    edges: BTreeMap<Vertex, Vec<(u8, Vertex)>>,
    /// Those whose E27 holds only if one is.
    needs_claim: BTreeSet<Vertex>,
}

pub(crate) struct Found {
    pub(crate) reached: BTreeSet<Vertex>,
    pub(crate) admin: &'static str,
    /// All edges that leave a reached vertex.
    pub(crate) edges: BTreeSet<(String, String, String)>,
}

const NOBODY: &str = "nobody-lists-this";
const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const WORKLOADS: [(&str, &str); 7] = [
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("", "replicationcontrollers"),
];

/// `NAMESPACE/NAME`, or the name.
pub(crate) fn name((_, namespace, name): &Vertex) -> String {
    if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") }
}

fn full_name(vertex: &Vertex) -> String {
    if vertex.0 == "admin" { "admin".to_owned() } else { format!("{}/{}", vertex.0, name(vertex)) }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn has(rule: &Value, field: &str, word: &str) -> bool {
    list(rule, &format!("/{field}")).any(|entry| entry == word)
}

fn is_mirror(pod: &Value) -> bool {
    pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some()
}

/// The service account as which a pod or template runs.
fn runs_as(spec: &Value) -> &str {
    match text(spec, "/serviceAccountName") {
        "" => "default",
        account => account,
    }
}

/// The secrets that a pod spec of these states names.
fn secrets_of(spec: &Value) -> BTreeSet<&str> {
    let volumes = list(spec, "/volumes").map(|volume| text(volume, "/secret/secretName"));
    let sources = list(spec, "/containers").flat_map(|container| list(container, "/envFrom"));
    volumes
        .chain(sources.map(|source| text(source, "/secretRef/name")))
        .filter(|name| !name.is_empty())
        .collect()
}

impl Model {
    pub(crate) fn new(documents: &[Value], engine: Engine) -> Self {
        let mut model = Self {
            documents: documents.to_vec(),
            engine,
            vertices: Vec::new(),
            listed: vec![NOBODY.to_owned()],
            edges: BTreeMap::new(),
            needs_claim: BTreeSet::new(),
        };
        let mut vertices = BTreeSet::new();
        let mut add = |kind: &'static str, namespace: &str, name: &str| {
            vertices.insert((kind, namespace.to_owned(), name.to_owned()));
        };
        add("admin", "", "");
        for node in model.nodes() {
            add("node", "", node);
            add("user", "", &format!("system:node:{node}"));
        }
        let mut of_spec = |namespace: &str, pod: &str, spec: &Value, is_mirror: bool| {
            if !is_mirror {
                add("serviceaccount", namespace, runs_as(spec));
            } else if !text(spec, "/serviceAccountName").is_empty() {
                add("serviceaccount", namespace, text(spec, "/serviceAccountName"));
            }
            // Nothing but the node of a mirror pod counts.
            if is_mirror {
                return;
            }
            secrets_of(spec).into_iter().for_each(|name| add("secret", namespace, name));
            for volume in list(spec, "/volumes") {
                for (pointer, kind) in [
                    ("/configMap/name", "configmap"),
                    ("/persistentVolumeClaim/claimName", "persistentvolumeclaim"),
                ] {
                    if !text(volume, pointer).is_empty() {
                        add(kind, namespace, text(volume, pointer));
                    }
                }
            }
            let _ = pod;
        };
        for document in documents {
            let (namespace, name) = (text(document, "/metadata/namespace"), text(document, "/metadata/name"));
            match text(document, "/kind") {
                "Pod" => of_spec(namespace, name, &document["spec"], is_mirror(document)),
                "DaemonSet" => of_spec(namespace, name, &document["spec"]["template"]["spec"], false),
                _ => {}
            }
        }
        for document in documents {
            let (namespace, name) = (text(document, "/metadata/namespace"), text(document, "/metadata/name"));
            match text(document, "/kind") {
                "Pod" => add("pod", namespace, name),
                "ServiceAccount" => add("serviceaccount", namespace, name),
                "ConfigMap" => add("configmap", namespace, name),
                "ResourceClaim" => add("resourceclaim", namespace, name),
                "Secret" => {
                    add("secret", namespace, name);
                    if let Some(account) = token_of(document) {
                        add("serviceaccount", namespace, account);
                    }
                    if namespace == "kube-system" && name.starts_with("bootstrap-token-") {
                        add("group", "", "system:bootstrappers");
                    }
                }
                "PersistentVolume" => {
                    add("persistentvolume", "", name);
                    add("secret", "kube-system", "s1");
                    add("persistentvolumeclaim", "a", "d1");
                }
                "ClusterRole" => {
                    let rules = list(document, "/rules");
                    let names = rules.flat_map(|rule| list(rule, "/resourceNames"));
                    model.listed.extend(names.filter_map(Value::as_str).map(str::to_owned));
                }
                "ClusterRoleBinding" | "RoleBinding" => {
                    for subject in list(document, "/subjects") {
                        let (kind, namespace, name) = subject_of(subject, namespace);
                        add(kind, &namespace, &name);
                    }
                }
                _ => {}
            }
        }
        model.vertices = vertices.into_iter().collect();
        let vertices = model.vertices.clone();
        for from in &vertices {
            let mut leaving = Vec::new();
            for to in &vertices {
                leaving.extend(model.edges_between(from, to).into_iter().map(|number| (number, to.clone())));
            }
            model.edges.insert(from.clone(), leaving);
            let creates = matches!(from.0, "serviceaccount" | "user" | "group")
                && model
                    .namespaces()
                    .iter()
                    .any(|ns| model.creates_pods(from, ns) || model.is_namespace_admin(from, ns));
            if !creates {
                model.needs_claim.insert(from.clone());
            }
        }
        model
    }

    fn of_kind<'m>(&'m self, kind: &'m str) -> impl Iterator<Item = &'m Value> {
        self.documents.iter().filter(move |document| text(document, "/kind") == kind)
    }

    pub(crate) fn nodes(&self) -> BTreeSet<&str> {
        let objects = self.of_kind("Node").map(|node| text(node, "/metadata/name"));
        let named =
            ["Pod", "VolumeAttachment", "ResourceSlice"].into_iter().flat_map(|kind| self.of_kind(kind));
        objects
            .chain(named.map(|object| text(object, "/spec/nodeName")))
            .filter(|name| !name.is_empty())
            .collect()
    }

    fn namespaces(&self) -> BTreeSet<String> {
        let named =
            self.vertices.iter().map(|vertex| vertex.1.clone()).filter(|namespace| !namespace.is_empty());
        let bindings =
            self.of_kind("RoleBinding").map(|binding| text(binding, "/metadata/namespace").to_owned());
        let objects = self.of_kind("Namespace").map(|object| text(object, "/metadata/name").to_owned());
        named.chain(bindings).chain(objects).collect()
    }

    /// The identity of a vertex with rights (AU-31).
    fn user(vertex: &Vertex) -> User {
        let (kind, namespace, name) = vertex;
        let groups: Vec<String> = match (*kind, name.as_str()) {
            ("serviceaccount", _) => vec![
                format!("system:serviceaccounts:{namespace}"),
                "system:serviceaccounts".into(),
                "system:authenticated".into(),
            ],
            ("group", name) if name.starts_with("system:serviceaccounts:") => {
                vec![name.into(), "system:serviceaccounts".into(), "system:authenticated".into()]
            }
            ("group", name) => vec![name.into(), "system:authenticated".into()],
            (_, name) if name.starts_with("system:node:") => {
                vec!["system:nodes".into(), "system:authenticated".into()]
            }
            _ => vec!["system:authenticated".into()],
        };
        let user = match *kind {
            "serviceaccount" => format!("system:serviceaccount:{namespace}:{name}"),
            "group" => "somebody-of-a-group".to_owned(),
            _ => name.clone(),
        };
        User::new(user, groups)
    }

    /// What RBAC says. The node authorizer is asked first, and has no say here.
    fn can(&self, vertex: &Vertex, verb: &str, what: (&str, &str), namespace: &str, name: &str) -> bool {
        let mut user = Self::user(vertex);
        if vertex.1.is_empty() && vertex.2.starts_with("system:node:") && vertex.0 == "user" {
            // Without the group the Node authorizer has no opinion; the group's rights are asked for apart.
            let mut of_group = user.clone();
            of_group.name = "somebody-of-a-group".to_owned();
            user.groups.retain(|group| group != "system:nodes");
            return self.decides(&user, verb, what, namespace, name).is_some()
                || self.decides(&of_group, verb, what, namespace, name).is_some();
        }
        self.decides(&user, verb, what, namespace, name).is_some()
    }

    fn decides(
        &self,
        user: &User,
        verb: &str,
        (group, resource): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Option<Mode> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let request = ResourceRequest {
            namespace,
            group,
            version: "v1",
            resource,
            subresource,
            name,
            ..ResourceRequest::default()
        };
        let attributes = Attributes { user, verb, path: "", resource: Some(request) };
        let outcome = self.engine.authorize(&attributes);
        if outcome.is_allow() { outcome.by } else { None }
    }

    fn any(&self, vertex: &Vertex, verbs: &[&str], what: (&str, &str), namespace: &str, name: &str) -> bool {
        verbs.iter().any(|verb| self.can(vertex, verb, what, namespace, name))
    }

    fn free(&self, vertex: &Vertex, verbs: &[&str], what: (&str, &str), namespace: &str) -> bool {
        self.any(vertex, verbs, what, namespace, NOBODY)
    }

    fn some(&self, vertex: &Vertex, verbs: &[&str], what: (&str, &str), namespace: &str) -> bool {
        self.listed.iter().any(|name| self.any(vertex, verbs, what, namespace, name))
    }

    fn writes(&self, vertex: &Vertex, what: (&str, &str), namespace: &str) -> bool {
        self.free(vertex, &["create"], what, namespace)
            || self.some(vertex, &["update", "patch"], what, namespace)
    }

    fn is_full(&self, vertex: &Vertex) -> bool {
        self.can(vertex, "verb-of-nobody", ("group-of-nobody", "kind-of-nobody"), "", NOBODY)
    }

    fn node_reaches(&self, node: &str, verb: &str, what: (&str, &str), namespace: &str, name: &str) -> bool {
        let user = User::new(format!("system:node:{node}"), ["system:nodes"]);
        self.decides(&user, verb, what, namespace, name) == Some(Mode::Node)
    }

    fn has_api_server(&self) -> bool {
        self.of_kind("Pod").any(|pod| has(&pod["spec"]["containers"][0], "command", "kube-apiserver"))
    }

    fn has_token(&self, pod: &Value) -> bool {
        if is_mirror(pod) {
            return false;
        }
        let is_mounted = list(&pod["spec"], "/volumes").any(|volume| volume["name"] == "t");
        let wanted = pod["spec"]["automountServiceAccountToken"].as_bool().or_else(|| {
            let accounts = self.of_kind("ServiceAccount").find(|account| {
                account["metadata"]["namespace"] == pod["metadata"]["namespace"]
                    && account["metadata"]["name"] == runs_as(&pod["spec"])
            });
            accounts.and_then(|account| account["automountServiceAccountToken"].as_bool())
        });
        is_mounted || (text(pod, "/metadata/uid").is_empty() && wanted != Some(false))
    }

    /// Accounts and secrets of a pod or template, as E23 to E25 and E29 mean them.
    fn is_of(vertex: &Vertex, namespace: &str, spec: &Value) -> bool {
        vertex.1 == namespace
            && match vertex.0 {
                "serviceaccount" => vertex.2 == runs_as(spec),
                "secret" => secrets_of(spec).contains(vertex.2.as_str()),
                _ => false,
            }
    }

    fn is_lax(&self, namespace: &str) -> bool {
        !self.of_kind("Namespace").any(|object| {
            let level = text(object, "/metadata/labels/pod-security.kubernetes.io~1enforce");
            text(object, "/metadata/name") == namespace && matches!(level, "baseline" | "restricted")
        })
    }

    /// E10 for a namespace.
    fn creates_pods(&self, from: &Vertex, namespace: &str) -> bool {
        let is_node = from.0 == "user" && from.2.starts_with("system:node:");
        (!is_node && self.free(from, &["create"], ("", "pods"), namespace))
            || WORKLOADS.iter().any(|kind| self.writes(from, *kind, namespace))
    }

    /// E16 for a namespace.
    fn is_namespace_admin(&self, from: &Vertex, namespace: &str) -> bool {
        let roles = self.free(from, &["bind"], (RBAC, "roles"), namespace);
        let cluster = self.free(from, &["bind"], (RBAC, "clusterroles"), namespace)
            || self.any(from, &["bind"], (RBAC, "clusterroles"), namespace, "full");
        let binds = self.writes(from, (RBAC, "rolebindings"), namespace) && (roles || cluster);
        let escalates = self.listed.iter().any(|name| {
            self.any(from, &["escalate"], (RBAC, "roles"), namespace, name)
                && self.any(from, &["update", "patch"], (RBAC, "roles"), namespace, name)
        });
        binds || escalates
    }

    fn pod(&self, vertex: &Vertex) -> &Value {
        self.of_kind("Pod")
            .find(|pod| pod["metadata"]["namespace"] == *vertex.1 && pod["metadata"]["name"] == *vertex.2)
            .unwrap()
    }

    /// The numbers of all edges between two vertices, as if a node of the closure ran a pod with a claim.
    fn edges_between(&self, from: &Vertex, to: &Vertex) -> Vec<u8> {
        match from.0 {
            "node" => self.edges_of_node(&from.2, to),
            "pod" => self.edges_of_pod(from, to),
            "secret" => self.edges_of_secret(from, to),
            "serviceaccount" | "user" | "group" => self.edges_of_subject(from, to),
            _ => Vec::new(),
        }
    }

    fn edges_of_node(&self, node: &str, to: &Vertex) -> Vec<u8> {
        let (kind, namespace, name) = (to.0, to.1.as_str(), to.2.as_str());
        let mut found = Vec::new();
        match kind {
            "pod" if text(self.pod(to), "/spec/nodeName") == node => found.push(1),
            "serviceaccount" => {
                let is_restricted = self.has_api_server();
                let has_token = self.of_kind("Pod").any(|pod| {
                    text(pod, "/spec/nodeName") == node
                        && text(pod, "/metadata/namespace") == namespace
                        && text(pod, "/spec/serviceAccountName") == name
                        && self.has_token(pod)
                });
                let gets = self.node_reaches(node, "create", ("", "serviceaccounts/token"), namespace, name);
                if gets && (!is_restricted || has_token) {
                    found.push(2);
                }
                if self.is_hosted(namespace, name) && self.talks(namespace, name) {
                    found.push(20);
                }
            }
            "secret" | "configmap" | "persistentvolumeclaim"
                if self.node_reaches(node, "get", ("", &format!("{kind}s")), namespace, name) =>
            {
                found.push(3);
            }
            "persistentvolume" if self.node_reaches(node, "get", ("", "persistentvolumes"), "", name) => {
                found.push(3)
            }
            "user" if name == format!("system:node:{node}") => found.push(4),
            "admin" => {
                let is_control = |pod: &Value| {
                    let program =
                        text(pod, "/spec/containers/0/command/0").rsplit('/').next().unwrap_or_default();
                    text(pod, "/metadata/namespace") == "kube-system"
                        && matches!(program, "etcd" | "kube-apiserver")
                };
                if self.of_kind("Pod").any(|pod| text(pod, "/spec/nodeName") == node && is_control(pod)) {
                    found.push(31);
                }
            }
            _ => {}
        }
        let is_kept_away =
            node == "n2" && self.of_kind("Node").any(|object| text(object, "/metadata/name") == "n2");
        let follows = |set: &&Value| text(set, "/metadata/name") == "f1" && !is_kept_away;
        if self
            .of_kind("DaemonSet")
            .filter(follows)
            .any(|set| Self::is_of(to, "b", &set["spec"]["template"]["spec"]))
        {
            found.push(25);
        }
        found
    }

    fn is_hosted(&self, namespace: &str, name: &str) -> bool {
        let has_any = self.of_kind("Pod").chain(self.of_kind("DaemonSet")).next().is_some();
        let pods =
            self.of_kind("Pod").filter(|pod| !is_mirror(pod) && !text(pod, "/spec/nodeName").is_empty());
        let pods = pods.map(|pod| (pod, &pod["spec"]));
        let sets = self.of_kind("DaemonSet").map(|set| (set, &set["spec"]["template"]["spec"]));
        !has_any
            || pods.chain(sets).any(|(object, spec)| {
                text(object, "/metadata/namespace") == namespace && runs_as(spec) == name
            })
    }

    /// E20: a rule of its own names an endpoint of kubelets.
    fn talks(&self, namespace: &str, name: &str) -> bool {
        let is_own = |subject: &Value| {
            subject_of(subject, "") == ("serviceaccount", namespace.to_owned(), name.to_owned())
        };
        self.of_kind("ClusterRoleBinding").filter(|binding| list(binding, "/subjects").any(is_own)).any(
            |binding| {
                let role = self
                    .of_kind("ClusterRole")
                    .find(|role| role["metadata"]["name"] == binding["roleRef"]["name"]);
                role.is_some_and(|role| {
                    list(role, "/rules").any(|rule| {
                        has(rule, "resources", "nodes/metrics")
                            && has(rule, "verbs", "get")
                            && has(rule, "apiGroups", "")
                    })
                })
            },
        )
    }

    fn edges_of_pod(&self, from: &Vertex, to: &Vertex) -> Vec<u8> {
        let pod = self.pod(from);
        let mut found = Vec::new();
        if to.0 == "serviceaccount" && to.1 == from.1 && to.2 == runs_as(&pod["spec"]) && self.has_token(pod)
        {
            found.push(21);
        }
        let container = &pod["spec"]["containers"][0];
        let leaves = container["securityContext"]["privileged"] == true
            || list(container, "/volumeMounts").any(|mount| mount["name"] == "h");
        if to.0 == "node" && text(pod, "/spec/nodeName") == to.2 && leaves {
            found.push(22);
        }
        found
    }

    fn edges_of_secret(&self, from: &Vertex, to: &Vertex) -> Vec<u8> {
        let mut found = Vec::new();
        let is_this = |secret: &&Value| {
            secret["metadata"]["namespace"] == *from.1 && secret["metadata"]["name"] == *from.2
        };
        let Some(secret) = self.of_kind("Secret").find(is_this) else { return found };
        if to.0 == "serviceaccount" && to.1 == from.1 && token_of(secret) == Some(&to.2) {
            found.push(5);
        }
        let is_token = from.1 == "kube-system" && from.2 == "bootstrap-token-abcdef";
        if is_token && to.0 == "group" && to.2 == "system:bootstrappers" {
            found.push(6);
        }
        found
    }

    fn edges_of_subject(&self, from: &Vertex, to: &Vertex) -> Vec<u8> {
        let (kind, namespace, name) = (to.0, to.1.as_str(), to.2.as_str());
        let is_node = from.0 == "user" && from.2.starts_with("system:node:");
        if self.is_full(from) {
            return if kind == "admin" { vec![14] } else { Vec::new() };
        }
        let mut found = Vec::new();
        let change = &["update", "patch"][..];
        let into_namespace =
            matches!(kind, "serviceaccount" | "secret" | "configmap" | "persistentvolumeclaim");
        if into_namespace && self.creates_pods(from, namespace) {
            found.push(10);
        }
        if (into_namespace || kind == "pod") && self.is_namespace_admin(from, namespace) {
            found.push(16);
        }
        let signs = |signer: &str| {
            let what = (CERTIFICATES, "signers");
            [signer, "kubernetes.io/*"].iter().any(|signer| self.any(from, &["approve"], what, "", signer))
        };
        let requests = self.free(from, &["create"], (CERTIFICATES, "certificatesigningrequests"), "");
        let approves = self.some(from, change, (CERTIFICATES, "certificatesigningrequests/approval"), "");
        let some_user = self.some(from, &["impersonate"], ("", "users"), "")
            || std::iter::once(String::new())
                .chain(self.namespaces())
                .any(|namespace| self.some(from, &["impersonate"], ("", "serviceaccounts"), &namespace));
        let as_group = |group: &str| some_user && self.any(from, &["impersonate"], ("", "groups"), "", group);
        let as_user = |user: &str| self.any(from, &["impersonate"], ("", "users"), "", user);
        match kind {
            "secret" => {
                if self.any(from, &["get", "list", "watch"], ("", "secrets"), namespace, name) {
                    found.push(7);
                }
                if self.free(from, &["create"], ("", "persistentvolumes"), "") {
                    found.push(27);
                }
            }
            "pod" => {
                let pod = self.pod(to);
                let verbs: &[&str] = if self.has_api_server() { &["create"] } else { &["create", "get"] };
                if ["pods/exec", "pods/attach"]
                    .iter()
                    .any(|sub| self.any(from, verbs, ("", sub), namespace, name))
                {
                    found.push(8);
                }
                let replaces = ["pods", "pods/ephemeralcontainers"]
                    .iter()
                    .any(|sub| self.any(from, change, ("", sub), namespace, name));
                if replaces && !is_mirror(pod) && !is_node {
                    found.push(9);
                }
                let node = text(pod, "/spec/nodeName");
                if !node.is_empty() && self.any(from, &["get", "create"], ("", "nodes/proxy"), "", node) {
                    found.push(17);
                }
            }
            "node" => {
                let lax: Vec<String> = self.namespaces().into_iter().filter(|ns| self.is_lax(ns)).collect();
                if lax.iter().any(|ns| self.creates_pods(from, ns)) {
                    found.push(11);
                }
                if lax.iter().any(|ns| self.is_namespace_admin(from, ns)) {
                    found.push(16);
                }
                if as_user(&format!("system:node:{name}")) && as_group("system:nodes") {
                    found.push(13);
                }
                if requests && approves && signs("kubernetes.io/kube-apiserver-client") {
                    found.push(18);
                }
                let by_kubelet_signer = approves && signs("kubernetes.io/kube-apiserver-client-kubelet");
                let by_itself =
                    self.free(from, &["create"], (CERTIFICATES, "certificatesigningrequests/nodeclient"), "");
                if requests && (by_kubelet_signer || by_itself) && !is_node {
                    found.push(19);
                }
            }
            "serviceaccount" => {
                if self.any(from, &["create"], ("", "serviceaccounts/token"), namespace, name) && !is_node {
                    found.push(12);
                }
                if self.any(from, &["impersonate"], ("", "serviceaccounts"), namespace, name) {
                    found.push(13);
                }
                if self.writes(from, ("", "secrets"), namespace)
                    && self.some(from, &["get", "list", "watch"], ("", "secrets"), namespace)
                {
                    found.push(28);
                }
            }
            "user" | "group" if self.is_bound(to) => {
                if if kind == "user" { as_user(name) } else { as_group(name) } {
                    found.push(13);
                }
                let signed = requests && approves && signs("kubernetes.io/kube-apiserver-client");
                if signed && name != "system:masters" {
                    found.push(18);
                }
            }
            "resourceclaim" if self.some(from, change, ("", "pods/status"), namespace) && !is_node => {
                found.push(30);
            }
            "admin" => {
                if as_group("system:masters") {
                    found.push(14);
                }
                if self.binds_or_escalates(from) {
                    found.push(15);
                }
                let webhooks = self.writes(from, (ADMISSION, "mutatingwebhookconfigurations"), "");
                let policies = self.writes(from, (ADMISSION, "mutatingadmissionpolicies"), "")
                    && self.writes(from, (ADMISSION, "mutatingadmissionpolicybindings"), "");
                if webhooks || policies {
                    found.push(26);
                }
            }
            _ => {}
        }
        if !is_node && matches!(kind, "serviceaccount" | "secret") {
            self.edges_by_placement(from, to, &mut found);
        }
        found
    }

    fn edges_by_placement(&self, from: &Vertex, to: &Vertex, found: &mut Vec<u8>) {
        let change = &["update", "patch"][..];
        let owner = |pod: &Value| text(pod, "/metadata/ownerReferences/0/kind").to_owned();
        let pods: Vec<&Value> = self.of_kind("Pod").filter(|pod| !is_mirror(pod)).collect();
        let is_of_pod = |pod: &Value| Self::is_of(to, text(pod, "/metadata/namespace"), &pod["spec"]);
        let mut sets = self.of_kind("DaemonSet");
        let of_sets = sets.any(|set| Self::is_of(to, "b", &set["spec"]["template"]["spec"]));
        let controlled = of_sets || pods.iter().any(|pod| !owner(pod).is_empty() && is_of_pod(pod));
        if controlled && self.free(from, change, ("", "nodes"), "") {
            found.push(23);
        }
        let daemons = of_sets || pods.iter().any(|pod| owner(pod) == "DaemonSet" && is_of_pod(pod));
        if daemons && self.free(from, change, ("", "nodes/status"), "") {
            found.push(24);
        }
        let mut waiting = pods.iter().filter(|pod| text(pod, "/spec/nodeName").is_empty());
        if waiting.any(|pod| is_of_pod(pod)) && self.some(from, &["create"], ("", "pods/binding"), &to.1) {
            found.push(29);
        }
    }

    /// E15.
    fn binds_or_escalates(&self, from: &Vertex) -> bool {
        let roles = (RBAC, "clusterroles");
        let binds = self.free(from, &["bind"], roles, "") || self.any(from, &["bind"], roles, "", "full");
        let changes = self.listed.iter().any(|name| {
            self.any(from, &["escalate"], roles, "", name)
                && self.any(from, &["update", "patch"], roles, "", name)
        });
        let identity = Self::user(from);
        let is_aggregated = self.of_kind("ClusterRoleBinding").any(|binding| {
            text(binding, "/roleRef/name") == "collects"
                && list(binding, "/subjects").any(|subject| match subject_of(subject, "") {
                    ("group", _, name) => identity.groups.contains(&name),
                    other => other == *from,
                })
        });
        let creates = self.free(from, &["escalate"], roles, "")
            && self.free(from, &["create"], roles, "")
            && is_aggregated;
        (binds && self.writes(from, (RBAC, "clusterrolebindings"), "")) || changes || creates
    }

    /// Whether a binding names a user or a group.
    fn is_bound(&self, vertex: &Vertex) -> bool {
        self.of_kind("ClusterRoleBinding").chain(self.of_kind("RoleBinding")).any(|binding| {
            let namespace = text(binding, "/metadata/namespace");
            list(binding, "/subjects").any(|subject| subject_of(subject, namespace) == *vertex)
        })
    }

    pub(crate) fn closure(&self, node: &str) -> Found {
        let mut reached = BTreeSet::from([("node", String::new(), node.to_owned())]);
        let with_claim = |node: &str| {
            self.of_kind("Pod").any(|pod| {
                text(pod, "/spec/nodeName") == node
                    && !is_mirror(pod)
                    && list(&pod["spec"], "/volumes").any(|volume| volume["name"] == "c")
            })
        };
        let has_claim = |reached: &BTreeSet<Vertex>| {
            reached.iter().any(|vertex| vertex.0 == "node" && with_claim(&vertex.2))
        };
        let leaves = |from: &Vertex, claim: bool| -> Vec<&(u8, Vertex)> {
            let needs_claim = self.needs_claim.contains(from);
            let edges = self.edges.get(from).into_iter().flatten();
            edges.filter(|(number, _)| *number != 27 || claim || !needs_claim).collect()
        };
        loop {
            let claim = has_claim(&reached);
            let all = reached.iter().flat_map(|from| leaves(from, claim));
            let to =
                all.filter(|(number, to)| *number != 26 && !reached.contains(to)).map(|(_, to)| to.clone());
            let new: BTreeSet<Vertex> = to.collect();
            if new.is_empty() {
                break;
            }
            reached.extend(new);
        }
        let claim = has_claim(&reached);
        let mut edges = BTreeSet::new();
        let mut is_conditional = false;
        for from in &reached {
            for (number, to) in leaves(from, claim) {
                is_conditional |= *number == 26;
                edges.insert((format!("E{number}"), full_name(from), full_name(to)));
            }
        }
        let admin = ("admin", String::new(), String::new());
        let admin = match (reached.contains(&admin), is_conditional) {
            (true, _) => "yes",
            (false, true) => "conditional",
            _ => "no",
        };
        Found { reached, admin, edges }
    }
}

/// The account of the token that a Secret holds, if that is still accepted.
fn token_of(secret: &Value) -> Option<&str> {
    let is_invalid = secret.pointer("/metadata/labels/kubernetes.io~1legacy-token-invalid-since").is_some();
    let account = text(secret, "/metadata/annotations/kubernetes.io~1service-account.name");
    (!is_invalid && !account.is_empty()).then_some(account)
}

fn subject_of(subject: &Value, namespace: &str) -> Vertex {
    let name = text(subject, "/name");
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match (text(subject, "/kind"), account) {
        ("User", Some((namespace, name))) => ("serviceaccount", namespace.to_owned(), name.to_owned()),
        ("User", None) => ("user", String::new(), name.to_owned()),
        ("Group", _) => ("group", String::new(), name.to_owned()),
        _ => {
            let own = text(subject, "/namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            ("serviceaccount", namespace.to_owned(), name.to_owned())
        }
    }
}
