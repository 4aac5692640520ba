//! The stored form of objects: keys and bytes.
//!
//! The store holds the bytes that are served, so a GET copies them. They begin with the kind, the version and the
//! resourceVersion, in this order. The prefix is the same for all objects of a kind, and the store inserts the revision
//! of the commit at a known offset.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use kinds::apply::ManagedFieldsText;
use kinds::resource::{Custom, Resource};
use kinds::resources::definitions::DEFINITIONS;
use kinds::{Kinds, Map, may_be_defined, protobuf};
use memchr::memmem::Finder;
use portcullis_store::{Entry, List, Revision, Store as _, StoreError, Value};
use serde_json::Value as Json;

use super::backend::Backend;
use super::{meta, set_aside};
use crate::http::status::Status;

/// Returns the first part of the keys of a kind that is stored in its own form.
pub(crate) fn group(resource: &Resource) -> &'static str {
    if resource.group.is_empty() { "core" } else { resource.group }
}

/// Returns the key prefix of a kind, in one namespace or in all.
pub(crate) fn prefix(resource: &'static Resource, namespace: &str) -> String {
    let resource = resource.storage();
    let group = group(resource);
    // In one allocation: every request needs some.
    match namespace {
        "" => ["/", group, "/", resource.plural, "/"].concat(),
        namespace => ["/", group, "/", resource.plural, "/", namespace, "/"].concat(),
    }
}

/// Tells in which part of its collection an entry is: see [`Index`](kinds::resource::Index).
pub(crate) fn parts(kinds: &Kinds) -> impl Fn(&Entry) -> Option<Box<str>> + use<> {
    let indexed = kinds.built_in_stored().filter_map(|row| Some((prefix(row, ""), row.index?)));
    let indexed: Vec<_> = indexed.collect();
    move |entry| {
        let (_, index) = indexed.iter().find(|(prefix, _)| entry.key.starts_with(prefix))?;
        (index.read)(&entry.value)
    }
}

/// Returns the key of an object.
pub(crate) fn key(resource: &'static Resource, namespace: &str, name: &str) -> Box<str> {
    let resource = resource.storage();
    let (group, plural) = (group(resource), resource.plural);
    let key = match namespace {
        "" => ["/", group, "/", plural, "/", name].concat(),
        namespace => ["/", group, "/", plural, "/", namespace, "/", name].concat(),
    };
    key.into()
}

/// Returns the namespace and the name in a key of this kind.
pub(crate) fn place<'k>(resource: &Resource, key: &'k str) -> (&'k str, &'k str) {
    let mut parts = key.rsplitn(3, '/');
    let name = parts.next().unwrap_or_default();
    match parts.next() {
        Some(namespace) if resource.is_namespaced => (namespace, name),
        _ => ("", name),
    }
}

/// Returns whether a key has the parts of one of this kind. In etcd, keys of custom kinds can be left over from an earlier
/// definition of another scope. The caller asks this of keys that begin as those of the kind.
pub(crate) fn is_in_place(resource: &Resource, key: &str) -> bool {
    if resource.custom.is_none() && !may_be_defined(resource) {
        return true;
    }
    let parts = if resource.is_namespaced { 4 } else { 3 };
    memchr::memchr_iter(b'/', key.as_bytes()).count() == parts
}

/// Whether stored bytes are in the version of this row.
pub(crate) fn is_of_version(resource: &Resource, bytes: &[u8]) -> bool {
    bytes.starts_with(before_metadata(resource.kind, &resource.api_version()).as_bytes())
}

/// Returns the start of the stored bytes of every object of this kind, up to its resourceVersion.
#[cfg(test)]
pub(crate) fn head(resource: &Resource) -> String {
    head_of(resource.kind, &resource.api_version())
}

fn head_of(kind: &str, api_version: &str) -> String {
    before_metadata(kind, api_version) + REVISION
}

fn before_metadata(kind: &str, api_version: &str) -> String {
    [r#"{"kind":""#, kind, r#"","apiVersion":""#, api_version, r#"","#].concat()
}

/// What stands before the revision in stored bytes, after the kind and the version.
const REVISION: &str = r#""metadata":{"resourceVersion":""#;
/// The longest kind and version in stored bytes, with the names of their fields.
const MAX_HEAD: usize = 1024;

/// The largest object, in bytes: the limit of etcd for a request.
///
/// DIVERGES: Kubernetes finds out from etcd, and answers 500.
const MAX_OBJECT: usize = 3 << 19;

/// Encodes an object for storage. Its kind, version and resourceVersion are ignored: see [`head`].
///
/// # Errors
/// 413 for an object of more than [`MAX_OBJECT`] bytes.
pub(crate) fn encode(resource: &'static Resource, object: &Map) -> Result<Value, Status> {
    encode_with(resource, object, None)
}

/// As [`encode`], of an object whose `managedFields` are set aside.
///
/// # Errors
/// See [`encode`].
pub(crate) fn encode_with(
    resource: &'static Resource,
    object: &Map,
    managed_fields: Option<&ManagedFieldsText>,
) -> Result<Value, Status> {
    let written =
        |row: &Resource, object: &Map| written_as((row.kind, &row.api_version()), object, managed_fields);
    let value = match (resource.stored_as, resource.custom) {
        (_, Some(custom)) => {
            // First: if the definition changes meanwhile, the write conflicts.
            let relies_on = Some(definition(custom));
            let stored = written(resource.storage(), &custom.stored(object.clone()))?;
            Value { relies_on, ..stored }
        }
        (None, None) => written(resource, object)?,
        (Some(form), None) => written(form.row, &(form.to)(object.clone()))?,
    };
    if value.bytes.len() > MAX_OBJECT && size(resource, object, &value, managed_fields)? > MAX_OBJECT {
        return Err(Status::object_too_large(MAX_OBJECT));
    }
    Ok(value)
}

/// The key of the definition of a custom kind, and the revision that is in force.
pub(crate) fn definition(custom: &dyn Custom) -> (Box<str>, Revision) {
    let (name, revision) = custom.definition();
    (key(&DEFINITIONS, "", &name), Revision(revision))
}

/// The size that counts, in bytes: that of the object in protobuf, in which kube-apiserver stores it.
fn size(
    resource: &Resource,
    object: &Map,
    value: &Value,
    managed_fields: Option<&ManagedFieldsText>,
) -> Result<usize, Status> {
    if !resource.schema.has_protobuf() {
        return Ok(value.bytes.len());
    }
    let mut whole = Cow::Borrowed(object);
    if let Some(managed_fields) = managed_fields {
        set_aside::put_back(whole.to_mut(), managed_fields)?;
    }
    Ok(protobuf::encode(&whole, resource.schema).map_or(usize::MAX, |bytes| bytes.len()))
}

/// Encodes an object as it is served. An object that was never stored, which is at revision 0, has no resourceVersion.
///
/// # Errors
/// See [`encode`].
pub(crate) fn unstored(resource: &Resource, object: &Map, revision: Revision) -> Result<Bytes, Status> {
    unstored_as((resource.kind, &resource.api_version()), object, revision)
}

/// As [`unstored`], with this kind and `apiVersion`, which are names.
///
/// # Errors
/// See [`encode`].
pub(crate) fn unstored_as(
    (kind, api_version): (&str, &str),
    object: &Map,
    revision: Revision,
) -> Result<Bytes, Status> {
    let Value { bytes, revision_at, .. } = written_as((kind, api_version), object, None)?;
    if revision == Revision(0) {
        let cut = revision_at.and_then(|at| without_revision(&bytes, at));
        return Ok(cut.map_or(bytes, BytesMut::freeze));
    }
    Ok(at_revision(&bytes, revision))
}

/// Converts stored bytes for this kind; they differ only if the object is stored in another kind's form, or of a custom kind
/// in another version, or before its definition changed.
///
/// # Errors
/// The bytes are not an object, or have no revision; or they are of a version that there no longer is.
pub(crate) fn served(resource: &'static Resource, bytes: &Bytes) -> Result<Bytes, Status> {
    let object = match (resource.stored_as, resource.custom) {
        (_, Some(custom)) => {
            if custom.is_as_stored(bytes, revision_in(bytes)) {
                return Ok(bytes.clone());
            }
            custom.shown(decode(bytes)?).map_err(Status::unknown)?
        }
        (None, None) => return Ok(bytes.clone()),
        (Some(form), None) => (form.from)(decode(bytes)?, resource),
    };
    unstored(resource, &object, meta::revision(&object)?)
}

/// Where the revision begins in stored bytes, which begin with the kind and the version; none if there is none.
fn revision_at(bytes: &[u8]) -> Option<usize> {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(REVISION));
    let at = FINDER.find(bytes.get(..MAX_HEAD).unwrap_or(bytes));
    at.map(|at| at.saturating_add(REVISION.len()))
}

/// The revision in stored bytes; 0 if there is none.
fn revision_in(bytes: &[u8]) -> u64 {
    let digits = revision_at(bytes).and_then(|at| bytes.get(at..)).unwrap_or_default();
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

fn written_as(
    (kind, api_version): (&str, &str),
    object: &Map,
    managed_fields: Option<&ManagedFieldsText>,
) -> Result<Value, Status> {
    let mut bytes = Vec::with_capacity(2048);
    let head = head_of(kind, api_version);
    bytes.extend_from_slice(head.as_bytes());
    bytes.push(b'"');
    let metadata = object.get("metadata").and_then(Json::as_object);
    for (name, value) in metadata.into_iter().flatten().filter(|(name, _)| *name != "resourceVersion") {
        member(&mut bytes, name, value)?;
    }
    if let Some(managed_fields) = managed_fields {
        bytes.extend_from_slice(br#","managedFields":"#);
        bytes.extend_from_slice(managed_fields.as_str().as_bytes());
    }
    bytes.push(b'}');
    for (name, value) in object {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            member(&mut bytes, name, value)?;
        }
    }
    bytes.push(b'}');
    Ok(Value { bytes: bytes.into(), revision_at: Some(head.len()), relies_on: None })
}

fn member(bytes: &mut Vec<u8>, name: &str, value: &Json) -> Result<(), Status> {
    bytes.push(b',');
    let written = serde_json::to_writer(&mut *bytes, name).and_then(|()| {
        bytes.push(b':');
        serde_json::to_writer(&mut *bytes, value)
    });
    written.map_err(Status::internal)
}

/// Decodes stored bytes.
///
/// # Errors
/// The bytes are not an object.
pub(crate) fn decode(bytes: &[u8]) -> Result<Map, Status> {
    serde_json::from_str(text(bytes)?).map_err(|error| unreadable(&error))
}

/// Checked as a whole, because checking each string by itself takes a quarter of the time.
fn text(bytes: &[u8]) -> Result<&str, Status> {
    str::from_utf8(bytes).map_err(|error| unreadable(&error))
}

fn unreadable(error: &dyn Display) -> Status {
    Status::internal(format_args!("a stored object cannot be read: {error}"))
}

/// Replaces the revision in the bytes, so that a removed object is shown as of its removal.
pub(crate) fn at_revision(bytes: &Bytes, revision: Revision) -> Bytes {
    let parts = revision_at(bytes).and_then(|at| bytes.split_at_checked(at));
    let Some((start, rest)) = parts else { return bytes.clone() };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut moved = BytesMut::from(start);
    moved.extend_from_slice(revision.0.to_string().as_bytes());
    moved.extend_from_slice(rest.get(digits..).unwrap_or_default());
    moved.freeze()
}

/// Removes the resourceVersion, whose digits begin at `at`; none if there is none at that place.
pub(super) fn without_revision(bytes: &[u8], at: usize) -> Option<BytesMut> {
    let (start, rest) = bytes.split_at_checked(at)?;
    let kept = start.strip_suffix(br#""resourceVersion":""#)?;
    let quote = rest.iter().position(|byte| *byte == b'"')?;
    let rest = rest.get(quote.saturating_add(1)..)?;
    let mut cut = BytesMut::with_capacity(bytes.len());
    cut.extend_from_slice(kept);
    cut.extend_from_slice(rest.strip_prefix(b",").unwrap_or(rest));
    Some(cut)
}

/// A decoded object and its store entry.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The store entry.
    pub(crate) entry: Arc<Entry>,
    /// The object's bytes as served.
    pub(crate) bytes: Bytes,
    /// The decoded object.
    pub(crate) object: Map,
    /// The `managedFields`, if they are set aside: then the object has none.
    pub(crate) managed_fields: Option<ManagedFieldsText>,
}

impl Stored {
    /// Reads an entry.
    ///
    /// # Errors
    /// The entry is not an object.
    pub(crate) fn read(resource: &'static Resource, entry: Arc<Entry>) -> Result<Self, Status> {
        let bytes = served(resource, &entry.value)?;
        Ok(Self { object: decode(&bytes)?, bytes, entry, managed_fields: None })
    }

    /// Reads an entry, and sets `managedFields` aside.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub(crate) fn read_without_managers(
        resource: &'static Resource,
        entry: Arc<Entry>,
    ) -> Result<Self, Status> {
        let bytes = served(resource, &entry.value)?;
        let (object, managed_fields) =
            set_aside::decode(text(&bytes)?).map_err(|error| unreadable(&error))?;
        Ok(Self { object, bytes, entry, managed_fields })
    }
}

/// All objects of a kind.
///
/// # Errors
/// The store failed, or an entry is not an object.
pub(crate) async fn all(backend: &Backend, resource: &'static Resource) -> Result<Vec<Map>, Status> {
    let list = List { prefix: prefix(resource, "").into(), ..List::default() };
    let listing = backend.list(&list).await.map_err(|error| failed(&error))?;
    let entries = listing.entries.iter().filter(|entry| is_in_place(resource, &entry.key));
    entries.map(|entry| decode(&entry.value)).collect()
}

/// Converts a store error to an error response.
pub(crate) fn failed(error: &StoreError) -> Status {
    match error {
        StoreError::Conflict { .. } => Status::unknown(error.to_string()),
        StoreError::Compacted { .. } => Status::expired(format!(
            "The resourceVersion for the provided list is too old: {error}. You can process this request again without \
             resourceVersion"
        )),
        StoreError::Future { asked, newest } => Status::future(asked.0, newest.0),
        StoreError::Refused(_) => Status::internal(error),
        // DIVERGES: with a full etcd, kube-apiserver answers 500.
        StoreError::Full { .. } => Status::insufficient_storage(error.to_string()),
        StoreError::NoSpace(_) => {
            tracing::error!(%error, "nothing can be written");
            Status::internal(error)
        }
        StoreError::TooLarge(_) => Status::request_too_large(error.to_string()),
        // ET-12
        StoreError::Unreadable(_) => Status::internal(error),
        StoreError::Unavailable(_) => Status::try_again(error.to_string()),
        StoreError::Unknown(_) => Status::outcome_unknown(error.to_string()),
        StoreError::Broken(_) => {
            tracing::error!(%error, "the store failed");
            Status::internal("the store cannot be read or written")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static NAMESPACED: Resource = Resource { kind: "Thing", plural: "things", ..Resource::USUAL };
    static CLUSTERED: Resource =
        Resource { group: "g.io", kind: "Base", plural: "bases", is_namespaced: false, ..Resource::USUAL };

    #[test]
    fn keys_name_group_kind_namespace_and_name() {
        assert_eq!(&*key(&NAMESPACED, "default", "a"), "/core/things/default/a");
        assert_eq!(&*key(&CLUSTERED, "", "a"), "/g.io/bases/a");
        assert_eq!(prefix(&NAMESPACED, ""), "/core/things/");
        assert_eq!(place(&NAMESPACED, "/core/things/default/a"), ("default", "a"));
        assert_eq!(place(&CLUSTERED, "/g.io/bases/a"), ("", "a"));
    }

    #[test]
    fn only_kinds_with_an_index_have_parts() {
        let parts = parts(&Kinds::built_in());
        let part = |key: &str| {
            let value = r#"{"spec":{"nodeName":"n"}}"#.into();
            parts(&Entry::new(key, value, Revision(1), Revision(1)))
        };
        assert_eq!(part("/core/pods/default/p").as_deref(), Some("n"));
        assert_eq!(part("/resource.k8s.io/resourceslices/s").as_deref(), Some("n"));
        assert_eq!(part("/core/configmaps/default/p"), None);
    }

    #[test]
    fn stored_bytes_are_the_object_with_the_revision_of_the_commit() {
        let object = json!({"kind": "x", "spec": {"a": [1]}, "metadata": {"name": "n", "resourceVersion": "7",
            "annotations": {"resourceVersion": "no"}}});
        let value = encode(&CLUSTERED, object.as_object().unwrap()).unwrap();
        let (at, mut bytes) = (value.revision_at.unwrap(), value.bytes.to_vec());
        bytes.splice(at..at, *b"31");
        let expected = json!({"apiVersion": "g.io/v1", "kind": "Base", "spec": {"a": [1]}, "metadata": {"name": "n",
            "resourceVersion": "31", "annotations": {"resourceVersion": "no"}}});
        assert_eq!(Json::Object(decode(&bytes).unwrap()), expected);
        let bytes = Bytes::from(bytes);
        let unstored = decode(&without_revision(&bytes, at).unwrap()).unwrap();
        assert_eq!(unstored["metadata"], json!({"name": "n", "annotations": {"resourceVersion": "no"}}));
        let moved = at_revision(&bytes, Revision(1234));
        assert_eq!(decode(&moved).unwrap()["metadata"]["resourceVersion"], "1234");
    }
}
