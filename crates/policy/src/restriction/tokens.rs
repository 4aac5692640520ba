//! TokenRequests (NR-54 to NR-64): a node may request service account tokens only for pods bound to it.

use super::audience::AudienceQuestion;
use super::body::GroupKind;
use super::{AdmissionRequest, Assessment, NodeRestriction, Operation, Rejection};
use crate::features::Feature;
use crate::objects::authentication::TokenRequest;

const TOKEN_REQUEST: GroupKind = GroupKind("authentication.k8s.io", "TokenRequest");

impl NodeRestriction<'_> {
    /// NR-54 to NR-61, in this order.
    pub(super) fn assess_token_request<'r>(
        &self,
        me: &str,
        request: &AdmissionRequest<'r>,
    ) -> Result<Assessment<'r>, Rejection> {
        if request.operation != Operation::Create || request.subresource != "token" {
            return Ok(Assessment::Admitted);
        }
        let spec = request.body::<TokenRequest<'r>>(TOKEN_REQUEST)?.spec;
        let bound = spec
            .bound_object_ref
            .filter(|bound| bound.api_version == "v1" && bound.kind == "Pod" && !bound.name.is_empty())
            .ok_or_else(|| request.forbidden("a node may only request tokens bound to a pod"))?;
        request.require(!bound.uid.is_empty(), "spec.boundObjectRef.uid must be set")?;
        let pod = self
            .lookup
            .pod(request.namespace, &bound.name)
            .ok_or_else(|| Rejection::not_found("pod", &bound.name))?;
        request.require(
            pod.uid == *bound.uid,
            "spec.boundObjectRef.uid is not that of the pod, which may have been deleted and made anew",
        )?;
        request.require_bound(&pod.node_name, me)?;
        if !self.gates.is_on(Feature::ServiceAccountNodeAudienceRestriction) {
            return Ok(Assessment::Admitted);
        }
        // NR-65: without audiences, the audience is empty; defaults are applied later (NR-63).
        let mut audiences = spec.audiences.0.into_iter();
        let audience = audiences.next().unwrap_or_default();
        request.require(audiences.next().is_none(), "a node may request a token for at most one audience")?;
        if self.pod_uses_audience(request, &pod, &audience)? {
            return Ok(Assessment::Admitted);
        }
        Ok(Assessment::IfAuthorized(AudienceQuestion::new(*request, audience)))
    }
}
