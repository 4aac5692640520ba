//! Decodes request bodies and stored objects of one expected kind, and refuses everything else (NR-113).

use std::fmt;

use serde::Deserialize;

use super::rejection::Rejection;
use super::request::{AdmissionObject, AdmissionRequest, Operation};
use crate::objects::decode::Text;
use crate::objects::meta::MetadataOnly;

/// The group and the name of a kind. Any version of it: the relevant fields are the same in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupKind(pub(super) &'static str, pub(super) &'static str);

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(group, kind) = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{kind}{dot}{group}")
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct TypeMeta<'a> {
    api_version: Text<'a>,
    kind: Text<'a>,
}

impl TypeMeta<'_> {
    fn is(&self, expected: GroupKind) -> bool {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version));
        group == expected.0 && !version.is_empty() && self.kind == expected.1
    }
}

impl<'a> AdmissionRequest<'a> {
    /// The submitted object, which must be of the given kind.
    pub(super) fn body<T: Deserialize<'a>>(&self, expected: GroupKind) -> Result<T, Rejection> {
        decode(self.object, expected).map_err(|why| self.forbidden(format_args!("submitted object: {why}")))
    }

    /// Returns whether the object has this name, which a create may have in the body alone.
    pub(super) fn is_named(&self, name: &str, expected: GroupKind) -> Result<bool, Rejection> {
        match self.operation {
            Operation::Create => Ok(self.body::<MetadataOnly<'_>>(expected)?.metadata.name == name),
            Operation::Update | Operation::Delete | Operation::Connect => Ok(self.name == name),
        }
    }

    /// The stored object, which must be of the given kind.
    pub(super) fn stored<T: Deserialize<'a>>(&self, expected: GroupKind) -> Result<T, Rejection> {
        decode(self.old_object, expected).map_err(|why| self.forbidden(format_args!("stored object: {why}")))
    }
}

fn decode<'a, T: Deserialize<'a>>(
    object: Option<AdmissionObject<'a>>,
    expected: GroupKind,
) -> Result<T, String> {
    let object = object.ok_or_else(|| format!("expected {expected}, found nothing"))?;
    let found: TypeMeta<'a> =
        object.read().map_err(|e| format!("expected {expected}, found no object: {e}"))?;
    if !found.is(expected) {
        return Err(format!(
            "expected {expected}, found kind {:?} of {:?}",
            &*found.kind, &*found.api_version
        ));
    }
    object.read().map_err(|e| format!("cannot be read as {expected}: {e}"))
}
