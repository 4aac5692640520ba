//! Kinds of `resource.k8s.io`: devices, classes of them, and claims to them. Selectors in CEL are not compiled here.

mod allocation;
mod capacity;
mod claims;
mod classes;
mod configuration;
mod devices;
mod lists;
mod names;
mod requests;
mod slices;

pub use claims::{
    ADMIN_ACCESS_LABEL, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, admin_access_of_claim,
    admin_access_of_template,
};
pub use classes::DEVICE_CLASSES;
pub use slices::{RESOURCE_SLICES, stamp_taints};

use crate::resource::Resource;

/// What the four kinds have in common.
const USUAL: Resource = Resource { group: "resource.k8s.io", deletes_to_object: true, ..Resource::USUAL };
