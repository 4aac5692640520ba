//! ResourceSlices (NR-93 to NR-95): a node publishes and withdraws its own devices.

use super::body::GroupKind;
use super::{AdmissionRequest, Operation, Rejection};
use crate::objects::resource::ResourceSlice;

const RESOURCE_SLICE: GroupKind = GroupKind::new("resource.k8s.io", "ResourceSlice");

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let slice: ResourceSlice<'_> = match request.operation {
        Operation::Create => request.body(RESOURCE_SLICE)?,
        Operation::Delete => request.stored(RESOURCE_SLICE)?,
        // Whose a slice is cannot be changed, and authorization knows whose it is (NR-95).
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if slice.spec.node_name != me {
        return Err(request.forbidden(format_args!("spec.nodeName of the slice must be {me:?}")));
    }
    Ok(())
}
