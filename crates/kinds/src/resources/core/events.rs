//! Events of the core group and of `events.k8s.io`. Both are the same objects (AP-134): they are stored in the form of
//! the core group (AP-105), and converted in requests and responses.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::NameRule;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::meta::name;
use crate::resource::{Conversion, Dependents, MetadataChecks, Resource, Selectable};
use crate::resources::cells::{text_column, wide_column};
use crate::resources::formats::{dns_subdomain, qualified_name};
use crate::schema;
use crate::table::{self, Column, Row};

/// The row of Events of the core group.
pub static CORE_EVENTS: Resource = Resource {
    kind: "Event",
    plural: "events",
    short_names: &["ev"],
    schema: &schema::core::small::EVENT,
    names: NameRule::PathSegment,
    // Its validation ignores the metadata.
    metadata_checks: MetadataChecks { alone: 0, as_update: 0, knows_finalizers: false },
    creates_on_update: true,
    dependents: Dependents::None,
    selectable: &[
        Selectable::new("involvedObject.apiVersion", |event| involved(event, "apiVersion")),
        Selectable::new("involvedObject.fieldPath", |event| involved(event, "fieldPath")),
        Selectable::new("involvedObject.kind", |event| involved(event, "kind")),
        Selectable::new("involvedObject.name", |event| involved(event, "name")),
        Selectable::new("involvedObject.namespace", |event| involved(event, "namespace")),
        Selectable::new("involvedObject.resourceVersion", |event| involved(event, "resourceVersion")),
        Selectable::new("involvedObject.uid", |event| involved(event, "uid")),
        Selectable::new("reason", |event| Cow::Borrowed(event.text("reason"))),
        Selectable::new("reportingComponent", |event| Cow::Borrowed(event.text("reportingComponent"))),
        Selectable::new("source", |event| Cow::Borrowed(component(event))),
        Selectable::new("type", |event| Cow::Borrowed(event.text("type"))),
    ],
    validate_create: |event| legacy_errors(event, "reportingComponent"),
    validate_update: |event, _| legacy_errors(event, "reportingComponent"),
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The row of Events of `events.k8s.io`. Its functions take objects in that form; storage holds [`to_core`] of them.
pub static EVENTS: Resource = Resource {
    group: "events.k8s.io",
    schema: &schema::events::EVENT,
    stored_as: Some(Conversion { row: &CORE_EVENTS, to: to_core, from: |event, _| from_core(event) }),
    names: NameRule::Subdomain,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    selectable: &[
        Selectable::new("reason", |event| Cow::Borrowed(event.text("reason"))),
        Selectable::new("regarding.apiVersion", |event| regarding(event, "apiVersion")),
        Selectable::new("regarding.fieldPath", |event| regarding(event, "fieldPath")),
        Selectable::new("regarding.kind", |event| regarding(event, "kind")),
        Selectable::new("regarding.name", |event| regarding(event, "name")),
        Selectable::new("regarding.namespace", |event| regarding(event, "namespace")),
        Selectable::new("regarding.resourceVersion", |event| regarding(event, "resourceVersion")),
        Selectable::new("regarding.uid", |event| regarding(event, "uid")),
        Selectable::new("reportingController", |event| Cow::Borrowed(event.text("reportingController"))),
        Selectable::new("type", |event| Cow::Borrowed(event.text("type"))),
    ],
    validate_create: |event| creation_errors(&to_core(event.clone())),
    validate_update: |event, old| update_errors(&to_core(event.clone()), &to_core(old.clone())),
    row: |event, now| row(&to_core(event.clone()), now),
    ..CORE_EVENTS
};

/// The maximum length of `action`, `reason` and `reportingInstance`, in bytes.
const MAX_WORD: usize = 128;
/// The maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Renamed members: the name in the core group, and in `events.k8s.io`.
const RENAMED: &[(&str, &str)] = &[
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Converts an event of `events.k8s.io` to the form of the core group (AP-134).
pub fn to_core(mut event: Map) -> Map {
    rename(&mut event, |(core, new)| (new, core), "v1");
    for member in ["reportingComponent", "reportingInstance"] {
        event.entry(member).or_insert_with(|| Value::from(""));
    }
    if let Some(series) = event.get_mut("series").and_then(Value::as_object_mut)
        && series.number("count") == 0
    {
        series.remove("count");
    }
    event
}

/// Converts an event of the core group to the form of `events.k8s.io` (AP-134).
pub fn from_core(mut event: Map) -> Map {
    rename(&mut event, |(core, new)| (core, new), "events.k8s.io/v1");
    for member in ["reportingController", "reportingInstance"] {
        if event.text(member).is_empty() {
            event.remove(member);
        }
    }
    if let Some(series) = event.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("count").or_insert_with(|| Value::from(0));
    }
    event
}

fn rename<'a>(event: &mut Map, order: fn((&'a str, &'a str)) -> (&'a str, &'a str), version: &str) {
    let (from, to): (Vec<&str>, Vec<&str>) = RENAMED.iter().copied().map(order).unzip();
    let values: Vec<Option<Value>> = from.iter().map(|name| event.remove(*name)).collect();
    for (name, value) in to.into_iter().zip(values) {
        if let Some(value) = value {
            event.insert(name.to_owned(), value);
        }
    }
    if event.contains_key("apiVersion") {
        event.insert("apiVersion".to_owned(), Value::from(version));
    }
}

fn involved<'a>(event: &'a Map, member: &str) -> Cow<'a, str> {
    Cow::Borrowed(event.object("involvedObject").text(member))
}

fn regarding<'a>(event: &'a Map, member: &str) -> Cow<'a, str> {
    Cow::Borrowed(event.object("regarding").text(member))
}

/// The reporter: the component of the source, or the reporting component.
fn component(event: &Map) -> &str {
    match event.object("source").text("component") {
        "" => event.text("reportingComponent"),
        component => component,
    }
}

/// Returns whether a member is missing or null.
fn is_unset(event: &Map, member: &str) -> bool {
    event.get(member).is_none_or(Value::is_null)
}

/// AP-134: rules for all events. The field of the reporting component differs between the groups.
fn legacy_errors(event: &Map, component_field: &str) -> Errors {
    let namespace = event.metadata().text("namespace");
    let mut errors = match is_unset(event, "eventTime") {
        true => old_style_errors(event, namespace),
        false => new_style_errors(event, namespace, component_field),
    };
    errors.extend(dns_subdomain("namespace", namespace));
    errors
}

fn namespace_error(event: &Map) -> FieldError {
    let namespace = event.object("involvedObject").text("namespace");
    FieldError::invalid("involvedObject.namespace", namespace, "does not match event.namespace")
}

/// An event must be in the namespace of its object; events of cluster-scoped objects are in `default`.
fn old_style_errors(event: &Map, namespace: &str) -> Errors {
    let matches = match event.object("involvedObject").text("namespace") {
        "" => matches!(namespace, "" | "default"),
        involved => involved == namespace,
    };
    if matches { Errors::new() } else { Errors::from([namespace_error(event)]) }
}

fn new_style_errors(event: &Map, namespace: &str, component_field: &str) -> Errors {
    let mut errors = Errors::new();
    let involved = event.object("involvedObject").text("namespace");
    if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
        errors.push(namespace_error(event));
    }
    let component = event.text("reportingComponent");
    errors.push_if(component.is_empty(), || FieldError::required(component_field, ""));
    errors.extend(qualified_name(component_field, component));
    for member in ["reportingInstance", "action", "reason"] {
        match event.text(member) {
            "" => errors.push(FieldError::required(member, "")),
            value if value.len() > MAX_WORD => {
                errors.push(FieldError::invalid(member, "", "can have at most 128 characters"));
            }
            _ => {}
        }
    }
    if event.text("message").len() > MAX_MESSAGE {
        errors.push(FieldError::invalid("message", "", "can have at most 1024 characters"));
    }
    errors
}

/// AP-134: rules for new events of `events.k8s.io`, in the form of the core group.
fn creation_errors(event: &Map) -> Errors {
    let mut errors = legacy_errors(event, "reportingController");
    errors.extend(series_errors(event));
    errors.push_if(is_unset(event, "eventTime"), || FieldError::required("eventTime", ""));
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let source = event.object("source");
    let must_be_unset = [
        ("firstTimestamp", is_unset(event, "firstTimestamp")),
        ("lastTimestamp", is_unset(event, "lastTimestamp")),
        ("count", event.number("count") == 0),
        ("source", source.text("component").is_empty() && source.text("host").is_empty()),
    ];
    let set = must_be_unset.into_iter().filter(|(_, is_unset)| !is_unset);
    errors.extend(set.map(|(field, _)| FieldError::invalid(field, "", "needs to be unset")));
    errors
}

fn series_errors(event: &Map) -> Errors {
    let Some(Value::Object(series)) = event.get("series") else { return Errors::new() };
    let mut errors = Errors::new();
    if series.number("count") < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if is_unset(series, "lastObservedTime") {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

/// AP-134: an update through `events.k8s.io` may only change the series and the metadata.
fn update_errors(event: &Map, old: &Map) -> Errors {
    const IMMUTABLE: &[(&str, &str)] = &[
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        // Kubernetes validates the reason twice, and reports it twice.
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingComponent"),
        ("reportingInstance", "reportingInstance"),
    ];
    let set = |event: &Map, member: &str| event.get(member).filter(|value| !value.is_null()).cloned();
    let mut errors = legacy_errors(event, "reportingController");
    if set(event, "series") != set(old, "series") {
        errors.extend(series_errors(event));
    }
    for (field, member) in IMMUTABLE {
        let (is, was) = (set(event, member), set(old, member));
        errors.push_if(is != was, || {
            FieldError::invalid(*field, is.unwrap_or_default().to_string(), "field is immutable")
        });
    }
    errors
}

const COLUMNS: &[Column] = &[
    text_column("Last Seen", "How long ago the event happened last."),
    text_column("Type", "Whether the event is normal or a warning."),
    text_column("Reason", "Why there is the event, in one word."),
    text_column("Object", "What the event is about."),
    wide_column("Subobject", "Which part of the object the event is about."),
    wide_column("Source", "Who reports the event, and from where."),
    text_column("Message", "What happened."),
    wide_column("First Seen", "How long ago the event happened first."),
    wide_column("Count", "How often the event happened."),
    Column { format: "name", ..wide_column("Name", "What the event is called.") },
];

/// AP-92.
fn row(event: &Map, now: i64) -> Row {
    let ago = |map: &Map, member: &str| table::age(map.get(member).and_then(Value::as_str), now);
    let first = match is_unset(event, "firstTimestamp") {
        true => ago(event, "eventTime"),
        false => ago(event, "firstTimestamp"),
    };
    let last = match is_unset(event, "lastTimestamp") {
        true => first.clone(),
        false => ago(event, "lastTimestamp"),
    };
    let (last, count) = match event.get("series") {
        Some(Value::Object(series)) => (ago(series, "lastObservedTime"), series.number("count")),
        // An event that happened once has no count in the new form.
        _ => (last, event.number("count").max(1)),
    };
    let involved = event.object("involvedObject");
    let kind = involved.text("kind").to_lowercase();
    let target = match involved.text("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let instance = match event.object("source").text("host") {
        "" => event.text("reportingInstance"),
        host => host,
    };
    let source = match instance {
        "" => component(event).to_owned(),
        instance => format!("{}, {instance}", component(event)),
    };
    Row::of(vec![
        Value::from(last),
        Value::from(event.text("type")),
        Value::from(event.text("reason")),
        Value::from(target),
        Value::from(involved.text("fieldPath")),
        Value::from(source),
        Value::from(event.text("message").trim()),
        Value::from(first),
        Value::from(count),
        Value::from(name(event)),
    ])
}
