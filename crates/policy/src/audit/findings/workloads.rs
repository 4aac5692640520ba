//! Findings about pods, workloads, secrets and volumes (PC102, PC120 to PC124, PC126, PC130).

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::finding::{Evidence, Instance};
use super::found::{All, Found};
use super::kubelets::Kubelets;
use super::names::object;
use super::powers::proxies;
use super::severity::Severity;
use super::standing::Standing;
use crate::audit::Subject;
use crate::audit::reach::{DirectReach, Vertex, VertexType};
use crate::audit::state::{Access, Facts, KubeletSettings, Owner, Owners, PodFacts, Template, WritablePath};
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
        find_daemons(self.standing, &daemons(self.standing.state.facts()), all);
        find_shared_nodes(self.standing, all);
        self.places().iter().for_each(|place| place.find(all));
        self.find_secrets(all);
        self.find_volumes(all);
    }

    /// The pods, no mirror pods, and the templates that a rule may be about.
    pub(super) fn places(&self) -> Vec<Place<'a>> {
        let facts = self.standing.state.facts();
        let static_pods = |settings: Option<&KubeletSettings>| match settings {
            Some(settings) if !settings.static_pod_path.is_empty() => settings.static_pod_path.clone(),
            _ => STATIC_PODS.to_owned(),
        };
        let pods = facts.pods.iter().filter(|pod| !pod.is_mirror && !pod.access.is_harmless());
        let of_pods = pods.map(|pod| {
            let vertex = Vertex::new(VertexType::Pod, &pod.namespace, &pod.name);
            let mut place = self.place("Pod", &pod.namespace, &pod.name, &pod.controller, &pod.access);
            place.vertex = Some(vertex).filter(|_| !pod.node.is_empty());
            place.static_pods = static_pods(self.kubelets.of(&pod.node));
            place
        });
        let templates = facts.templates.iter().filter(|template| !template.access.is_harmless());
        let of_templates = templates.map(|template| {
            let Template { kind, namespace, name, controller, access, .. } = template;
            let mut place = self.place(kind, namespace, name, controller, access);
            place.static_pods = static_pods(self.kubelets.of_config_map());
            place
        });
        of_pods.chain(of_templates).collect()
    }

    fn place(
        &self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
        controller: &'a Owner,
        access: &'a Access,
    ) -> Place<'a> {
        // AU-70
        let subject = match self.owners.last(namespace, controller) {
            Some(last) => object(&last.kind, namespace, &last.name),
            None => object(kind, namespace, name),
        };
        Place { kind, namespace, name, subject, access, static_pods: String::new(), vertex: None }
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

/// A DaemonSet, and the account that its pods run as.
pub(super) struct Daemon {
    subject: String,
    pub(super) account: Subject,
}

/// The DaemonSets: objects, and controllers of pods on nodes.
pub(super) fn daemons(facts: &Facts) -> Vec<Daemon> {
    let templates = facts.templates.iter().filter(|template| template.kind == "DaemonSet");
    let objects = templates.map(|t| (&*t.namespace, &*t.name, &*t.account));
    let owned = facts
        .pods
        .iter()
        .filter(|pod| pod.controller.kind == "DaemonSet" && !pod.node.is_empty() && !pod.is_mirror);
    let owners = owned.map(|pod| (&*pod.namespace, &*pod.controller.name, pod.runs_as()));
    let all: BTreeSet<(&str, &str, &str)> = objects.chain(owners).collect();
    let daemon = |(namespace, name, account): (&str, &str, &str)| Daemon {
        subject: object("DaemonSet", namespace, name),
        account: Subject::ServiceAccount { namespace: namespace.to_owned(), name: account.to_owned() },
    };
    all.into_iter().map(daemon).collect()
}

/// PC102
pub(super) fn find_daemons<'d>(
    standing: &Standing<'_>,
    daemons: impl IntoIterator<Item = &'d Daemon>,
    all: &mut All,
) {
    for Daemon { subject, account } in daemons {
        let rights = standing.grants.of(account).without_built_in();
        let hits = proxies(&rights);
        if rights.full.is_some() || hits.is_empty() {
            continue;
        }
        let evidence = Evidence::object(subject.clone());
        let mut found =
            Found::of_object("PC102", Severity::Critical, subject.clone(), Instance::Cluster, evidence);
        found.instances = hits.iter().map(|hit| hit.instance.clone()).collect();
        if found.instances.contains(&Instance::Cluster) {
            found.instances = BTreeSet::from([Instance::Cluster]);
        }
        found.grants = hits.into_iter().flat_map(|hit| hit.grants).collect();
        all.add(found.about(Vertex::of(account)));
    }
}

/// PC120
pub(super) fn find_shared_nodes(standing: &Standing<'_>, all: &mut All) {
    let facts = standing.state.facts();
    let is_strong = |pod: &PodFacts| {
        let key = (pod.namespace.clone(), pod.runs_as().to_owned());
        standing.strong_accounts.contains(&key)
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
        let other = weak.get(&*pod.node).into_iter().flatten().find(|other| other.namespace != pod.namespace);
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

/// A pod or a template, and the workload that it belongs to.
pub(super) struct Place<'p> {
    pub(super) kind: &'p str,
    pub(super) namespace: &'p str,
    pub(super) name: &'p str,
    pub(super) subject: String,
    pub(super) access: &'p Access,
    /// The directory of static pods of its node.
    static_pods: String,
    /// The pod, if it is on a node.
    vertex: Option<Vertex>,
}

impl Place<'_> {
    /// Where the spec of the pods is.
    pub(super) fn spec(&self) -> &'static str {
        match self.kind {
            "Pod" => "/spec",
            "CronJob" => "/spec/jobTemplate/spec/template/spec",
            _ => "/spec/template/spec",
        }
    }

    /// The mounts with which it can write static pods (PC122).
    pub(super) fn writes_static_pods(&self) -> impl Iterator<Item = &WritablePath> {
        self.access.writable.iter().filter(|mount| mount.is_near(&self.static_pods))
    }

    /// PC121, PC122, PC124
    fn find(&self, all: &mut All) {
        let inside = Instance::Namespace(self.namespace.to_owned());
        let evidence = |pointer: &str, value: String| {
            let object = object(self.kind, self.namespace, self.name);
            Evidence::field(object, format!("{}{pointer}", self.spec()), value)
        };
        let mut add = |found: Found| all.add(Found { about: self.vertex.clone(), ..found });
        let is_daemon = self.namespace == "kube-system" && self.subject.starts_with("daemonset/");
        let severity = if is_daemon { Severity::Medium } else { Severity::Critical };
        for risk in &self.access.risks {
            let evidence = evidence(&risk.pointer, risk.to_string());
            add(Found::of_object("PC121", severity, self.subject.clone(), inside.clone(), evidence));
        }
        for mount in self.writes_static_pods() {
            let path = Instance::Path(mount.path.clone());
            let evidence = evidence(&mount.pointer, mount.path.clone());
            add(Found::of_object("PC122", Severity::High, self.subject.clone(), path, evidence));
        }
        if let Some(key) = &self.access.placed_by {
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
