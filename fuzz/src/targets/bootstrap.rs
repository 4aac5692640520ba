//! Bundles of bootstrap authorities. No mutation restores a revoked authority.

use std::collections::BTreeSet;

use portcullis_server::registry::bootstrap_authorities::{ACKNOWLEDGE, BUNDLE_KEY, Inventory};
use serde_json::{Map, Value, json};

pub(super) const BUNDLE: &[&str] = super::certificates::PEM;

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(super) fn bundle(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let held = map(json!({"metadata": {"name": "m"}, "data": {BUNDLE_KEY: text}}));
    let found = Inventory::read([("m", &held)], None);
    let digests: BTreeSet<&str> = found.authorities.iter().map(|one| one.sha256.as_str()).collect();
    assert_eq!(digests.len(), found.authorities.len(), "each once");
    assert!(found.authorities.iter().all(|one| !one.is_revoked), "nothing was revoked");

    // The same text as the list and as the acknowledgement: only digests have a meaning in either.
    let list: Map<String, Value> =
        digests.iter().map(|digest| ((*digest).to_owned(), text.clone().into())).collect();
    let list = map(json!({"data": list}));
    let again = Inventory::read([("m", &held)], Some(&list));
    assert_eq!(again.authorities.len(), found.authorities.len(), "the list holds nothing else");
    assert!(again.authorities.iter().all(|one| one.is_revoked), "what was revoked stays so");
    let mut noted = held.clone();
    noted.insert("metadata".to_owned(), json!({"name": "m", "annotations": {ACKNOWLEDGE: text}}));
    let noted = Inventory::read([("m", &noted)], Some(&list));
    let named = |digest: &str| text.replace(':', "").to_lowercase().contains(digest);
    assert!(
        noted.authorities.iter().all(|one| one.is_revoked || named(&one.sha256)),
        "nobody has acknowledged it"
    );
    !found.authorities.is_empty()
}
