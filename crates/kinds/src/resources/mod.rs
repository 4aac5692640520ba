//! The table of all kinds, one file per kind or family of kinds. Adding a kind is adding a row.

use crate::resource::Resource;

pub mod pods;

/// All kinds, by group and then by plural name.
pub static ALL: &[&Resource] = &[&pods::PODS];

/// The kind that a path names.
pub fn find(group: &str, plural: &str) -> Option<&'static Resource> {
    ALL.iter().copied().find(|resource| resource.group == group && resource.plural == plural)
}
