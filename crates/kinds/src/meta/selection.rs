//! Selecting objects by their labels and fields (AP-73 to AP-76).

use portcullis_policy::selector::{FieldOperator, FieldRequirement, LabelOperator, LabelRequirement};
use serde_json::Value;

use super::{metadata, name, namespace};
use crate::Map;
use crate::resource::{Resource, Selectable};

/// Whether an object's labels are what a selector asks for (AP-73).
pub fn labels_match(requirements: &[LabelRequirement], object: &Map) -> bool {
    let labels = metadata(object).and_then(|meta| meta.get("labels")).and_then(Value::as_object);
    requirements.iter().all(|requirement| {
        let label = labels.and_then(|labels| labels.get(&requirement.key));
        label_matches(requirement, label.map(|label| label.as_str().unwrap_or_default()))
    })
}

fn label_matches(requirement: &LabelRequirement, label: Option<&str>) -> bool {
    let is_listed = |label: &str| requirement.values.iter().any(|value| value == label);
    match requirement.operator {
        LabelOperator::DoesNotExist => label.is_none(),
        LabelOperator::Exists => label.is_some(),
        LabelOperator::Equals | LabelOperator::In => label.is_some_and(is_listed),
        LabelOperator::NotEquals | LabelOperator::NotIn => !label.is_some_and(is_listed),
        LabelOperator::GreaterThan => compares(requirement, label, |label, value| label > value),
        LabelOperator::LessThan => compares(requirement, label, |label, value| label < value),
    }
}

/// A label that is no number is neither greater nor less.
fn compares(requirement: &LabelRequirement, label: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
    let label = label.and_then(|label| label.parse().ok());
    let value = requirement.values.first().and_then(|value| value.parse().ok());
    label.zip(value).is_some_and(|(label, value)| holds(label, value))
}

/// A field selector for one kind, ready to be matched against its objects.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    field: Field,
    operator: FieldOperator,
    value: Box<str>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    OfKind(Selectable),
}

/// A field selector names a field that objects of the kind cannot be selected by (AP-74); a bad request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field:?} is not a known field selector: only {}", quoted(.known))]
pub struct UnknownField {
    /// The field.
    pub field: String,
    /// The fields that there are.
    pub known: Vec<&'static str>,
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

impl FieldSelector {
    /// Looks up the fields that a selector names (AP-74, AP-75).
    ///
    /// # Errors
    /// Objects of the kind cannot be selected by one of them.
    pub fn new(requirements: &[FieldRequirement], resource: &Resource) -> Result<Self, UnknownField> {
        let term = |requirement: &FieldRequirement| {
            let field = Field::find(&requirement.field, resource).ok_or_else(|| UnknownField {
                field: requirement.field.clone(),
                known: Field::known(resource),
            })?;
            Ok(Term { field, operator: requirement.operator, value: requirement.value.as_str().into() })
        };
        Ok(Self { terms: requirements.iter().map(term).collect::<Result<_, _>>()? })
    }

    /// Whether it asks for nothing, and so selects every object.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object's fields are what it asks for (AP-76).
    pub fn matches(&self, object: &Map) -> bool {
        self.terms.iter().all(|term| {
            let is_equal = match term.field {
                Field::Name => name(object) == &*term.value,
                Field::Namespace => namespace(object) == &*term.value,
                Field::OfKind(field) => (field.value)(object) == *term.value,
            };
            is_equal == (term.operator == FieldOperator::Equals)
        })
    }

    /// The name that an object must have, when the selector says so.
    pub fn name(&self) -> Option<&str> {
        self.exact(|field| matches!(field, Field::Name))
    }

    /// The namespace that an object must be in, when the selector says so.
    pub fn namespace(&self) -> Option<&str> {
        self.exact(|field| matches!(field, Field::Namespace))
    }

    /// The value that a field of the kind must have, when the selector says so.
    pub fn of_kind(&self, name: &str) -> Option<&str> {
        self.exact(|field| matches!(field, Field::OfKind(field) if field.name == name))
    }

    fn exact(&self, is_wanted: impl Fn(Field) -> bool) -> Option<&str> {
        let is_exact = |term: &&Term| term.operator == FieldOperator::Equals && is_wanted(term.field);
        self.terms.iter().find(is_exact).map(|term| &*term.value)
    }
}

impl Field {
    fn find(name: &str, resource: &Resource) -> Option<Self> {
        match name {
            "metadata.name" => Some(Self::Name),
            "metadata.namespace" => resource.selects_namespace.then_some(Self::Namespace),
            name => resource.selectable.iter().find(|field| field.name == name).copied().map(Self::OfKind),
        }
    }

    fn known(resource: &Resource) -> Vec<&'static str> {
        let namespace = resource.selects_namespace.then_some("metadata.namespace");
        let of_kind = resource.selectable.iter().map(|field| field.name);
        ["metadata.name"].into_iter().chain(namespace).chain(of_kind).collect()
    }
}
