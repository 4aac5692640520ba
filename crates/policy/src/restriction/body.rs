//! Decodes request bodies and stored objects of one expected kind, and refuses everything else (NR-113).

use std::fmt;

use serde::Deserialize;

use super::rejection::Rejection;
use super::request::AdmissionRequest;
use crate::objects::decode::Text;
use crate::objects::strict;

/// A kind of any version; the relevant fields are the same in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupKind {
    group: &'static str,
    kind: &'static str,
}

impl GroupKind {
    pub(super) const fn new(group: &'static str, kind: &'static str) -> Self {
        Self { group, kind }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
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
        group == expected.group && !version.is_empty() && self.kind == expected.kind
    }
}

impl<'a> AdmissionRequest<'a> {
    /// The submitted object, which must be of the given kind.
    pub(super) fn body<T: Deserialize<'a>>(&self, expected: GroupKind) -> Result<T, Rejection> {
        decode(self.object, expected).map_err(|why| self.forbidden(format_args!("submitted object: {why}")))
    }

    /// The stored object, which must be of the given kind.
    pub(super) fn stored<T: Deserialize<'a>>(&self, expected: GroupKind) -> Result<T, Rejection> {
        decode(self.old_object, expected).map_err(|why| self.forbidden(format_args!("stored object: {why}")))
    }
}

fn decode<'a, T: Deserialize<'a>>(text: Option<&'a str>, expected: GroupKind) -> Result<T, String> {
    let text = text.ok_or_else(|| format!("expected {expected}, found nothing"))?;
    let found: TypeMeta<'a> =
        strict::from_str(text).map_err(|e| format!("expected {expected}, found no object: {e}"))?;
    if !found.is(expected) {
        return Err(format!(
            "expected {expected}, found kind {:?} of {:?}",
            &*found.kind, &*found.api_version
        ));
    }
    strict::from_str(text).map_err(|e| format!("cannot be read as {expected}: {e}"))
}
