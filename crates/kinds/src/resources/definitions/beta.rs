//! Definitions of `apiextensions.k8s.io/v1beta1`, the version in which kube-apiserver stores them. What all versions of a
//! kind have in common stands there only once, beside the list of versions.
//!
//! Only for what lies in a store: clients cannot use this version.

use serde_json::{Value, json};

use super::versions::MAX_VERSIONS;
use crate::Map;
use crate::fields::Members;

/// The `apiVersion` of such definitions.
pub const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";
/// Fields that `v1beta1` has both for all versions and for each version, with their names there.
const COMMON: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// A definition of this version in the form of `apiextensions.k8s.io/v1`. It is neither decoded nor completed.
///
/// # Errors
/// Too many versions have a schema in common, which each of them would hold.
pub fn from_v1beta1(mut definition: Map) -> Result<Map, String> {
    let Some(spec) = definition.object_mut("spec") else { return Ok(definition) };
    let first = spec.remove("version").unwrap_or_default();
    if spec.list("versions").is_empty() && first.as_str().is_some_and(|first| !first.is_empty()) {
        spec.insert("versions".to_owned(), json!([{"name": first, "served": true, "storage": true}]));
    }
    let common = COMMON.map(|(outside, within)| (within, spec.remove(outside)));
    let count = spec.list("versions").len();
    if count > MAX_VERSIONS && common.iter().any(|(_, value)| value.is_some()) {
        return Err(format!("it has {count} versions; at most {MAX_VERSIONS} can have a schema in common"));
    }
    for version in spec.objects_mut("versions") {
        for (name, value) in &common {
            if let Some(value) = value {
                version.insert((*name).to_owned(), value.clone());
            }
        }
        for column in version.objects_mut("additionalPrinterColumns") {
            if let Some(path) = column.remove("JSONPath") {
                column.insert("jsonPath".to_owned(), path);
            }
        }
    }
    if spec.text("scope").is_empty() {
        spec.insert("scope".to_owned(), "Namespaced".into());
    }
    // What is not said is true in this version, and false in the other.
    spec.default_value("preserveUnknownFields", Value::Bool(true));
    if let Some(conversion) = spec.object_mut("conversion") {
        let webhook = [
            ("clientConfig", conversion.remove("webhookClientConfig")),
            ("conversionReviewVersions", conversion.remove("conversionReviewVersions")),
        ];
        let webhook = webhook.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let webhook: Map = webhook.filter(|(_, value)| !value.is_null()).collect();
        if !webhook.is_empty() {
            conversion.insert("webhook".to_owned(), webhook.into());
        }
    }
    Ok(definition)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn converted(spec: &Value) -> Value {
        let definition = json!({"spec": spec}).as_object().cloned().unwrap();
        from_v1beta1(definition).unwrap().remove("spec").unwrap()
    }

    #[test]
    fn what_versions_have_in_common_is_said_by_each() {
        let columns = json!([{"name": "A", "type": "string", "JSONPath": ".spec.a"}]);
        let spec = converted(&json!({"scope": "Cluster", "version": "v1", "preserveUnknownFields": false,
            "validation": {"openAPIV3Schema": {"type": "object"}}, "subresources": {"status": {}},
            "additionalPrinterColumns": columns, "versions": [{"name": "v1"}, {"name": "v2"}]}));
        for (at, name) in ["v1", "v2"].into_iter().enumerate() {
            let wanted = json!({"name": name, "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]});
            assert_eq!(spec["versions"][at], wanted);
        }
        assert_eq!(spec["scope"], "Cluster");
        assert_eq!(spec["preserveUnknownFields"], false);
        assert_eq!(spec.get("version").or(spec.get("validation")), None);
    }

    #[test]
    fn what_is_not_said_has_the_defaults_of_this_version() {
        let spec = converted(&json!({"version": "v1", "conversion": {"strategy": "Webhook",
            "webhookClientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]}}));
        assert_eq!(spec["versions"], json!([{"name": "v1", "served": true, "storage": true}]));
        assert_eq!(spec["scope"], "Namespaced");
        assert_eq!(spec["preserveUnknownFields"], true);
        let webhook = json!({"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]});
        assert_eq!(spec["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
    }

    #[test]
    fn a_schema_is_not_repeated_without_end() {
        let versions: Vec<Value> = (0..=MAX_VERSIONS).map(|at| json!({"name": format!("v{at}")})).collect();
        let definition = json!({"spec": {"validation": {}, "versions": versions}});
        from_v1beta1(definition.as_object().cloned().unwrap()).unwrap_err();
    }
}
