//! The kinds of objects that an explanation needs (AU-12).

use std::collections::BTreeSet;

use crate::audit::who_can::{self, Scope};
use crate::chain::Mode;
use crate::engine::{EngineConfig, needs};
use crate::identity::NODE_USER_PREFIX;
use crate::objects::Kind;
use crate::request::Attributes;

/// The kinds of objects on which the decision on a request depends.
pub fn deciding_kinds(config: &EngineConfig, attributes: &Attributes<'_>) -> BTreeSet<Kind> {
    let mut config = config.clone();
    // Mode Node looks at nothing for users who are no nodes, whatever their groups.
    if !attributes.user.name.starts_with(NODE_USER_PREFIX) {
        config.modes.retain(|mode| *mode != Mode::Node);
    }
    who_can::kinds(&config, attributes, Scope::default())
}

/// The kinds of objects that an explanation reads: also those in which near misses are found, in any namespace.
pub fn kinds(config: &EngineConfig, attributes: &Attributes<'_>) -> BTreeSet<Kind> {
    let mut kinds = deciding_kinds(config, attributes);
    if config.modes.contains(&Mode::Rbac) {
        kinds.extend(needs::of_mode(Mode::Rbac, config));
    }
    kinds
}
