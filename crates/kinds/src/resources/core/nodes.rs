//! Nodes, which kubelets register and update.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::addresses::{is_ipv6_range, range_errors};
use super::quantities::{amount_errors, round_amounts};
use crate::Map;
use crate::resource::{Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::core::names::TextRule;
use crate::resources::fields::{is_set, keep, list, metadata, object, object_mut, objects, text, texts};
use crate::resources::formats::{data_key, dns_label, dns_subdomain, label_value, qualified_name};
use crate::schema;
use crate::table::{Column, NONE, Row, UNKNOWN};

/// The row of Nodes.
pub static NODES: Resource = Resource {
    kind: "Node",
    plural: "nodes",
    short_names: &["no"],
    is_namespaced: false,
    subresources: &[
        Subresource::connect("proxy", "NodeProxyOptions", PROXY_VERBS),
        Subresource::status("Node"),
    ],
    schema: &schema::core::node::NODE,
    selectable: &[Selectable { name: "spec.unschedulable", value: unschedulable }],
    selects_namespace: false,
    default,
    prepare_create,
    validate_create: validate,
    prepare_update,
    validate_update: |node, old| {
        let mut errors = validate(node);
        errors.extend(validate_change(node, old));
        errors
    },
    prepare_status,
    validate_status: validate_change,
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The verbs of a proxy subresource (AP-102).
pub(super) const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];
/// The key of the taint of nodes that are not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// AP-76: an unset field reads as `false`.
fn unschedulable(node: &Map) -> Cow<'_, str> {
    Cow::Borrowed(if is_set(object(node, "spec"), "unschedulable") { "true" } else { "false" })
}

/// AP-113 (table), AP-131: `podCIDR` is the first of `podCIDRs` and takes precedence; allocatable resources default to
/// the capacity.
fn default(node: &mut Map) {
    if let Some(spec) = object_mut(node, "spec") {
        let first = texts(spec, "podCIDRs").next().unwrap_or_default().to_owned();
        match text(spec, "podCIDR") {
            "" if first.is_empty() => {
                spec.remove("podCIDR");
            }
            "" => {
                spec.insert("podCIDR".to_owned(), Value::from(first));
            }
            single if single != first => {
                let single = json!([single]);
                spec.insert("podCIDRs".to_owned(), single);
            }
            _ => {}
        }
    }
    if let Some(status) = object_mut(node, "status") {
        round_amounts(status, "capacity");
        round_amounts(status, "allocatable");
        if !status.contains_key("allocatable")
            && let Some(capacity) = status.get("capacity").cloned()
        {
            status.insert("allocatable".to_owned(), capacity);
        }
    }
}

/// AP-30: a node keeps the status that it is created with. AP-113 (table): it starts with the not-ready taint. Kubelet
/// configuration from ConfigMaps was removed from Kubernetes, so new nodes cannot use it.
fn prepare_create(node: &mut Map) {
    let Some(spec) = object_mut(node, "spec") else { return };
    spec.remove("configSource");
    let is_there = |taint: &Map| text(taint, "key") == NOT_READY && text(taint, "effect") == "NoSchedule";
    if objects(spec, "taints").any(is_there) {
        return;
    }
    let taints = spec.entry("taints").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(taints) = taints {
        taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
    }
}

fn prepare_update(node: &mut Map, old: &Map) {
    keep(node, old, "status");
    if object(old, "spec").contains_key("configSource") {
        return;
    }
    if let Some(spec) = object_mut(node, "spec") {
        spec.remove("configSource");
    }
}

fn prepare_status(node: &mut Map, old: &Map) {
    keep(node, old, "spec");
    if object(old, "status").contains_key("config") {
        return;
    }
    if let Some(status) = object_mut(node, "status") {
        status.remove("config");
    }
}

/// AP-131.
fn validate(node: &Map) -> Vec<FieldError> {
    let spec = object(node, "spec");
    let mut errors = taint_errors(spec);
    errors.extend(status_amount_errors(node));
    errors.extend(
        texts(spec, "podCIDRs")
            .enumerate()
            .filter_map(|(i, range)| range_errors(&format!("spec.podCIDRs[{i}]"), range)),
    );
    if texts(spec, "podCIDRs").len() > 1 {
        errors.extend(dual_stack_errors(spec));
    }
    errors
}

/// At most one range of each family, without duplicates.
fn dual_stack_errors(spec: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let families: Option<Vec<bool>> = texts(spec, "podCIDRs").map(is_ipv6_range).collect();
    if families.is_none() {
        let detail = "invalid PodCIDRs. failed to check with dual stack";
        errors.push(FieldError::internal("spec.podCIDRs", detail));
    }
    if !matches!(families.as_deref(), Some([first, second]) if first != second) {
        let ranges = Value::Array(list(spec, "podCIDRs").to_vec()).to_string();
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid("spec.podCIDRs", ranges, detail));
    }
    let mut seen = BTreeSet::new();
    for (i, range) in texts(spec, "podCIDRs").enumerate() {
        if !seen.insert(range) {
            errors.push(FieldError::duplicate(format!("spec.podCIDRs[{i}]"), range));
        }
    }
    errors
}

/// AP-131: taints are reported under the metadata, and are unique by key and effect.
fn taint_errors(spec: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (i, taint) in objects(spec, "taints").enumerate() {
        let field = format!("metadata.taints[{i}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.extend(qualified_name(&format!("{field}.key"), key));
        // All errors of a value are reported as one.
        errors.extend(label_value(&format!("{field}.value"), value).into_iter().next());
        match effect {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            "" => errors.push(FieldError::required(format!("{field}.effect"), "")),
            effect => errors.push(FieldError::not_supported(
                format!("{field}.effect"),
                effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            )),
        }
        if !seen.insert((key, effect)) {
            errors.push(FieldError::duplicate(field, format!("{key}:{effect}")));
        }
    }
    errors
}

/// AP-131: amounts must not be negative.
fn status_amount_errors(node: &Map) -> Vec<FieldError> {
    let status = object(node, "status");
    ["capacity", "allocatable"]
        .into_iter()
        .flat_map(|list| {
            object(status, list).iter().flat_map(move |(resource, amount)| {
                amount_errors(&format!("status.{list}.{resource}"), resource, amount)
            })
        })
        .collect()
}

/// AP-131: checks that only mutable fields change. Errors of taints and amounts are reported a second time.
fn validate_change(node: &Map, old: &Map) -> Vec<FieldError> {
    let (spec, old_spec) = (object(node, "spec"), object(old, "spec"));
    let mut errors = status_amount_errors(node);
    errors.extend(address_errors(node));
    let was: Vec<&str> = texts(old_spec, "podCIDRs").collect();
    let changes = match texts(spec, "podCIDRs").len() {
        _ if was.is_empty() => 0,
        count if count != was.len() => 1,
        _ => texts(spec, "podCIDRs").zip(&was).filter(|(is, was)| is != *was).count(),
    };
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    errors.extend((0..changes).map(|_| FieldError::forbidden("spec.podCIDRs", detail)));
    let provider = text(old_spec, "providerID");
    if !provider.is_empty() && provider != text(spec, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
    if let Some(Value::Object(source)) = spec.get("configSource") {
        errors.extend(config_source_errors("spec.configSource", source, false));
    }
    let config = object(object(node, "status"), "config");
    for slot in ["assigned", "active", "lastKnownGood"] {
        if let Some(Value::Object(source)) = config.get(slot) {
            errors.extend(config_source_errors(&format!("status.config.{slot}"), source, true));
        }
    }
    errors.extend(taint_errors(spec));
    if text(spec, "externalID") != text(old_spec, "externalID") {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
    errors
}

/// Reports duplicate addresses.
fn address_errors(node: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (i, address) in objects(object(node, "status"), "addresses").enumerate() {
        let (kind, value) = (text(address, "type"), text(address, "address"));
        if !seen.insert((kind, value)) {
            errors.push(FieldError::duplicate(format!("status.addresses[{i}]"), format!("{kind} {value}")));
        }
    }
    errors
}

/// Validates a reference to a kubelet's configuration; in the status it must have `uid` and `resourceVersion`, in the
/// spec it must not.
fn config_source_errors(field: &str, source: &Map, is_resolved: bool) -> Vec<FieldError> {
    let Some(Value::Object(config_map)) = source.get("configMap") else {
        return vec![FieldError::invalid(field, "{}", "exactly one reference subfield must be non-nil")];
    };
    let field = format!("{field}.configMap");
    let mut errors = Vec::new();
    for member in ["uid", "resourceVersion"] {
        match (text(config_map, member).is_empty(), is_resolved) {
            (true, true) => {
                errors.push(FieldError::required(format!("{field}.{member}"), "must be set in status"));
            }
            (false, false) => {
                errors.push(FieldError::forbidden(format!("{field}.{member}"), "must not be set in spec"));
            }
            _ => {}
        }
    }
    let rules: [(&str, TextRule); 3] =
        [("namespace", dns_label), ("name", dns_subdomain), ("kubeletConfigKey", data_key)];
    for (member, rule) in rules {
        let field = format!("{field}.{member}");
        match text(config_map, member) {
            "" => errors.push(FieldError::required(field, "must be set")),
            value => errors.extend(rule(&field, value)),
        }
    }
    errors
}

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Status", "Whether the kubelet is ready, and whether pods may be scheduled."),
    text_column("Roles", "What the node is for, by its labels."),
    AGE,
    text_column("Version", "The version of the kubelet."),
    wide_column("Internal-IP", "The first address inside the cluster's network."),
    wide_column("External-IP", "The first address that is reachable from outside."),
    wide_column("OS-Image", "The operating system."),
    wide_column("Kernel-Version", "The version of the kernel."),
    wide_column("Container-Runtime", "What runs the containers, and its version."),
];

/// AP-92.
fn row(node: &Map, now: i64) -> Row {
    let status = object(node, "status");
    let info = object(status, "nodeInfo");
    let known =
        |member: &str| Value::from(Some(text(info, member)).filter(|it| !it.is_empty()).unwrap_or(UNKNOWN));
    let address = |kind: &str| {
        let found = objects(status, "addresses").find(|address| text(address, "type") == kind);
        Value::from(found.map_or(NONE, |address| text(address, "address")))
    };
    let cells = vec![
        name(node),
        Value::from(readiness(node)),
        Value::from(roles(node)),
        age(node, now),
        Value::from(text(info, "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ];
    Row { cells, completed: None }
}

/// AP-92: `Ready`, `NotReady` or, without the condition, `Unknown`; and whether the node is schedulable.
fn readiness(node: &Map) -> String {
    let conditions: BTreeMap<&str, &str> = objects(object(node, "status"), "conditions")
        .map(|condition| (text(condition, "type"), text(condition, "status")))
        .collect();
    let ready = match conditions.get("Ready") {
        Some(&"True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match is_set(object(node, "spec"), "unschedulable") {
        true => format!("{ready},SchedulingDisabled"),
        false => ready.to_owned(),
    }
}

/// AP-92: the roles from the labels.
fn roles(node: &Map) -> String {
    let labels = object(metadata(node), "labels");
    let roles: BTreeSet<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    match roles.is_empty() {
        true => NONE.to_owned(),
        false => roles.into_iter().collect::<Vec<_>>().join(","),
    }
}
