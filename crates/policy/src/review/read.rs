//! Decodes review documents like the API server: `null` is absent, unknown fields are ignored, and a value of the wrong
//! type is an error with the field path (WH-86).

use std::collections::BTreeMap;

use portcullis_apimachinery::json;
use portcullis_apimachinery::selector::SelectorRequirement;
use serde_json::{Map, Value};

use super::{
    AccessReview, AccessStatus, NonResourceAttributes, REVIEW_GROUP, ResourceAttributes, Review, ReviewKind,
    ReviewMetadata, ReviewVersion, RulesReview, SelectorAttributes,
};
use crate::request::User;

/// An invalid review document. The response is 400 Bad Request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The text is not JSON.
    #[error("couldn't get version/kind; json parse error: {0}")]
    NotJson(String),
    /// A field has a value of another type.
    #[error("{field}: expected {expected}, found {found}")]
    WrongType {
        /// The field, such as `spec.user`.
        field: String,
        /// The expected type.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// The kind or version is not the expected one.
    #[error("the object provided is {found:?}, expected {expected}")]
    WrongKind {
        /// The `apiVersion` and `kind` of the document.
        found: String,
        /// The expected `apiVersion` and `kind`.
        expected: String,
    },
    /// The document is in another namespace than the request (WH-71).
    #[error("the namespace of the provided object does not match the namespace sent on the request")]
    WrongNamespace,
}

impl Review {
    /// Parses a review from the bytes of a JSON document. See [`Review::read`].
    ///
    /// # Errors
    /// See [`ReviewError`].
    pub fn parse(bytes: &[u8], expected: Option<(ReviewKind, ReviewVersion)>) -> Result<Self, ReviewError> {
        let document =
            serde_json::from_slice(bytes).map_err(|error| ReviewError::NotJson(error.to_string()))?;
        Self::read(&document, expected)
    }

    /// Reads a review. With an expected kind from the URL, the document may omit kind and version but not contradict
    /// them, and `null` is an empty review (WH-86). Otherwise it must contain both.
    ///
    /// # Errors
    /// See [`ReviewError`].
    pub fn read(
        document: &Value,
        expected: Option<(ReviewKind, ReviewVersion)>,
    ) -> Result<Self, ReviewError> {
        let document = Object::of(String::new(), Some(document))?;
        let (kind, version) = document.kind_and_version(expected)?;
        let metadata = document.object("metadata")?.metadata()?;
        let spec = document.object("spec")?;
        if kind == ReviewKind::SelfSubjectRulesReview {
            return Ok(Self::Rules(RulesReview { version, namespace: spec.string("namespace")? }));
        }
        // What was sent counts for nothing (WH-78), but it must be a status.
        document.object("status")?.status()?;
        let user = if kind.names_subject() { spec.user(version)? } else { User::default() };
        Ok(Self::Access(AccessReview {
            version,
            kind,
            metadata,
            user,
            resource: spec.optional("resourceAttributes")?.map(|o| o.resource_attributes()).transpose()?,
            non_resource: spec
                .optional("nonResourceAttributes")?
                .map(|o| o.non_resource_attributes())
                .transpose()?,
        }))
    }
}

impl AccessStatus {
    /// Reads the answer to a SubjectAccessReview of this version. Missing kind and version are taken as expected
    /// (WH-20); every field that is known must be of its type, though it plays no part (WH-21).
    ///
    /// # Errors
    /// Whatever is not clearly such an answer; it never allows anything.
    pub fn read(body: &[u8], version: ReviewVersion) -> Result<Self, ReviewError> {
        // DIVERGES: a duplicate key makes the response invalid; Kubernetes uses the last value.
        let text = json::check_bytes(body).map_err(|error| ReviewError::NotJson(error.to_string()))?;
        let document = serde_json::from_str(text).map_err(|error| ReviewError::NotJson(error.to_string()))?;
        Review::read(&document, Some((ReviewKind::SubjectAccessReview, version)))?;
        Object::of(String::new(), Some(&document))?.object("status")?.status()
    }
}

impl AccessReview {
    /// Sets the namespace from the URL: a namespaced review gets that of the URL, a cluster-scoped one loses its own
    /// (WH-71, WH-85).
    ///
    /// # Errors
    /// A namespaced review names another namespace.
    pub fn place(&mut self, namespace: &str) -> Result<(), ReviewError> {
        let own = &mut self.metadata.namespace;
        if self.kind != ReviewKind::LocalSubjectAccessReview {
            own.clear();
            return Ok(());
        }
        if !own.is_empty() && own != namespace {
            return Err(ReviewError::WrongNamespace);
        }
        namespace.clone_into(own);
        Ok(())
    }
}

/// An object of the document, with its path.
struct Object<'a> {
    path: String,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> Object<'a> {
    /// An absent object has no fields.
    fn of(path: String, value: Option<&'a Value>) -> Result<Self, ReviewError> {
        match value {
            None | Some(Value::Null) => Ok(Self { path, fields: None }),
            Some(Value::Object(fields)) => Ok(Self { path, fields: Some(fields) }),
            Some(other) => Err(wrong_type(path, "an object", other)),
        }
    }

    fn field(&self, key: &str) -> Option<&'a Value> {
        self.fields?.get(key).filter(|value| !value.is_null())
    }

    fn path_to(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An absent object cannot contain errors, so it needs no path.
    fn object(&self, key: &str) -> Result<Self, ReviewError> {
        match self.field(key) {
            None => Ok(Self { path: String::new(), fields: None }),
            value => Self::of(self.path_to(key), value),
        }
    }

    /// The object, if present; `{}` counts as present.
    fn optional(&self, key: &str) -> Result<Option<Self>, ReviewError> {
        let object = self.object(key)?;
        Ok(object.fields.is_some().then_some(object))
    }

    fn string(&self, key: &str) -> Result<String, ReviewError> {
        self.field(key).map_or_else(|| Ok(String::new()), |value| string(|| self.path_to(key), value))
    }

    fn strings(&self, key: &str) -> Result<Vec<String>, ReviewError> {
        match self.field(key) {
            None => Ok(Vec::new()),
            value => strings(&self.path_to(key), value),
        }
    }

    fn objects(&self, key: &str) -> Result<Vec<Self>, ReviewError> {
        let Some(value) = self.field(key) else { return Ok(Vec::new()) };
        let path = self.path_to(key);
        let items = items(&path, Some(value))?;
        items.iter().enumerate().map(|(i, item)| Self::of(format!("{path}[{i}]"), Some(item))).collect()
    }

    fn kind_and_version(
        &self,
        expected: Option<(ReviewKind, ReviewVersion)>,
    ) -> Result<(ReviewKind, ReviewVersion), ReviewError> {
        let (mut kind, mut version) = (self.string("kind")?, self.string("apiVersion")?);
        if let Some((expected_kind, expected_version)) = expected {
            if kind.is_empty() {
                expected_kind.as_str().clone_into(&mut kind);
            }
            if version.is_empty() {
                expected_version.api_version().clone_into(&mut version);
            }
        }
        let read = [
            ReviewKind::SubjectAccessReview,
            ReviewKind::LocalSubjectAccessReview,
            ReviewKind::SelfSubjectAccessReview,
            ReviewKind::SelfSubjectRulesReview,
        ]
        .into_iter()
        .find(|known| known.as_str() == kind)
        .zip([ReviewVersion::V1, ReviewVersion::V1beta1].into_iter().find(|v| v.api_version() == version));
        match read {
            Some(read) if expected.is_none_or(|expected| expected == read) => Ok(read),
            _ => Err(ReviewError::WrongKind {
                found: format!("{version} {kind}"),
                expected: match expected {
                    Some((kind, version)) => format!("{} {}", version.api_version(), kind.as_str()),
                    None => format!("a review of {REVIEW_GROUP}/v1 or {REVIEW_GROUP}/v1beta1"),
                },
            }),
        }
    }

    fn user(&self, version: ReviewVersion) -> Result<User, ReviewError> {
        let extra = self.object("extra")?;
        let mut read = BTreeMap::new();
        for (key, value) in extra.fields.into_iter().flatten() {
            let value = Some(value).filter(|value| !value.is_null());
            read.insert(key.clone(), strings(&extra.path_to(key), value)?);
        }
        Ok(User {
            name: self.string("user")?,
            uid: self.string("uid")?,
            groups: self.strings(version.groups_key())?,
            extra: read,
        })
    }

    fn resource_attributes(&self) -> Result<ResourceAttributes, ReviewError> {
        Ok(ResourceAttributes {
            namespace: self.string("namespace")?,
            verb: self.string("verb")?,
            group: self.string("group")?,
            version: self.string("version")?,
            resource: self.string("resource")?,
            subresource: self.string("subresource")?,
            name: self.string("name")?,
            field_selector: self.optional("fieldSelector")?.map(|o| o.selector()).transpose()?,
            label_selector: self.optional("labelSelector")?.map(|o| o.selector()).transpose()?,
        })
    }

    fn selector(&self) -> Result<SelectorAttributes, ReviewError> {
        let requirements = self.objects("requirements")?;
        let read = |o: &Self| {
            Ok(SelectorRequirement {
                key: o.string("key")?,
                operator: o.string("operator")?,
                values: o.strings("values")?,
            })
        };
        Ok(SelectorAttributes {
            raw: self.string("rawSelector")?,
            requirements: requirements.iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    fn non_resource_attributes(&self) -> Result<NonResourceAttributes, ReviewError> {
        Ok(NonResourceAttributes { path: self.string("path")?, verb: self.string("verb")? })
    }

    fn status(&self) -> Result<AccessStatus, ReviewError> {
        let flag = |key| match self.field(key) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(wrong_type(self.path_to(key), "a boolean", other)),
        };
        Ok(AccessStatus {
            allowed: flag("allowed")?,
            denied: flag("denied")?,
            reason: self.string("reason")?,
            evaluation_error: self.string("evaluationError")?,
        })
    }

    /// WH-71, WH-72, WH-74, WH-87: fields that the server clears, `managedFields` and empty values are ignored.
    fn metadata(&self) -> Result<ReviewMetadata, ReviewError> {
        let mut rest = Map::new();
        for key in ["name", "generateName", "resourceVersion"] {
            let text = self.string(key)?;
            if !text.is_empty() {
                rest.insert(key.to_owned(), Value::String(text));
            }
        }
        for key in ["creationTimestamp", "deletionTimestamp", "selfLink", "uid"] {
            self.string(key)?;
        }
        for key in ["labels", "annotations"] {
            let map = self.object(key)?;
            for (key, value) in map.fields.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
                string(|| map.path_to(key), value)?;
            }
            if let Some(fields) = map.fields.filter(|fields| !fields.is_empty()) {
                rest.insert(key.to_owned(), Value::Object(fields.clone()));
            }
        }
        for key in ["finalizers", "ownerReferences", "managedFields"] {
            let Some(value) = self.field(key) else { continue };
            let items = items(&self.path_to(key), Some(value))?;
            if key == "finalizers" {
                self.strings(key)?;
            } else {
                self.objects(key)?;
            }
            if key != "managedFields" && !items.is_empty() {
                rest.insert(key.to_owned(), Value::Array(items.to_vec()));
            }
        }
        for key in ["generation", "deletionGracePeriodSeconds"] {
            let Some(value) = self.field(key) else { continue };
            let number = value.as_i64().ok_or_else(|| wrong_type(self.path_to(key), "an integer", value))?;
            if key == "generation" && number != 0 {
                rest.insert(key.to_owned(), value.clone());
            }
        }
        let rest = (!rest.is_empty()).then(|| Value::Object(rest).to_string());
        Ok(ReviewMetadata { namespace: self.string("namespace")?, rest })
    }
}

fn items<'a>(path: &str, value: Option<&'a Value>) -> Result<&'a [Value], ReviewError> {
    match value {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(wrong_type(path.to_owned(), "a list", other)),
    }
}

/// A `null` element is the empty string.
fn strings(path: &str, value: Option<&Value>) -> Result<Vec<String>, ReviewError> {
    let read = |(i, item): (usize, &Value)| match item {
        Value::Null => Ok(String::new()),
        item => string(|| format!("{path}[{i}]"), item),
    };
    items(path, value)?.iter().enumerate().map(read).collect()
}

fn string(path: impl FnOnce() -> String, value: &Value) -> Result<String, ReviewError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong_type(path(), "a string", other)),
    }
}

fn wrong_type(field: String, expected: &'static str, value: &Value) -> ReviewError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let field = if field.is_empty() { "the review".to_owned() } else { field };
    ReviewError::WrongType { field, expected, found }
}
