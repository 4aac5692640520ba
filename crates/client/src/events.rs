//! Events about objects, as people see them with `kubectl describe`.

use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use crate::call::Resource;
use crate::connect::Connection;

/// Writes an event, into the namespace that it names. A failure is only logged.
pub(crate) async fn write_event(connection: &Connection, about: &str, event: &Value) {
    let namespace = event.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
    let events = Resource::new("", "v1", "events").within(namespace.to_owned());
    if let Err(error) = connection.create::<Value>(&events, event).await {
        tracing::warn!(about, %error, "cannot write an event");
    }
}

/// Returns an event about an object without a namespace. `name` begins its own name, and `kind` is `Normal` or `Warning`.
pub(crate) fn event(
    component: &str,
    name: &str,
    involved: &Value,
    reason: &str,
    kind: &str,
    message: &str,
    now: Instant,
) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.{}", random_id()), "namespace": "default"},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": now.to_string(),
        "lastTimestamp": now.to_string(),
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
    })
}

/// Returns a random ID, such as that of one decision, which connects the log, the event and the condition.
pub(crate) fn random_id() -> String {
    format!("{:016x}", getrandom::u64().unwrap_or_default())
}
