//! The attestor `insecure`: believes what a node says, once (AT-83, AT-92).
//!
//! It is as secure as a bootstrap token. A machine is recognized by the key of its first certificate, so that nobody else
//! gets a second one for its name.

use portcullis_pki::evidence::Phase;
use portcullis_pki::sha256;

use crate::check::{Report, Run, failed, require};
use crate::device::Device;
use crate::key_class::KeyClass;
use crate::provider::{Case, Progress, Provider};
use crate::reason::Reason;
use crate::serving::ServingCase;
use crate::verified::Verified;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insecure;

impl Provider for Insecure {
    fn name(&self) -> &'static str {
        "insecure"
    }

    fn verify_client(&self, case: &Case<'_>) -> Report<Progress> {
        let mut run = Run::default();
        run.step("AT-101", "the request is the only one", Some(case), |case| {
            let is_single = case.claim.envelope.phase == Phase::Single;
            require(is_single, Reason::MalformedAttestation, "phase must be single")?;
            Ok(String::new())
        });
        run.step("AT-92", "the node has no certificate yet", Some(case), |case| {
            let detail = "the attestor insecure does not renew certificates";
            require(!case.claim.is_renewal, Reason::RotationNotSupported, detail)?;
            Ok(String::new())
        });
        run.report(|| {
            Some(Progress::Verified(Verified {
                key_class: KeyClass::K0,
                device: Device(sha256(case.public_key)),
                attestation_key: None,
                clock: None,
                challenge: None,
                is_one_time: false,
                attributes: Vec::new(),
            }))
        })
    }

    fn verify_serving(&self, case: &ServingCase<'_>) -> Report<()> {
        let mut run = Run::default();
        run.step("AT-92", "the attestor proves serving certificates", Some(case), |_| {
            failed(Reason::ServingNotSupported, "the attestor insecure proves no serving certificates")
        });
        run.report(|| None)
    }
}
