//! Schemas of roles and bindings in the versions before `v1` (RB-120 to RB-122).

/// Served from 1.6 to 1.21: the shapes of `v1`.
pub mod v1beta1 {
    use crate::schema::Shape::{List, Object, Text};
    use crate::schema::rbac::{AGGREGATION_RULE, version};
    use crate::schema::table::{always, types, unless_zero, when_set};

    version! {
        "rbac/v1beta1",
        subject: [
            always("kind", 1, Text),
            unless_zero("apiGroup", 2, Text),
            always("name", 3, Text),
            unless_zero("namespace", 4, Text),
        ],
        role_ref: [],
        rule: []
    }
}

/// Served from 1.3 to 1.21.
pub mod v1alpha1 {
    use crate::schema::Shape::{Any, List, Object, Text};
    use crate::schema::rbac::{AGGREGATION_RULE, version};
    use crate::schema::table::{always, types, unless_zero, when_set};

    // Fields without an effect have no number, so they are ignored in protobuf.
    version! {
        "rbac/v1alpha1",
        subject: [
            always("kind", 1, Text),
            unless_zero("apiVersion", 2, Text),
            always("name", 3, Text),
            unless_zero("namespace", 4, Text),
        ],
        role_ref: [unless_zero("namespace", 0, Text), unless_zero("apiVersion", 0, Text)],
        rule: [when_set("attributeRestrictions", 0, Any)]
    }
}
