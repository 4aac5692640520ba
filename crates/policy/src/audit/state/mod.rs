//! The state of a cluster as the audit reads it: everything from which reach, closure and findings follow.
//!
//! Objects are taken in once, in any order, and reduced to facts. Values of Secrets and ConfigMaps never get here (AU-13). The
//! graph of the Node authorizer is the engine's; there is no second one.

mod api_server;
mod item;
mod kubelet;
mod listing;
mod owners;
mod pod;
mod risk;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashSet;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use self::item::Content;
pub(super) use self::item::WORKLOADS;
pub(super) use self::owners::Owners;
use self::views::{CertificateRequestView, PodView, SecretView, Workload};
use super::kubelet_access::Objects;
use super::{Subject, Why};
use crate::CertificateRequests;
use crate::engine::{Builder, Engine, EngineConfig, EngineError};
use crate::graph::{VertexError, VertexKind};
use crate::objects::core::PersistentVolumeClaim;
use crate::objects::meta::Metadata;
use crate::objects::pod::Pod;
use crate::objects::{Kind, Object};
use crate::rbac::default_policy;

pub use self::api_server::{ApiServer, ApiServers, CommandLine, Release};
pub use self::item::{Item, ItemKind, WorkloadKind};
pub use self::kubelet::KubeletSettings;
pub use self::listing::Listing;
pub use self::pod::{Access, NodeTaint, Owner, PodFacts, Template, Tolerations};
pub use self::risk::{Risk, RiskKind, WritablePath};

/// Namespace and name.
pub type Name = (String, String);

/// The state of a cluster.
#[derive(Debug)]
pub struct State {
    engine: Engine,
    facts: Facts,
}

/// What was taken in, reduced to what the audit needs.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) rbac: Objects,
    pub(super) api_servers: ApiServers,
    pub(super) pods: Vec<PodFacts>,
    pub(super) templates: Vec<Template>,
    /// Each Node object.
    pub(super) nodes: BTreeMap<String, NodeFacts>,
    /// The nodes that a pod, an attachment or a slice names (AU-50).
    pub(super) named_nodes: BTreeSet<String>,
    /// Each ServiceAccount object, and whether its pods get a token; none if it does not say.
    pub(super) accounts: BTreeMap<Name, Option<bool>>,
    pub(super) secrets: BTreeMap<Name, SecretFacts>,
    pub(super) config_maps: BTreeSet<Name>,
    /// The configurations of kubelets in ConfigMaps of `kube-system`, as text (AU-14).
    pub(super) kubelet_config_maps: BTreeMap<String, String>,
    pub(super) certificate_requests: BTreeMap<String, CertificateRequestFacts>,
    pub(super) claims: BTreeSet<Name>,
    pub(super) resource_claims: BTreeSet<Name>,
    pub(super) volumes: BTreeMap<String, VolumeFacts>,
    pub(super) attachments: BTreeSet<String>,
    pub(super) slices: BTreeSet<String>,
    /// Each Namespace object, and whether it enforces a pod security standard (E11).
    pub(super) namespaces: BTreeMap<String, bool>,
    /// What is named by volumes, by pods without a node and by templates: the graph has none of it, or not all.
    pub(super) referred: BTreeSet<(VertexKind, Name)>,
    pub(super) given: BTreeMap<ItemKind, u64>,
    /// What is known of the list of each kind.
    listings: BTreeMap<ItemKind, Listing>,
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) taints: Vec<NodeTaint>,
    /// The release of its kubelet, if it says so.
    pub(super) kubelet: Option<Release>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeFacts {
    /// The namespace of its claim, if it has one.
    pub(super) claim_namespace: Option<String>,
    /// The secrets that the nodes of its claim may read (NA-63).
    pub(super) secrets: Vec<Name>,
}

/// A CertificateSigningRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateRequestFacts {
    pub(super) signer: String,
    /// Whether it is approved, or has a certificate.
    pub(super) is_granted: bool,
    /// The common name and the organizations that it asks for; the reason if that cannot be read.
    pub(super) subject: Result<(String, Vec<String>), String>,
}

/// What a Secret gives to whoever reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SecretFacts {
    /// The name of the service account of which it holds a token (E5).
    pub(super) account: Option<String>,
    /// The groups of the bootstrap token that it holds (E6), and when it expires, as it says itself.
    pub(super) bootstrap: Option<BootstrapToken>,
}

/// A bootstrap token that may authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BootstrapToken {
    pub(super) groups: Vec<String>,
    /// RFC 3339; empty if it never expires.
    pub(super) expiration: String,
}

/// Takes objects in.
#[derive(Debug)]
pub struct StateBuilder {
    engine: Builder,
    facts: Facts,
    certificate_requests: Option<Arc<dyn CertificateRequests>>,
}

impl StateBuilder {
    /// Creates a builder without objects. The configuration decides direct reach.
    ///
    /// # Errors
    /// The first of [`EngineConfig::errors`].
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let mut facts = Facts::default();
        if config.default_policy {
            for object in default_policy::objects(config.gates) {
                facts.rbac.take(object);
            }
        }
        let certificate_requests = config.certificate_requests.clone();
        let engine = Builder::new(EngineConfig { admission: true, ..config })?;
        Ok(Self { engine, facts, certificate_requests })
    }

    /// Adds one object.
    ///
    /// # Errors
    /// The graph cannot hold the object's names.
    pub fn take(&mut self, item: Item<'_>) -> Result<(), VertexError> {
        let count = self.facts.given.entry(item.kind()).or_default();
        *count = count.saturating_add(1);
        match item.0 {
            Content::AuthorizationConfiguration(configuration) => {
                let modes = configuration.authorizers.iter().map(|authorizer| authorizer.kind.to_string());
                self.facts.api_servers.modes_of_file = Some(modes.collect());
                Ok(())
            }
            Content::Object(object) => {
                self.facts.take(&object);
                self.give(object)
            }
            Content::Account(object, view) => {
                let (namespace, name) = object.key();
                let key = (namespace.to_owned(), name.to_owned());
                self.facts.accounts.insert(key, view.automount_service_account_token);
                self.give(object)
            }
            Content::Node(object, view) => {
                let taint = |taint: &views::Taint<'_>| NodeTaint {
                    key: taint.key.to_string(),
                    value: taint.value.to_string(),
                    effect: taint.effect.to_string(),
                };
                let node = NodeFacts {
                    taints: view.spec.taints.iter().map(taint).collect(),
                    kubelet: api_server::release_in(&view.status.node_info.kubelet_version),
                };
                self.facts.nodes.insert(object.key().1.to_owned(), node);
                self.give(object)
            }
            Content::Pod(pod, view) => {
                self.facts.take_pod(&pod, &view);
                self.give(Object::Pod(pod))
            }
            Content::CertificateRequest(request) => {
                let facts = CertificateRequestFacts::of(&request, self.certificate_requests.as_deref());
                self.facts.certificate_requests.insert(request.metadata.name.to_string(), facts);
                Ok(())
            }
            Content::ConfigMap(object) => {
                let Metadata { namespace, name, .. } = &object.metadata;
                if &**namespace == "kube-system" && is_kubelet_config(name) && !object.data.kubelet.is_empty()
                {
                    self.facts.kubelet_config_maps.insert(name.to_string(), object.data.kubelet.to_string());
                }
                self.facts.config_maps.insert(key_of(namespace, name));
                Ok(())
            }
            Content::ResourceClaim(object) => {
                self.facts.resource_claims.insert(key_of(&object.metadata.namespace, &object.metadata.name));
                Ok(())
            }
            Content::Secret(secret) => {
                let key = key_of(&secret.metadata.namespace, &secret.metadata.name);
                self.facts.secrets.insert(key, SecretFacts::of(&secret));
                Ok(())
            }
            Content::Workload(kind, pods, views) => {
                self.facts.take_workload(kind, &pods, &views);
                Ok(())
            }
        }
    }

    /// Notes what is known of the list of a kind (AU-23). Of several notes the one that says more is missing counts.
    pub fn list(&mut self, kind: ItemKind, listing: Listing) {
        let noted = self.facts.listings.entry(kind).or_insert(Listing::Whole);
        if *noted < listing {
            *noted = listing;
        }
    }

    /// Notes the `gitVersion` in an answer of `/version` (AU-15). Of several the lowest counts.
    pub fn version(&mut self, git_version: &str) {
        let known = &mut self.facts.api_servers.version;
        *known = match (*known, api_server::release_in(git_version)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    fn give(&mut self, object: Object<'_>) -> Result<(), VertexError> {
        if matches!(
            object.kind(),
            Kind::ClusterRole | Kind::ClusterRoleBinding | Kind::Role | Kind::RoleBinding
        ) {
            self.facts.rbac.take(object.clone());
        }
        self.engine.take(object)
    }

    /// The state of everything that was taken in.
    pub fn finish(self) -> State {
        State { engine: self.engine.finish(), facts: self.facts }
    }
}

impl State {
    /// The authorizers over the state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The configurations of kubelets that ConfigMaps of `kube-system` hold, by name of the ConfigMap: YAML or JSON (AU-14).
    pub fn kubelet_config_maps(&self) -> &BTreeMap<String, String> {
        &self.facts.kubelet_config_maps
    }

    /// The API servers of the state.
    pub fn api_servers(&self) -> &ApiServers {
        &self.facts.api_servers
    }

    /// Whether an object of this kind was given, or it is known that there are none (AU-23).
    pub fn has(&self, kind: ItemKind) -> bool {
        self.facts.given.contains_key(&kind) || self.facts.listings.get(&kind) == Some(&Listing::Whole)
    }

    /// Why objects of this kind may be missing, and in what way if that is known; none if all are there, or files have some.
    pub fn lack(&self, kind: ItemKind) -> Option<(Why, &str)> {
        match self.facts.listings.get(&kind) {
            Some(Listing::Lacking(why, detail)) => Some((*why, detail)),
            _ => (!self.has(kind)).then_some((Why::NotGiven, "")),
        }
    }

    /// All nodes: every Node object, and every node that a pod, an attachment or a slice names (AU-50).
    pub fn nodes(&self) -> BTreeSet<&str> {
        let named = self.facts.named_nodes.iter();
        self.facts.nodes.keys().chain(named).map(String::as_str).collect()
    }

    /// Whether an API token is in the containers of a pod (AU-69).
    pub(super) fn has_api_token(&self, pod: &PodFacts, audiences: &[&str]) -> bool {
        let restriction = self.engine.node_restriction();
        let is_mounted = || {
            audiences.iter().any(|audience| restriction.is_audience_of(&pod.namespace, &pod.name, audience))
        };
        let of_account =
            || self.facts.accounts.get(&key_of(&pod.namespace, pod.runs_as())).copied().flatten();
        is_mounted() || (pod.is_manifest && pod.automount.or_else(of_account) != Some(false))
    }

    /// The service accounts that something runs as (AU-34): a pod on a node, no mirror pod, or a workload that wants pods. Without
    /// any pod and workload in the state, all that bindings name.
    pub(super) fn hosted_accounts(&self) -> BTreeSet<Subject> {
        let facts = &self.facts;
        let is_account = |subject: &Subject| matches!(subject, Subject::ServiceAccount { .. });
        if facts.pods.is_empty() && facts.templates.is_empty() {
            let bindings = facts.rbac.cluster_role_bindings().chain(facts.rbac.role_bindings());
            return bindings.flat_map(Subject::all_of).filter(is_account).collect();
        }
        let pods = facts.pods.iter().filter(|pod| !pod.node.is_empty() && !pod.is_mirror);
        let templates = facts.templates.iter().filter(|template| !template.is_idle);
        let of_pods = pods.map(|pod| (pod.namespace.as_str(), pod.runs_as()));
        let of_templates = templates.map(|template| (template.namespace.as_str(), template.account.as_str()));
        // Thousands of pods run as the same account.
        let accounts: HashSet<(&str, &str)> = of_pods.chain(of_templates).collect();
        let subject = |(namespace, name): (&str, &str)| Subject::ServiceAccount {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        accounts.into_iter().map(subject).collect()
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl Facts {
    fn take(&mut self, object: &Object<'_>) {
        let mut names = |node: &str| {
            if !node.is_empty() {
                self.named_nodes.insert(node.to_owned());
            }
        };
        match object {
            Object::VolumeAttachment(attachment) => {
                names(&attachment.spec.node_name);
                self.attachments.insert(attachment.metadata.name.to_string());
            }
            Object::ResourceSlice(slice) => {
                names(&slice.spec.node_name);
                self.slices.insert(slice.metadata.name.to_string());
            }
            Object::PersistentVolume(volume) => {
                let mut facts = VolumeFacts {
                    claim_namespace: volume.spec.claim_ref.as_ref().map(|claim| claim.namespace.to_string()),
                    secrets: Vec::new(),
                };
                volume.each_secret(|namespace, name| facts.secrets.push(key_of(namespace, name)));
                let secrets = facts.secrets.iter().cloned();
                self.referred.extend(secrets.map(|secret| (VertexKind::Secret, secret)));
                self.volumes.insert(volume.metadata.name.to_string(), facts);
                if let Some(claim) = &volume.spec.claim_ref {
                    let key = key_of(&claim.namespace, &claim.name);
                    self.referred.insert((VertexKind::PersistentVolumeClaim, key));
                }
            }
            Object::PersistentVolumeClaim(PersistentVolumeClaim { metadata, .. }) => {
                self.claims.insert(key_of(&metadata.namespace, &metadata.name));
            }
            Object::Namespace(namespace) => {
                let level = namespace.metadata.labels.find("pod-security.kubernetes.io/enforce");
                let is_enforced = matches!(level, Some("baseline" | "restricted"));
                self.namespaces.insert(namespace.metadata.name.to_string(), is_enforced);
            }
            _ => {}
        }
    }

    fn take_pod(&mut self, pod: &Pod<'_>, view: &PodView<'_>) {
        let facts = PodFacts::of(pod, view);
        if !facts.node.is_empty() {
            self.named_nodes.insert(facts.node.clone());
        }
        if facts.namespace == "kube-system" {
            let lists =
                [("initContainers", &view.spec.init_containers), ("containers", &view.spec.containers)];
            let containers = lists.into_iter().flat_map(|(list, containers)| {
                (0..).zip(containers.iter()).map(move |(place, of)| (format!("/spec/{list}/{place}"), of))
            });
            let servers =
                containers.filter_map(|(pointer, of): (String, _)| ApiServer::of(of, &pointer, &facts));
            servers.for_each(|server| self.api_servers.add(server));
        }
        if facts.node.is_empty() && !facts.is_mirror {
            self.refer(&facts.namespace, pod);
        }
        self.pods.push(facts);
    }

    /// Notes what a pod names.
    fn refer(&mut self, namespace: &str, pod: &Pod<'_>) {
        let mut refer = |kind, name: &str| {
            self.referred.insert((kind, key_of(namespace, name)));
        };
        pod.each_secret(|name| refer(VertexKind::Secret, name));
        pod.each_config_map(|name| refer(VertexKind::ConfigMap, name));
        pod.each_claim(|name| refer(VertexKind::PersistentVolumeClaim, name));
        pod.each_resource_claim(|name| refer(VertexKind::ResourceClaim, name));
    }

    fn take_workload(
        &mut self,
        kind: WorkloadKind,
        pods: &Workload<'_, Pod<'_>>,
        views: &Workload<'_, PodView<'_>>,
    ) {
        let key = (kind.as_str(), &*pods.metadata.namespace, &*pods.metadata.name);
        let is_idle = views.spec.is_idle();
        self.refer(key.1, pods.spec.template());
        let controller = Owner::of(&pods.metadata);
        let (pod, view) = (pods.spec.template(), views.spec.template());
        self.templates.push(Template::new(key, is_idle, controller, pod, view));
    }
}

/// `kubelet-config`, or `kubelet-config-1.N` as kubeadm before 1.24 called it.
fn is_kubelet_config(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("kubelet-config") else { return false };
    rest.is_empty() || rest.strip_prefix("-1.").is_some_and(|minor| minor.bytes().all(|b| b.is_ascii_digit()))
}

impl CertificateRequestFacts {
    fn of(request: &CertificateRequestView<'_>, reader: Option<&dyn CertificateRequests>) -> Self {
        let CertificateRequestView { spec, status, .. } = request;
        let is_approved = status.conditions.iter().any(|condition| &*condition.kind == "Approved");
        let of_request = |reader: &dyn CertificateRequests| {
            let pem = BASE64_STANDARD
                .decode(spec.request.replace(['\r', '\n'], ""))
                .map_err(|error| format!("spec.request is not base64: {error}"))?;
            Ok((reader.common_name(&pem)?, reader.organizations(&pem)?))
        };
        let subject = match (&spec.requested, reader) {
            (Some(requested), _) => Ok((requested.common_name.clone(), requested.organizations.clone())),
            (None, Some(reader)) => of_request(reader),
            (None, None) => Err("no reader of certificate requests is set".to_owned()),
        };
        Self {
            signer: spec.signer_name.to_string(),
            is_granted: is_approved || status.issued || !status.certificate.is_empty(),
            subject,
        }
    }
}

/// The annotation and the type of a Secret with the token of a service account (E5).
const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
/// The label of such a Secret whose token is no longer accepted.
const INVALID_LABEL: &str = "kubernetes.io/legacy-token-invalid-since";
/// The group of every bootstrap token (NB-20).
const BOOTSTRAPPERS: &str = "system:bootstrappers";

impl SecretFacts {
    fn of(secret: &SecretView<'_>) -> Self {
        let metadata = &secret.metadata;
        let account = metadata.annotations.find(ACCOUNT_ANNOTATION).filter(|name| !name.is_empty());
        let account = account.filter(|_| !metadata.labels.contains(INVALID_LABEL)).map(str::to_owned);
        let id = metadata.name.strip_prefix("bootstrap-token-").unwrap_or_default();
        // Without its values, as from a list of metadata, a token is taken for one that may authenticate.
        let is_token = matches!(&*secret.kind, "" | "bootstrap.kubernetes.io/token")
            && &*metadata.namespace == "kube-system"
            && id.len() == 6
            && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && matches!(&*decoded(&secret.data.usage_authentication), "" | "true");
        let bootstrap = is_token.then(|| {
            let groups = decoded(&secret.data.groups);
            let extra = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
            BootstrapToken {
                groups: std::iter::once(BOOTSTRAPPERS).chain(extra).map(str::to_owned).collect(),
                expiration: decoded(&secret.data.expiration),
            }
        });
        Self { account, bootstrap }
    }
}

fn decoded(base64: &str) -> String {
    let bytes = BASE64_STANDARD.decode(base64).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

pub(super) fn key_of(namespace: &str, name: &str) -> Name {
    (namespace.to_owned(), name.to_owned())
}
