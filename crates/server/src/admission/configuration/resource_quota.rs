//! The configuration of ResourceQuota: the resources of which nothing may be used without a quota.
//!
//! DIVERGES: kube-apiserver passes over scopes that do not exist and expressions that make no sense; the objects that they were
//! meant for are then not limited. Here they are errors, and so are more entries than can be compared with every object.

use std::sync::Arc;

use kinds::quota::LimitedResource;
use kinds::resources::core::quotas::{MOST_EXPRESSIONS, MOST_VALUES, scope_errors};
use policy::objects::decode::List;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::document::{Form, Taken, decoded};

/// The most parts of names, in all entries: each is compared with all that an object uses.
const MOST_PARTS: usize = 100;
const FORMS: &[Form] = &[
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    limited_resources: List<Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    api_group: String,
    resource: String,
    match_contains: List<String>,
    match_scopes: List<Scope>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Scope {
    scope_name: String,
    operator: String,
    values: List<String>,
}

/// Reads the resources that are limited.
pub(super) fn read(document: Map<String, Value>) -> Taken<Arc<[LimitedResource]>> {
    let entries = decoded::<Document>(document, FORMS)?.limited_resources.0;
    let scopes = || entries.iter().flat_map(|entry| &entry.match_scopes);
    let values = scopes().map(|scope| scope.values.len()).max().unwrap_or_default();
    for (field, count, most) in [
        ("", entries.len(), MOST_PARTS),
        ("[*].matchContains", entries.iter().map(|entry| entry.match_contains.len()).sum(), MOST_PARTS),
        ("[*].matchScopes", scopes().count(), MOST_EXPRESSIONS),
        ("[*].matchScopes[*].values", values, MOST_VALUES),
    ] {
        if count > most {
            let error = FieldError::too_many(format!("limitedResources{field}"), count, most);
            return Ok((Arc::default(), FieldErrors::from([error])));
        }
    }
    let mut errors = FieldErrors::new();
    let limited = entries.into_iter().enumerate().map(|(at, entry)| entry.limited(at, &mut errors)).collect();
    Ok((limited, errors))
}

impl Entry {
    fn limited(self, at: usize, errors: &mut FieldErrors) -> LimitedResource {
        if self.resource.is_empty() {
            errors.push(FieldError::required(format!("limitedResources[{at}].resource"), ""));
        }
        let scopes = self.match_scopes.0.into_iter().map(Scope::expression).collect::<Vec<_>>();
        for (place, scope) in scopes.iter().enumerate() {
            errors.extend(scope_errors(
                &format!("limitedResources[{at}].matchScopes[{place}]"),
                scope,
                false,
            ));
        }
        LimitedResource {
            group: self.api_group,
            resource: self.resource,
            contains: self.match_contains.0,
            scopes,
        }
    }
}

impl Scope {
    /// The scope as in the scope selector of a quota.
    fn expression(self) -> Map<String, Value> {
        let fields = [
            ("scopeName", Value::from(self.scope_name)),
            ("operator", Value::from(self.operator)),
            ("values", json!(self.values.0)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
