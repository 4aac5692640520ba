//! ResourceSlices (NR-93 to NR-95): a node may create and delete only its own.

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use crate::objects::resource::ResourceSlice;

const RESOURCE_SLICE: GroupKind = GroupKind("resource.k8s.io", "ResourceSlice");

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let slice: ResourceSlice<'_> = match request.operation {
        Operation::Create => request.body(RESOURCE_SLICE)?,
        Operation::Delete => request.stored(RESOURCE_SLICE)?,
        // The node of a slice is immutable, and authorization knows it (NR-95).
        Operation::Update | Operation::Connect => return Ok(()),
    };
    request.require(slice.spec.node_name == me, format_args!("spec.nodeName of the slice must be {me:?}"))
}
