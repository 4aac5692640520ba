//! Schemas of roles and bindings.

use crate::schema::Shape::{List, Object, Text};
use crate::schema::meta::LABEL_SELECTOR;
use crate::schema::table::{always, types, unless_zero, when_set};

/// Defines the four kinds of a version, with its own subjects, role references and rules.
macro_rules! version {
    ($package:literal, subject: [$($subject:expr),* $(,)?], role_ref: [$($role_ref:expr),* $(,)?],
     rule: [$($rule:expr),* $(,)?]) => {
        types! {
            $package;
            Role ROLE object {
                always("rules", 2, List(&Object(&POLICY_RULE))).optional(),
            }
            ClusterRole CLUSTER_ROLE object {
                always("rules", 2, List(&Object(&POLICY_RULE))).optional(),
                when_set("aggregationRule", 3, Object(&AGGREGATION_RULE)),
            }
            RoleBinding ROLE_BINDING object {
                unless_zero("subjects", 2, List(&Object(&SUBJECT))),
                always("roleRef", 3, Object(&ROLE_REF)).required(),
            }
            ClusterRoleBinding CLUSTER_ROLE_BINDING object {
                unless_zero("subjects", 2, List(&Object(&SUBJECT))),
                always("roleRef", 3, Object(&ROLE_REF)).required(),
            }
            PolicyRule POLICY_RULE {
                always("verbs", 1, List(&Text)),
                unless_zero("apiGroups", 2, List(&Text)),
                unless_zero("resources", 3, List(&Text)),
                unless_zero("resourceNames", 4, List(&Text)),
                unless_zero("nonResourceURLs", 5, List(&Text)),
                $($rule),*
            }
            Subject SUBJECT atomic {
                $($subject),*
            }
            RoleRef ROLE_REF atomic {
                always("apiGroup", 1, Text).optional(),
                always("kind", 2, Text),
                always("name", 3, Text),
                $($role_ref),*
            }
        }
    };
}
pub(super) use version;

version! {
    "rbac/v1",
    subject: [
        always("kind", 1, Text),
        unless_zero("apiGroup", 2, Text),
        always("name", 3, Text),
        unless_zero("namespace", 4, Text),
    ],
    role_ref: [],
    rule: []
}

types! {
    "rbac/v1";
    AggregationRule AGGREGATION_RULE {
        unless_zero("clusterRoleSelectors", 1, List(&Object(&LABEL_SELECTOR))),
    }
}
