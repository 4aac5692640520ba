//! Access reviews as values of expressions (AC-103 to AC-107).

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use policy::review::{AccessReview, ResourceAttributes, SelectorAttributes};

/// The length of the longest list of a review.
pub(super) fn longest_list(review: &AccessReview) -> usize {
    let of_extra = review.user.extra.values().map(Vec::len).fold(review.user.extra.len(), usize::max);
    let of_selector = |selector: &Option<SelectorAttributes>| {
        let requirements =
            selector.as_ref().map(|selector| selector.requirements.as_slice()).unwrap_or_default();
        requirements.iter().map(|requirement| requirement.values.len()).fold(requirements.len(), usize::max)
    };
    let of_resource = review.resource.as_ref().map_or(0, |resource| {
        of_selector(&resource.field_selector).max(of_selector(&resource.label_selector))
    });
    review.user.groups.len().max(of_extra).max(of_resource)
}

/// A string.
pub(super) fn text(value: &str) -> Value {
    Value::String(Arc::new(value.to_owned()))
}

/// A string that somebody else has written. One that would be taken for a type is changed.
pub(super) fn foreign_text(value: &str) -> Value {
    match value.strip_prefix('\u{0}') {
        Some(rest) => text(&format!("\u{fffd}{rest}")),
        None => text(value),
    }
}

fn texts(values: &[String]) -> Value {
    Value::List(Arc::new(values.iter().map(|value| text(value)).collect()))
}

/// A map.
pub(super) fn map(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Map(entries.into_iter().collect::<HashMap<String, Value>>().into())
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)))
}

/// The variable `request` of match conditions of authorizers (AC-103).
pub(super) fn request(review: &AccessReview) -> Value {
    let user = &review.user;
    let extra = map(user.extra.iter().map(|(key, values)| (key.clone(), texts(values))));
    let mut fields = vec![
        ("user", text(&user.name)),
        ("uid", text(&user.uid)),
        ("groups", texts(&user.groups)),
        ("extra", extra),
    ];
    fields.extend(review.resource.as_ref().map(|found| ("resourceAttributes", resource(found))));
    fields.extend(review.non_resource.as_ref().map(|found| {
        let fields = [("path", text(&found.path)), ("verb", text(&found.verb))];
        ("nonResourceAttributes", object(fields))
    }));
    object(fields)
}

/// AC-104, AC-106: all fields are present, even if empty; selectors are not (AC-107).
fn resource(attributes: &ResourceAttributes) -> Value {
    let mut fields = vec![
        ("namespace", text(&attributes.namespace)),
        ("verb", text(&attributes.verb)),
        ("group", text(&attributes.group)),
        ("version", text(&attributes.version)),
        ("resource", text(&attributes.resource)),
        ("subresource", text(&attributes.subresource)),
        ("name", text(&attributes.name)),
    ];
    fields.extend(attributes.field_selector.as_ref().map(|found| ("fieldSelector", selector(found))));
    fields.extend(attributes.label_selector.as_ref().map(|found| ("labelSelector", selector(found))));
    object(fields)
}

/// AC-107
fn selector(selector: &SelectorAttributes) -> Value {
    let mut fields = Vec::new();
    if !selector.raw.is_empty() {
        fields.push(("rawSelector", text(&selector.raw)));
    }
    if !selector.requirements.is_empty() {
        let requirements = selector.requirements.iter().map(|requirement| {
            let mut fields = vec![("key", text(&requirement.key)), ("operator", text(&requirement.operator))];
            if !requirement.values.is_empty() {
                fields.push(("values", texts(&requirement.values)));
            }
            object(fields)
        });
        fields.push(("requirements", Value::List(Arc::new(requirements.collect()))));
    }
    object(fields)
}
