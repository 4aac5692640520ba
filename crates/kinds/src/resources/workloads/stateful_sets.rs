//! StatefulSets, whose pods have names and volumes that stay.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::APPS;
use super::rollout::share_errors;
use super::scale::of_selector;
use super::templates::{CONTAINERS, IMAGES, container_cells, validate_selected};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::core::persistent_volume_claims;
use crate::resources::formats::{not_negative, one_of};
use crate::resources::pods::{default_template, same_value};
use crate::resources::status;
use crate::schema::apps::{STATEFUL_SET, STATEFUL_SET_STATUS};
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of StatefulSets.
pub static STATEFUL_SETS: Resource = Resource {
    kind: "StatefulSet",
    plural: "statefulsets",
    short_names: &["sts"],
    categories: &["all"],
    subresources: &[of_selector(), Subresource::status("StatefulSet")],
    schema: &STATEFUL_SET,
    default,
    prepare_create: |set| status::begin(set, &STATEFUL_SET_STATUS),
    validate_create: |set| validate(set, None),
    prepare_update: status::keep,
    validate_update,
    prepare_status: status::keep_spec,
    validate_status: |set, _| {
        let counters = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        not_negative("status", set.object("status"), &counters)
    },
    columns: COLUMNS,
    row,
    ..APPS
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Ready", "How many pods are ready, of those that are wanted."),
    AGE,
    CONTAINERS,
    IMAGES,
];

/// The fields of the specification that may change.
const MUTABLE: [&str; 7] = [
    "minReadySeconds",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "replicas",
    "revisionHistoryLimit",
    "template",
    "updateStrategy",
];

fn default(set: &mut Map) {
    let Some(spec) = set.object_or_new("spec") else { return };
    spec.default_text("podManagementPolicy", "OrderedReady");
    if let Some(strategy) = spec.object_or_new("updateStrategy") {
        // Only a strategy without a type gets the details of a rolling update.
        if strategy.text("type").is_empty() {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            strategy.default_value("rollingUpdate", Map::new());
        }
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = strategy.object_mut("rollingUpdate")
        {
            rolling.default_value("partition", 0);
            rolling.default_value("maxUnavailable", 1);
        }
    }
    if let Some(policy) = spec.object_or_new("persistentVolumeClaimRetentionPolicy") {
        policy.default_text("whenDeleted", "Retain");
        policy.default_text("whenScaled", "Retain");
    }
    spec.default_value("replicas", 1);
    spec.default_value("revisionHistoryLimit", 10);
    if let Some(template) = spec.object_or_new("template") {
        default_template(template);
    }
    for claim in spec.objects_mut("volumeClaimTemplates") {
        claim.default_text("apiVersion", "v1");
        claim.default_text("kind", "PersistentVolumeClaim");
        (persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS.default)(claim);
    }
}

fn validate(set: &Map, old: Option<&Map>) -> Errors {
    let spec = set.object("spec");
    let mut errors: Errors =
        one_of("spec.podManagementPolicy", spec.text("podManagementPolicy"), values::POD_MANAGEMENT_POLICIES)
            .into_iter()
            .collect();
    errors.extend(validate_strategy(spec.object("updateStrategy")));
    let policy = spec.object("persistentVolumeClaimRetentionPolicy");
    for member in ["whenDeleted", "whenScaled"] {
        let field = format!("spec.persistentVolumeClaimRetentionPolicy.{member}");
        errors.extend(one_of(&field, policy.text(member), &["Delete", "Retain"]));
    }
    errors.extend(not_negative("spec", spec, &["replicas", "minReadySeconds", "revisionHistoryLimit"]));
    errors.extend(not_negative("spec.ordinals", spec.object("ordinals"), &["start"]));
    errors.extend(validate_selected("statefulset", spec, old.map(|old| old.object("spec")), old.is_none()));
    errors
}

fn validate_strategy(strategy: &Map) -> Errors {
    let field = "spec.updateStrategy";
    let rolling = format!("{field}.rollingUpdate");
    let mut errors = Errors::new();
    match strategy.text("type") {
        "OnDelete" => errors.push_if(strategy.has("rollingUpdate"), || {
            FieldError::invalid(&rolling, "{}", "only allowed for updateStrategy 'RollingUpdate'")
        }),
        "RollingUpdate" => {
            let update = strategy.object("rollingUpdate");
            errors.extend(not_negative(&rolling, update, &["partition"]));
            if let Some(amount) = update.get("maxUnavailable") {
                let field = format!("{rolling}.maxUnavailable");
                errors.extend(share_errors(&field, amount));
                let is_zero = matches!(amount.as_str(), Some("0%")) || amount.as_i64() == Some(0);
                errors.push_if(is_zero, || FieldError::invalid(field, amount.to_string(), "cannot be 0"));
            }
        }
        other => errors.push(FieldError::invalid(
            format!("{field}.type"),
            quoted(other),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
    errors
}

fn validate_update(set: &Map, old: &Map) -> Errors {
    let mut errors = validate(set, Some(old));
    let fixed = |object: &Map| {
        let mut spec = object.object("spec").clone();
        MUTABLE.into_iter().for_each(|name| drop(spec.remove(name)));
        Value::Object(spec)
    };
    errors.push_if(!same_value(Some(&fixed(set)), Some(&fixed(old))), || {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden";
        FieldError::forbidden("spec", detail)
    });
    errors
}

fn row(set: &Map, now: i64) -> Row {
    let (spec, status) = (set.object("spec"), set.object("status"));
    let [containers, images] = container_cells(spec.object("template"));
    Row::of(vec![
        name(set),
        Value::from(format!("{}/{}", status.number("readyReplicas"), spec.number("replicas"))),
        age(set, now),
        containers,
        images,
    ])
}
