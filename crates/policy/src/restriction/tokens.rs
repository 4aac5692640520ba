//! TokenRequests (NR-54 to NR-64): a node may request service account tokens only for pods bound to it.

use super::audience::AudienceQuestion;
use super::body::GroupKind;
use super::{AdmissionRequest, Assessment, NodeRestriction, Operation, Rejection};
use crate::features::Feature;
use crate::objects::authentication::TokenRequest;

const TOKEN_REQUEST: GroupKind = GroupKind::new("authentication.k8s.io", "TokenRequest");

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
        if bound.uid.is_empty() {
            return Err(request.forbidden("spec.boundObjectRef.uid must be set"));
        }
        let pod = self
            .lookup
            .pod(request.namespace, &bound.name)
            .ok_or_else(|| Rejection::not_found("pod", &bound.name))?;
        if pod.uid != *bound.uid {
            return Err(request.forbidden(
                "spec.boundObjectRef.uid is not that of the pod, which may have been deleted and made anew",
            ));
        }
        if *pod.node_name != *me {
            return Err(request.forbidden(format_args!("the pod is not bound to node {me:?}")));
        }
        if !self.gates.is_on(Feature::ServiceAccountNodeAudienceRestriction) {
            return Ok(Assessment::Admitted);
        }
        // NR-65: without audiences, the audience is empty; defaults are applied later (NR-63).
        let mut audiences = spec.audiences.0.into_iter();
        let audience = audiences.next().unwrap_or_default();
        if audiences.next().is_some() {
            return Err(request.forbidden("a node may request a token for at most one audience"));
        }
        if self.pod_uses_audience(request, &pod, &audience)? {
            return Ok(Assessment::Admitted);
        }
        Ok(Assessment::IfAuthorized(AudienceQuestion::new(*request, audience)))
    }
}
