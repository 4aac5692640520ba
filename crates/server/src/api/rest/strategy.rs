//! What an update through the main resource or a subresource may change, and what must hold afterwards.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::namespaces::{self, NAMESPACES};
use kinds::resources::pods::{self, PODS};
use policy::field_error::FieldError;
use portcullis_kinds as kinds;
use portcullis_policy as policy;

use super::target::Target;

type Prepare = fn(&mut Map, &Map);
type Validate = fn(&Map, &Map) -> Vec<FieldError>;

/// How objects are changed at one endpoint. Both functions take first the new, then the old object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    /// Keeps what cannot be changed here.
    pub(crate) prepare: Prepare,
    /// Everything wrong with what was.
    pub(crate) validate: Validate,
    /// Whether this is the status.
    pub(crate) is_status: bool,
}

impl Strategy {
    /// The strategy of a target; nothing for subresources whose documents are not the object itself.
    pub(crate) fn of(target: &Target<'_>) -> Option<Self> {
        let resource = target.resource;
        let is = |other: &'static Resource| std::ptr::eq(resource, other);
        let (prepare, validate): (Prepare, Validate) =
            match target.subresource.map(|subresource| subresource.name) {
                None => (resource.prepare_update, resource.validate_update),
                Some("status") => (resource.prepare_status, resource.validate_status),
                Some("finalize") if is(&NAMESPACES) => {
                    (namespaces::prepare_finalize, |namespace, _| namespaces::validate_finalize(namespace))
                }
                Some("ephemeralcontainers") if is(&PODS) => {
                    (pods::prepare_ephemeral_containers, pods::validate_ephemeral_containers)
                }
                Some("resize") if is(&PODS) => (pods::prepare_resize, pods::validate_resize),
                Some(_) => return None,
            };
        let is_status = target.subresource.is_some_and(|subresource| subresource.name == "status");
        Some(Self { prepare, validate, is_status })
    }
}
