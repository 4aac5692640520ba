//! The attestor `null`: approves everything. For tests alone; no release has it (AT-7, AT-210).

use portcullis_pki::sha256;

use crate::check::{Report, Run};
use crate::device::Device;
use crate::key_class::KeyClass;
use crate::provider::{Case, Progress, Provider};
use crate::verified::Verified;

/// What a binary with this attestor contains, and no other one.
pub const MARK: &str = "portcullis-null-attestor-approves-every-machine";

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Provider for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn verify_client(&self, case: &Case<'_>) -> Report<Progress> {
        let mut run = Run::default();
        run.step("AT-7", "nothing", Some(case), |_| Ok(MARK.to_owned()));
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    #[test]
    fn it_is_no_attestor_of_a_configuration_without_its_feature_at_7_at_210() {
        let config = json!({"authorizedAttestors": ["null"], "machines": {"inventory": "i"}});
        let config: Config = serde_json::from_value(config).unwrap();
        let rules = config.rules(|_| Err("no file".to_owned()));
        match cfg!(feature = "null-attestor") {
            true => assert_eq!(rules.unwrap().providers.keys().collect::<Vec<_>>(), ["null"]),
            false => assert!(rules.unwrap_err().contains("is not an attestor")),
        }
        assert_eq!(Null.name(), "null");
    }
}
