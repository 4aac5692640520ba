//! HorizontalPodAutoscalers, which scale workloads by what is measured of them.

mod old;

pub use old::V1;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::one_of;
use crate::resources::quantities::{positive_error, quantity};
use crate::resources::status;
use crate::schema::autoscaling::v2::{HORIZONTAL_POD_AUTOSCALER, HORIZONTAL_POD_AUTOSCALER_STATUS};
use crate::table::{Column, NONE, Row};

/// The row of HorizontalPodAutoscalers.
pub static HORIZONTAL_POD_AUTOSCALERS: Resource = Resource {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &[Subresource::status("HorizontalPodAutoscaler")],
    schema: &HORIZONTAL_POD_AUTOSCALER,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    default,
    prepare_create: |autoscaler| status::reset(autoscaler, &HORIZONTAL_POD_AUTOSCALER_STATUS),
    validate_create: validate,
    prepare_update: |autoscaler, old| autoscaler.copy("status", old),
    validate_update: |autoscaler, _| validate(autoscaler),
    prepare_status: status::keep_spec,
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Reference", "What is scaled."),
    text_column("Targets", "What is measured, and what it should be."),
    text_column("MinPods", "The least number of pods."),
    text_column("MaxPods", "The greatest number of pods."),
    text_column("Replicas", "How many pods there are."),
    AGE,
];

/// The kinds of metrics, with the member that describes each.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The share of the requested CPU that is aimed at when nothing else is.
const CPU_SHARE: i64 = 80;
/// The number of metrics of which a table shows the targets.
const SHOWN_METRICS: usize = 2;

fn default(autoscaler: &mut Map) {
    let Some(spec) = autoscaler.object_or_new("spec") else { return };
    spec.default_value("minReplicas", 1);
    if spec.list("metrics").is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": CPU_SHARE});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    if let Some(behavior) = spec.object_mut("behavior") {
        if let Some(up) = behavior.object_or_new("scaleUp") {
            up.default_value("stabilizationWindowSeconds", 0);
            default_policies(up, &[("Pods", 4), ("Percent", 100)]);
        }
        if let Some(down) = behavior.object_or_new("scaleDown") {
            default_policies(down, &[("Percent", 100)]);
        }
    }
}

fn default_policies(rules: &mut Map, policies: &[(&str, i64)]) {
    rules.default_value("selectPolicy", "Max");
    if !rules.has("policies") {
        let policy = |(kind, value): &(&str, i64)| json!({"type": kind, "value": value, "periodSeconds": 15});
        rules.insert("policies".to_owned(), policies.iter().map(policy).collect());
    }
}

fn validate(autoscaler: &Map) -> Errors {
    let spec = autoscaler.object("spec");
    let mut errors = Errors::new();
    let (least, most) = (spec.number("minReplicas"), spec.number("maxReplicas"));
    // Zero needs a metric that is not about the pods: nothing would ever raise the number again.
    let mut metrics = spec.objects("metrics");
    let has_other = metrics.any(|metric| matches!(metric.text("type"), "External" | "Object"));
    let floor = i64::from(!has_other);
    let invalid =
        |field: &str, value: i64, detail: String| FieldError::invalid(field, value.to_string(), detail);
    errors.push_if(spec.has("minReplicas") && least < floor, || {
        invalid("spec.minReplicas", least, format!("must be greater than or equal to {floor}"))
    });
    errors.push_if(most < 1, || invalid("spec.maxReplicas", most, "must be greater than 0".to_owned()));
    errors.push_if(most < least, || {
        invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`".to_owned())
    });
    let target = spec.object("scaleTargetRef");
    for member in ["kind", "name"] {
        errors.push_if(target.text(member).is_empty(), || {
            FieldError::required(format!("spec.scaleTargetRef.{member}"), "")
        });
    }
    for (i, metric) in spec.objects("metrics").enumerate() {
        validate_metric(&format!("spec.metrics[{i}]"), metric, &mut errors);
    }
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.object("behavior").object_if_set(direction) {
            validate_rules(&format!("spec.behavior.{direction}"), rules, &mut errors);
        }
    }
    errors
}

fn validate_metric(field: &str, metric: &Map, errors: &mut Errors) {
    let kind = metric.text("type");
    let Some((_, member)) = SOURCES.into_iter().find(|(known, _)| *known == kind) else {
        let known = SOURCES.map(|(kind, _)| kind);
        errors.push(match kind {
            "" => FieldError::required(format!("{field}.type"), "must specify a metric source type"),
            kind => FieldError::not_supported(format!("{field}.type"), quoted(kind), &known),
        });
        return;
    };
    for (_, other) in SOURCES.into_iter().filter(|(_, other)| *other != member && metric.has(other)) {
        let detail = "must populate the given metric source only";
        errors.push(FieldError::forbidden(format!("{field}.{other}"), detail));
    }
    let Some(source) = metric.object_if_set(member) else {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(format!("{field}.{member}"), detail));
        return;
    };
    let field = format!("{field}.{member}");
    let named = if source.has("metric") { source.object("metric") } else { source };
    errors.push_if(named.text("name").is_empty(), || {
        let place = if source.has("metric") { "metric.name" } else { "name" };
        FieldError::required(format!("{field}.{place}"), "must specify a metric name")
    });
    let target = source.object("target");
    let at = format!("{field}.target");
    errors.extend(one_of(
        &format!("{at}.type"),
        target.text("type"),
        &["AverageValue", "Utilization", "Value"],
    ));
    let amounts = ["averageUtilization", "averageValue", "value"];
    errors.push_if(!amounts.iter().any(|amount| target.has(amount)), || {
        FieldError::required(&at, "must set either a target value or a target utilization")
    });
    errors.push_if(target.number_if_set("averageUtilization").is_some_and(|share| share < 1), || {
        FieldError::invalid(format!("{at}.averageUtilization"), "", "must be greater than 0")
    });
    for amount in ["averageValue", "value"] {
        let aim = quantity(target, amount);
        errors.extend(aim.and_then(|quantity| positive_error(&format!("{at}.{amount}"), &quantity)));
    }
}

fn validate_rules(field: &str, rules: &Map, errors: &mut Errors) {
    let between = |field: String, value: i64, least: i64, most: i64| {
        let detail = format!("must be between {least} and {most}, inclusive");
        (!(least..=most).contains(&value)).then(|| FieldError::invalid(field, value.to_string(), detail))
    };
    if let Some(window) = rules.number_if_set("stabilizationWindowSeconds") {
        errors.extend(between(format!("{field}.stabilizationWindowSeconds"), window, 0, 3600));
    }
    let known = ["Disabled", "Max", "Min"];
    errors.extend(one_of(&format!("{field}.selectPolicy"), rules.text("selectPolicy"), &known));
    errors.push_if(rules.list("policies").is_empty(), || {
        FieldError::required(format!("{field}.policies"), "must specify at least one Policy")
    });
    for (i, policy) in rules.objects("policies").enumerate() {
        let field = format!("{field}.policies[{i}]");
        errors.extend(one_of(&format!("{field}.type"), policy.text("type"), &["Percent", "Pods"]));
        let most = i64::from(i32::MAX);
        errors.extend(between(format!("{field}.value"), policy.number("value"), 1, most));
        errors.extend(between(format!("{field}.periodSeconds"), policy.number("periodSeconds"), 1, 1800));
    }
}

fn row(autoscaler: &Map, now: i64) -> Row {
    let (spec, status) = (autoscaler.object("spec"), autoscaler.object("status"));
    let target = spec.object("scaleTargetRef");
    let least = spec.number_if_set("minReplicas").map_or_else(|| "<unset>".to_owned(), |n| n.to_string());
    Row::of(vec![
        name(autoscaler),
        Value::from(format!("{}/{}", target.text("kind"), target.text("name"))),
        Value::from(targets(spec, status)),
        Value::from(least),
        Value::from(spec.number("maxReplicas").to_string()),
        Value::from(status.number("currentReplicas").to_string()),
        age(autoscaler, now),
    ])
}

/// The current and the target values of the first metrics.
fn targets(spec: &Map, status: &Map) -> String {
    let shown = |(i, metric): (usize, &Map)| {
        let (_, member) = SOURCES.into_iter().find(|(kind, _)| *kind == metric.text("type"))?;
        let source = metric.object(member);
        let target = source.object("target");
        let current = status.objects("currentMetrics").nth(i).map(|now| now.object(member).object("current"));
        let is_average = target.has("averageValue");
        let amount = |of: &Map| match is_average {
            true => of.text("averageValue").to_owned(),
            false => of.text("value").to_owned(),
        };
        let (now, aim) = match target.number_if_set("averageUtilization") {
            Some(share) => {
                let now = current.and_then(|now| now.number_if_set("averageUtilization"));
                (now.map(|now| format!("{now}%")), format!("{share}%"))
            }
            None => (current.map(amount).filter(|now| !now.is_empty()), amount(target)),
        };
        let now = now.unwrap_or_else(|| "<unknown>".to_owned());
        Some(match member {
            "resource" | "containerResource" => format!("{}: {now}/{aim}", source.text("name")),
            _ if is_average && member != "pods" => format!("{now}/{aim} (avg)"),
            _ => format!("{now}/{aim}"),
        })
    };
    let all: Vec<&Map> = spec.objects("metrics").collect();
    let few: Vec<String> = all.iter().copied().enumerate().take(SHOWN_METRICS).filter_map(shown).collect();
    match all.len().saturating_sub(SHOWN_METRICS) {
        _ if few.is_empty() => NONE.to_owned(),
        0 => few.join(", "),
        more => format!("{} + {more} more...", few.join(", ")),
    }
}
