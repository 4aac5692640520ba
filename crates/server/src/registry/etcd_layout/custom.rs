//! The objects of custom kinds in etcd: JSON at `GROUP/PLURAL/[NAMESPACE/]NAME`, as kube-apiserver keeps them.
//!
//! Which kinds there are can change at any time, and a value may be read before its definition is. So every value that can be a
//! custom object is read in the same way, whether or not there is a definition. Nobody sees it without one.

use kinds::decode::Document;
use kinds::protobuf;
use kinds::schema::custom::CUSTOM;
use portcullis_apimachinery::quote::quoted;
use portcullis_store::Revision;

use super::form::{Problem, check_place};
use crate::registry::storage;

/// The longest group, and the longest other name, as in Kubernetes.
const MAX_GROUP: usize = 253;
const MAX_NAME: usize = 63;

/// The parts of a key that can be that of a custom object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CustomKey<'k> {
    pub(super) group: &'k str,
    pub(super) plural: &'k str,
    /// The namespace, if there is one, and the name.
    rest: &'k str,
}

impl<'k> CustomKey<'k> {
    /// Divides the start of a key, without a slash in front, into a group, a plural name and the rest. The group of a custom
    /// kind has a dot in it, which no plural name has.
    pub(super) fn start(key: &'k str) -> Option<Self> {
        let mut parts = key.splitn(3, '/');
        let (group, plural, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let is_group = group.len() <= MAX_GROUP && group.contains('.') && group.split('.').all(is_label);
        (is_group && is_label(plural)).then_some(Self { group, plural, rest })
    }

    /// Divides a whole key, without a slash in front.
    pub(super) fn of(key: &'k str) -> Option<Self> {
        let found = Self::start(key)?;
        let mut parts = found.rest.splitn(3, '/');
        let (first, second, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        (!first.is_empty() && second != Some("") && more.is_none()).then_some(found)
    }

    /// Reads a value that is not encrypted, and returns the object as the store keeps it. It keeps the version in which it was
    /// stored.
    ///
    /// # Errors
    /// It is not an object of the group, or not the one that its key names.
    pub(super) fn read(&self, plain: &[u8], modified: Revision) -> Result<Read, Problem> {
        let unreadable = |error: &dyn std::fmt::Display| format!("is not a custom object in JSON: {error}");
        if plain.starts_with(protobuf::MAGIC) {
            return Err(unreadable(&"such objects have no protobuf form"));
        }
        let document = Document::parse(plain).map_err(|error| unreadable(&error))?;
        let text = |name| document.text(name).map(str::to_owned).map_err(|error| unreadable(&error));
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let version = api_version.strip_prefix(self.group).and_then(|rest| rest.strip_prefix('/'));
        let Some(version) = version.filter(|version| is_label(version)) else {
            return Err(format!(
                "has the apiVersion {}, which is no version of {}",
                quoted(&api_version),
                self.group
            ));
        };
        if !is_label(&kind.to_ascii_lowercase()) {
            return Err(format!("has the kind {}, which is no name of a kind", quoted(&kind)));
        }
        let object = document.decode(&CUSTOM).map_err(|error| unreadable(&error))?.object;
        let (namespace, name) = self.rest.split_once('/').unwrap_or(("", self.rest));
        check_place(&object, namespace, name)?;
        let value = storage::unstored_as((&kind, &api_version), &object, modified)
            .map_err(|status| format!("cannot be served: {}", status.message()))?;
        Ok(Read { value, version: version.to_owned() })
    }
}

/// A custom object as the store keeps it.
pub(super) struct Read {
    pub(super) value: bytes::Bytes,
    /// The version in which it is stored.
    pub(super) version: String,
}

/// The first field of the metadata of a JSON document that there is not, or the first that is there twice; none if it cannot be
/// read.
pub(super) fn unknown_field(document: &[u8]) -> Option<String> {
    let decoded = Document::parse(document).ok()?.decode(&CUSTOM).ok()?;
    decoded.problems.first().map(ToString::to_string)
}

/// Whether a text is a name of letters, digits and hyphens.
fn is_label(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=MAX_NAME).contains(&bytes.len())
        && bytes.iter().all(|byte| is_alphanumeric(*byte) || *byte == b'-')
        && [bytes.first(), bytes.last()].into_iter().flatten().all(|byte| is_alphanumeric(*byte))
}
