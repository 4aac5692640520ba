//! A write as it is told to webhooks, in an AdmissionReview, and to expressions.

use std::borrow::Cow;

use bytes::Bytes;
use kinds::Map;
use kinds::resource::Resource;
use policy::User;
use policy::restriction::Operation;
use serde_json::{Value, json};

use super::rules::{Request, operation};
use super::versions;
use crate::http::status::Status;
use crate::match_conditions::Write;
use crate::registry::admission::{AdmissionAttributes, Options};
use crate::registry::deletion::grace_period;
use crate::registry::meta;

/// A write as it is told to webhooks and expressions, in one version of its kind.
pub(super) struct Question<'a> {
    /// The version.
    pub(super) version: &'static Resource,
    /// The request, without its uid and its objects.
    request: Map,
    object: Option<Cow<'a, Map>>,
    old: Option<Cow<'a, Map>>,
}

/// The facts about a write that do not depend on the version.
#[derive(Clone, Copy)]
pub(super) struct Facts<'r, 'a> {
    attributes: &'r AdmissionAttributes<'a>,
    /// Whether the object is one of the kind itself, and no document of a subresource.
    is_of_kind: bool,
}

impl<'r, 'a> Facts<'r, 'a> {
    pub(super) fn of(attributes: &'r AdmissionAttributes<'a>) -> Self {
        let resource = attributes.resource;
        let is_own = |object: &Map| {
            let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
            text("kind") == resource.kind && text("apiVersion") == resource.api_version()
        };
        let object = attributes.object.as_deref().or(attributes.old);
        let is_of_kind = attributes.part.is_none() && object.is_none_or(is_own);
        Self { attributes, is_of_kind }
    }

    /// The request, as rules look at it.
    pub(super) fn request(&self) -> Request<'r> {
        let attributes = self.attributes;
        Request {
            operation: attributes.operation,
            subresource: attributes.subresource,
            name: self.name(),
            is_namespaced: !attributes.namespace.is_empty(),
        }
    }

    /// Whether a patch of the object can be taken back.
    pub(super) fn can_be_patched(&self) -> bool {
        self.is_of_kind && self.attributes.object.is_some()
    }

    /// The namespace: that of a request about a namespace is the namespace itself.
    pub(super) fn namespace(&self) -> &'r str {
        if self.attributes.resource.is_namespace { self.name() } else { self.attributes.namespace }
    }

    /// The name; empty for one of a collection, and for one that is still to be generated.
    fn name(&self) -> &'r str {
        let attributes = self.attributes;
        match attributes.object.as_deref() {
            Some(object) if attributes.name.is_empty() && attributes.operation == Operation::Create => {
                meta::text(object, "name")
            }
            _ => attributes.name,
        }
    }

    /// The question in this version of the kind.
    pub(super) fn question(&self, version: &'static Resource) -> Question<'r> {
        let attributes = self.attributes;
        let (object, old) = (attributes.object.as_deref(), attributes.old);
        let document = |object| self.document(object, version);
        Question {
            version,
            request: self.request_document(version),
            object: object.map(document),
            old: old.map(document),
        }
    }

    fn document(&self, object: &'r Map, version: &'static Resource) -> Cow<'r, Map> {
        let resource = self.attributes.resource;
        match self.attributes.part {
            // An object without the part, which can only be written, is shown without it.
            Some(part) => Cow::Owned(part.document(object).unwrap_or_default()),
            None if self.is_of_kind && version != resource => {
                Cow::Owned(versions::shown(object.clone(), resource, version))
            }
            None => Cow::Borrowed(object),
        }
    }

    /// Group, version and kind of the object in this version of the resource.
    fn kind(&self, version: &'static Resource) -> Value {
        let row = match self.attributes.part {
            Some(part) => part.row,
            None => version,
        };
        let object = self.attributes.object.as_deref().filter(|_| !self.is_of_kind);
        let text = |field: &str| object?.get(field)?.as_str();
        let (api_version, kind) = (text("apiVersion"), text("kind").unwrap_or(row.kind));
        let (group, version) = match api_version.filter(|_| self.attributes.part.is_none()) {
            Some(api_version) => api_version.rsplit_once('/').unwrap_or(("", api_version)),
            None => (row.group, row.version),
        };
        let kind = if self.attributes.part.is_some() { row.kind } else { kind };
        json!({"group": group, "version": version, "kind": kind})
    }

    fn request_document(&self, version: &'static Resource) -> Map {
        let attributes = self.attributes;
        let resource =
            |row: &Resource| json!({"group": row.group, "version": row.version, "resource": row.plural});
        let mut request = Map::new();
        let mut set = |field: &str, value: Value| request.insert(field.to_owned(), value);
        set("kind", self.kind(version));
        set("resource", resource(version));
        set("requestKind", self.kind(attributes.served));
        set("requestResource", resource(attributes.served));
        set("operation", operation(attributes.operation).into());
        set("userInfo", user_info(attributes.user));
        set("dryRun", attributes.options.is_dry_run().into());
        set(
            "options",
            match attributes.operation {
                // A connection has none.
                Operation::Connect => Value::Null,
                _ => self.options().into(),
            },
        );
        for (field, text) in [
            ("subResource", attributes.subresource),
            ("requestSubResource", attributes.subresource),
            ("name", self.name()),
            ("namespace", self.namespace()),
        ] {
            if !text.is_empty() {
                set(field, text.into());
            }
        }
        request
    }

    fn options(&self) -> Map {
        match self.attributes.options {
            Options::Write(options) if self.attributes.operation == Operation::Create => {
                options.document("CreateOptions")
            }
            Options::Write(options) => options.document("UpdateOptions"),
            Options::Delete(options) => {
                let old = self.attributes.old;
                options.document(old.and_then(|old| grace_period(self.attributes.resource, old, options)))
            }
        }
    }
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            info.insert(field.to_owned(), value);
        }
    };
    let text = |text: &str| (!text.is_empty()).then(|| Value::from(text));
    set("username", text(&user.name));
    set("uid", text(&user.uid));
    set("groups", (!user.groups.is_empty()).then(|| json!(user.groups)));
    set("extra", (!user.extra.is_empty()).then(|| json!(user.extra)));
    Value::Object(info)
}

impl Question<'_> {
    /// The write, for expressions.
    pub(super) fn write(&self) -> Write<'_> {
        Write { request: &self.request, object: self.object.as_deref(), old: self.old.as_deref() }
    }

    /// The new object.
    pub(super) fn object(&self) -> Option<&Map> {
        self.object.as_deref()
    }

    /// The stored object.
    pub(super) fn old(&self) -> Option<&Map> {
        self.old.as_deref()
    }

    /// The review behind its uid, which is the same for all webhooks.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn rest(&self) -> Result<Bytes, Status> {
        let mut text = Vec::with_capacity(1024);
        let write = |text: &mut Vec<u8>, value: Option<&Map>| match value {
            Some(value) => serde_json::to_writer(text, value),
            None => serde_json::to_writer(text, &()),
        };
        let written = write(&mut text, Some(&self.request)).and_then(|()| {
            text.pop();
            text.extend_from_slice(br#","object":"#);
            write(&mut text, self.object())?;
            text.extend_from_slice(br#","oldObject":"#);
            write(&mut text, self.old())
        });
        written.map_err(Status::internal)?;
        text.extend_from_slice(b"}}");
        // The request begins with a brace, and follows the uid.
        Ok(Bytes::from(text).slice(1..))
    }
}

/// Whether two reviews differ at most in the revisions of their objects and in the times of their `managedFields`: a write that
/// is made again a second later has another time.
pub(super) fn are_alike(one: &Bytes, other: &Bytes) -> bool {
    const DIGITS: usize = 64;
    if one == other {
        return true;
    }
    if one.len().abs_diff(other.len()) > DIGITS {
        return false;
    }
    let read = |rest: &Bytes| {
        // One brace is missing at the front, and one is too many at the end.
        let inner = rest.strip_suffix(b"}")?;
        let whole = [b"{", inner].concat();
        let mut request: Map = serde_json::from_slice(&whole).ok()?;
        for object in ["object", "oldObject"] {
            if let Some(Value::Object(object)) = request.get_mut(object) {
                meta::unset(object, "resourceVersion");
                forget_times(object);
            }
        }
        Some(request)
    };
    read(one).is_some_and(|one| Some(one) == read(other))
}

/// Removes the times of `managedFields`.
fn forget_times(object: &mut Map) {
    let metadata = object.get_mut("metadata");
    let managers = metadata.and_then(|metadata| metadata.get_mut("managedFields")?.as_array_mut());
    for manager in managers.into_iter().flatten() {
        if let Some(manager) = manager.as_object_mut() {
            manager.remove("time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(object: Value, old: Value) -> Bytes {
        let request = json!({"name": "a", "object": object, "oldObject": old}).to_string();
        Bytes::from(format!("{}}}", request.strip_prefix('{').unwrap()))
    }

    #[test]
    fn reviews_are_alike_when_only_the_revision_differs() {
        let object = |revision: &str, a: i32| json!({"metadata": {"resourceVersion": revision}, "a": a});
        let first = rest(object("9", 1), object("9", 0));
        assert!(are_alike(&first, &rest(object("9", 1), object("9", 0))));
        assert!(are_alike(&first, &rest(object("10", 1), object("10", 0))));
        assert!(!are_alike(&first, &rest(object("10", 2), object("10", 0))));
        assert!(!are_alike(&first, &rest(object("9", 1), object("10", 1))));
        assert!(!are_alike(&first, &rest(object("9", 1), Value::Null)));
    }

    #[test]
    fn reviews_are_alike_when_only_the_times_of_managed_fields_differ() {
        let object = |manager: &str, time: &str| {
            let entry = json!({"manager": manager, "time": time, "fieldsV1": {"f:data": {}}});
            json!({"metadata": {"managedFields": [entry]}})
        };
        let first = rest(object("a", "2026-01-01T00:00:00Z"), object("a", "2026-01-01T00:00:00Z"));
        let other = |manager: &str| {
            rest(object(manager, "2026-01-01T00:00:10Z"), object("a", "2026-01-01T00:00:09Z"))
        };
        assert!(are_alike(&first, &other("a")));
        assert!(!are_alike(&first, &other("b")));
    }
}
