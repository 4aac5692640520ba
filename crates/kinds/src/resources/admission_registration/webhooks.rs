//! Webhooks that admit requests, or change them.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::json;

use super::USUAL;
use super::rules::{
    MAX_CONDITIONS, default_matching, validate_conditions, validate_failure, validate_matching,
};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, raise_generation};
use crate::resource::{ExpressionsAbout, OnRequest, Resource};
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
    validate_create: |configuration| validate(configuration, &NO_FAULTS),
    on_create: ON_REQUEST,
    prepare_update: |configuration, old| {
        let has_changed = configuration.get("webhooks") != old.get("webhooks");
        raise_generation(configuration, old, has_changed);
    },
    validate_update: |configuration, _| validate(configuration, &NO_FAULTS),
    on_update: ON_REQUEST,
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

/// Expressions that the configuration has already are not compiled again.
const ON_REQUEST: OnRequest = OnRequest {
    expressions: |configuration, old| {
        let old: BTreeSet<&str> = old.map(expressions).into_iter().flatten().collect();
        expressions(configuration).filter(|expression| !old.contains(expression)).collect()
    },
    about: ExpressionsAbout::Writes,
    validate: Some(|configuration, _, context| validate(configuration, context.expression_faults)),
    ..OnRequest::NOTHING
};

/// What is wrong with expressions, by expression.
type Faults = BTreeMap<String, String>;
static NO_FAULTS: Faults = Faults::new();

/// The expressions of all match conditions, as far as they count: what is beyond the limit is refused without being compiled.
fn expressions(configuration: &Map) -> impl Iterator<Item = &str> {
    let webhooks = configuration.objects("webhooks");
    let conditions = webhooks.flat_map(|webhook| webhook.objects("matchConditions").take(MAX_CONDITIONS));
    conditions.map(|condition| condition.text("expression"))
}

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

fn validate(configuration: &Map, faults: &Faults) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (i, webhook) in configuration.objects("webhooks").enumerate() {
        let field = format!("webhooks[{i}]");
        let name = webhook.text("name");
        validate_name(&format!("{field}.name"), name, &mut errors);
        errors.push_if(!seen.insert(name), || FieldError::duplicate(format!("{field}.name"), quoted(name)));
        validate_webhook(&field, webhook, faults, &mut errors);
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

fn validate_webhook(field: &str, webhook: &Map, faults: &Faults, errors: &mut Errors) {
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
    validate_conditions(field, webhook, errors);
    validate_expressions(field, webhook, faults, errors);
    validate_client(&format!("{field}.clientConfig"), webhook.object("clientConfig"), errors);
}

/// Tells what is wrong with the expressions of match conditions.
fn validate_expressions(field: &str, webhook: &Map, faults: &Faults, errors: &mut Errors) {
    for (i, condition) in webhook.objects("matchConditions").take(MAX_CONDITIONS).enumerate() {
        let expression = condition.text("expression");
        errors.extend(faults.get(expression).map(|fault| {
            let detail = format!("compilation failed: {fault}");
            let field = format!("{field}.matchConditions[{i}].expression");
            FieldError::invalid(field, quoted(expression), detail)
        }));
    }
}

fn validate_client(field: &str, client: &Map, errors: &mut Errors) {
    match (client.has("url"), client.object_if_set("service")) {
        (true, None) => validate_url(&format!("{field}.url"), client.text("url"), errors),
        (false, Some(service)) => {
            for member in ["name", "namespace"] {
                errors.push_if(service.text(member).is_empty(), || {
                    FieldError::required(format!("{field}.service.{member}"), "")
                });
            }
            let (path, port) = (service.text("path"), service.number("port"));
            errors.push_if(!path.is_empty() && (!path.starts_with('/') || path.contains(['?', '#'])), || {
                let detail = "must start with '/', without a query or a fragment";
                FieldError::invalid(format!("{field}.service.path"), quoted(path), detail)
            });
            errors.push_if(service.has("port") && !(1..=65535).contains(&port), || {
                let detail = "must be between 1 and 65535, inclusive";
                FieldError::invalid(format!("{field}.service.port"), port.to_string(), detail)
            });
        }
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}

/// A URL is `https://host[/path]`: a query, a fragment or a user would never be sent as they are written.
fn validate_url(field: &str, url: &str, errors: &mut Errors) {
    let Some(rest) = url.strip_prefix("https://") else {
        let detail = "'https' is the only allowed URL scheme";
        errors.push(FieldError::invalid(field, quoted(url), detail));
        return;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    for (is_wrong, detail) in [
        (host.is_empty(), "host must be specified"),
        (host.contains('@'), "user information is not permitted in the URL"),
        (rest.contains('#'), "fragments are not permitted in the URL"),
        (rest.contains('?'), "query parameters are not permitted in the URL"),
    ] {
        errors.push_if(is_wrong, || FieldError::invalid(field, quoted(url), detail));
    }
}
