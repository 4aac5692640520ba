//! Matches objects against label and field selectors (AP-73 to AP-76).

use std::borrow::Cow;

use portcullis_apimachinery::selector::{FieldOperator, FieldRequirement, LabelOperator, LabelRequirement};
use serde_json::Value;

use super::{name, namespace};
use crate::Map;
use crate::custom::FieldPath;
use crate::fields::Members;
use crate::resource::{Resource, Selectable};

/// Returns whether an object's labels match a selector (AP-73).
pub fn labels_match(requirements: &[LabelRequirement], object: &Map) -> bool {
    let labels = object.metadata().object("labels");
    requirements.iter().all(|requirement| {
        let label = labels.get(&requirement.key);
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

/// A label that is not a number is neither greater nor less.
fn compares(requirement: &LabelRequirement, label: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
    let label = label.and_then(|label| label.parse().ok());
    let value = requirement.values.first().and_then(|value| value.parse().ok());
    label.zip(value).is_some_and(|(label, value)| holds(label, value))
}

/// A field selector for one kind, prepared for matching.
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

#[derive(Clone, Debug)]
enum Field {
    Name,
    Namespace,
    OfKind(Selectable),
    OfCustom(FieldPath),
}

/// An error: the kind does not support a field of the selector (AP-74). A bad request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field:?} is not a known field selector: only {}", quoted(.known))]
pub struct UnknownField {
    /// The field.
    pub field: String,
    /// The supported fields.
    pub known: Vec<String>,
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

impl FieldSelector {
    /// Looks up the fields of a selector (AP-74, AP-75).
    ///
    /// # Errors
    /// The kind does not support one of them.
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

    /// Returns whether it has no requirements, and so selects every object.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether an object's fields match (AP-76).
    pub fn matches(&self, object: &Map) -> bool {
        self.terms.iter().all(|term| {
            let is_equal = match &term.field {
                Field::Name => name(object) == &*term.value,
                Field::Namespace => namespace(object) == &*term.value,
                Field::OfKind(field) => (field.value)(object) == *term.value,
                Field::OfCustom(path) => custom_text(path.value(object)) == *term.value,
            };
            is_equal == (term.operator == FieldOperator::Equals)
        })
    }

    /// The name that the selector requires, if any.
    pub fn name(&self) -> Option<&str> {
        self.exact(|field| matches!(field, Field::Name))
    }

    /// The namespace that the selector requires, if any.
    pub fn namespace(&self) -> Option<&str> {
        self.exact(|field| matches!(field, Field::Namespace))
    }

    /// The value that the selector requires of a field of the kind, if any.
    pub fn of_kind(&self, name: &str) -> Option<&str> {
        self.exact(|field| matches!(field, Field::OfKind(field) if field.name == name))
    }

    fn exact(&self, is_wanted: impl Fn(&Field) -> bool) -> Option<&str> {
        let is_exact = |term: &&Term| term.operator == FieldOperator::Equals && is_wanted(&term.field);
        self.terms.iter().find(is_exact).map(|term| &*term.value)
    }
}

impl Field {
    fn find(name: &str, resource: &Resource) -> Option<Self> {
        match name {
            "metadata.name" => Some(Self::Name),
            "metadata.namespace" => resource.selects_namespace.then_some(Self::Namespace),
            name => match resource.custom {
                Some(custom) => {
                    custom.selectable().into_iter().find(|path| path.name() == name).map(Self::OfCustom)
                }
                None => {
                    resource.selectable.iter().find(|field| field.name == name).copied().map(Self::OfKind)
                }
            },
        }
    }

    fn known(resource: &Resource) -> Vec<String> {
        let namespace = resource.selects_namespace.then_some("metadata.namespace");
        let of_kind = resource.selectable.iter().map(|field| field.name);
        let built_in = ["metadata.name"].into_iter().chain(namespace).chain(of_kind).map(str::to_owned);
        let custom = resource.custom.map(|custom| custom.selectable()).unwrap_or_default();
        built_in.chain(custom.iter().map(FieldPath::name)).collect()
    }
}

/// A value as a selector has it; empty if it is not set.
fn custom_text(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}
