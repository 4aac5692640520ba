//! From a review to what authorizers are asked (WH-75 to WH-77, NA-22, NA-23), and back (WH-11 to WH-19).

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::selector::{
    FieldOperator, FieldRequirement, LabelOperator, LabelRequirement, SelectorError, SelectorRequirement,
    convert_all, parse_field_selector, parse_label_selector,
};

use super::{
    AccessReview, NonResourceAttributes, ResourceAttributes, ReviewKind, ReviewMetadata, ReviewVersion,
    SelectorAttributes,
};
use crate::request::{Attributes, ResourceRequest, User};

/// A valid review with parsed selectors. This is the only way from a review to [`Attributes`].
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

/// The parsed part of a selector, and the errors.
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
    /// The SubjectAccessReview that asks about a request (WH-11 to WH-19, KA-52). The path of a request for a resource is
    /// no part of it (WH-14, KA-27).
    pub fn asking(attributes: &Attributes<'_>, version: ReviewVersion) -> Self {
        let verb = attributes.verb.to_owned();
        let (resource, non_resource) = match &attributes.resource {
            None => (None, Some(NonResourceAttributes { path: attributes.path.to_owned(), verb })),
            Some(asked) => {
                let resource = ResourceAttributes {
                    namespace: asked.namespace.to_owned(),
                    verb,
                    group: asked.group.to_owned(),
                    version: asked.version.to_owned(),
                    resource: asked.resource.to_owned(),
                    subresource: asked.subresource.to_owned(),
                    name: asked.name.to_owned(),
                    field_selector: selector(asked.field_selector.iter().map(field_requirement)),
                    label_selector: selector(asked.label_selector.iter().filter_map(label_requirement)),
                };
                (Some(resource), None)
            }
        };
        let (kind, metadata) = (ReviewKind::SubjectAccessReview, ReviewMetadata::default());
        Self { version, kind, metadata, user: attributes.user.clone(), resource, non_resource }
    }

    /// Returns the attributes for authorizers. `sender` is used in self reviews only; the other kinds name their user.
    ///
    /// # Errors
    /// The review is invalid; see [`AccessReview::validate`].
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
    /// The attributes for authorizers: everything verbatim, except that an empty version becomes `*` (WH-75). The name
    /// is never taken from a selector (NA-23).
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

    /// The `status.evaluationError`: the authorizer's error, then those of the selectors (WH-79).
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

/// WH-18: without requirements there is no selector.
fn selector(requirements: impl Iterator<Item = SelectorRequirement>) -> Option<SelectorAttributes> {
    let requirements: Vec<_> = requirements.collect();
    (!requirements.is_empty()).then(|| SelectorAttributes { raw: String::new(), requirements })
}

/// WH-16
fn field_requirement(requirement: &FieldRequirement) -> SelectorRequirement {
    let operator = match requirement.operator {
        FieldOperator::Equals => "In",
        FieldOperator::NotEquals => "NotIn",
    };
    SelectorRequirement {
        key: requirement.field.clone(),
        operator: operator.to_owned(),
        values: vec![requirement.value.clone()],
    }
}

/// WH-17
fn label_requirement(requirement: &LabelRequirement) -> Option<SelectorRequirement> {
    let operator = match requirement.operator {
        LabelOperator::Equals | LabelOperator::In => "In",
        LabelOperator::NotEquals | LabelOperator::NotIn => "NotIn",
        LabelOperator::Exists => "Exists",
        LabelOperator::DoesNotExist => "DoesNotExist",
        LabelOperator::GreaterThan | LabelOperator::LessThan => return None,
    };
    Some(SelectorRequirement {
        key: requirement.key.clone(),
        operator: operator.to_owned(),
        values: requirement.values.clone(),
    })
}
