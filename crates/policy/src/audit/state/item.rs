//! One object as the audit reads it.

use super::views::{
    AccountView, AuthorizationView, CertificateRequestView, ConfigMapView, NodeView, PodView, SecretView,
    Workload,
};
use crate::objects::meta::MetadataOnly;
use crate::objects::pod::Pod;
use crate::objects::{Kind, Object, check_key, strict};

/// A kind that the audit reads (AU-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// An AuthorizationConfiguration: the modes of an API server. It is no object, and has no name.
    AuthorizationConfiguration,
    /// A kind that decisions use.
    Decided(Kind),
    /// A CertificateSigningRequest.
    CertificateRequest,
    /// A ConfigMap: only its name, and the configuration of kubelets (AU-13).
    ConfigMap,
    /// A ResourceClaim: only its name.
    ResourceClaim,
    /// A Secret, without its values (AU-13).
    Secret,
    /// A workload.
    Workload(WorkloadKind),
}

/// A kind of objects that create pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// A CronJob.
    CronJob,
    /// A DaemonSet.
    DaemonSet,
    /// A Deployment.
    Deployment,
    /// A Job.
    Job,
    /// A ReplicaSet.
    ReplicaSet,
    /// A ReplicationController.
    ReplicationController,
    /// A StatefulSet.
    StatefulSet,
}

/// The workload kinds: group, kind, resource.
pub(in crate::audit) const WORKLOADS: [(WorkloadKind, &str, &str, &str); 7] = [
    (WorkloadKind::CronJob, "batch", "CronJob", "cronjobs"),
    (WorkloadKind::DaemonSet, "apps", "DaemonSet", "daemonsets"),
    (WorkloadKind::Deployment, "apps", "Deployment", "deployments"),
    (WorkloadKind::Job, "batch", "Job", "jobs"),
    (WorkloadKind::ReplicaSet, "apps", "ReplicaSet", "replicasets"),
    (WorkloadKind::ReplicationController, "", "ReplicationController", "replicationcontrollers"),
    (WorkloadKind::StatefulSet, "apps", "StatefulSet", "statefulsets"),
];

impl WorkloadKind {
    /// The name as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        WORKLOADS.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }
}

impl ItemKind {
    /// Returns the kind for an `apiVersion` and `kind`, whatever the version; none if the audit does not read it.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        if let Some(kind) = Kind::of(api_version, kind) {
            return Some(Self::Decided(kind));
        }
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            ("apiserver.config.k8s.io", "AuthorizationConfiguration") => {
                Some(Self::AuthorizationConfiguration)
            }
            ("certificates.k8s.io", "CertificateSigningRequest") => Some(Self::CertificateRequest),
            ("", "ConfigMap") => Some(Self::ConfigMap),
            ("", "Secret") => Some(Self::Secret),
            ("resource.k8s.io", "ResourceClaim") => Some(Self::ResourceClaim),
            _ => {
                let mut rows = WORKLOADS.iter();
                rows.find(|row| row.1 == group && row.2 == kind).map(|row| Self::Workload(row.0))
            }
        }
    }

    /// Returns whether this kind is namespaced.
    pub fn is_namespaced(self) -> bool {
        match self {
            Self::AuthorizationConfiguration | Self::CertificateRequest => false,
            Self::Decided(kind) => kind.is_namespaced(),
            Self::ConfigMap | Self::ResourceClaim | Self::Secret | Self::Workload(_) => true,
        }
    }
}

impl std::fmt::Display for ItemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AuthorizationConfiguration => "AuthorizationConfiguration",
            Self::CertificateRequest => "CertificateSigningRequest",
            Self::Decided(kind) => kind.as_str(),
            Self::ConfigMap => "ConfigMap",
            Self::ResourceClaim => "ResourceClaim",
            Self::Secret => "Secret",
            Self::Workload(kind) => kind.as_str(),
        })
    }
}

/// An object as the audit reads it.
#[derive(Debug)]
pub struct Item<'a>(pub(super) Content<'a>);

#[derive(Debug)]
pub(super) enum Content<'a> {
    /// All that the audit reads, decisions read too.
    Object(Object<'a>),
    Account(Object<'a>, AccountView),
    AuthorizationConfiguration(AuthorizationView<'a>),
    CertificateRequest(CertificateRequestView<'a>),
    ConfigMap(ConfigMapView<'a>),
    Node(Object<'a>, NodeView<'a>),
    Pod(Box<Pod<'a>>, Box<PodView<'a>>),
    ResourceClaim(MetadataOnly<'a>),
    Secret(SecretView<'a>),
    Workload(WorkloadKind, Box<Workload<'a, Pod<'a>>>, Box<Workload<'a, PodView<'a>>>),
}

impl<'a> Item<'a> {
    /// An object that was decoded for decisions. The kinds of which the audit reads more are to be parsed.
    pub fn of(object: Object<'a>) -> Self {
        Self(Content::Object(object))
    }

    /// Decodes one object of a known kind from JSON.
    ///
    /// # Errors
    /// The text is not JSON, or a field that is read has a value of another type.
    pub fn parse(kind: ItemKind, json: &'a str) -> Result<Self, serde_json::Error> {
        Ok(Self(match kind {
            ItemKind::Decided(Kind::Pod) => {
                Content::Pod(Box::new(strict::from_str(json)?), Box::new(strict::from_str(json)?))
            }
            ItemKind::Decided(kind @ Kind::Node) => {
                Content::Node(Object::parse(kind, json)?, strict::from_str(json)?)
            }
            ItemKind::Decided(kind @ Kind::ServiceAccount) => {
                Content::Account(Object::parse(kind, json)?, strict::from_str(json)?)
            }
            ItemKind::Decided(kind) => Content::Object(Object::parse(kind, json)?),
            ItemKind::AuthorizationConfiguration => {
                Content::AuthorizationConfiguration(strict::from_str(json)?)
            }
            ItemKind::CertificateRequest => Content::CertificateRequest(strict::from_str(json)?),
            ItemKind::ConfigMap => Content::ConfigMap(strict::from_str(json)?),
            ItemKind::ResourceClaim => Content::ResourceClaim(strict::from_str(json)?),
            ItemKind::Secret => Content::Secret(strict::from_str(json)?),
            ItemKind::Workload(kind) => {
                Content::Workload(kind, Box::new(strict::from_str(json)?), Box::new(strict::from_str(json)?))
            }
        }))
    }

    /// The kind.
    pub fn kind(&self) -> ItemKind {
        match &self.0 {
            Content::Object(object) | Content::Account(object, _) | Content::Node(object, _) => {
                ItemKind::Decided(object.kind())
            }
            Content::AuthorizationConfiguration(_) => ItemKind::AuthorizationConfiguration,
            Content::Pod(..) => ItemKind::Decided(Kind::Pod),
            Content::CertificateRequest(_) => ItemKind::CertificateRequest,
            Content::ConfigMap(_) => ItemKind::ConfigMap,
            Content::ResourceClaim(_) => ItemKind::ResourceClaim,
            Content::Secret(_) => ItemKind::Secret,
            Content::Workload(kind, ..) => ItemKind::Workload(*kind),
        }
    }

    /// The namespace (empty for cluster-scoped objects) and the name.
    pub fn key(&self) -> (&str, &str) {
        let metadata = match &self.0 {
            Content::Object(object) | Content::Account(object, _) | Content::Node(object, _) => {
                return object.key();
            }
            Content::AuthorizationConfiguration(_) => return ("", ""),
            Content::Pod(pod, _) => &pod.metadata,
            Content::CertificateRequest(request) => &request.metadata,
            Content::ConfigMap(object) => &object.metadata,
            Content::ResourceClaim(object) => &object.metadata,
            Content::Secret(secret) => &secret.metadata,
            Content::Workload(_, workload, _) => &workload.metadata,
        };
        (&metadata.namespace, &metadata.name)
    }

    /// Checks that the object has a name, and a namespace exactly where its kind has one. A configuration file has neither.
    ///
    /// # Errors
    /// The field at fault, and what is wrong with it.
    pub fn check_key(&self) -> Result<(), (&'static str, String)> {
        if self.kind() == ItemKind::AuthorizationConfiguration {
            return Ok(());
        }
        check_key(self.kind(), self.kind().is_namespaced(), self.key())
    }
}
