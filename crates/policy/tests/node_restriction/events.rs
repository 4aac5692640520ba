//! Events under `PortcullisNodeEventSourceRestriction`.

use portcullis_policy::features::Feature;
use portcullis_policy::restriction::Operation::{Create, Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{World, create, delete, update, write};

fn gated() -> World {
    let mut world = World::of(&[]);
    world.gates = world.gates.with(Feature::PortcullisNodeEventSourceRestriction, true);
    world
}

/// An event of either group, by its host and reporting instance.
fn event(resource: &str, host: Value, instance: Value) -> Value {
    if resource == "events" {
        json!({"apiVersion": "v1", "kind": "Event", "source": {"component": "kubelet", "host": host},
            "reportingComponent": "kubelet", "reportingInstance": instance})
    } else {
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "deprecatedSource": {"component": "kubelet", "host": host},
            "reportingController": "kubelet", "reportingInstance": instance})
    }
}

const BOTH: [&str; 2] = ["events", "events.events.k8s.io"];

#[test]
fn a_node_reports_only_as_itself() {
    let world = gated();
    for resource in BOTH {
        let own = event(resource, json!("n0"), json!("n0"));
        for (host, instance, code) in [
            (json!("n0"), json!("n0"), 200),
            (json!("n0"), json!(""), 200),
            (json!("n0"), json!(null), 200),
            (json!(null), json!("n0"), 200),
            (json!("n1"), json!("n1"), 403),
            (json!("n0"), json!("n1"), 403),
            (json!("n1"), json!("n0"), 403),
            (json!(""), json!(""), 403),
            (json!(null), json!("kubelet-n0"), 403),
            (json!("N0"), json!("n0"), 403),
            (json!(["n0"]), json!("n0"), 403),
        ] {
            let event = event(resource, host, instance);
            assert_eq!(world.code(&create(resource, "ns", "e", &event)), code, "{event}");
            assert_eq!(world.code(&update(resource, "ns", "e", &event, &own)), code, "submitted {event}");
            assert_eq!(world.code(&update(resource, "ns", "e", &own, &event)), code, "stored {event}");
            assert_eq!(world.code(&delete(resource, "ns", "e").over(&event)), code, "deleted {event}");
        }
    }
}

#[test]
fn a_source_spelled_as_in_the_other_group_counts_for_nothing() {
    let world = gated();
    for (resource, other) in [(BOTH[0], BOTH[1]), (BOTH[1], BOTH[0])] {
        let foreign = event(other, json!("n0"), json!("n0"));
        assert_eq!(world.code(&create(resource, "ns", "e", &foreign)), 403);
        let mut disguised = event(other, json!("n0"), json!(null));
        let host = event(resource, json!("n1"), json!(null));
        disguised["apiVersion"] = host["apiVersion"].clone();
        assert_eq!(world.code(&create(resource, "ns", "e", &disguised)), 403);
    }
    assert_eq!(world.code(&create("events", "ns", "e", &json!({"kind": "Event"}))), 403);
    assert_eq!(world.code(&write(Create, "events", "ns", "e")), 403);
}

#[test]
fn without_the_gate_events_are_free_nr_4() {
    let world = World::of(&[]);
    for resource in BOTH {
        let foreign = event(resource, json!("n1"), json!("n1"));
        for operation in [Create, Update, Delete] {
            assert_eq!(world.code(&write(operation, resource, "ns", "e").with(&foreign).over(&foreign)), 200);
        }
    }
}
