//! Kinds of `storage.k8s.io`.

mod attachments;
mod classes;
mod drivers;
mod nodes;

pub use attachments::VOLUME_ATTACHMENTS;
pub use classes::{STORAGE_CLASSES, is_default as is_default_class};
pub use drivers::CSI_DRIVERS;
pub use nodes::CSI_NODES;

use crate::resource::Resource;

/// The values shared by the four kinds.
const USUAL: Resource = Resource {
    group: "storage.k8s.io",
    is_namespaced: false,
    deletes_to_object: true,
    updates_unconditionally: false,
    ..Resource::USUAL
};
