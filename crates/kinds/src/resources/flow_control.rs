//! FlowSchemas and PriorityLevelConfigurations: which requests wait for which.
//!
//! DIVERGES: they are stored and served, and limit nothing: requests are limited by the flags of the server.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::cells::{AGE, NAME, age, integer_column, name, text_column};
use super::formats::{dns_subdomain, one_of};
use super::status;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::schema::flow_control::{
    FLOW_SCHEMA, FLOW_SCHEMA_STATUS, PRIORITY_LEVEL_CONFIGURATION, PRIORITY_LEVEL_CONFIGURATION_STATUS,
};
use crate::table::{NONE, Row};

/// The row of FlowSchemas.
pub static FLOW_SCHEMAS: Resource = Resource {
    kind: "FlowSchema",
    plural: "flowschemas",
    subresources: &[Subresource::status("FlowSchema")],
    schema: &FLOW_SCHEMA,
    default: |schema| {
        if let Some(spec) = schema.object_or_new("spec") {
            spec.default_number("matchingPrecedence", PRECEDENCE);
        }
    },
    prepare_create: |schema| status::begin(schema, &FLOW_SCHEMA_STATUS),
    validate_create: validate_schema,
    validate_update: |schema, _| validate_schema(schema),
    columns: &[
        NAME,
        text_column("PriorityLevel", "The priority level of matching requests."),
        integer_column("MatchingPrecedence", "Of several that match, the lowest counts."),
        text_column("DistinguisherMethod", "How the flows of a schema are told apart."),
        AGE,
        text_column("MissingPL", "Whether the priority level is missing."),
    ],
    row: schema_row,
    ..USUAL
};

/// The row of PriorityLevelConfigurations.
pub static PRIORITY_LEVEL_CONFIGURATIONS: Resource = Resource {
    kind: "PriorityLevelConfiguration",
    plural: "prioritylevelconfigurations",
    subresources: &[Subresource::status("PriorityLevelConfiguration")],
    schema: &PRIORITY_LEVEL_CONFIGURATION,
    default: default_level,
    prepare_create: |level| status::begin(level, &PRIORITY_LEVEL_CONFIGURATION_STATUS),
    validate_create: validate_level,
    validate_update: |level, _| validate_level(level),
    columns: &[
        NAME,
        text_column("Type", "Whether requests are limited."),
        text_column("NominalConcurrencyShares", "The share of the requests that are answered at a time."),
        text_column("Queues", "The number of queues."),
        text_column("HandSize", "The number of queues of a flow."),
        text_column("QueueLengthLimit", "The length of a queue."),
        AGE,
    ],
    row: level_row,
    ..USUAL
};

const USUAL: Resource = Resource {
    group: "flowcontrol.apiserver.k8s.io",
    is_namespaced: false,
    metadata_checks: MetadataChecks { alone: 1, as_update: 1, knows_finalizers: true },
    prepare_update: status::keep,
    prepare_status: status::keep_spec,
    ..Resource::USUAL
};

/// The precedence of a schema that does not say one, and the greatest.
const PRECEDENCE: i64 = 1_000;
const MAX_PRECEDENCE: i64 = 10_000;

fn default_level(level: &mut Map) {
    let Some(spec) = level.object_or_new("spec") else { return };
    if let Some(exempt) = spec.object_mut("exempt") {
        exempt.default_value("nominalConcurrencyShares", 0);
        exempt.default_value("lendablePercent", 0);
    }
    if let Some(limited) = spec.object_mut("limited") {
        limited.default_value("nominalConcurrencyShares", 30);
        limited.default_value("lendablePercent", 0);
        let queuing = limited.object_mut("limitResponse").and_then(|response| response.object_mut("queuing"));
        if let Some(queuing) = queuing {
            queuing.default_number("queues", 64);
            queuing.default_number("handSize", 8);
            queuing.default_number("queueLengthLimit", 50);
        }
    }
}

fn validate_schema(schema: &Map) -> Errors {
    let spec = schema.object("spec");
    let mut errors = Errors::new();
    let precedence = spec.number("matchingPrecedence");
    errors.push_if(!(1..=MAX_PRECEDENCE).contains(&precedence), || {
        let detail = "must be between 1 and 10000, inclusive";
        FieldError::invalid("spec.matchingPrecedence", precedence.to_string(), detail)
    });
    if let Some(method) = spec.object_if_set("distinguisherMethod") {
        let known = ["ByNamespace", "ByUser"];
        errors.extend(one_of("spec.distinguisherMethod.type", method.text("type"), &known));
    }
    let field = "spec.priorityLevelConfiguration.name";
    match spec.object("priorityLevelConfiguration").text("name") {
        "" => errors.push(FieldError::required(field, "must reference a priority level")),
        name => errors.extend(dns_subdomain(field, name)),
    }
    for (i, rule) in spec.objects("rules").enumerate() {
        let field = format!("spec.rules[{i}]");
        errors.push_if(rule.list("subjects").is_empty(), || {
            FieldError::required(format!("{field}.subjects"), "subjects must contain at least one value")
        });
        for (j, subject) in rule.objects("subjects").enumerate() {
            validate_subject(&format!("{field}.subjects[{j}]"), subject, &mut errors);
        }
        let has_rules = !rule.list("resourceRules").is_empty() || !rule.list("nonResourceRules").is_empty();
        errors.push_if(!has_rules, || {
            FieldError::required(
                &field,
                "at least one of resourceRules and nonResourceRules has to be non-empty",
            )
        });
        let lists: [(&str, &[&str]); 2] = [
            ("resourceRules", &["verbs", "apiGroups", "resources"]),
            ("nonResourceRules", &["verbs", "nonResourceURLs"]),
        ];
        for (list, members) in lists {
            for (j, entry) in rule.objects(list).enumerate() {
                for member in members.iter().filter(|member| entry.list(member).is_empty()) {
                    errors.push(FieldError::required(format!("{field}.{list}[{j}].{member}"), ""));
                }
            }
        }
    }
    errors
}

fn validate_subject(field: &str, subject: &Map, errors: &mut Errors) {
    let kinds = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = subject.text("kind");
    let Some((_, member)) = kinds.into_iter().find(|(known, _)| *known == kind) else {
        let known = kinds.map(|(kind, _)| kind);
        errors.push(FieldError::not_supported(format!("{field}.kind"), quoted(kind), &known));
        return;
    };
    errors.push_if(subject.object(member).text("name").is_empty(), || {
        FieldError::required(format!("{field}.{member}.name"), "")
    });
    for (_, other) in kinds.into_iter().filter(|(_, other)| *other != member && subject.has(other)) {
        let detail = format!("{other} is forbidden when subject kind is not {other}");
        errors.push(FieldError::forbidden(format!("{field}.{other}"), &*detail));
    }
}

fn validate_level(level: &Map) -> Errors {
    let spec = level.object("spec");
    let mut errors = Errors::new();
    let forbid = |errors: &mut Errors, member: &str| {
        errors.push_if(spec.has(member), || {
            FieldError::forbidden(format!("spec.{member}"), "must be nil if the type is another one")
        });
    };
    match spec.text("type") {
        "Exempt" => forbid(&mut errors, "limited"),
        "Limited" => {
            forbid(&mut errors, "exempt");
            match spec.object_if_set("limited") {
                None => errors
                    .push(FieldError::required("spec.limited", "must not be empty when type is Limited")),
                Some(limited) => validate_limited(limited, &mut errors),
            }
        }
        other => errors.extend(one_of("spec.type", other, &["Exempt", "Limited"])),
    }
    errors
}

fn validate_limited(limited: &Map, errors: &mut Errors) {
    let shares = limited.number("nominalConcurrencyShares");
    errors.push_if(shares < 0, || {
        let detail = "must be a non-negative integer";
        FieldError::invalid("spec.limited.nominalConcurrencyShares", shares.to_string(), detail)
    });
    let lendable = limited.number("lendablePercent");
    errors.push_if(!(0..=100).contains(&lendable), || {
        let detail = "must be between 0 and 100, inclusive";
        FieldError::invalid("spec.limited.lendablePercent", lendable.to_string(), detail)
    });
    let response = limited.object("limitResponse");
    let queuing = "spec.limited.limitResponse.queuing";
    match response.text("type") {
        "Reject" => errors.push_if(response.has("queuing"), || {
            FieldError::forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited")
        }),
        "Queue" => errors.push_if(!response.has("queuing"), || {
            FieldError::required(queuing, "must not be empty if limited.limitResponse.type is Limited")
        }),
        other => errors.extend(one_of("spec.limited.limitResponse.type", other, &["Queue", "Reject"])),
    }
}

fn schema_row(schema: &Map, now: i64) -> Row {
    let spec = schema.object("spec");
    let method = spec.object_if_set("distinguisherMethod").map_or(NONE, |method| method.text("type"));
    let mut conditions = schema.object("status").objects("conditions");
    let dangling = conditions.find(|condition| condition.text("type") == "Dangling");
    Row::of(vec![
        name(schema),
        Value::from(spec.object("priorityLevelConfiguration").text("name")),
        json!(spec.number("matchingPrecedence")),
        Value::from(method),
        age(schema, now),
        Value::from(dangling.map_or("?", |condition| condition.text("status"))),
    ])
}

fn level_row(level: &Map, now: i64) -> Row {
    let spec = level.object("spec");
    let shown = |of: Option<&Map>, member: &str| {
        let number = of.and_then(|of| of.number_if_set(member));
        Value::from(number.map_or_else(|| NONE.to_owned(), |number| number.to_string()))
    };
    let limited = spec.object_if_set("limited");
    let queuing = limited.and_then(|limited| limited.object("limitResponse").object_if_set("queuing"));
    Row::of(vec![
        name(level),
        Value::from(spec.text("type")),
        shown(limited.or(spec.object_if_set("exempt")), "nominalConcurrencyShares"),
        shown(queuing, "queues"),
        shown(queuing, "handSize"),
        shown(queuing, "queueLengthLimit"),
        age(level, now),
    ])
}
