//! Webhooks that admit requests, or change them.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::json;

use super::USUAL;
use super::rules::{default_matching, validate_failure, validate_matching, validate_texts};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, raise_generation};
use crate::resource::Resource;
use crate::resources::cells::{AGE, NAME, age, integer_column, name};
use crate::resources::formats::{dns_subdomain, one_of};
use crate::schema::admission_registration::{
    MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION,
};
use crate::schema::values;
use crate::table::Row;

/// The row of MutatingWebhookConfigurations.
pub static MUTATING_WEBHOOK_CONFIGURATIONS: Resource = Resource {
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    schema: &MUTATING_WEBHOOK_CONFIGURATION,
    default: |configuration| {
        default(configuration);
        for webhook in configuration.objects_mut("webhooks") {
            webhook.default_value("reinvocationPolicy", "Never");
        }
    },
    ..WEBHOOKS
};

/// The row of ValidatingWebhookConfigurations.
pub static VALIDATING_WEBHOOK_CONFIGURATIONS: Resource = Resource {
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    schema: &VALIDATING_WEBHOOK_CONFIGURATION,
    ..WEBHOOKS
};

const WEBHOOKS: Resource = Resource {
    default,
    validate_create: validate,
    prepare_update: |configuration, old| {
        let has_changed = configuration.get("webhooks") != old.get("webhooks");
        raise_generation(configuration, old, has_changed);
    },
    validate_update: |configuration, _| validate(configuration),
    columns: &[NAME, integer_column("Webhooks", "How many webhooks there are."), AGE],
    row: |configuration, now| {
        Row::of(vec![
            name(configuration),
            json!(configuration.list("webhooks").len()),
            age(configuration, now),
        ])
    },
    ..USUAL
};

/// The port of a webhook's service.
const PORT: i64 = 443;
/// The time that a webhook has to answer, in seconds, and the most that it can have.
const TIMEOUT: i64 = 10;
const MAX_TIMEOUT: i64 = 30;

fn default(configuration: &mut Map) {
    for webhook in configuration.objects_mut("webhooks") {
        webhook.default_value("failurePolicy", "Fail");
        webhook.default_value("timeoutSeconds", TIMEOUT);
        default_matching(webhook);
        if let Some(service) =
            webhook.object_mut("clientConfig").and_then(|client| client.object_mut("service"))
        {
            service.default_value("port", PORT);
        }
    }
}

fn validate(configuration: &Map) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (i, webhook) in configuration.objects("webhooks").enumerate() {
        let field = format!("webhooks[{i}]");
        let name = webhook.text("name");
        validate_name(&format!("{field}.name"), name, &mut errors);
        errors.push_if(!seen.insert(name), || FieldError::duplicate(format!("{field}.name"), quoted(name)));
        validate_webhook(&field, webhook, &mut errors);
    }
    errors
}

/// A name has at least three parts: `check.example.com`.
fn validate_name(field: &str, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let before = errors.len();
    errors.extend(dns_subdomain(field, name));
    errors.push_if(errors.len() == before && name.split('.').count() < 3, || {
        let detail = "should be a domain with at least three segments separated by dots";
        FieldError::invalid(field, quoted(name), detail)
    });
}

fn validate_webhook(field: &str, webhook: &Map, errors: &mut Errors) {
    let versions = webhook.texts("admissionReviewVersions");
    let at = format!("{field}.admissionReviewVersions");
    if versions.len() == 0 {
        errors.push(FieldError::required(at, "must specify one of v1, v1beta1"));
    } else if !versions.clone().any(|version| matches!(version, "v1" | "v1beta1")) {
        let versions = versions.collect::<Vec<_>>().join(",");
        errors.push(FieldError::invalid(at, versions, "must include at least one of v1, v1beta1"));
    }
    match webhook.text("sideEffects") {
        "" => {
            let detail = "must specify one of None, NoneOnDryRun";
            errors.push(FieldError::required(format!("{field}.sideEffects"), detail));
        }
        effects => {
            errors.extend(one_of(&format!("{field}.sideEffects"), effects, &["None", "NoneOnDryRun"]));
        }
    }
    let timeout = webhook.number("timeoutSeconds");
    errors.push_if(webhook.has("timeoutSeconds") && !(1..=MAX_TIMEOUT).contains(&timeout), || {
        let detail = "the timeout value must be between 1 and 30 seconds";
        FieldError::invalid(format!("{field}.timeoutSeconds"), timeout.to_string(), detail)
    });
    if webhook.has("reinvocationPolicy") {
        let policy = webhook.text("reinvocationPolicy");
        errors.extend(one_of(&format!("{field}.reinvocationPolicy"), policy, values::REINVOCATION_POLICIES));
    }
    validate_failure(field, webhook, errors);
    validate_matching(field, webhook, errors);
    validate_texts(field, webhook, "matchConditions", &["name", "expression"], errors);
    validate_client(&format!("{field}.clientConfig"), webhook.object("clientConfig"), errors);
}

fn validate_client(field: &str, client: &Map, errors: &mut Errors) {
    match (client.has("url"), client.object_if_set("service")) {
        (true, None) => {
            let url = client.text("url");
            errors.push_if(!url.starts_with("https://"), || {
                FieldError::invalid(
                    format!("{field}.url"),
                    quoted(url),
                    "'https' is the only allowed URL scheme",
                )
            });
        }
        (false, Some(service)) => {
            for member in ["name", "namespace"] {
                errors.push_if(service.text(member).is_empty(), || {
                    FieldError::required(format!("{field}.service.{member}"), "")
                });
            }
        }
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}
