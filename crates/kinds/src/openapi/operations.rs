//! The names of the operations of custom kinds, by which generated clients call them.

use serde_json::Value;

use crate::Map;
use crate::resource::Resource;

/// Names the operations of a kind: `readStableExampleComV1NamespacedCronTab`.
pub(super) fn name(resource: &Resource, paths: &mut Map) {
    let group: String = resource.group.split('.').map(upper).collect();
    let of = format!("{group}{}", upper(resource.version));
    let collection = format!("/{}", resource.plural);
    let start = format!("/apis/{}/{}/", resource.group, resource.version);
    for (path, operations) in paths.iter_mut() {
        let Some(rest) = path.strip_prefix(&start) else { continue };
        let is_in_namespace = rest.starts_with("namespaces/");
        let rest = rest.strip_prefix("namespaces/{namespace}").unwrap_or(rest);
        let rest = if rest.starts_with('/') { rest } else { &format!("/{rest}") };
        let Some(below) = rest.strip_prefix(&collection) else { continue };
        let subresource = match below {
            "" | "/{name}" => String::new(),
            below => match below.strip_prefix("/{name}/") {
                Some(name) => upper(name),
                None => continue,
            },
        };
        let everywhere = resource.is_namespaced && !is_in_namespace;
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            let verb = match (method.as_str(), below) {
                ("get", "") => "list",
                ("get", _) => "read",
                ("post", _) => "create",
                ("put", _) => "replace",
                ("patch", _) => "patch",
                ("delete", "") => "deleteCollection",
                ("delete", _) => "delete",
                _ => continue,
            };
            let namespaced = if is_in_namespace { "Namespaced" } else { "" };
            let all = if everywhere { "ForAllNamespaces" } else { "" };
            let name = format!("{verb}{of}{namespaced}{}{subresource}{all}", resource.kind);
            if let Some(operation) = operation.as_object_mut() {
                operation.insert("operationId".to_owned(), Value::from(name));
            }
        }
    }
}

/// The text with its first letter in upper case.
fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
