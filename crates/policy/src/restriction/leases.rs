//! Leases (NR-90, NR-91): a node may write only its own heartbeat lease.

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use crate::objects::coordination::Lease;

const LEASE: GroupKind = GroupKind::new("coordination.k8s.io", "Lease");

/// The namespace of node leases.
const NODE_LEASES: &str = "kube-node-lease";

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    if request.namespace != NODE_LEASES {
        return Err(
            request.forbidden(format_args!("a node may write leases only in namespace {NODE_LEASES:?}"))
        );
    }
    let is_own = match request.operation {
        Operation::Create => request.body::<Lease<'_>>(LEASE)?.metadata.name == me,
        Operation::Update | Operation::Delete | Operation::Connect => request.name == me,
    };
    if !is_own {
        return Err(request.forbidden(format_args!("node {me:?} may write only the lease of its own name")));
    }
    Ok(())
}
