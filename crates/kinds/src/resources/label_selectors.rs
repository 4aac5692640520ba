//! Label selectors inside objects: which objects they select, and how they are written.

use portcullis_apimachinery::selector::{LabelOperator, LabelRequirement, SelectorRequirement};
use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::meta::labels_match;
use crate::table::NONE;

/// The requirements of a label selector, by key; `None` if one of them is malformed.
pub fn requirements(selector: &Map) -> Option<Vec<LabelRequirement>> {
    let labels = selector.object("matchLabels").iter().map(|(key, value)| {
        let values = vec![value.as_str().unwrap_or_default().to_owned()];
        Some(LabelRequirement { key: key.clone(), operator: LabelOperator::Equals, values })
    });
    let expressions = selector.objects("matchExpressions").map(|expression| {
        let requirement = SelectorRequirement {
            key: expression.text("key").to_owned(),
            operator: expression.text("operator").to_owned(),
            values: expression.texts("values").map(str::to_owned).collect(),
        };
        LabelRequirement::from_structured(&requirement).ok()
    });
    let mut requirements: Vec<LabelRequirement> = labels.chain(expressions).collect::<Option<_>>()?;
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Some(requirements)
}

/// Returns whether a label selector selects an object. A malformed one selects nothing.
pub(super) fn selects(selector: &Map, object: &Map) -> bool {
    requirements(selector).is_some_and(|requirements| labels_match(&requirements, object))
}

/// Returns whether a label selector has no requirements, and so selects everything.
pub(super) fn is_empty(selector: &Map) -> bool {
    selector.object("matchLabels").is_empty() && selector.list("matchExpressions").is_empty()
}

/// A label selector as text: `app=a,tier in (x,y)`; empty without requirements.
pub(super) fn text(selector: &Map) -> String {
    let mut requirements = requirements(selector).unwrap_or_default();
    for requirement in &mut requirements {
        requirement.values.sort();
    }
    requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The labels of a map as text: `app=a,tier=x`; empty without labels.
pub(super) fn labels_text(labels: &Map) -> String {
    let label = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    labels.iter().map(label).collect::<Vec<_>>().join(",")
}

/// The table cell of such a text.
pub(super) fn cell(text: String) -> Value {
    Value::from(if text.is_empty() { NONE.to_owned() } else { text })
}
