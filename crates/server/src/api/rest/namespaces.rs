//! What is different about namespaces: they are emptied before they go (AP-58, AP-59).
//!
//! Here only the deletion begins and ends; emptying a namespace is a controller's.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::namespaces::{self, Deletion};
use portcullis_kinds as kinds;

use super::delete::{self, Step};
use super::options::DeleteOptions;
use super::{meta, now};

/// Whether this is the kind of namespaces.
pub(crate) fn is_one(resource: &Resource) -> bool {
    std::ptr::eq(resource, &raw const namespaces::NAMESPACES)
}

/// Whether nothing holds the namespace any more.
pub(crate) fn is_empty(namespace: &Map) -> bool {
    let finalizers = namespace.get("spec").and_then(|spec| spec.get("finalizers"));
    finalizers.and_then(serde_json::Value::as_array).is_none_or(Vec::is_empty)
}

/// What a delete does to a namespace (AP-59).
pub(crate) fn step(namespace: &Map, options: &DeleteOptions) -> Step {
    match namespaces::deletion(namespace) {
        Deletion::Begins => {
            let mut marked = namespace.clone();
            meta::set(&mut marked, "deletionTimestamp", meta::time(now()));
            namespaces::set_terminating(&mut marked);
            if let Some(finalizers) = delete::finalizers(namespace, options) {
                meta::set_finalizers(&mut marked, finalizers);
            }
            Step::Mark(marked)
        }
        Deletion::Waits => Step::Nothing,
        Deletion::Completes => delete::step(&namespaces::NAMESPACES, namespace, options),
    }
}
