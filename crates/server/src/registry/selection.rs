//! Matches objects against label and field selectors (AP-73 to AP-76).

use kinds::meta::{FieldSelector, labels_match};
use kinds::resource::Resource;
use memchr::memmem::Finder;
use portcullis_apimachinery::selector::{FieldOperator, FieldRequirement, LabelOperator, LabelRequirement};
use portcullis_store::Entry;

use super::storage;
use crate::http::status::Status;

/// Returns a string that occurs in the stored bytes of every selected object, if there is one.
fn needle(
    resource: &Resource,
    labels: &[LabelRequirement],
    fields: &[FieldRequirement],
) -> Option<Finder<'static>> {
    let is_verbatim = |field: &str| resource.index.is_some_and(|index| index.field == field);
    let field = fields.iter().find_map(|field| {
        let is_one = field.operator == FieldOperator::Equals && is_verbatim(&field.field);
        is_one.then_some(&field.value)
    });
    let label = labels.iter().find_map(|label| match (label.operator, label.values.as_slice()) {
        (LabelOperator::Equals | LabelOperator::In, [value]) => Some(value),
        _ => None,
    });
    // Other characters can be encoded in more than one way.
    let is_plain = |value: &&String| {
        !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let value = field.or(label).filter(is_plain)?;
    Some(Finder::new(&format!("\"{value}\"")).into_owned())
}

/// Label and field selectors that must all match, and the name in the path, if any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Vec<LabelRequirement>,
    fields: FieldSelector,
    name: Option<String>,
    /// A string that the bytes of every selected object contain. On the heap: it is large, and most watches have none.
    needle: Option<Box<Finder<'static>>>,
}

impl Selection {
    /// Creates the selection of objects of a kind by these selectors.
    ///
    /// # Errors
    /// 400 for a field that is not supported for this kind (AP-74, AP-75).
    pub(crate) fn new(
        resource: &'static Resource,
        labels: Vec<LabelRequirement>,
        fields: &[FieldRequirement],
    ) -> Result<Self, Status> {
        let needle = needle(resource, &labels, fields).map(Box::new);
        let fields =
            FieldSelector::new(fields, resource).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Self { labels, fields, name: None, needle })
    }

    /// Restricts the selection to the object of this name.
    ///
    /// # Errors
    /// 400 if the field selector requires a different name.
    pub(crate) fn narrow_to(&mut self, name: &str) -> Result<(), Status> {
        if !self.fields.is_empty() && self.fields.name() != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        self.name = Some(name.to_owned());
        Ok(())
    }

    /// Returns the required name, if any.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref().or_else(|| self.fields.name())
    }

    /// The one part of the collection that is selected, if it is one by which watches are told apart.
    pub(crate) fn part(&self, resource: &Resource) -> Option<&str> {
        self.fields.of_kind(resource.index?.field).filter(|value| !value.is_empty())
    }

    /// Returns whether everything is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    /// Returns whether the object of an entry is selected. Decodes it only if the key does not decide.
    ///
    /// # Errors
    /// The entry is not an object.
    pub(crate) fn has(&self, resource: &'static Resource, entry: &Entry) -> Result<bool, Status> {
        if !storage::is_in_place(resource, &entry.key) {
            return Ok(false);
        }
        let (namespace, name) = storage::place(resource, &entry.key);
        if self.name().is_some_and(|wanted| wanted != name)
            || self.fields.namespace().is_some_and(|wanted| wanted != namespace)
        {
            return Ok(false);
        }
        if self.labels.is_empty() && self.fields.is_empty() {
            return Ok(true);
        }
        // Thousands of kubelets watch pods, each only those of its own node.
        if self.needle.as_ref().is_some_and(|needle| needle.find(&entry.value).is_none()) {
            return Ok(false);
        }
        let object = storage::decode(&storage::served(resource, &entry.value)?)?;
        Ok(labels_match(&self.labels, &object) && self.fields.matches(&object))
    }
}
