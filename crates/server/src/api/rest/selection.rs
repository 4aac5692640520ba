//! Which objects of a collection: label and field selectors, matched (AP-73 to AP-76).

use kinds::Map;
use kinds::resource::{Resource, Selectable};
use policy::selector::{FieldOperator, FieldRequirement, LabelOperator, LabelRequirement};
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::Entry;
use serde_json::Value;

use super::storage;
use crate::go::quoted;
use crate::status::Status;

/// Label and field selectors that all hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldTest>,
}

#[derive(Clone, Debug)]
struct FieldTest {
    field: Field,
    equals: bool,
    value: String,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    Of(&'static Selectable),
}

impl Selection {
    /// What these selectors select of a kind.
    ///
    /// # Errors
    /// 400 for a field that this kind is not selected by (AP-74, AP-75).
    pub(crate) fn new(
        resource: &'static Resource,
        labels: Vec<LabelRequirement>,
        fields: Vec<FieldRequirement>,
    ) -> Result<Self, Status> {
        let test = |requirement: FieldRequirement| {
            let field = match requirement.field.as_str() {
                "metadata.name" => Field::Name,
                "metadata.namespace" if resource.selects_namespace => Field::Namespace,
                name => match resource.selectable.iter().find(|selectable| selectable.name == name) {
                    Some(selectable) => Field::Of(selectable),
                    None => {
                        let message = format!("field label not supported: {}", quoted(name));
                        return Err(Status::bad_request(message));
                    }
                },
            };
            let equals = requirement.operator == FieldOperator::Equals;
            Ok(FieldTest { field, equals, value: requirement.value })
        };
        let fields = fields.into_iter().map(test).collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Only the object of this name.
    ///
    /// # Errors
    /// 400 when the field selector names another.
    pub(crate) fn narrow_to(&mut self, name: &str) -> Result<(), Status> {
        let named = self.fields.iter().find(|test| test.equals && matches!(test.field, Field::Name));
        if !self.fields.is_empty() && named.is_none_or(|test| test.value != name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        self.fields = vec![FieldTest { field: Field::Name, equals: true, value: name.to_owned() }];
        Ok(())
    }

    /// The one name that an object must have, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        let named = self.fields.iter().find(|test| test.equals && matches!(test.field, Field::Name));
        named.map(|test| test.value.as_str())
    }

    /// Whether everything is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object of an entry is selected. Reads it only if the key does not say enough.
    ///
    /// # Errors
    /// The entry holds no object.
    pub(crate) fn has(&self, resource: &'static Resource, entry: &Entry) -> Result<bool, Status> {
        let (namespace, name) = storage::place(resource, &entry.key);
        let mut needs_object = !self.labels.is_empty();
        for test in &self.fields {
            let value = match test.field {
                Field::Name => name,
                Field::Namespace => namespace,
                Field::Of(_) => {
                    needs_object = true;
                    continue;
                }
            };
            if (value == test.value) != test.equals {
                return Ok(false);
            }
        }
        Ok(!needs_object || self.has_object(&storage::decode(&storage::served(resource, &entry.value)?)?))
    }

    /// Whether labels and fields of an object are those that are selected. Its place does not count.
    fn has_object(&self, object: &Map) -> bool {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.labels.iter().all(|requirement| is_met(requirement, label(&requirement.key)))
            && self.fields.iter().all(|test| match test.field {
                Field::Name | Field::Namespace => true,
                Field::Of(selectable) => ((selectable.value)(object) == test.value) == test.equals,
            })
    }
}

/// Whether a label meets a requirement (AP-73).
fn is_met(requirement: &LabelRequirement, label: Option<&str>) -> bool {
    let is_in = |value: &str| requirement.values.iter().any(|v| v == value);
    let compare = |holds: fn(&i64, &i64) -> bool| {
        let theirs = label.and_then(|value| value.parse::<i64>().ok());
        let ours = requirement.values.first().and_then(|value| value.parse::<i64>().ok());
        theirs.zip(ours).is_some_and(|(theirs, ours)| holds(&theirs, &ours))
    };
    match requirement.operator {
        LabelOperator::DoesNotExist => label.is_none(),
        LabelOperator::Exists => label.is_some(),
        LabelOperator::Equals | LabelOperator::In => label.is_some_and(is_in),
        LabelOperator::NotEquals | LabelOperator::NotIn => !label.is_some_and(is_in),
        LabelOperator::GreaterThan => compare(|theirs, ours| theirs > ours),
        LabelOperator::LessThan => compare(|theirs, ours| theirs < ours),
    }
}
