//! PodCertificateRequests (NR-76 to NR-89): a node may request certificates only for pods bound to it, with the actual
//! pod, node and service account.

use super::body::GroupKind;
use super::{AdmissionRequest, NodeRestriction, Operation, Rejection};
use crate::features::Feature;
use crate::objects::certificates::PodCertificateRequest;

const POD_CERTIFICATE_REQUEST: GroupKind = GroupKind("certificates.k8s.io", "PodCertificateRequest");

impl NodeRestriction<'_> {
    /// In the order of the rules. A mismatch that may be due to a stale cache is a 500, so that the kubelet retries
    /// (NR-82).
    pub(super) fn admit_pod_certificate(
        &self,
        me: &str,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Rejection> {
        request.require(
            self.gates.is_on(Feature::PodCertificateRequest),
            "the feature gate PodCertificateRequest is off",
        )?;
        request.require(
            request.operation == Operation::Create,
            "a node may only create pod certificate requests",
        )?;
        request.require(
            request.subresource.is_empty(),
            "a node may not write subresources of pod certificate requests",
        )?;
        let spec = request.body::<PodCertificateRequest<'_>>(POD_CERTIFICATE_REQUEST)?.spec;
        request.require(spec.node_name == me, format_args!("spec.nodeName must be {me:?}"))?;
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
        request.require_bound(&pod.node_name, me)?;
        request.require(!pod.is_mirror, "mirror pods get no certificates")?;
        request.require(
            *pod.service_account == *spec.service_account_name,
            "spec.serviceAccountName is not the pod's service account",
        )?;
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
