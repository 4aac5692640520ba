//! Events that controllers write about objects.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::events::CORE_EVENTS;
use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::write;

/// The namespace of events about objects that are in none.
const DEFAULT_NAMESPACE: &str = "default";

/// The content of an event.
pub(super) struct Report<'a> {
    /// The controller.
    pub(super) component: &'a str,
    /// `Normal` or `Warning`.
    pub(super) severity: &'static str,
    /// In one word.
    pub(super) reason: &'a str,
    /// In a sentence.
    pub(super) message: &'a str,
}

/// Writes an event about an object of this kind. A repeated event is not written again while the first one exists.
///
/// # Errors
/// The store failed.
pub(super) async fn report(
    backend: &Backend,
    resource: &Resource,
    about: &Map,
    report: &Report<'_>,
) -> Result<(), Status> {
    let namespace = match meta::text(about, "namespace") {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    // An event of that name exists after a conflict.
    write::commit(
        backend,
        vec![write::create(&CORE_EVENTS, namespace, event(resource, about, report), write::CONTROLLERS)?],
    )
    .await
    .map(drop)
}

/// Makes an event. Its name is derived from what it says.
fn event(resource: &Resource, about: &Map, report: &Report<'_>) -> Map {
    let &Report { component, severity, reason, message } = report;
    let (name, uid) = (meta::text(about, "name"), meta::text(about, "uid"));
    let hash = pki::sha256(format!("{uid} {reason} {message}").as_bytes());
    let suffix: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let at = Instant::of_seconds(now()).to_string();
    let mut object = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "resourceVersion": meta::text(about, "resourceVersion"),
    });
    let namespace = meta::text(about, "namespace");
    if let Some(object) = object.as_object_mut().filter(|_| !namespace.is_empty()) {
        object.insert("namespace".to_owned(), namespace.into());
    }
    let mut event = Map::new();
    meta::set(&mut event, "name", format!("{name}.{suffix}"));
    let fields = [
        ("involvedObject", object),
        ("reason", Value::from(reason)),
        ("message", Value::from(message)),
        ("type", Value::from(severity)),
        ("source", json!({ "component": component })),
        ("reportingComponent", Value::from(component)),
        ("firstTimestamp", Value::from(at.as_str())),
        ("lastTimestamp", Value::from(at)),
        ("count", Value::from(1)),
    ];
    event.extend(fields.map(|(field, value)| (field.to_owned(), value)));
    event
}
