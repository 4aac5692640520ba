//! NetworkPolicies: which traffic pods may have.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, begin_generation};
use crate::resource::Resource;
use crate::resources::addresses::range_errors;
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::label_selectors::{cell, text};
use crate::resources::ports::{number_or_name_errors, protocol_errors};
use crate::resources::scheduling::validate_label_selector;
use crate::resources::status;
use crate::schema::networking::NETWORK_POLICY;
use crate::schema::values;
use crate::table::Row;

/// The row of NetworkPolicies.
pub static NETWORK_POLICIES: Resource = Resource {
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    short_names: &["netpol"],
    schema: &NETWORK_POLICY,
    default,
    prepare_create: begin_generation,
    validate_create: |policy| validate(policy, true),
    prepare_update: status::raise,
    validate_update: |policy, _| validate(policy, false),
    columns: &[NAME, text_column("Pod-Selector", "Which pods the policy is for."), AGE],
    row: |policy, now| {
        let selector = text(policy.object("spec").object("podSelector"));
        Row::of(vec![name(policy), cell(selector), age(policy, now)])
    },
    ..USUAL
};

/// The directions of traffic, with the members of their rules that name the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// A policy is for ingress, and for egress if it has rules for it.
fn default(policy: &mut Map) {
    let Some(spec) = policy.object_or_new("spec") else { return };
    for (direction, _) in DIRECTIONS {
        for rule in spec.objects_mut(direction) {
            for port in rule.objects_mut("ports") {
                port.default_value("protocol", "TCP");
            }
        }
    }
    if spec.list("policyTypes").is_empty() {
        let mut types = vec!["Ingress"];
        if !spec.list("egress").is_empty() {
            types.push("Egress");
        }
        spec.insert("policyTypes".to_owned(), json!(types));
    }
}

fn validate(policy: &Map, checks_values: bool) -> Errors {
    let spec = policy.object("spec");
    let mut errors = validate_label_selector("spec.podSelector", spec.object("podSelector"), checks_values);
    for (direction, other_side) in DIRECTIONS {
        for (i, rule) in spec.objects(direction).enumerate() {
            let field = format!("spec.{direction}[{i}]");
            for (j, port) in rule.objects("ports").enumerate() {
                validate_port(&format!("{field}.ports[{j}]"), port, &mut errors);
            }
            for (j, peer) in rule.objects(other_side).enumerate() {
                validate_peer(&format!("{field}.{other_side}[{j}]"), peer, checks_values, &mut errors);
            }
        }
    }
    let types = spec.texts("policyTypes");
    errors.push_if(types.len() > 2, || {
        FieldError::invalid(
            "spec.policyTypes",
            types.len().to_string(),
            "may not specify more than two policyTypes",
        )
    });
    for (i, kind) in types.enumerate() {
        errors.push_if(!values::NETWORK_POLICY_TYPES.contains(&kind), || {
            FieldError::not_supported(
                format!("spec.policyTypes[{i}]"),
                quoted(kind),
                values::NETWORK_POLICY_TYPES,
            )
        });
    }
    errors
}

fn validate_port(field: &str, port: &Map, errors: &mut Errors) {
    if port.has("protocol") {
        errors.extend(protocol_errors(&format!("{field}.protocol"), port.text("protocol")));
    }
    let (number, end) = (port.get("port").filter(|port| !port.is_null()), port.number_if_set("endPort"));
    if let Some(number) = number {
        errors.extend(number_or_name_errors(&format!("{field}.port"), number));
    }
    let Some(end) = end else { return };
    let field = format!("{field}.endPort");
    match number.and_then(Value::as_i64) {
        None if number.is_some() => {
            errors.push(FieldError::invalid(
                field,
                end.to_string(),
                "may not be specified when `port` is non-numeric",
            ));
        }
        None => {
            errors.push(FieldError::invalid(
                field,
                end.to_string(),
                "may not be specified when `port` is not specified",
            ));
        }
        Some(number) if end < number || end > 65_535 => {
            errors.push(FieldError::invalid(
                field,
                end.to_string(),
                "must be greater than or equal to `port`",
            ));
        }
        Some(_) => {}
    }
}

fn validate_peer(field: &str, peer: &Map, checks_values: bool, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"];
    for selector in selectors {
        let of = format!("{field}.{selector}");
        errors.extend(validate_label_selector(&of, peer.object(selector), checks_values));
    }
    let has_selector = selectors.into_iter().any(|selector| peer.has(selector));
    if let Some(block) = peer.object_if_set("ipBlock") {
        errors.push_if(has_selector, || {
            FieldError::forbidden(field, "may not specify both ipBlock and another peer")
        });
        errors.extend(range_errors(&format!("{field}.ipBlock.cidr"), block.text("cidr")));
        for (i, except) in block.texts("except").enumerate() {
            errors.extend(range_errors(&format!("{field}.ipBlock.except[{i}]"), except));
        }
    } else if !has_selector {
        errors.push(FieldError::required(field, "must specify a peer"));
    }
}
