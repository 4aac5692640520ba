//! The shapes of roles and bindings.

use crate::schema::Shape::{List, Object, Text};
use crate::schema::meta::{LABEL_SELECTOR, OBJECT_META};
use crate::schema::table::{API_VERSION, KIND, always, types, unless_zero, when_set};

types! {
    "rbac/v1";
    Role ROLE {
        KIND,
        API_VERSION,
        always("metadata", 1, Object(&OBJECT_META)),
        always("rules", 2, List(&Object(&POLICY_RULE))),
    }
    ClusterRole CLUSTER_ROLE {
        KIND,
        API_VERSION,
        always("metadata", 1, Object(&OBJECT_META)),
        always("rules", 2, List(&Object(&POLICY_RULE))),
        when_set("aggregationRule", 3, Object(&AGGREGATION_RULE)),
    }
    RoleBinding ROLE_BINDING {
        KIND,
        API_VERSION,
        always("metadata", 1, Object(&OBJECT_META)),
        unless_zero("subjects", 2, List(&Object(&SUBJECT))),
        always("roleRef", 3, Object(&ROLE_REF)),
    }
    ClusterRoleBinding CLUSTER_ROLE_BINDING {
        KIND,
        API_VERSION,
        always("metadata", 1, Object(&OBJECT_META)),
        unless_zero("subjects", 2, List(&Object(&SUBJECT))),
        always("roleRef", 3, Object(&ROLE_REF)),
    }
    PolicyRule POLICY_RULE {
        always("verbs", 1, List(&Text)),
        unless_zero("apiGroups", 2, List(&Text)),
        unless_zero("resources", 3, List(&Text)),
        unless_zero("resourceNames", 4, List(&Text)),
        unless_zero("nonResourceURLs", 5, List(&Text)),
    }
    AggregationRule AGGREGATION_RULE {
        unless_zero("clusterRoleSelectors", 1, List(&Object(&LABEL_SELECTOR))),
    }
    Subject SUBJECT {
        always("kind", 1, Text),
        unless_zero("apiGroup", 2, Text),
        always("name", 3, Text),
        unless_zero("namespace", 4, Text),
    }
    RoleRef ROLE_REF {
        always("apiGroup", 1, Text),
        always("kind", 2, Text),
        always("name", 3, Text),
    }
}
