//! Schemas of references to objects and nodes in core kinds.

use crate::schema::Shape::{Int64, List, Object, Text, Time};
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    LocalObjectReference LOCAL_OBJECT_REFERENCE atomic {
        unless_zero("name", 1, Text),
    }
    ObjectReference OBJECT_REFERENCE atomic {
        unless_zero("kind", 1, Text),
        unless_zero("namespace", 2, Text),
        unless_zero("name", 3, Text),
        unless_zero("uid", 4, Text),
        unless_zero("apiVersion", 5, Text),
        unless_zero("resourceVersion", 6, Text),
        unless_zero("fieldPath", 7, Text),
    }
    SecretReference SECRET_REFERENCE atomic {
        unless_zero("name", 1, Text),
        unless_zero("namespace", 2, Text),
    }
    TypedLocalObjectReference TYPED_LOCAL_OBJECT_REFERENCE atomic {
        or_null("apiGroup", 1, Text),
        always("kind", 2, Text),
        always("name", 3, Text),
    }
    TypedObjectReference TYPED_OBJECT_REFERENCE {
        or_null("apiGroup", 1, Text),
        always("kind", 2, Text),
        always("name", 3, Text),
        when_set("namespace", 4, Text),
    }
    NodeSelector NODE_SELECTOR atomic {
        always("nodeSelectorTerms", 1, List(&Object(&NODE_SELECTOR_TERM))),
    }
    NodeSelectorTerm NODE_SELECTOR_TERM atomic {
        unless_zero("matchExpressions", 1, List(&Object(&NODE_SELECTOR_REQUIREMENT))),
        unless_zero("matchFields", 2, List(&Object(&NODE_SELECTOR_REQUIREMENT))),
    }
    NodeSelectorRequirement NODE_SELECTOR_REQUIREMENT {
        always("key", 1, Text),
        always("operator", 2, Text).one_of(values::NODE_SELECTOR_OPERATORS),
        unless_zero("values", 3, List(&Text)),
    }
    TopologySelectorTerm TOPOLOGY_SELECTOR_TERM atomic {
        unless_zero("matchLabelExpressions", 1, List(&Object(&TOPOLOGY_SELECTOR_LABEL_REQUIREMENT))),
    }
    TopologySelectorLabelRequirement TOPOLOGY_SELECTOR_LABEL_REQUIREMENT {
        always("key", 1, Text),
        always("values", 2, List(&Text)),
    }
    Taint TAINT {
        always("key", 1, Text),
        unless_zero("value", 2, Text),
        always("effect", 3, Text).one_of(values::TAINT_EFFECTS),
        when_set("timeAdded", 4, Time),
    }
    Toleration TOLERATION {
        unless_zero("key", 1, Text),
        unless_zero("operator", 2, Text).one_of(values::TOLERATION_OPERATORS),
        unless_zero("value", 3, Text),
        unless_zero("effect", 4, Text).one_of(values::TAINT_EFFECTS),
        when_set("tolerationSeconds", 5, Int64),
    }
}
