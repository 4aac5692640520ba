//! Nodes, which kubelets register and update.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Selectable, Subresource};
use crate::resources::addresses::{is_ipv6_range, range_errors};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::core::names::TextRule;
use crate::resources::formats::{data_key, dns_label, dns_subdomain, label_value, qualified_name};
use crate::resources::quantities::{amount_errors, round_amounts};
use crate::schema;
use crate::schema::values;
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
    selectable: &[Selectable::new("spec.unschedulable", unschedulable)],
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
    Cow::Borrowed(if node.object("spec").is_true("unschedulable") { "true" } else { "false" })
}

/// AP-113 (table), AP-131: `podCIDR` is the first of `podCIDRs` and takes precedence; allocatable resources default to
/// the capacity.
fn default(node: &mut Map) {
    if let Some(spec) = node.object_or_new("spec") {
        let first = spec.texts("podCIDRs").next().unwrap_or_default().to_owned();
        match spec.text("podCIDR") {
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
    if let Some(status) = node.object_or_new("status") {
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
    let Some(spec) = node.object_or_new("spec") else { return };
    spec.remove("configSource");
    let is_there = |taint: &Map| taint.text("key") == NOT_READY && taint.text("effect") == "NoSchedule";
    if spec.objects("taints").any(is_there) {
        return;
    }
    let taints = spec.entry("taints").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(taints) = taints {
        taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
    }
}

fn prepare_update(node: &mut Map, old: &Map) {
    node.copy("status", old);
    if old.object("spec").contains_key("configSource") {
        return;
    }
    if let Some(spec) = node.object_or_new("spec") {
        spec.remove("configSource");
    }
}

fn prepare_status(node: &mut Map, old: &Map) {
    node.copy("spec", old);
    if old.object("status").contains_key("config") {
        return;
    }
    if let Some(status) = node.object_or_new("status") {
        status.remove("config");
    }
}

/// AP-131.
fn validate(node: &Map) -> Errors {
    let spec = node.object("spec");
    let mut errors = taint_errors(spec);
    errors.extend(status_amount_errors(node));
    errors.extend(
        spec.texts("podCIDRs")
            .enumerate()
            .filter_map(|(i, range)| range_errors(&format!("spec.podCIDRs[{i}]"), range)),
    );
    if spec.texts("podCIDRs").len() > 1 {
        dual_stack_errors(spec, &mut errors);
    }
    errors
}

/// At most one range of each family, without duplicates.
fn dual_stack_errors(spec: &Map, errors: &mut Errors) {
    let families: Option<Vec<bool>> = spec.texts("podCIDRs").map(is_ipv6_range).collect();
    let detail = "invalid PodCIDRs. failed to check with dual stack";
    errors.push_if(families.is_none(), || FieldError::internal("spec.podCIDRs", detail));
    if !matches!(families.as_deref(), Some([first, second]) if first != second) {
        let ranges = Value::Array(spec.list("podCIDRs").to_vec()).to_string();
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid("spec.podCIDRs", ranges, detail));
    }
    let mut seen = BTreeSet::new();
    for (i, range) in spec.texts("podCIDRs").enumerate() {
        errors.push_if(!seen.insert(range), || FieldError::duplicate(format!("spec.podCIDRs[{i}]"), range));
    }
}

/// AP-131: taints are reported under the metadata, and are unique by key and effect.
fn taint_errors(spec: &Map) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (i, taint) in spec.objects("taints").enumerate() {
        let field = format!("metadata.taints[{i}]");
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        errors.extend(qualified_name(&format!("{field}.key"), key));
        // All errors of a value are reported as one.
        errors.extend(label_value(&format!("{field}.value"), value).into_iter().next());
        match effect {
            known if values::TAINT_EFFECTS.contains(&known) => {}
            "" => errors.push(FieldError::required(format!("{field}.effect"), "")),
            effect => errors.push(FieldError::not_supported(
                format!("{field}.effect"),
                effect,
                values::TAINT_EFFECTS,
            )),
        }
        errors
            .push_if(!seen.insert((key, effect)), || FieldError::duplicate(field, format!("{key}:{effect}")));
    }
    errors
}

/// AP-131: amounts must not be negative.
fn status_amount_errors(node: &Map) -> Errors {
    let status = node.object("status");
    ["capacity", "allocatable"]
        .into_iter()
        .flat_map(|list| {
            status.object(list).iter().flat_map(move |(resource, amount)| {
                amount_errors(&format!("status.{list}.{resource}"), resource, amount)
            })
        })
        .collect()
}

/// AP-131: checks that only mutable fields change. Errors of taints and amounts are reported a second time.
fn validate_change(node: &Map, old: &Map) -> Errors {
    let (spec, old_spec) = (node.object("spec"), old.object("spec"));
    let mut errors = status_amount_errors(node);
    address_errors(node, &mut errors);
    let was: Vec<&str> = old_spec.texts("podCIDRs").collect();
    let changes = match spec.texts("podCIDRs").len() {
        _ if was.is_empty() => 0,
        count if count != was.len() => 1,
        _ => spec.texts("podCIDRs").zip(&was).filter(|(is, was)| is != *was).count(),
    };
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    errors.extend((0..changes).map(|_| FieldError::forbidden("spec.podCIDRs", detail)));
    let provider = old_spec.text("providerID");
    if !provider.is_empty() && provider != spec.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
    if let Some(Value::Object(source)) = spec.get("configSource") {
        config_source_errors("spec.configSource", source, false, &mut errors);
    }
    let config = node.object("status").object("config");
    for slot in ["assigned", "active", "lastKnownGood"] {
        if let Some(Value::Object(source)) = config.get(slot) {
            config_source_errors(&format!("status.config.{slot}"), source, true, &mut errors);
        }
    }
    errors.extend(taint_errors(spec));
    if spec.text("externalID") != old_spec.text("externalID") {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
    errors
}

/// Reports duplicate addresses.
fn address_errors(node: &Map, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, address) in node.object("status").objects("addresses").enumerate() {
        let (kind, value) = (address.text("type"), address.text("address"));
        if !seen.insert((kind, value)) {
            errors.push(FieldError::duplicate(format!("status.addresses[{i}]"), format!("{kind} {value}")));
        }
    }
}

/// Validates a reference to a kubelet's configuration; in the status it must have `uid` and `resourceVersion`, in the
/// spec it must not.
fn config_source_errors(field: &str, source: &Map, is_resolved: bool, errors: &mut Errors) {
    let Some(Value::Object(config_map)) = source.get("configMap") else {
        errors.push(FieldError::invalid(field, "{}", "exactly one reference subfield must be non-nil"));
        return;
    };
    let field = format!("{field}.configMap");
    for member in ["uid", "resourceVersion"] {
        match (config_map.text(member).is_empty(), is_resolved) {
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
        match config_map.text(member) {
            "" => errors.push(FieldError::required(field, "must be set")),
            value => errors.extend(rule(&field, value)),
        }
    }
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
    let status = node.object("status");
    let info = status.object("nodeInfo");
    let known =
        |member: &str| Value::from(Some(info.text(member)).filter(|it| !it.is_empty()).unwrap_or(UNKNOWN));
    let address = |kind: &str| {
        let found = status.objects("addresses").find(|address| address.text("type") == kind);
        Value::from(found.map_or(NONE, |address| address.text("address")))
    };
    Row::of(vec![
        name(node),
        Value::from(readiness(node)),
        Value::from(roles(node)),
        age(node, now),
        Value::from(info.text("kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ])
}

/// AP-92: `Ready`, `NotReady` or, without the condition, `Unknown`; and whether the node is schedulable.
fn readiness(node: &Map) -> String {
    let conditions: BTreeMap<&str, &str> = node
        .object("status")
        .objects("conditions")
        .map(|condition| (condition.text("type"), condition.text("status")))
        .collect();
    let ready = match conditions.get("Ready") {
        Some(&"True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match node.object("spec").is_true("unschedulable") {
        true => format!("{ready},SchedulingDisabled"),
        false => ready.to_owned(),
    }
}

/// AP-92: the roles from the labels.
fn roles(node: &Map) -> String {
    let labels = node.metadata().object("labels");
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
