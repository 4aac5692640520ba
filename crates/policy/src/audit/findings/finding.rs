//! A finding: what was found, about whom, where, and why (AU-71).

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::fix::Fix;
use super::severity::Severity;
use super::table::Rule;
use crate::audit::reach::ReachSize;

/// Where a finding holds (AU-39).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instance {
    /// Everywhere.
    Cluster,
    /// In a namespace.
    Namespace(String),
    /// On a node.
    Node(String),
    /// At a path of nodes.
    Path(String),
}

impl fmt::Display for Instance {
    /// `cluster`, `namespace/NAME`, `node/NAME`, `path/PATH` (AU-71).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::Namespace(name) => write!(f, "namespace/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Path(path) => write!(f, "path/{path}"),
        }
    }
}

impl Serialize for Instance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One step of the evidence: an object, what leads there, and the field that proves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Evidence {
    /// The object (AU-30), or an entry of an audit log.
    pub object: String,
    /// The edge of the closure that leads there, `E1` to `E31`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<String>,
    /// The field, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The value of the field, or the rule in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The file that has the object, if the state came from files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the field, or of the object, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Evidence {
    /// An object alone.
    pub fn object(object: impl Into<String>) -> Self {
        Self { object: object.into(), ..Self::default() }
    }

    /// A field of an object.
    pub fn field(object: impl Into<String>, pointer: impl Into<String>, value: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), value: Some(value.into()), ..Self::object(object) }
    }
}

impl From<Evidence> for Vec<Evidence> {
    fn from(evidence: Evidence) -> Self {
        vec![evidence]
    }
}

/// How much a node reaches before and after a fix (AU-71).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReachChange {
    /// The node that reaches most, of those that have the subject.
    pub node: String,
    /// With the state as it is.
    pub before: ReachSize,
    /// With the fix applied; none if there is no fix that can be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ReachSize>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule: its id and title.
    #[serde(flatten, serialize_with = "id_and_title")]
    pub rule: &'static Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Whom or what it is about (AU-30).
    pub subject: String,
    /// Where it holds; sorted.
    pub instances: Vec<Instance>,
    /// The shortest chain that proves it.
    pub evidence: Vec<Evidence>,
    /// The bindings, roles and rules that grant it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Value>,
    /// What to change.
    pub fix: Fix,
    /// How much the worst node that has the subject reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<ReachChange>,
    /// What was taken for true because it is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<&'static str>,
    /// Tells the finding from all others, in this run and in others (AU-113).
    pub fingerprint: String,
    /// Rules of the audit, and titles of the Kubernetes documentation.
    pub references: Vec<&'static str>,
}

impl Finding {
    /// The text of which the fingerprint is the digest (AU-113).
    pub(super) fn fingerprint_text(id: &str, subject: &str, instances: &[Instance]) -> String {
        let mut text = format!("portcullis/1\n{id}\n{subject}\n");
        let mut words: Vec<String> = instances.iter().map(ToString::to_string).collect();
        words.sort_unstable();
        for word in words {
            text.push_str(&word);
            text.push('\n');
        }
        text
    }

    /// The order of reports: severity falling, id, subject by bytes (AU-131).
    pub(super) fn order(&self) -> (std::cmp::Reverse<Severity>, &'static str, &str) {
        (std::cmp::Reverse(self.severity), self.rule.id, &self.subject)
    }
}

fn id_and_title<S: Serializer>(rule: &&'static Rule, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("id", rule.id)?;
    map.serialize_entry("title", rule.title)?;
    map.end()
}
