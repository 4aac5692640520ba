//! The options of a connection as a document, which admission webhooks see (`CONNECT`).

use kinds::Map;
use kinds::resource::Subresource;
use policy::request_info::RequestInfo;
use serde_json::Value;

use crate::http::query::Query;
use crate::registry::options::is_true;
use crate::registry::target::Target;

/// The document of a request to this subresource, in the form of Kubernetes.
pub(super) fn document(
    subresource: &Subresource,
    target: &Target<'_>,
    info: &RequestInfo,
    query: &Query,
) -> Map {
    let mut document = Map::new();
    let mut set = |field: &str, value: Value| document.insert(field.to_owned(), value);
    set("kind", subresource.kind.into());
    set("apiVersion", target.served.api_version().into());
    if subresource.takes_path() {
        let path = path(info.path(), target);
        if !path.is_empty() {
            set("path", path.into());
        }
        return document;
    }
    if subresource.name == "portforward" {
        let ports: Vec<i32> = query.values("ports").filter_map(|port| port.parse().ok()).collect();
        if !ports.is_empty() {
            set("ports", ports.into());
        }
        return document;
    }
    for stream in ["stdin", "stdout", "stderr", "tty"] {
        if query.first(stream).is_some_and(is_true) {
            set(stream, true.into());
        }
    }
    if let Some(container) = query.first("container").filter(|container| !container.is_empty()) {
        set("container", container.into());
    }
    let command: Vec<&str> = query.values("command").collect();
    if subresource.name == "exec" && !command.is_empty() {
        set("command", command.into());
    }
    document
}

/// The decoded path behind `/proxy`.
fn path<'a>(path: &'a str, target: &Target<'_>) -> &'a str {
    let object = format!("/{}/{}/proxy", target.resource.plural, target.name);
    path.split_once(&object).map_or("", |(_, rest)| rest)
}
