//! Whether the cached certificate can be used (AT-23 to AT-29). No I/O, no clock.

use std::time::{Duration, SystemTime};

use portcullis_pki::{IssuedCertificate, Request, sha256};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How far the clock of the signer may be ahead (AT-25).
const LEEWAY: Duration = Duration::from_secs(5 * 60);
/// From this lifetime on, an hour must be left (AT-24).
const LONG: Duration = Duration::from_secs(20 * 60 * 60);

/// Whether a certificate can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Usable,
    /// It can, but should be renewed.
    Rotate,
    /// It cannot, and why.
    Unusable(String),
}

/// Evaluates a certificate. `expected` is what it must be for, and `max_age` how old it may get (AT-27).
pub fn state(
    certificate: &IssuedCertificate,
    public_key: &[u8],
    expected: &Request,
    max_age: Option<Duration>,
    now: SystemTime,
) -> State {
    let unusable = |why: &str| State::Unusable(why.to_owned());
    if certificate.public_key_der() != public_key {
        return unusable("the key does not belong to the certificate");
    }
    let is_expected = certificate.common_name() == expected.common_name
        && certificate.organizations() == expected.organizations;
    if !is_expected {
        return unusable("the certificate is for another name");
    }
    let (from, until) = (certificate.not_before(), certificate.not_after());
    let lifetime = until.duration_since(from).unwrap_or_default();
    let left = until.duration_since(now).unwrap_or_default();
    let least = if lifetime < LONG { lifetime.mul_f64(0.05) } else { HOUR };
    if left < least {
        return unusable("the certificate has expired, or is about to");
    }
    if from.duration_since(now).is_ok_and(|ahead| ahead > LEEWAY) {
        return unusable("the certificate is not valid yet: check the clock");
    }
    let age = now.duration_since(from).unwrap_or_default();
    let is_old = max_age.is_some_and(|max_age| age > max_age);
    if left < lifetime.mul_f64(rotation_share(&expected.common_name)) || is_old {
        return State::Rotate;
    }
    State::Usable
}

/// The share of the lifetime that is left when a certificate is renewed: a fifth, give or take a twentieth. Always the same
/// for a node, and different between nodes, so that a fleet does not renew at once (AT-29).
pub fn rotation_share(common_name: &str) -> f64 {
    let [first, second, ..] = sha256(common_name.as_bytes());
    let jitter = f64::from(u16::from_be_bytes([first, second])) / f64::from(u16::MAX);
    0.15 + jitter / 10.0
}

/// When a client should ask again: within the hour, and before the certificate expires (AT-14).
pub fn expiration(certificate: &IssuedCertificate, now: SystemTime) -> SystemTime {
    let end = certificate.not_after().checked_sub(LEEWAY).unwrap_or(now);
    now.checked_add(HOUR).unwrap_or(end).min(end)
}

#[cfg(test)]
mod tests {
    use portcullis_pki::ca::{Template, Usage};
    use portcullis_pki::{CertificateAuthority, KeyPair, pem};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn certificate(key: &KeyPair, lifetime: Duration, at: SystemTime) -> IssuedCertificate {
        let authority = CertificateAuthority::generate("a", at, DAY * 1000).unwrap();
        let template = Template {
            common_name: "system:node:n1".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec![],
            ip_addresses: vec![],
            usage: Usage::Client,
            lifetime,
        };
        let der = authority.issue(&template, key, at).unwrap();
        IssuedCertificate::from_pem(pem::encode("CERTIFICATE", &der).as_bytes()).unwrap()
    }

    fn expected(name: &str) -> Request {
        crate::node_certificate::request::template(name).unwrap()
    }

    #[test]
    fn a_certificate_is_used_renewed_or_refused_at_23_to_at_28() {
        let issued = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let day = certificate(&key, DAY, issued);
        let own = expected("n1");
        let at = |after: Duration| state(&day, key.public_der(), &own, None, issued + after);
        assert_eq!(at(Duration::ZERO), State::Usable);
        // A fifth of 24 hours, give or take a twentieth, are 3.6 to 6 hours.
        assert_eq!(at(HOUR * 17), State::Usable);
        assert_eq!(at(HOUR * 21), State::Rotate);
        assert!(
            matches!(at(HOUR * 23 + Duration::from_secs(1)), State::Unusable(why) if why.contains("expired"))
        );
        assert!(matches!(at(DAY * 2), State::Unusable(_)));
        let early = state(&day, key.public_der(), &own, None, issued - Duration::from_secs(601));
        assert!(matches!(early, State::Unusable(why) if why.contains("not valid yet")));
        let foreign = state(&day, other.public_der(), &own, None, issued);
        assert!(matches!(foreign, State::Unusable(why) if why.contains("key")));
        let renamed = state(&day, key.public_der(), &expected("n2"), None, issued);
        assert!(matches!(renamed, State::Unusable(why) if why.contains("name")));
        let aged = state(&day, key.public_der(), &own, Some(HOUR), issued + HOUR * 2);
        assert_eq!(aged, State::Rotate);
        // Less than twenty hours: a twentieth must be left, not an hour.
        let short = certificate(&key, HOUR, issued);
        let of_short = |after| state(&short, key.public_der(), &own, None, issued + after);
        assert_eq!(of_short(Duration::from_secs(30 * 60)), State::Usable);
        assert_eq!(of_short(Duration::from_secs(54 * 60)), State::Rotate);
        assert!(matches!(of_short(Duration::from_secs(58 * 60)), State::Unusable(_)));
    }

    #[test]
    fn nodes_renew_at_different_times_and_a_node_always_at_the_same_at_29() {
        let shares: Vec<f64> = (0..1000).map(|n| rotation_share(&format!("system:node:n{n}"))).collect();
        assert!(shares.iter().all(|share| (0.15..=0.25).contains(share)));
        let mean = shares.iter().sum::<f64>() / 1000.0;
        assert!((0.195..0.205).contains(&mean), "{mean}");
        assert_eq!(rotation_share("a").to_bits(), rotation_share("a").to_bits());
    }

    #[test]
    fn a_client_asks_again_within_the_hour_at_14() {
        let issued = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let day = certificate(&KeyPair::generate().unwrap(), DAY, issued);
        assert_eq!(expiration(&day, issued), issued + HOUR);
        assert_eq!(expiration(&day, issued + HOUR * 23 + LEEWAY * 9), day.not_after() - LEEWAY);
    }
}
