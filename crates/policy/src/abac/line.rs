//! Parses one line of a policy file: determines its version and converts its fields (AB-8, AB-10, AB-11, AB-20 to
//! AB-24).
//!
//! The document is parsed twice: once for version and kind, once for the fields of that version. Other fields may have
//! values of any type and are skipped without allocating.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{ANY, AUTHENTICATED, Policy};

const GROUP: &str = "abac.authorization.kubernetes.io";
const KIND: &str = "Policy";
/// The maximum number of remarks kept per line, because a line can have thousands of errors.
const MAX_REMARKS: usize = 8;

/// A parsed line.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The policy, without its line number.
    pub(super) policy: Policy,
    pub(super) is_unversioned: bool,
    /// Harmless oddities.
    pub(super) warnings: Vec<String>,
    /// Fields that make the line grant more than it appears to.
    pub(super) traps: Vec<String>,
}

/// A document in JSON or YAML.
pub(super) enum Document<'a> {
    Json(&'a str),
    Yaml(Value),
}

impl Document<'_> {
    fn read<'s, T: DeserializeSeed<'s, Value = ()>>(&'s self, seed: T) -> Result<(), String> {
        let read = || match self {
            Self::Json(text) => {
                let mut json = serde_json::Deserializer::from_str(text);
                seed.deserialize(&mut json)?;
                json.end()
            }
            Self::Yaml(value) => seed.deserialize(value),
        };
        read().map_err(|error| error.to_string())
    }
}

/// The two forms of a policy (AB-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V0,
    V1beta1,
}

impl Line {
    pub(super) fn read(document: &Document<'_>) -> Result<Self, String> {
        let mut header = Header::default();
        document.read(&mut header)?;
        let (version, is_unversioned) = header.version()?;
        let mut line = Self { is_unversioned, ..Self::default() };
        if header.is_null {
            line.trap("an empty document is a policy for everything".to_owned());
        }

        let mut fields = Fields::default();
        let level = match version {
            Version::V0 => Level::FlatTop,
            Version::V1beta1 => Level::VersionedTop,
        };
        document.read(Reader { level, fields: &mut fields, line: &mut line })?;
        line.policy = match version {
            Version::V0 => fields.into_policy_v0(),
            Version::V1beta1 => fields.into_policy_v1beta1(),
        };
        Ok(line)
    }
}

impl Line {
    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MAX_REMARKS {
            self.warnings.push(warning);
        }
    }

    fn trap(&mut self, trap: String) {
        if self.traps.len() < MAX_REMARKS {
            self.traps.push(trap);
        }
    }
}

/// The fields that determine how to read the rest.
#[derive(Default)]
struct Header {
    api_version: String,
    kind: String,
    is_null: bool,
}

impl Header {
    /// Returns the version, and whether it had to be assumed (AB-11).
    fn version(&self) -> Result<(Version, bool), String> {
        let api_version = if self.api_version == "/" { "" } else { &self.api_version };
        let (group, version) = match api_version.split_once('/') {
            Some((_, rest)) if rest.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}"));
            }
            Some(parts) => parts,
            None => ("", api_version),
        };
        let assumed_kind = self.kind.is_empty();
        let kind = if assumed_kind { KIND } else { &self.kind };
        let assumed_version = version.is_empty() && matches!(group, "" | GROUP);
        let (group, version) = if assumed_version { (GROUP, "v0") } else { (group, version) };
        match (group, version, kind) {
            (GROUP, "v0", KIND) => Ok((Version::V0, assumed_version || assumed_kind)),
            (GROUP, "v1beta1", KIND) if assumed_kind => {
                Err(format!("apiVersion {api_version} without a kind: state \"kind\": \"{KIND}\""))
            }
            (GROUP, "v1beta1", KIND) => Ok((Version::V1beta1, false)),
            _ => Err(format!(
                "no kind {kind:?} is registered for version {:?}: expected kind {KIND} of {GROUP}/v1beta1 or {GROUP}/v0",
                if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
            )),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Header {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Header {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.is_null = true;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => set(&mut map, &key, &mut self.api_version)?,
                "kind" => set(&mut map, &key, &mut self.kind)?,
                // Kubernetes matches these two keys case-insensitively, but no others. A reader of the line should not
                // have to know that.
                _ if is_variant(&key, "apiVersion") || is_variant(&key, "kind") => {
                    return Err(A::Error::custom(format!(
                        "{key:?}: write \"apiVersion\" and \"kind\" exactly so"
                    )));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Returns whether two keys differ only in case.
fn is_variant(key: &str, of: &str) -> bool {
    key != of && key.eq_ignore_ascii_case(of)
}

/// Reads a value into a field. `null` leaves the field unchanged, so that a repeated key cannot clear it.
fn set<'de, A: MapAccess<'de>, T: serde::Deserialize<'de>>(
    map: &mut A,
    key: &str,
    field: &mut T,
) -> Result<(), A::Error> {
    let value: Option<T> = map.next_value().map_err(|error| A::Error::custom(format!("{key}: {error}")))?;
    if let Some(value) = value {
        *field = value;
    }
    Ok(())
}

/// The fields of a policy as written (AB section 3). Absent fields are empty.
#[derive(Debug, Default)]
struct Fields {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    non_resource_path: String,
}

/// The object of the document that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// A flat policy.
    FlatTop,
    /// The outer object of a versioned policy.
    VersionedTop,
    /// Its `spec`.
    Spec,
}

impl Level {
    fn known(self) -> &'static [&'static str] {
        match self {
            Self::FlatTop => &["apiVersion", "kind", "user", "group", "readonly", "resource", "namespace"],
            Self::VersionedTop => &["apiVersion", "kind", "spec"],
            Self::Spec => {
                &["user", "group", "readonly", "apiGroup", "resource", "namespace", "nonResourcePath"]
            }
        }
    }
}

struct Reader<'a> {
    level: Level,
    fields: &'a mut Fields,
    line: &'a mut Line,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy object")
    }

    /// AB-8, AB section 3: `null` is the same as absent.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { level, fields, line } = self;
        let mut seen: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let known = level.known().contains(&key.as_str());
            if known && seen.contains(&key) {
                // AB-8: the last value wins.
                line.warn(format!("field {key:?} is given more than once; the last value counts"));
            }
            match key.as_str() {
                "user" if known => set(&mut map, &key, &mut fields.user)?,
                "group" if known => set(&mut map, &key, &mut fields.group)?,
                "readonly" if known => set(&mut map, &key, &mut fields.readonly)?,
                "apiGroup" if known => set(&mut map, &key, &mut fields.api_group)?,
                "resource" if known => set(&mut map, &key, &mut fields.resource)?,
                "namespace" if known => set(&mut map, &key, &mut fields.namespace)?,
                "nonResourcePath" if known => set(&mut map, &key, &mut fields.non_resource_path)?,
                "spec" if known => map
                    .next_value_seed(Reader { level: Level::Spec, fields, line })
                    .map_err(|error| A::Error::custom(format!("spec: {error}")))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    if !known {
                        note_unknown(level, &key, line);
                    }
                }
            }
            if known {
                seen.push(key);
            }
        }
        Ok(())
    }
}

/// Unknown fields are ignored (AB-8), but some of them indicate a mistake.
fn note_unknown(level: Level, key: &str, line: &mut Line) {
    if level == Level::FlatTop && key.eq_ignore_ascii_case("spec") {
        line.trap(format!(
            "field {key:?} is not read without \"apiVersion\": \"{GROUP}/v1beta1\" and \"kind\": \"{KIND}\"; without \
             it the line allows more than it says"
        ));
    } else if level == Level::FlatTop && matches!(key, "apiGroup" | "nonResourcePath") {
        line.trap(format!(
            "field {key:?} is not read in an unversioned or v0 policy; without it the line allows more than it says"
        ));
    } else if let Some(known) = Level::Spec.known().iter().chain(level.known()).find(|k| is_variant(key, k)) {
        line.trap(format!("field {key:?} is not read: did you mean {known:?}?"));
    } else {
        line.warn(format!("unknown field {key:?} is ignored"));
    }
}

impl Fields {
    /// AB-20
    fn into_policy_v1beta1(self) -> Policy {
        let for_all = self.user == ANY || self.group == ANY;
        self.into_policy(for_all)
    }

    /// AB-21, AB-22
    fn into_policy_v0(self) -> Policy {
        let for_all =
            self.user == ANY || self.group == ANY || (self.user.is_empty() && self.group.is_empty());
        let everything = self.namespace.is_empty() && self.resource.is_empty();
        let or_any = |text: String| if text.is_empty() { ANY.to_owned() } else { text };
        let fields = Self {
            api_group: ANY.to_owned(),
            namespace: or_any(self.namespace),
            resource: or_any(self.resource),
            non_resource_path: if everything { ANY.to_owned() } else { String::new() },
            ..self
        };
        fields.into_policy(for_all)
    }

    /// AB-23: a policy for all users drops the user that it names.
    fn into_policy(self, for_all: bool) -> Policy {
        let (user, group) =
            if for_all { (String::new(), AUTHENTICATED.to_owned()) } else { (self.user, self.group) };
        Policy {
            line: 0,
            user,
            group,
            readonly: self.readonly,
            api_group: self.api_group,
            resource: self.resource,
            namespace: self.namespace,
            non_resource_path: self.non_resource_path,
        }
    }
}
