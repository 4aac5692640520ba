//! Helpers that the checks of pods share: values that an update may keep, and limits.

use std::collections::BTreeSet;

/// The maximum number of seconds, and the maximum user ID.
pub(in crate::resources::pods) const MAX_INT32: i64 = i32::MAX as i64;

/// Values that the old pod of an update already has, which are tolerated although they would be refused in a new pod.
#[derive(Clone, Debug, Default)]
pub(in crate::resources::pods) struct Kept {
    pub(in crate::resources::pods) deletion_cost: bool,
    pub(in crate::resources::pods) affinity_selectors: bool,
    pub(in crate::resources::pods) node_affinity_values: bool,
    pub(in crate::resources::pods) spread_selectors: bool,
    pub(in crate::resources::pods) spread_keys: bool,
    pub(in crate::resources::pods) token_paths: bool,
    pub(in crate::resources::pods) host_sysctls: bool,
    pub(in crate::resources::pods) huge_pages: bool,
    pub(in crate::resources::pods) label_change_policy: bool,
    pub(in crate::resources::pods) comparing_tolerations: bool,
    pub(in crate::resources::pods) devices_of_user_namespaces: bool,
    pub(in crate::resources::pods) rules_of_sidecars: bool,
    pub(in crate::resources::pods) addresses: BTreeSet<String>,
}
