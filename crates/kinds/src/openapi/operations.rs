//! The names of operations, by which generated clients call them, and the tags by which they are grouped.

use serde_json::{Value, json};

use crate::Map;

/// The action of requests that are passed on.
pub(super) const CONNECT: &str = "connect";

/// The resource of operations.
pub(super) struct Named<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
    pub(super) plural: &'a str,
    pub(super) is_namespaced: bool,
}

impl Named<'_> {
    /// Where the paths of the resource begin: `/api/v1/`, `/apis/apps/v1/`.
    fn start(&self) -> String {
        match self.group {
            "" => format!("/api/{}/", self.version),
            group => format!("/apis/{group}/{}/", self.version),
        }
    }

    /// Names the operations of the paths: `readCoreV1NamespacedPodStatus`.
    pub(super) fn name(&self, paths: &mut Map) {
        let group = match self.group {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let of = format!("{}{}", camel_case(group, true), camel_case(self.version, true));
        let tag = format!("{}_{}", camel_case(group, false), self.version);
        let (start, collection) = (self.start(), format!("/{}", self.plural));
        for (path, operations) in paths.iter_mut() {
            let Some(rest) = path.strip_prefix(&start) else { continue };
            let is_in_namespace = rest.starts_with("namespaces/{namespace}/");
            let rest = rest.strip_prefix("namespaces/{namespace}/").unwrap_or(rest);
            let rest = format!("/{rest}");
            let Some(below) = rest.strip_prefix(&collection) else { continue };
            let subresource = below.strip_prefix("/{name}/").unwrap_or_default();
            let subresource = camel_case(&subresource.replace("/{path}", "-with-path"), true);
            let everywhere = self.is_namespaced && !is_in_namespace;
            for (method, operation) in operations.as_object_mut().into_iter().flatten() {
                let Some(operation) = operation.as_object_mut() else { continue };
                let is_connection =
                    operation.get("x-kubernetes-action").and_then(Value::as_str) == Some(CONNECT);
                let connected = camel_case(method, true);
                let (verb, what) = match (method.as_str(), below) {
                    _ if is_connection => (CONNECT, connected.as_str()),
                    ("get", "") => ("list", ""),
                    ("get", _) => ("read", ""),
                    ("post", _) => ("create", ""),
                    ("put", _) => ("replace", ""),
                    ("patch", _) => ("patch", ""),
                    ("delete", "") => ("delete", "Collection"),
                    ("delete", _) => ("delete", ""),
                    _ => continue,
                };
                let namespaced = if is_in_namespace { "Namespaced" } else { "" };
                let all = if everywhere { "ForAllNamespaces" } else { "" };
                let name = format!("{verb}{of}{what}{namespaced}{}{subresource}{all}", self.kind);
                operation.insert("operationId".to_owned(), Value::from(name));
                operation.insert("tags".to_owned(), json!([tag]));
            }
        }
    }
}

/// A text without punctuation, in which each word after some begins with an upper case letter.
fn camel_case(text: &str, first_is_upper: bool) -> String {
    let mut is_upper = first_is_upper;
    let mut name = String::new();
    for letter in text.chars() {
        if !letter.is_ascii_alphanumeric() {
            is_upper = true;
        } else if std::mem::take(&mut is_upper) {
            name.push(letter.to_ascii_uppercase());
        } else {
            name.push(letter);
        }
    }
    name
}
