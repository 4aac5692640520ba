//! The ways by which a subject can make a request (AU-97).

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::chain::MASTERS_GROUP;
use crate::rbac::{Bound, GrantingRule};

/// One way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by")]
pub enum Way {
    /// The API server allows this group everything, before any mode is asked (AC-63).
    #[serde(rename = "system:masters")]
    Masters,
    /// A line of the ABAC policy file.
    #[serde(rename = "ABAC")]
    Abac {
        /// The line, from 1.
        line: usize,
    },
    /// Mode AlwaysAllow.
    AlwaysAllow,
    /// A group that can (AU-90).
    #[serde(rename = "group")]
    Member {
        /// The group.
        group: String,
    },
    /// Mode Node.
    Node {
        /// The path from the node to the object; none where every node may ask, or the name of the node is enough.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A rule of a role, by a binding.
    #[serde(rename = "RBAC")]
    Rule(RuleWay),
    /// The RBAC super-user (RB-125).
    #[serde(rename = "RBAC super-user")]
    SuperUser,
}

/// A rule of a role, by a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleWay {
    binding: Arc<Bound>,
    /// The rules of the role that have to do with the request, and which of them this is.
    rules: Arc<[GrantingRule]>,
    place: usize,
}

impl RuleWay {
    /// The way by one rule.
    pub(in crate::audit) fn of(binding: &Arc<Bound>, rule: GrantingRule) -> Self {
        Self { binding: Arc::clone(binding), rules: Arc::new([rule]), place: 0 }
    }

    /// The ways by each of these rules.
    pub(in crate::audit) fn each<'a>(
        binding: &'a Arc<Bound>,
        rules: &'a Arc<[GrantingRule]>,
    ) -> impl Iterator<Item = (Self, &'a GrantingRule)> {
        rules.iter().enumerate().map(|(place, rule)| {
            (Self { binding: Arc::clone(binding), rules: Arc::clone(rules), place }, rule)
        })
    }

    /// The binding.
    pub fn binding(&self) -> ObjectName {
        ObjectName::binding(&self.binding)
    }

    /// The role.
    pub fn role(&self) -> ObjectName {
        ObjectName::role(&self.binding)
    }

    /// The rule, and its index in the role.
    pub fn rule(&self) -> Option<&GrantingRule> {
        self.rules.get(self.place)
    }
}

impl Serialize for RuleWay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rule = self.rule();
        let mut fields = serializer.serialize_struct("RuleWay", 4)?;
        fields.serialize_field("binding", &self.binding())?;
        fields.serialize_field("role", &self.role())?;
        match rule.and_then(|rule| rule.index) {
            Some(index) => fields.serialize_field("ruleIndex", &index)?,
            None => fields.skip_field("ruleIndex")?,
        }
        fields.serialize_field("rule", rule.map_or("", |rule| &rule.text))?;
        fields.end()
    }
}

impl fmt::Display for RuleWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.binding(), self.role())?;
        match self.rule() {
            Some(GrantingRule { index: Some(index), text, .. }) => write!(f, " rules[{index}] {text}"),
            Some(GrantingRule { text, .. }) => write!(f, " to be added: {text}"),
            None => Ok(()),
        }
    }
}

/// Kind, namespace and name of a role or a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectName {
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectName {
    pub(in crate::audit) fn binding(bound: &Bound) -> Self {
        let (namespace, name) = (bound.namespace().to_owned(), bound.name().to_owned());
        Self { kind: bound.kind().to_owned(), namespace, name }
    }

    /// The role that a binding names (RB-32).
    pub(in crate::audit) fn role(bound: &Bound) -> Self {
        let role = bound.role_ref();
        let namespace = if role.kind == "Role" { bound.namespace() } else { "" };
        Self { namespace: namespace.to_owned(), kind: role.kind, name: role.name }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{kind} {namespace}{slash}{name}")
    }
}

impl Way {
    /// What ways are sorted by: the mode, the binding, and the rule or the line.
    pub(in crate::audit) fn key(&self) -> (u8, Option<ObjectName>, usize) {
        match self {
            Self::Masters => (0, None, 0),
            Self::AlwaysAllow => (1, None, 0),
            Self::Abac { line } => (2, None, *line),
            Self::Node { .. } => (3, None, 0),
            Self::SuperUser => (4, None, 0),
            Self::Rule(way) => {
                let index = way.rule().and_then(|rule| rule.index);
                (5, Some(way.binding()), index.unwrap_or(usize::MAX))
            }
            Self::Member { group } => {
                let name = ObjectName { kind: String::new(), namespace: String::new(), name: group.clone() };
                (6, Some(name), 0)
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Masters => write!(f, "members of {MASTERS_GROUP} are allowed everything"),
            Self::Abac { line } => write!(f, "ABAC: line {line}"),
            Self::AlwaysAllow => f.write_str("AlwaysAllow"),
            Self::Member { group } => write!(f, "group {group}"),
            Self::Node { path: Some(path) } => write!(f, "Node: {path}"),
            Self::Node { path: None } => f.write_str("Node: no object is needed"),
            Self::SuperUser => f.write_str("RBAC: the super-user"),
            Self::Rule(way) => write!(f, "RBAC: {way}"),
        }
    }
}
