//! Reads objects of kinds that only the management cluster knows, as JSON.

use http::Method;
use serde_json::Value;

use crate::call::found;
use crate::connect::Connection;

/// Reads what is at a path; none if there is nothing.
pub(super) async fn find(connection: &Connection, path: &str) -> Result<Option<Value>, String> {
    found(connection.call(Method::GET, path, None).await).map_err(|error| error.to_string())
}

/// The preferred version of a group; none if the server does not have the group.
pub(super) async fn version(connection: &Connection, group: &str) -> Result<Option<String>, String> {
    let found = find(connection, &format!("/apis/{group}")).await?.unwrap_or_default();
    Ok(text(&found, "/preferredVersion/version").map(str::to_owned))
}

/// The path of a group in its preferred version; none if the server does not have the group.
pub(super) async fn group(connection: &Connection, group: &str) -> Result<Option<String>, String> {
    Ok(version(connection, group).await?.map(|version| format!("/apis/{group}/{version}")))
}

/// The text in an object; none if there is another value, or nothing.
pub(super) fn text<'a>(object: &'a Value, at: &str) -> Option<&'a str> {
    object.pointer(at).and_then(Value::as_str)
}

/// The items of a list.
pub(super) fn items(list: Value) -> Vec<Value> {
    match list {
        Value::Object(mut list) => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
