//! Kinds of `resource.k8s.io`: devices, device classes and claims. What compiles their CEL selectors
//! is passed to the hooks.

mod allocation;
mod capacity;
mod claims;
mod classes;
mod configuration;
mod devices;
mod lists;
mod names;
mod requests;
mod selectors;
mod slices;
mod status_change;

pub use claims::{RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
pub use classes::DEVICE_CLASSES;
pub use slices::RESOURCE_SLICES;
pub use status_change::StatusChange;

use crate::resource::Resource;

/// The values shared by the four kinds.
const USUAL: Resource = Resource { group: "resource.k8s.io", deletes_to_object: true, ..Resource::USUAL };
