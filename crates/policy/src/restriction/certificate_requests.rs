//! CertificateSigningRequests (NR-96 to NR-101): a node asks the kubelet signers only for certificates in its own
//! name (NC-17).

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::body::GroupKind;
use super::{AdmissionRequest, NodeRestriction, Operation, Rejection};
use crate::approval::Signer;
use crate::features::Feature;
use crate::identity::NODE_USER_PREFIX;
use crate::objects::certificates::CertificateSigningRequest;

const CERTIFICATE_SIGNING_REQUEST: GroupKind = GroupKind("certificates.k8s.io", "CertificateSigningRequest");

/// Base64 as the API server reads it: padded, and unused bits of the last character may be set.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

impl NodeRestriction<'_> {
    pub(super) fn admit_certificate_request(
        &self,
        me: &str,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Rejection> {
        if self.gates.is_on(Feature::AllowInsecureKubeletCertificateSigningRequests)
            || request.operation != Operation::Create
        {
            return Ok(());
        }
        let spec = request.body::<CertificateSigningRequest<'_>>(CERTIFICATE_SIGNING_REQUEST)?.spec;
        // The signers whose certificates identify a node (NR-98).
        let signer = Signer::named(&spec.signer_name);
        if !matches!(signer, Some(Signer::KubeApiserverClientKubelet | Signer::KubeletServing)) {
            return Ok(());
        }
        let pem = BASE64
            .decode(spec.request.replace(['\r', '\n'], ""))
            .map_err(|e| request.forbidden(format_args!("spec.request is not base64: {e}")))?;
        let common_name = self
            .certificate_requests
            .map_or_else(
                || Err("no reader of certificate requests is set".to_owned()),
                |r| r.common_name(&pem),
            )
            .map_err(|e| request.forbidden(format_args!("spec.request cannot be read: {e}")))?;
        request.require(
            common_name.strip_prefix(NODE_USER_PREFIX) == Some(me),
            format_args!("the common name must be {NODE_USER_PREFIX}{me}"),
        )
    }
}
