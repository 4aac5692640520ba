//! Leases (NR-90, NR-91): a node may write only its own heartbeat lease.

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::AdmissionRequest;

const LEASE: GroupKind = GroupKind("coordination.k8s.io", "Lease");

/// The namespace of node leases.
const NODE_LEASES: &str = "kube-node-lease";

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    request.require(
        request.namespace == NODE_LEASES,
        format_args!("a node may write leases only in namespace {NODE_LEASES:?}"),
    )?;
    let is_own = request.is_named(me, LEASE)?;
    request.require(is_own, format_args!("node {me:?} may write only the lease of its own name"))
}
