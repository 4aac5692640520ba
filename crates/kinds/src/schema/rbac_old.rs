//! The shapes of roles and bindings in the versions before `v1` (RB-120 to RB-122).

/// The four kinds of a version, over its own subjects, role references and rules.
macro_rules! old_version {
    ($module:ident, $package:literal, $doc:literal, [$role:ident $cluster_role:ident $binding:ident $cluster_binding:ident],
     subject: [$($subject:expr),* $(,)?], role_ref: [$($role_ref:expr),* $(,)?], rule: [$($rule:expr),* $(,)?]) => {
        #[doc = $doc]
        pub mod $module {
            use crate::schema::Shape::{List, Object, Text};
            use crate::schema::meta::OBJECT_META;
            use crate::schema::rbac::AGGREGATION_RULE;
            use crate::schema::table::{API_VERSION, KIND, always, types, unless_zero, when_set};

            types! {
                $package;
                Role $role {
                    KIND,
                    API_VERSION,
                    always("metadata", 1, Object(&OBJECT_META)),
                    always("rules", 2, List(&Object(&POLICY_RULE))),
                }
                ClusterRole $cluster_role {
                    KIND,
                    API_VERSION,
                    always("metadata", 1, Object(&OBJECT_META)),
                    always("rules", 2, List(&Object(&POLICY_RULE))),
                    when_set("aggregationRule", 3, Object(&AGGREGATION_RULE)),
                }
                RoleBinding $binding {
                    KIND,
                    API_VERSION,
                    always("metadata", 1, Object(&OBJECT_META)),
                    unless_zero("subjects", 2, List(&Object(&SUBJECT))),
                    always("roleRef", 3, Object(&ROLE_REF)),
                }
                ClusterRoleBinding $cluster_binding {
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
                    $($rule),*
                }
                Subject SUBJECT {
                    $($subject),*
                }
                RoleRef ROLE_REF {
                    always("apiGroup", 1, Text),
                    always("kind", 2, Text),
                    always("name", 3, Text),
                    $($role_ref),*
                }
            }
        }
    };
}

old_version! {
    v1beta1, "rbac/v1beta1", "Served from 1.6 to 1.21: the shapes of `v1`.",
    [ROLE CLUSTER_ROLE ROLE_BINDING CLUSTER_ROLE_BINDING],
    subject: [
        always("kind", 1, Text),
        unless_zero("apiGroup", 2, Text),
        always("name", 3, Text),
        unless_zero("namespace", 4, Text),
    ],
    role_ref: [],
    rule: []
}

// What had no effect, or has none any more, has no number: in protobuf it is passed over.
old_version! {
    v1alpha1, "rbac/v1alpha1", "Served from 1.3 to 1.21.",
    [ROLE CLUSTER_ROLE ROLE_BINDING CLUSTER_ROLE_BINDING],
    subject: [
        always("kind", 1, Text),
        unless_zero("apiVersion", 2, Text),
        always("name", 3, Text),
        unless_zero("namespace", 4, Text),
    ],
    role_ref: [unless_zero("namespace", 0, Text), unless_zero("apiVersion", 0, Text)],
    rule: [when_set("attributeRestrictions", 0, crate::schema::Shape::Any)]
}
