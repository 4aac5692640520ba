//! CSINodes (NR-92): a node may write only its own storage drivers.

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use crate::objects::storage::CsiNode;

const CSI_NODE: GroupKind = GroupKind::new("storage.k8s.io", "CSINode");

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let is_own = match request.operation {
        Operation::Create => request.body::<CsiNode<'_>>(CSI_NODE)?.metadata.name == me,
        Operation::Update | Operation::Delete | Operation::Connect => request.name == me,
    };
    if !is_own {
        return Err(request.forbidden(format_args!("node {me:?} may write only the CSINode of its own name")));
    }
    Ok(())
}
