//! Which objects of a collection: label and field selectors, matched (AP-73 to AP-76).

use kinds::meta::{FieldSelector, labels_match};
use kinds::resource::Resource;
use memchr::memmem::Finder;
use policy::selector::{FieldOperator, FieldRequirement, LabelOperator, LabelRequirement};
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::Entry;

use super::storage;
use crate::status::Status;

/// The fields whose value stands in the object as it is, so that looking for it in the bytes says who lacks it.
const VERBATIM: &[&str] = &["spec.nodeName"];

/// A text that stands in the stored bytes of every object that these select, if there is one.
fn needle(labels: &[LabelRequirement], fields: &[FieldRequirement]) -> Option<Finder<'static>> {
    let field = fields.iter().find_map(|field| {
        let is_one = field.operator == FieldOperator::Equals && VERBATIM.contains(&field.field.as_str());
        is_one.then_some(&field.value)
    });
    let label = labels.iter().find_map(|label| match (label.operator, label.values.as_slice()) {
        (LabelOperator::Equals | LabelOperator::In, [value]) => Some(value),
        _ => None,
    });
    // Other characters may be written in more than one way.
    let is_plain = |value: &&String| {
        !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let value = field.or(label).filter(is_plain)?;
    Some(Finder::new(&format!("\"{value}\"")).into_owned())
}

/// Label and field selectors that all hold, and the name in the path, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Vec<LabelRequirement>,
    fields: FieldSelector,
    name: Option<String>,
    /// What the bytes of every object hold that is selected.
    needle: Option<Finder<'static>>,
}

impl Selection {
    /// What these selectors select of a kind.
    ///
    /// # Errors
    /// 400 for a field that this kind is not selected by (AP-74, AP-75).
    pub(crate) fn new(
        resource: &'static Resource,
        labels: Vec<LabelRequirement>,
        fields: &[FieldRequirement],
    ) -> Result<Self, Status> {
        let needle = needle(&labels, fields);
        let fields =
            FieldSelector::new(fields, resource).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Self { labels, fields, name: None, needle })
    }

    /// Only the object of this name.
    ///
    /// # Errors
    /// 400 when the field selector names another.
    pub(crate) fn narrow_to(&mut self, name: &str) -> Result<(), Status> {
        if !self.fields.is_empty() && self.fields.name() != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        self.name = Some(name.to_owned());
        Ok(())
    }

    /// The one name that an object must have, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref().or_else(|| self.fields.name())
    }

    /// The value that a field must have, when the selector says so.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.of_kind(name)
    }

    /// Whether everything is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    /// Whether the object of an entry is selected. Reads it only if the key does not say enough.
    ///
    /// # Errors
    /// The entry holds no object.
    pub(crate) fn has(&self, resource: &'static Resource, entry: &Entry) -> Result<bool, Status> {
        let (namespace, name) = storage::place(resource, &entry.key);
        if self.name().is_some_and(|wanted| wanted != name)
            || self.fields.namespace().is_some_and(|wanted| wanted != namespace)
        {
            return Ok(false);
        }
        if self.labels.is_empty() && self.fields.is_empty() {
            return Ok(true);
        }
        // Thousands of kubelets watch the pods of all nodes, and each wants those of one.
        if self.needle.as_ref().is_some_and(|needle| needle.find(&entry.value).is_none()) {
            return Ok(false);
        }
        let object = storage::decode(&storage::served(resource, &entry.value)?)?;
        Ok(labels_match(&self.labels, &object) && self.fields.matches(&object))
    }
}
