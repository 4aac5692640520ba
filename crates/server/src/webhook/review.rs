//! The question as it is sent: the spec of a SubjectAccessReview, in either version (WH-11 to WH-19).

use std::collections::BTreeMap;

use policy::selector::{FieldOperator, FieldRequirement, LabelOperator, LabelRequirement};
use policy::{Attributes, ResourceRequest};
use portcullis_policy as policy;
use serde::{Deserialize, Serialize};

/// The versions of SubjectAccessReview that are spoken (WH-13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`, which says `group` where `v1` says `groups`.
    #[default]
    V1beta1,
}

impl ReviewVersion {
    /// The value of `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authorization.k8s.io/v1",
            Self::V1beta1 => "authorization.k8s.io/v1beta1",
        }
    }
}

impl std::str::FromStr for ReviewVersion {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1beta1),
            _ => Err(format!("unsupported SubjectAccessReview version {name:?}: use v1 or v1beta1")),
        }
    }
}

/// Who asks for what (WH-13). What is empty is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The resource asked for; this or a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_attributes: Option<ResourceAttributes>,
    /// The path asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_resource_attributes: Option<NonResourceAttributes>,
    /// The user's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The user's groups, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further facts about the user.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
    /// The user's unique id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// A request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceAttributes {
    /// The namespace, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The verb.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// The API group; empty for the core group (WH-15).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The resource, plural.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The subresource, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The name, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What the field selector demands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<Selector>,
    /// What the label selector demands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Selector>,
}

/// A request for a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct NonResourceAttributes {
    /// The path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The verb.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verb: String,
}

/// A selector. What is sent has requirements only (WH-18).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// As text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub raw_selector: String,
    /// As requirements that all hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
}

/// One requirement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Requirement {
    /// The field path or label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl Spec {
    /// What a request asks.
    pub fn of(attributes: &Attributes<'_>) -> Self {
        let user = attributes.user;
        let verb = attributes.verb.to_owned();
        // WH-14
        let (resource_attributes, non_resource_attributes) = match &attributes.resource {
            Some(resource) => (Some(ResourceAttributes::of(resource, verb)), None),
            None => (None, Some(NonResourceAttributes { path: attributes.path.to_owned(), verb })),
        };
        Self {
            resource_attributes,
            non_resource_attributes,
            user: user.name.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            uid: user.uid.clone(),
        }
    }

    /// The bytes of what a request asks that count against being remembered (WH-53).
    pub(super) fn attribute_bytes(&self) -> usize {
        let path = self.non_resource_attributes.as_ref().map_or(0, |a| a.path.len() + a.verb.len());
        let resource = self.resource_attributes.as_ref().map_or(0, |a| {
            [&a.namespace, &a.verb, &a.group, &a.version, &a.resource, &a.subresource, &a.name]
                .iter()
                .map(|text| text.len())
                .sum()
        });
        path.saturating_add(resource)
    }

    /// The whole body (WH-11).
    ///
    /// # Errors
    /// None that the types allow.
    pub(super) fn body(&self, version: ReviewVersion) -> Result<Vec<u8>, serde_json::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            kind: &'a str,
            api_version: &'a str,
            metadata: BTreeMap<&'a str, ()>,
            spec: serde_json::Value,
            status: BTreeMap<&'a str, bool>,
        }
        let mut spec = serde_json::to_value(self)?;
        // WH-13
        if version == ReviewVersion::V1beta1
            && let Some(fields) = spec.as_object_mut()
            && let Some(groups) = fields.remove("groups")
        {
            fields.insert("group".to_owned(), groups);
        }
        serde_json::to_vec(&Body {
            kind: "SubjectAccessReview",
            api_version: version.api_version(),
            metadata: BTreeMap::new(),
            spec,
            status: BTreeMap::from([("allowed", false)]),
        })
    }
}

impl ResourceAttributes {
    fn of(resource: &ResourceRequest<'_>, verb: String) -> Self {
        Self {
            namespace: resource.namespace.to_owned(),
            verb,
            group: resource.group.to_owned(),
            version: resource.version.to_owned(),
            resource: resource.resource.to_owned(),
            subresource: resource.subresource.to_owned(),
            name: resource.name.to_owned(),
            field_selector: selector(resource.field_selector.iter().map(field)),
            label_selector: selector(resource.label_selector.iter().filter_map(label)),
        }
    }
}

/// WH-18: without requirements there is no selector.
fn selector(requirements: impl Iterator<Item = Requirement>) -> Option<Selector> {
    let requirements: Vec<Requirement> = requirements.collect();
    (!requirements.is_empty()).then(|| Selector { raw_selector: String::new(), requirements })
}

/// WH-16
fn field(requirement: &FieldRequirement) -> Requirement {
    let operator = match requirement.operator {
        FieldOperator::Equals => "In",
        FieldOperator::NotEquals => "NotIn",
    };
    Requirement {
        key: requirement.field.clone(),
        operator: operator.to_owned(),
        values: vec![requirement.value.clone()],
    }
}

/// WH-17
fn label(requirement: &LabelRequirement) -> Option<Requirement> {
    let operator = match requirement.operator {
        LabelOperator::Equals | LabelOperator::In => "In",
        LabelOperator::NotEquals | LabelOperator::NotIn => "NotIn",
        LabelOperator::Exists => "Exists",
        LabelOperator::DoesNotExist => "DoesNotExist",
        LabelOperator::GreaterThan | LabelOperator::LessThan => return None,
    };
    Some(Requirement {
        key: requirement.key.clone(),
        operator: operator.to_owned(),
        values: requirement.values.clone(),
    })
}
