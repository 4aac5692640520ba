//! CSINodes (NR-92): a node may write only its own storage drivers.

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::AdmissionRequest;

const CSI_NODE: GroupKind = GroupKind("storage.k8s.io", "CSINode");

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let is_own = request.is_named(me, CSI_NODE)?;
    request.require(is_own, format_args!("node {me:?} may write only the CSINode of its own name"))
}
