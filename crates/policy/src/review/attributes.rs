//! From a review to what authorizers are asked (WH-75 to WH-77, NA-22, NA-23).

use super::{AccessReview, FieldError, ResourceAttributes, SelectorAttributes};
use crate::request::{Attributes, ResourceRequest, User};
use crate::selector::{
    FieldRequirement, LabelRequirement, SelectorError, SelectorRequirement, convert_all,
    parse_field_selector, parse_label_selector,
};

/// A review that passed validation, with its selectors read. The only way from a review to [`Attributes`].
#[derive(Clone, Debug)]
pub struct ReviewAttributes<'r> {
    user: &'r User,
    request: Request<'r>,
    field_selector: ReadSelector<FieldRequirement>,
    label_selector: ReadSelector<LabelRequirement>,
}

#[derive(Clone, Debug)]
enum Request<'r> {
    Resource(&'r ResourceAttributes),
    Path { path: &'r str, verb: &'r str },
}

/// What could be read of a selector, and what could not.
#[derive(Clone, Debug)]
struct ReadSelector<R> {
    requirements: Vec<R>,
    errors: Vec<SelectorError>,
}

impl<R> ReadSelector<R> {
    /// WH-77
    fn read(
        selector: Option<&SelectorAttributes>,
        parse: impl Fn(&str) -> Result<Vec<R>, SelectorError>,
        convert: impl Fn(&SelectorRequirement) -> Result<R, SelectorError>,
    ) -> Self {
        let (requirements, errors) = match selector {
            None => (Vec::new(), Vec::new()),
            Some(selector) if selector.requirements.is_empty() => match parse(&selector.raw) {
                Ok(requirements) => (requirements, Vec::new()),
                Err(error) => (Vec::new(), vec![error]),
            },
            Some(selector) => convert_all(&selector.requirements, convert),
        };
        Self { requirements, errors }
    }

    /// WH-79
    fn complaint(&self, field: &str) -> Option<String> {
        let how = match (self.errors.is_empty(), self.requirements.is_empty()) {
            (true, _) => return None,
            (false, true) => "ignored",
            (false, false) => "partially ignored",
        };
        Some(format!("spec.resourceAttributes.{field} {how} due to parse error"))
    }
}

impl AccessReview {
    /// What to ask authorizers. `sender` counts in a self review only: the others say whom they are about.
    ///
    /// # Errors
    /// The review is not valid; see [`AccessReview::validate`].
    pub fn attributes<'r>(&'r self, sender: &'r User) -> Result<ReviewAttributes<'r>, Vec<FieldError>> {
        let errors = self.validate();
        let request = match (&self.resource, &self.non_resource) {
            (Some(resource), None) if errors.is_empty() => Request::Resource(resource),
            (None, Some(path)) if errors.is_empty() => Request::Path { path: &path.path, verb: &path.verb },
            _ => return Err(errors),
        };
        let resource = self.resource.as_ref();
        Ok(ReviewAttributes {
            user: if self.kind.names_subject() { &self.user } else { sender },
            request,
            field_selector: ReadSelector::read(
                resource.and_then(|resource| resource.field_selector.as_ref()),
                parse_field_selector,
                FieldRequirement::from_structured,
            ),
            label_selector: ReadSelector::read(
                resource.and_then(|resource| resource.label_selector.as_ref()),
                parse_label_selector,
                LabelRequirement::from_structured,
            ),
        })
    }
}

impl ReviewAttributes<'_> {
    /// What authorizers are asked: everything verbatim, an empty version as `*` (WH-75). A name is never taken from
    /// a selector (NA-23).
    pub fn attributes(&self) -> Attributes<'_> {
        match &self.request {
            Request::Path { path, verb } => Attributes { user: self.user, verb, path, resource: None },
            Request::Resource(resource) => Attributes {
                user: self.user,
                verb: &resource.verb,
                path: "",
                resource: Some(ResourceRequest {
                    namespace: &resource.namespace,
                    group: &resource.group,
                    version: if resource.version.is_empty() { "*" } else { &resource.version },
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    name: &resource.name,
                    field_selector: &self.field_selector.requirements,
                    label_selector: &self.label_selector.requirements,
                }),
            },
        }
    }

    /// Why parts of the field selector are not in the attributes, one error for each.
    pub fn field_selector_errors(&self) -> &[SelectorError] {
        &self.field_selector.errors
    }

    /// Why parts of the label selector are not in the attributes, one error for each.
    pub fn label_selector_errors(&self) -> &[SelectorError] {
        &self.label_selector.errors
    }

    /// `status.evaluationError`: what the authorizer complained of, then the selectors (WH-79).
    pub fn evaluation_error(&self, authorizer_error: Option<&str>) -> Option<String> {
        let complaints = [
            authorizer_error.filter(|error| !error.is_empty()).map(str::to_owned),
            self.field_selector.complaint("fieldSelector"),
            self.label_selector.complaint("labelSelector"),
        ];
        let complaints: Vec<String> = complaints.into_iter().flatten().collect();
        (!complaints.is_empty()).then(|| complaints.join("; "))
    }
}
