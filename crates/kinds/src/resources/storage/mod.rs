//! Kinds of `storage.k8s.io`.

mod attachments;
mod capacities;
mod classes;
mod drivers;
mod nodes;
mod volume_attributes;

pub use attachments::VOLUME_ATTACHMENTS;
pub use capacities::CSI_STORAGE_CAPACITIES;
pub use classes::{STORAGE_CLASSES, is_default as is_default_class};
pub use drivers::CSI_DRIVERS;
pub use nodes::CSI_NODES;
pub use volume_attributes::VOLUME_ATTRIBUTES_CLASSES;

use crate::resource::Resource;

/// The values shared by the kinds of the group.
const USUAL: Resource = Resource {
    group: "storage.k8s.io",
    is_namespaced: false,
    deletes_to_object: true,
    updates_unconditionally: false,
    ..Resource::USUAL
};
