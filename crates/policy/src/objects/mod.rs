//! Reduced views of the Kubernetes kinds that decisions use, one file per API group.
//!
//! A view has only the fields that a rule reads. Unknown fields are skipped while parsing, and `null` is the same as
//! absent, as in Kubernetes. Views do not validate: an invalid object still decodes.

pub mod authentication;
pub mod certificates;
pub mod core;
pub mod decode;
pub mod events;
pub mod meta;
pub mod pod;
pub mod rbac;
pub mod resource;
pub mod storage;
pub mod strict;

use std::borrow::Cow;

use portcullis_apimachinery::json::{self, JsonError};
use rbac::RBAC_GROUP;

/// An object of a kind that decisions use.
#[derive(Clone, Debug)]
pub enum Object<'a> {
    /// A ClusterRole.
    ClusterRole(rbac::Role),
    /// A ClusterRoleBinding.
    ClusterRoleBinding(rbac::Binding),
    /// A CSIDriver.
    CsiDriver(storage::CsiDriver<'a>),
    /// A Namespace.
    Namespace(core::Namespace<'a>),
    /// A Node.
    Node(core::Node<'a>),
    /// A PersistentVolume.
    PersistentVolume(Box<core::PersistentVolume<'a>>),
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim(core::PersistentVolumeClaim<'a>),
    /// A Pod.
    Pod(Box<pod::Pod<'a>>),
    /// A PodCertificateRequest.
    PodCertificateRequest(certificates::PodCertificateRequest<'a>),
    /// A ResourceSlice.
    ResourceSlice(resource::ResourceSlice<'a>),
    /// A Role.
    Role(rbac::Role),
    /// A RoleBinding.
    RoleBinding(rbac::Binding),
    /// A ServiceAccount.
    ServiceAccount(core::ServiceAccount<'a>),
    /// A VolumeAttachment.
    VolumeAttachment(storage::VolumeAttachment<'a>),
}

/// The kinds that decisions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// ClusterRole.
    ClusterRole,
    /// ClusterRoleBinding.
    ClusterRoleBinding,
    /// CSIDriver.
    CsiDriver,
    /// Namespace.
    Namespace,
    /// Node.
    Node,
    /// PersistentVolume.
    PersistentVolume,
    /// PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// Pod.
    Pod,
    /// PodCertificateRequest.
    PodCertificateRequest,
    /// ResourceSlice.
    ResourceSlice,
    /// Role.
    Role,
    /// RoleBinding.
    RoleBinding,
    /// ServiceAccount.
    ServiceAccount,
    /// VolumeAttachment.
    VolumeAttachment,
}

/// Each kind with its API group, its name as Kubernetes spells it, and whether it is namespaced.
const KINDS: [(Kind, &str, &str, bool); 14] = [
    (Kind::ClusterRole, RBAC_GROUP, "ClusterRole", false),
    (Kind::ClusterRoleBinding, RBAC_GROUP, "ClusterRoleBinding", false),
    (Kind::CsiDriver, "storage.k8s.io", "CSIDriver", false),
    (Kind::Namespace, "", "Namespace", false),
    (Kind::Node, "", "Node", false),
    (Kind::PersistentVolume, "", "PersistentVolume", false),
    (Kind::PersistentVolumeClaim, "", "PersistentVolumeClaim", true),
    (Kind::Pod, "", "Pod", true),
    (Kind::PodCertificateRequest, "certificates.k8s.io", "PodCertificateRequest", true),
    (Kind::ResourceSlice, "resource.k8s.io", "ResourceSlice", false),
    (Kind::Role, RBAC_GROUP, "Role", true),
    (Kind::RoleBinding, RBAC_GROUP, "RoleBinding", true),
    (Kind::ServiceAccount, "", "ServiceAccount", true),
    (Kind::VolumeAttachment, "storage.k8s.io", "VolumeAttachment", false),
];

impl Kind {
    /// Returns the kind for an `apiVersion` and `kind`; `None` if decisions do not use it. All versions of a group are
    /// accepted, because the relevant fields are the same in each.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        KINDS.iter().find(|row| row.1 == group && row.2 == kind).map(|row| row.0)
    }

    /// The kind's name as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        KINDS.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }

    /// Returns whether this kind is namespaced.
    pub fn is_namespaced(self) -> bool {
        KINDS.iter().any(|row| row.0 == self && row.3)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Checks that an object of a kind has a name, and a namespace exactly where the kind has one.
///
/// # Errors
/// The field at fault, and what is wrong with it.
pub fn check_key(
    kind: impl std::fmt::Display,
    is_namespaced: bool,
    (namespace, name): (&str, &str),
) -> Result<(), (&'static str, String)> {
    if name.is_empty() {
        return Err(("metadata.name", format!("is missing: every {kind} has a name")));
    }
    let reason = match (is_namespaced, namespace.is_empty()) {
        (true, true) => format!("is missing: a {kind} lives in a namespace, and kubectl get prints it"),
        (false, false) => format!("a {kind} lives in no namespace: remove the field"),
        _ => return Ok(()),
    };
    Err(("metadata.namespace", reason))
}

impl<'a> Object<'a> {
    /// Reads one object by its own `apiVersion` and `kind`, strictly. Nothing when that kind plays no part.
    ///
    /// # Errors
    /// The text is not strict JSON, names no type, is a list or of an API version that is no longer served, or has a field
    /// of the wrong type; or see [`Object::check_key`].
    pub fn from_json(json: &'a str) -> Result<Option<Self>, JsonError> {
        let fault = |path: &str, reason: String| JsonError::at(json, 1, path, reason);
        let missing = |path| fault(path, "is missing: every object says its apiVersion and kind".to_owned());
        let found = json::type_meta(json)?;
        let given = |text: &Cow<'_, str>| !text.is_empty();
        let api_version = found.api_version.filter(given).ok_or_else(|| missing("apiVersion"))?;
        let kind = found.kind.filter(given).ok_or_else(|| missing("kind"))?;
        if kind.ends_with("List") {
            return Err(fault("kind", format!("{kind} is a list: pass its items one by one")));
        }
        let Some(kind) = Kind::of(&api_version, &kind) else { return Ok(None) };
        if api_version.starts_with("rbac.authorization.k8s.io/")
            && api_version != "rbac.authorization.k8s.io/v1"
        {
            let reason = format!("{api_version} is no longer served: convert the object to version v1");
            return Err(fault("apiVersion", reason));
        }
        let object = Self::parse(kind, json).map_err(|error| JsonError::of_decoding(json, &error))?;
        object.check_key().map_err(|(field, reason)| fault(field, reason))?;
        Ok(Some(object))
    }

    /// Checks that the object has a name, and a namespace exactly where its kind has one.
    ///
    /// # Errors
    /// The field at fault, and what is wrong with it.
    pub fn check_key(&self) -> Result<(), (&'static str, String)> {
        check_key(self.kind(), self.kind().is_namespaced(), self.key())
    }

    /// Decodes an object from JSON that must have this kind, namespace and name. A cluster-scoped object has an empty namespace.
    ///
    /// # Errors
    /// The text is not such an object: which field is at fault, where it is, and why.
    pub fn parse_at(kind: Kind, namespace: &str, name: &str, json: &'a str) -> Result<Self, JsonError> {
        let fault = |field: &str, reason: String| JsonError::at(json, 1, field, reason);
        let object = Self::parse(kind, json).map_err(|error| JsonError::of_decoding(json, &error))?;
        object.check_key().map_err(|(field, reason)| fault(field, reason))?;
        match object.key() {
            found if found == (namespace, name) => Ok(object),
            (_, found) if found != name => {
                Err(fault("metadata.name", format!("is {found:?} and not {name:?}")))
            }
            (found, _) => Err(fault("metadata.namespace", format!("is {found:?} and not {namespace:?}"))),
        }
    }

    /// Decodes one object of a known kind from JSON.
    ///
    /// # Errors
    /// The text is not JSON, or a relevant field has a value of another type; see [`strict`].
    pub fn parse(kind: Kind, json: &'a str) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            Kind::ClusterRole => Self::ClusterRole(strict::from_str(json)?),
            Kind::ClusterRoleBinding => Self::ClusterRoleBinding(strict::from_str(json)?),
            Kind::CsiDriver => Self::CsiDriver(strict::from_str(json)?),
            Kind::Namespace => Self::Namespace(strict::from_str(json)?),
            Kind::Node => Self::Node(strict::from_str(json)?),
            Kind::PersistentVolume => Self::PersistentVolume(strict::from_str(json)?),
            Kind::PersistentVolumeClaim => Self::PersistentVolumeClaim(strict::from_str(json)?),
            Kind::Pod => Self::Pod(strict::from_str(json)?),
            Kind::PodCertificateRequest => Self::PodCertificateRequest(strict::from_str(json)?),
            Kind::ResourceSlice => Self::ResourceSlice(strict::from_str(json)?),
            Kind::Role => Self::Role(strict::from_str(json)?),
            Kind::RoleBinding => Self::RoleBinding(strict::from_str(json)?),
            Kind::ServiceAccount => Self::ServiceAccount(strict::from_str(json)?),
            Kind::VolumeAttachment => Self::VolumeAttachment(strict::from_str(json)?),
        })
    }

    /// Converts an object of an RBAC kind, which borrows nothing, to a `'static` one. `None` for other kinds.
    pub fn into_owned_rbac(self) -> Option<Object<'static>> {
        Some(match self {
            Self::ClusterRole(role) => Object::ClusterRole(role),
            Self::ClusterRoleBinding(binding) => Object::ClusterRoleBinding(binding),
            Self::Role(role) => Object::Role(role),
            Self::RoleBinding(binding) => Object::RoleBinding(binding),
            _ => return None,
        })
    }

    /// The object's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::ClusterRole(_) => Kind::ClusterRole,
            Self::ClusterRoleBinding(_) => Kind::ClusterRoleBinding,
            Self::CsiDriver(_) => Kind::CsiDriver,
            Self::Namespace(_) => Kind::Namespace,
            Self::Node(_) => Kind::Node,
            Self::PersistentVolume(_) => Kind::PersistentVolume,
            Self::PersistentVolumeClaim(_) => Kind::PersistentVolumeClaim,
            Self::Pod(_) => Kind::Pod,
            Self::PodCertificateRequest(_) => Kind::PodCertificateRequest,
            Self::ResourceSlice(_) => Kind::ResourceSlice,
            Self::Role(_) => Kind::Role,
            Self::RoleBinding(_) => Kind::RoleBinding,
            Self::ServiceAccount(_) => Kind::ServiceAccount,
            Self::VolumeAttachment(_) => Kind::VolumeAttachment,
        }
    }

    /// The object's namespace (empty for cluster-scoped objects) and name.
    pub fn key(&self) -> (&str, &str) {
        match self {
            Self::ClusterRole(o) | Self::Role(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::ClusterRoleBinding(o) | Self::RoleBinding(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::CsiDriver(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::Namespace(o) | Self::Node(o) | Self::ServiceAccount(o) => {
                (&o.metadata.namespace, &o.metadata.name)
            }
            Self::PersistentVolume(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::PersistentVolumeClaim(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::Pod(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::PodCertificateRequest(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::ResourceSlice(o) => (&o.metadata.namespace, &o.metadata.name),
            Self::VolumeAttachment(o) => (&o.metadata.namespace, &o.metadata.name),
        }
    }
}
