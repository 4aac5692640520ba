//! A small cluster, and requests to it.

use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::restriction::{
    AdmissionObject, AdmissionRequest, CertificateRequests, NodeRestriction, ObjectCache, Operation,
    Rejection,
};
use portcullis_policy::{Attributes, Authorizer, Decision, FeatureGates, Reason, User};
use serde_json::{Map, Value};
use x509_cert::der::Decode;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::CN;
use x509_cert::der::pem::decode_vec;
use x509_cert::request::CertReq;

/// Reads certificate requests.
#[derive(Debug)]
pub(crate) struct Pkcs10;

impl CertificateRequests for Pkcs10 {
    fn common_name(&self, pem: &[u8]) -> Result<String, String> {
        last_common_name(pem)
    }

    fn organizations(&self, _: &[u8]) -> Result<Vec<String>, String> {
        Err("admission asks for no organizations".to_owned())
    }
}

fn last_common_name(pem: &[u8]) -> Result<String, String> {
    let (label, der) = decode_vec(pem).map_err(|e| e.to_string())?;
    if label != "CERTIFICATE REQUEST" {
        return Err(format!("PEM block of type {label:?}"));
    }
    let request = CertReq::from_der(&der).map_err(|e| e.to_string())?;
    let mut name = String::new();
    for attribute in request.info.subject.iter().filter(|a| a.oid == CN) {
        name = attribute
            .value
            .decode_as::<Utf8StringRef<'_>>()
            .map(|s| s.as_str().to_owned())
            .or_else(|_| attribute.value.decode_as::<PrintableStringRef<'_>>().map(|s| s.as_str().to_owned()))
            .map_err(|e| e.to_string())?;
    }
    Ok(name)
}

/// Has no opinion, as the Node authorizer about audiences.
pub(crate) struct Silent;

impl Authorizer for Silent {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        Decision::NO_OPINION
    }
}

/// Allows exactly one question of NR-73.
pub(crate) struct Grant {
    pub(crate) namespace: &'static str,
    pub(crate) audience: &'static str,
    pub(crate) account: &'static str,
}

impl Authorizer for Grant {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let Some(asked) = attributes.resource else { return Decision::NO_OPINION };
        let matches = attributes.verb == "request-serviceaccounts-token-audience"
            && attributes.user.name == "system:node:n0"
            && asked.group.is_empty()
            && asked.version == "v1"
            && asked.subresource.is_empty()
            && asked.namespace == self.namespace
            && asked.resource == self.audience
            && asked.name == self.account;
        if matches { Decision::Allow(Reason::None) } else { Decision::NO_OPINION }
    }
}

/// A cache of the given objects.
pub(crate) fn cache(objects: &[Value]) -> ObjectCache {
    let mut cache = ObjectCache::default();
    for object in objects {
        let field = |name: &str| object[name].as_str().unwrap();
        let Some(kind) = Kind::of(field("apiVersion"), field("kind")) else { continue };
        let text = object.to_string();
        cache.apply(&Object::parse(kind, &text).unwrap());
    }
    cache
}

/// A write, with everything owned.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) operation: Operation,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user: User,
    pub(crate) object: Option<String>,
    pub(crate) old_object: Option<String>,
}

/// The user of a node.
pub(crate) fn node(name: &str) -> User {
    User::new(format!("system:node:{name}"), ["system:nodes", "system:authenticated"])
}

/// A write by node `n0`; `resource` is `resource.group/subresource`.
pub(crate) fn write(operation: Operation, resource: &str, namespace: &str, name: &str) -> Write {
    Write {
        operation,
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: node("n0"),
        object: None,
        old_object: None,
    }
}

/// A creation by node `n0`.
pub(crate) fn create(resource: &str, namespace: &str, name: &str, object: &Value) -> Write {
    write(Operation::Create, resource, namespace, name).with(object)
}

/// An update by node `n0`.
pub(crate) fn update(resource: &str, namespace: &str, name: &str, object: &Value, old: &Value) -> Write {
    write(Operation::Update, resource, namespace, name).with(object).over(old)
}

/// A deletion by node `n0`.
pub(crate) fn delete(resource: &str, namespace: &str, name: &str) -> Write {
    write(Operation::Delete, resource, namespace, name)
}

impl Write {
    pub(crate) fn with(mut self, object: &Value) -> Self {
        self.object = Some(object.to_string());
        self
    }

    pub(crate) fn over(mut self, old: &Value) -> Self {
        self.old_object = Some(old.to_string());
        self
    }

    pub(crate) fn by(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    pub(crate) fn request(&self) -> AdmissionRequest<'_> {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        AdmissionRequest {
            operation: self.operation,
            group,
            resource,
            subresource,
            namespace: &self.namespace,
            name: &self.name,
            user: &self.user,
            object: self.object.as_deref().map(AdmissionObject::Json),
            old_object: self.old_object.as_deref().map(AdmissionObject::Json),
        }
    }
}

/// A plugin over some objects.
pub(crate) struct World {
    pub(crate) cache: ObjectCache,
    pub(crate) gates: FeatureGates,
}

impl World {
    pub(crate) fn of(objects: &[Value]) -> Self {
        Self { cache: cache(objects), gates: FeatureGates::default() }
    }

    pub(crate) fn admit_with(&self, authorizer: &dyn Authorizer, write: &Write) -> Result<(), Rejection> {
        let plugin = NodeRestriction::new(&self.cache, self.gates).with_certificate_requests(&Pkcs10);
        let request = write.request();
        let decision = plugin.admit(&request, authorizer);
        // A server hands over what it has decoded. That is decided like the text.
        let decoded = |text: &Option<String>| text.as_deref().map(serde_json::from_str).transpose();
        if let (Ok(object), Ok(old_object)) = (decoded(&write.object), decoded(&write.old_object)) {
            let object: Option<Map<String, Value>> = object;
            let old_object: Option<Map<String, Value>> = old_object;
            let request = AdmissionRequest {
                object: object.as_ref().map(AdmissionObject::Decoded),
                old_object: old_object.as_ref().map(AdmissionObject::Decoded),
                ..request
            };
            let again = plugin.admit(&request, authorizer);
            assert_eq!(
                again.as_ref().map_err(|r| r.code),
                decision.as_ref().map_err(|r| r.code),
                "{again:?}"
            );
        }
        decision
    }

    /// The status code: 200 when it passes. Authorizers are silent.
    pub(crate) fn code(&self, write: &Write) -> u16 {
        self.admit_with(&Silent, write).map_or_else(|rejection| rejection.code, |()| 200)
    }
}
