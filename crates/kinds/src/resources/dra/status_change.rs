//! The changes of a claim's status that need rights of their own (NR-110).

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::allocation::device_id;
use crate::Map;
use crate::fields::Members;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange<'a> {
    /// Whether the allocation or the reservations change.
    pub binds: bool,
    /// The drivers that have a device whose entry is added, removed or changed; none if the claim is not allocated.
    pub drivers: BTreeSet<&'a str>,
    /// The node of the allocation, if it says one by its name and nothing else.
    pub node: Option<&'a str>,
}

impl<'a> StatusChange<'a> {
    /// Compares the status of the new and of the stored claim.
    pub fn of(new: &'a Map, old: &'a Map) -> Self {
        let (new, old) = (new.object("status"), old.object("status"));
        let is_allocated = new.has("allocation");
        let binds = is_allocated != old.has("allocation")
            || new.object("allocation") != old.object("allocation")
            || new.list("reservedFor") != old.list("reservedFor");
        let drivers = if is_allocated { changed_drivers(new, old) } else { BTreeSet::new() };
        Self { binds, drivers, node: allocated_node(new) }
    }
}

fn changed_drivers<'a>(new: &'a Map, old: &'a Map) -> BTreeSet<&'a str> {
    let mut before: HashMap<_, &Map> =
        old.objects("devices").map(|device| (device_id(device), device)).collect();
    let mut changed = BTreeSet::new();
    for device in new.objects("devices") {
        if before.remove(&device_id(device)) != Some(device) {
            changed.insert(device.text("driver"));
        }
    }
    changed.extend(before.into_values().map(|device| device.text("driver")));
    changed
}

fn allocated_node(status: &Map) -> Option<&str> {
    let selector = status.object("allocation").object("nodeSelector");
    let mut terms = selector.objects("nodeSelectorTerms");
    let (term, None) = (terms.next()?, terms.next()) else { return None };
    let mut fields = term.objects("matchFields");
    let (field, None) = (fields.next()?, fields.next()) else { return None };
    let is_name = field.text("key") == "metadata.name" && field.text("operator") == "In";
    match field.list("values") {
        [Value::String(node)] if is_name && term.list("matchExpressions").is_empty() => Some(node.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(status: &Value) -> Map {
        json!({"status": status}).as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn one_name_in_one_term_is_the_node_of_an_allocation_nr_110() {
        let by_name = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
        let term = json!({"matchFields": [by_name]});
        for (terms, node) in [
            (json!([term]), Some("n1")),
            (json!([]), None),
            (json!([term, term]), None),
            (json!([{"matchFields": [by_name, by_name]}]), None),
            (
                json!([{"matchFields": [by_name], "matchExpressions": [{"key": "a", "operator": "Exists"}]}]),
                None,
            ),
            (json!([{"matchExpressions": [by_name]}]), None),
            (
                json!([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]),
                None,
            ),
            (
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}]),
                None,
            ),
            (
                json!([{"matchFields": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]),
                None,
            ),
        ] {
            let new = claim(&json!({"allocation": {"nodeSelector": {"nodeSelectorTerms": terms}}}));
            assert_eq!(StatusChange::of(&new, &Map::new()).node, node, "{terms}");
        }
    }

    #[test]
    fn each_driver_with_a_changed_device_counts_nr_110() {
        let device = |driver: &str, device: &str, data: i32| json!({"driver": driver, "pool": "p", "device": device, "data": data});
        let old = claim(&json!({"allocation": {}, "reservedFor": [{"uid": "u"}], "devices": [
            device("same", "d0", 1), device("changed", "d0", 1), device("removed", "d0", 1), device("moved", "d0", 1),
        ]}));
        let devices = json!([
            device("added", "d0", 1),
            device("changed", "d0", 2),
            device("same", "d0", 1),
            device("moved", "d1", 1),
        ]);
        let new = claim(&json!({"allocation": {}, "reservedFor": [{"uid": "u"}], "devices": devices}));
        let change = StatusChange::of(&new, &old);
        assert_eq!(change.drivers, BTreeSet::from(["added", "changed", "moved", "removed"]));
        assert!(!change.binds);
        for status in [json!({"allocation": {}}), json!({"reservedFor": [{"uid": "u"}]}), json!({})] {
            assert!(StatusChange::of(&claim(&status), &old).binds, "{status}");
        }
    }
}
