//! Findings about pods, workloads, secrets and volumes (PC102, PC120 to PC124, PC126, PC130).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::finding::{Evidence, Instance};
use super::found::{All, Found};
use super::kubelets::Kubelets;
use super::powers::proxies;
use super::severity::Severity;
use super::standing::Standing;
use crate::audit::Subject;
use crate::audit::reach::{DirectReach, Vertex, VertexType};
use crate::audit::state::{Access, Owner, Owners, PodFacts};
use crate::graph::VertexKind;

/// Where kubelets usually look for static pods.
const STATIC_PODS: &str = "/etc/kubernetes/manifests";

/// What these rules need beside the state.
pub(super) struct Workloads<'a> {
    pub(super) standing: &'a Standing<'a>,
    pub(super) kubelets: &'a Kubelets,
    pub(super) direct: &'a DirectReach,
    /// The number of nodes that may reach a secret (PC123).
    pub(super) secret_nodes: usize,
    owners: Owners<'a>,
}

impl<'a> Workloads<'a> {
    pub(super) fn new(
        standing: &'a Standing<'a>,
        kubelets: &'a Kubelets,
        direct: &'a DirectReach,
        secret_nodes: usize,
    ) -> Self {
        let owners = Owners::new(&standing.state.facts().templates);
        Self { standing, kubelets, direct, secret_nodes, owners }
    }

    pub(super) fn find(&self, all: &mut All) {
        self.find_daemons(all);
        self.find_shared_nodes(all);
        let facts = self.standing.state.facts();
        let static_pods = |node: &str| match self.kubelets.of(node) {
            Some(settings) if !settings.static_pod_path.is_empty() => settings.static_pod_path.clone(),
            _ => STATIC_PODS.to_owned(),
        };
        let of_templates = match self.kubelets.of_config_map() {
            Some(settings) if !settings.static_pod_path.is_empty() => settings.static_pod_path.clone(),
            _ => STATIC_PODS.to_owned(),
        };
        for pod in facts.pods.iter().filter(|pod| !pod.is_mirror && !pod.access.is_harmless()) {
            let object = format!("pod/{}/{}", pod.namespace, pod.name);
            let subject = self.workload(&pod.namespace, &pod.controller).unwrap_or_else(|| object.clone());
            let pod_vertex = Vertex::new(VertexType::Pod, &pod.namespace, &pod.name);
            let vertex = Some(pod_vertex).filter(|_| !pod.node.is_empty());
            let place = Place { namespace: &pod.namespace, object, subject, spec: "/spec", vertex };
            place.find(&pod.access, &static_pods(&pod.node), all);
        }
        for template in facts.templates.iter().filter(|template| !template.access.is_harmless()) {
            let object = workload_name(template.kind, &template.namespace, &template.name);
            let subject =
                self.workload(&template.namespace, &template.controller).unwrap_or_else(|| object.clone());
            let spec = template_pointer(template.kind);
            let place = Place { namespace: &template.namespace, object, subject, spec, vertex: None };
            place.find(&template.access, &of_templates, all);
        }
        self.find_secrets(all);
        self.find_volumes(all);
    }

    /// The workload at the end of the controllers; none without a controller (AU-70).
    fn workload(&self, namespace: &str, controller: &Owner) -> Option<String> {
        let last = self.owners.last(namespace, controller)?;
        Some(workload_name(&last.kind, namespace, &last.name))
    }

    /// PC102
    pub(super) fn find_daemons(&self, all: &mut All) {
        let facts = self.standing.state.facts();
        let templates = facts.templates.iter().filter(|template| template.kind == "DaemonSet");
        let objects = templates.map(|t| (&*t.namespace, &*t.name, &*t.account));
        let owned = facts
            .pods
            .iter()
            .filter(|pod| pod.controller.kind == "DaemonSet" && !pod.node.is_empty() && !pod.is_mirror);
        let owners = owned.map(|pod| (&*pod.namespace, &*pod.controller.name, pod.runs_as()));
        let daemons: BTreeSet<(&str, &str, &str)> = objects.chain(owners).collect();
        for (namespace, name, account) in daemons {
            let account =
                Subject::ServiceAccount { namespace: namespace.to_owned(), name: account.to_owned() };
            let rights = self.standing.grants.of(&account).without_built_in();
            let hits = proxies(&rights);
            if rights.full.is_some() || hits.is_empty() {
                continue;
            }
            let subject = workload_name("DaemonSet", namespace, name);
            let evidence = Evidence::object(subject.clone());
            let mut found =
                Found::of_object("PC102", Severity::Critical, subject, Instance::Cluster, evidence);
            found.instances = hits.iter().map(|hit| hit.instance.clone()).collect();
            if found.instances.contains(&Instance::Cluster) {
                found.instances = BTreeSet::from([Instance::Cluster]);
            }
            found.grants = hits.into_iter().flat_map(|hit| hit.grants).collect();
            found.about = Some(Vertex::of(&account));
            all.add(found);
        }
    }

    /// PC120
    pub(super) fn find_shared_nodes(&self, all: &mut All) {
        let facts = self.standing.state.facts();
        let is_strong = |pod: &PodFacts| {
            let key = (pod.namespace.clone(), pod.runs_as().to_owned());
            self.standing.strong_accounts.contains(&key)
        };
        let live = || facts.pods.iter().filter(|pod| !pod.is_mirror && !pod.node.is_empty());
        let strong: Vec<&PodFacts> = live().filter(|pod| is_strong(pod)).collect();
        let nodes: HashSet<&str> = strong.iter().map(|pod| &*pod.node).collect();
        // Of the weak pods on such a node, two of different namespaces are enough to know one of another namespace.
        let mut weak = HashMap::<&str, Vec<&PodFacts>>::new();
        let candidates = live().filter(|pod| nodes.contains(&*pod.node) && pod.namespace != "kube-system");
        for pod in candidates.filter(|pod| !is_strong(pod)) {
            let kept = weak.entry(&pod.node).or_default();
            match kept.iter_mut().find(|other| other.namespace == pod.namespace) {
                Some(other) if pod.name < other.name => *other = pod,
                Some(_) => {}
                None => {
                    kept.push(pod);
                    kept.sort_by_key(|pod| &pod.namespace);
                    kept.truncate(2);
                }
            }
        }
        for pod in strong {
            let other =
                weak.get(&*pod.node).into_iter().flatten().find(|other| other.namespace != pod.namespace);
            let Some(other) = other else { continue };
            let account =
                Subject::ServiceAccount { namespace: pod.namespace.clone(), name: pod.runs_as().to_owned() };
            let instance = Instance::Namespace(pod.namespace.clone());
            let of_node = |pod: &PodFacts| {
                let object = format!("pod/{}/{}", pod.namespace, pod.name);
                Evidence::field(object, "/spec/nodeName", pod.node.clone())
            };
            let evidence = vec![of_node(pod), of_node(other)];
            let found = Found::of_object("PC120", Severity::High, account.to_string(), instance, evidence);
            all.add(found.about(Vertex::of(&account)));
        }
    }

    /// PC123, PC126
    fn find_secrets(&self, all: &mut All) {
        let facts = self.standing.state.facts();
        let mut nodes = BTreeMap::<usize, (usize, &str)>::new();
        for (node, reached) in &self.direct.nodes {
            for index in reached {
                nodes.entry(*index).or_insert((0, node)).0 += 1;
            }
        }
        for (index, (count, node)) in nodes {
            let Some((VertexKind::Secret, namespace, name)) = self.direct.objects.get(index) else {
                continue;
            };
            let subject = format!("secret/{namespace}/{name}");
            let mut found = |id, value: String| {
                let instance = Instance::Namespace(namespace.clone());
                let evidence = vec![
                    Evidence::object(format!("node/{node}")),
                    Evidence { value: Some(value), ..Evidence::object(subject.clone()) },
                ];
                let found = Found::of_object(id, Severity::Medium, subject.clone(), instance, evidence);
                all.add(found.about(Vertex::new(VertexType::Secret, namespace, name)));
            };
            if count > self.secret_nodes {
                found("PC123", format!("{count} nodes"));
            }
            let key = (namespace.clone(), name.clone());
            if let Some(account) = facts.secrets.get(&key).and_then(|secret| secret.account.as_ref()) {
                found("PC126", format!("a token of serviceaccount/{namespace}/{account}"));
            }
        }
    }

    /// PC130
    fn find_volumes(&self, all: &mut All) {
        for (name, volume) in &self.standing.state.facts().volumes {
            let Some(claim) = &volume.claim_namespace else { continue };
            let foreign = volume.secrets.iter().find(|(namespace, _)| namespace != claim);
            let Some((namespace, secret)) = foreign else { continue };
            let subject = format!("persistentvolume/{name}");
            let instance = Instance::Namespace(namespace.clone());
            let value = format!("secret/{namespace}/{secret}");
            let evidence = Evidence::field(subject.clone(), "/spec", value);
            all.add(Found::of_object("PC130", Severity::Medium, subject, instance, evidence));
        }
    }
}

/// A pod or a template, and the workload that it belongs to.
struct Place<'p> {
    namespace: &'p str,
    object: String,
    subject: String,
    /// The pointer to the pod's spec.
    spec: &'static str,
    /// The pod.
    vertex: Option<Vertex>,
}

impl Place<'_> {
    /// PC121, PC122, PC124
    fn find(&self, access: &Access, static_pods: &str, all: &mut All) {
        let inside = Instance::Namespace(self.namespace.to_owned());
        let evidence = |pointer: &str, value: String| {
            Evidence::field(self.object.clone(), format!("{}{pointer}", self.spec), value)
        };
        let mut add = |found: Found| all.add(Found { about: self.vertex.clone(), ..found });
        let is_daemon = self.namespace == "kube-system" && self.subject.starts_with("daemonset/");
        let severity = if is_daemon { Severity::Medium } else { Severity::Critical };
        for risk in &access.risks {
            let evidence = evidence(&risk.pointer, risk.to_string());
            add(Found::of_object("PC121", severity, self.subject.clone(), inside.clone(), evidence));
        }
        for mount in access.writable.iter().filter(|mount| mount.is_near(static_pods)) {
            let path = Instance::Path(mount.path.clone());
            let evidence = evidence(&mount.pointer, mount.path.clone());
            add(Found::of_object("PC122", Severity::High, self.subject.clone(), path, evidence));
        }
        if let Some(key) = &access.placed_by {
            let evidence = evidence("/nodeSelector", key.clone());
            add(Found::of_object("PC124", Severity::Medium, self.subject.clone(), inside, evidence));
        }
    }
}

impl Access {
    /// Whether no rule is about it.
    fn is_harmless(&self) -> bool {
        self.risks.is_empty() && self.writable.is_empty() && self.placed_by.is_none()
    }
}

/// `KIND/NAMESPACE/NAME`, the kind in lower case (AU-30).
fn workload_name(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.to_lowercase())
}

/// Where the spec of the pods is in a workload.
fn template_pointer(kind: &str) -> &'static str {
    match kind {
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    }
}
