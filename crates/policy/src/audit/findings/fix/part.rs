//! A fix as it is printed (AU-80).

use serde::Serialize;
use serde_json::Value;

/// What a part of a fix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FixKind {
    /// A patch of an object that is there.
    Patch,
    /// An object to be applied.
    Manifest,
    /// A merge patch of a configuration file.
    Config,
    /// Text for people.
    Manual,
}

/// One part of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FixPart {
    /// What it is.
    pub kind: FixKind,
    /// What it changes: `apiVersion`, `kind`, `namespace`, `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Value>,
    /// `json` (RFC 6902) or `merge` (RFC 7386).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// The patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// The object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Value>,
    /// What to do, and what remains.
    pub text: String,
    /// Of a change of permissions or of an API server's flags: `passed` if it was tried in memory, `failed` if what was tried did not do what it should (AU-85).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_check: Option<&'static str>,
}

impl FixPart {
    /// Text for people.
    pub(super) fn manual(text: String, self_check: Option<&'static str>) -> Self {
        Self {
            kind: FixKind::Manual,
            target: None,
            patch_type: None,
            patch: None,
            manifest: None,
            text,
            self_check,
        }
    }
}

/// A fix: its parts in the order of application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// At least one.
    pub parts: Vec<FixPart>,
}

impl Fix {
    /// Whether it can be applied as it is.
    pub fn is_applicable(&self) -> bool {
        self.parts.iter().all(|part| part.kind != FixKind::Manual)
    }
}

impl Serialize for Fix {
    /// One part is an object, several are a list.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.parts.as_slice() {
            [part] => part.serialize(serializer),
            parts => parts.serialize(serializer),
        }
    }
}
