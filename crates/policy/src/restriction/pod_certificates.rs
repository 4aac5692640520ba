//! PodCertificateRequests (NR-76 to NR-89): a node may request certificates only for pods bound to it, with the actual
//! pod, node and service account.

use super::body::GroupKind;
use super::{AdmissionRequest, NodeRestriction, Operation, Rejection};
use crate::features::Feature;
use crate::objects::certificates::PodCertificateRequest;

const POD_CERTIFICATE_REQUEST: GroupKind = GroupKind::new("certificates.k8s.io", "PodCertificateRequest");

impl NodeRestriction<'_> {
    /// In the order of the rules. A mismatch that may be due to a stale cache is a 500, so that the kubelet retries
    /// (NR-82).
    pub(super) fn admit_pod_certificate(
        &self,
        me: &str,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Rejection> {
        if !self.gates.is_on(Feature::PodCertificateRequest) {
            return Err(request.forbidden("the feature gate PodCertificateRequest is off"));
        }
        if request.operation != Operation::Create {
            return Err(request.forbidden("a node may only create pod certificate requests"));
        }
        if !request.subresource.is_empty() {
            return Err(request.forbidden("a node may not write subresources of pod certificate requests"));
        }
        let spec = request.body::<PodCertificateRequest<'_>>(POD_CERTIFICATE_REQUEST)?.spec;
        if spec.node_name != me {
            return Err(request.forbidden(format_args!("spec.nodeName must be {me:?}")));
        }
        let node = self.lookup.node(me).ok_or_else(|| missing("node", me))?;
        if node != *spec.node_uid {
            return Err(stale("spec.nodeUID", "Node"));
        }
        let pod = self
            .lookup
            .pod(request.namespace, &spec.pod_name)
            .ok_or_else(|| missing("pod", &spec.pod_name))?;
        if pod.uid != *spec.pod_uid {
            return Err(stale("spec.podUID", "pod"));
        }
        if *pod.node_name != *spec.node_name {
            return Err(request.forbidden(format_args!("the pod is not bound to node {me:?}")));
        }
        if pod.is_mirror {
            return Err(request.forbidden("mirror pods get no certificates"));
        }
        if *pod.service_account != *spec.service_account_name {
            return Err(request.forbidden("spec.serviceAccountName is not the pod's service account"));
        }
        let account = self
            .lookup
            .service_account(request.namespace, &spec.service_account_name)
            .ok_or_else(|| missing("service account", &spec.service_account_name))?;
        if account != *spec.service_account_uid {
            return Err(stale("spec.serviceAccountUID", "service account"));
        }
        Ok(())
    }
}

fn missing(what: &str, name: &str) -> Rejection {
    Rejection::internal(format_args!("the {what} {name:?} of the pod certificate request is not known (yet)"))
}

fn stale(field: &str, what: &str) -> Rejection {
    Rejection::internal(format_args!(
        "{field} is not the uid of the {what} as known here; it may be older or newer"
    ))
}
