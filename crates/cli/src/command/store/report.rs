//! Messages that the commands of `portcullis store` share.

use std::collections::BTreeMap;

use portcullis_server::registry::content::Unreadable;

use crate::progress::Progress;
use crate::terminal::plain;

/// Reports a value that cannot be read.
pub(super) fn report(progress: &mut Progress, Unreadable { key, why }: &Unreadable) {
    progress.clear();
    eprintln!("error: {}", plain(&format!("the value of {key} {why}")));
}

/// The usual name of a resource that is written as in keys: `deployments.apps` for `apps/deployments`.
pub(super) fn usual_name(resource: &str) -> String {
    match resource.split_once('/') {
        Some(("core", plural)) => plural.to_owned(),
        Some((group, plural)) => format!("{plural}.{group}"),
        None => resource.to_owned(),
    }
}

/// `1 object`, `2 objects`.
pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Tells which keys of etcd are not served.
pub(super) fn tell_foreign(foreign: &BTreeMap<String, u64>) {
    if foreign.is_empty() {
        return;
    }
    let names: Vec<String> =
        foreign.iter().map(|(resource, count)| format!("{} {count}", plain(&usual_name(resource)))).collect();
    let all = foreign.values().sum();
    eprintln!(
        "note: {} are not served by this version, and left alone: {}",
        counted(all, "key"),
        names.join(", ")
    );
}
