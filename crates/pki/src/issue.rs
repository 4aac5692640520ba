//! Encodes and signs certificates as kube-controller-manager does (CS-61 to CS-69).
//!
//! Whether a certificate may be issued is decided elsewhere.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use rustls_pki_types::CertificateDer;
use x509_cert::der::Encode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5280::{
    ID_CE_AUTHORITY_KEY_IDENTIFIER, ID_CE_BASIC_CONSTRAINTS, ID_CE_EXT_KEY_USAGE, ID_CE_KEY_USAGE,
    ID_CE_SUBJECT_ALT_NAME, ID_CE_SUBJECT_KEY_IDENTIFIER,
};
use x509_cert::time::Time;

use crate::ca_error::CaError;
use crate::csr::Names;
use crate::der::{self, SEQUENCE, element, element_of};
use crate::evidence::ProviderIdOids;
use crate::key::{KeyError, KeyPair};
use crate::usage::Usages;

/// DER tags.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
/// `TRUE`.
const TRUE: [u8; 3] = [0x01, 0x01, 0xff];
/// The tag of a context-specific element, such as `[0]`.
const fn context(number: u8) -> u8 {
    0x80 | number
}

/// Certificates are valid from a little before they are issued, for clocks that run late.
pub(crate) const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// From this lifetime on, the backdating is part of the lifetime (CS-65).
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
/// The shortest lifetime that can be requested (CS-64).
const SHORTEST: Duration = Duration::from_secs(10 * 60);

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Period {
    /// From [`BACKDATE`] before now to `lifetime` after now.
    pub(crate) fn from_now(now: SystemTime, lifetime: Duration) -> Result<Self, CaError> {
        let range = || CaError::Build("the time is out of range".to_owned());
        Ok(Self {
            not_before: now.checked_sub(BACKDATE).ok_or_else(range)?,
            not_after: now.checked_add(lifetime).ok_or_else(range)?,
        })
    }

    /// The validity of a requested certificate (CS-64 to CS-67): the requested lifetime, at most `longest`, and never beyond
    /// the authority's.
    pub(crate) fn of_request(
        now: SystemTime,
        asked: Option<Duration>,
        longest: Duration,
        authority_end: SystemTime,
    ) -> Result<Self, CaError> {
        let lifetime = match asked {
            None => longest,
            Some(asked) if asked > longest => longest,
            Some(asked) => asked.max(SHORTEST),
        };
        let from_now = if lifetime < SHORT { lifetime } else { lifetime.saturating_sub(BACKDATE) };
        // Certificates have whole seconds.
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs());
        let period = Self::from_now(now, from_now)?;
        if period.not_before >= authority_end || now >= authority_end {
            return Err(CaError::Expired);
        }
        Ok(Self { not_after: period.not_after.min(authority_end), ..period })
    }
}

/// The fields of a certificate other than its extensions.
pub(crate) struct Contents<'a> {
    /// A DER Name.
    pub(crate) issuer: &'a [u8],
    /// A DER Name.
    pub(crate) subject: &'a [u8],
    pub(crate) period: Period,
    /// A DER SubjectPublicKeyInfo.
    pub(crate) public_key: &'a [u8],
}

impl Contents<'_> {
    /// Signs the certificate.
    pub(crate) fn sign(
        &self,
        extensions: &[Vec<u8>],
        signer: &KeyPair,
    ) -> Result<CertificateDer<'static>, CaError> {
        let algorithm = signer.signature_algorithm().to_der()?;
        let time = |at: SystemTime| -> Result<Vec<u8>, CaError> { Ok(Time::try_from(at)?.to_der()?) };
        let validity = element_of(SEQUENCE, &[&time(self.period.not_before)?, &time(self.period.not_after)?]);
        let version = element(0xa0, &element(INTEGER, &[2]));
        let extensions = element(0xa3, &element(SEQUENCE, &extensions.concat()));
        let serial = element(INTEGER, &serial_number()?);
        let signed = element_of(
            SEQUENCE,
            &[
                &version,
                &serial,
                &algorithm,
                self.issuer,
                &validity,
                self.subject,
                self.public_key,
                &extensions,
            ],
        );
        let signature = signer.sign(&signed)?;
        let signature = element_of(BIT_STRING, &[&[0], &signature]);
        Ok(CertificateDer::from(element_of(SEQUENCE, &[&signed, &algorithm, &signature])))
    }
}

/// 126 random bits, so that the number is positive and has sixteen bytes (CS-63).
fn serial_number() -> Result<[u8; 16], CaError> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| KeyError::Generate)?;
    let [first, ..] = &mut bytes;
    *first = (*first & 0x7f) | 0x40;
    Ok(bytes)
}

pub(crate) fn extension(oid: ObjectIdentifier, is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if is_critical { &TRUE } else { &[] };
    element_of(SEQUENCE, &[&der::oid(oid), critical, &element(OCTET_STRING, value)])
}

/// The key usage and extended key usage extensions, each if it is not empty.
pub(crate) fn usages(usages: &Usages) -> impl Iterator<Item = Vec<u8>> {
    let key = usages.key_bits().map(|bits| extension(ID_CE_KEY_USAGE, true, &element(BIT_STRING, &bits)));
    let purposes: Vec<Vec<u8>> = usages.extended().iter().map(|oid| der::oid(*oid)).collect();
    let extended = (!purposes.is_empty())
        .then(|| extension(ID_CE_EXT_KEY_USAGE, false, &element(SEQUENCE, &purposes.concat())));
    key.into_iter().chain(extended)
}

/// The extension with the provider ID of a machine (AT-41).
pub(crate) fn provider_id(oids: &ProviderIdOids, id: &str) -> Vec<u8> {
    extension(oids.written(), false, &element(UTF8_STRING, id.as_bytes()))
}

/// The basic constraints extension.
pub(crate) fn basic_constraints(is_authority: bool) -> Vec<u8> {
    let inside: &[u8] = if is_authority { &TRUE } else { &[] };
    extension(ID_CE_BASIC_CONSTRAINTS, true, &element(SEQUENCE, inside))
}

/// The subject key identifier extension.
pub(crate) fn subject_key_identifier(identifier: &[u8]) -> Vec<u8> {
    extension(ID_CE_SUBJECT_KEY_IDENTIFIER, false, &element(OCTET_STRING, identifier))
}

/// The authority key identifier extension.
pub(crate) fn authority_key_identifier(identifier: &[u8]) -> Vec<u8> {
    let inside = element(SEQUENCE, &element(context(0), identifier));
    extension(ID_CE_AUTHORITY_KEY_IDENTIFIER, false, &inside)
}

/// The subject alternative name extension, if there is a name. Critical if the subject is empty.
pub(crate) fn subject_alt_names(names: &Names, subject: &[u8]) -> Option<Vec<u8>> {
    let texts = |number: u8, texts: &[String]| -> Vec<u8> {
        texts.iter().flat_map(|text| element(context(number), text.as_bytes())).collect()
    };
    let addresses: Vec<u8> = names
        .ip
        .iter()
        .flat_map(|ip| match ip.to_canonical() {
            IpAddr::V4(ip) => element(context(7), &ip.octets()),
            IpAddr::V6(ip) => element(context(7), &ip.octets()),
        })
        .collect();
    let all = [texts(2, &names.dns), texts(1, &names.email), addresses, texts(6, &names.uri)].concat();
    let is_critical = subject == [SEQUENCE, 0];
    (!all.is_empty()).then(|| extension(ID_CE_SUBJECT_ALT_NAME, is_critical, &element(SEQUENCE, &all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_cut_at_the_longest_and_at_the_authoritys_end_cs_64_to_cs_66() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
        let far = now + 100 * hour;
        let length = |asked, longest, end| {
            let period = Period::of_request(now, asked, longest, end).ok()?;
            assert_eq!(period.not_before, now - BACKDATE);
            Some(period.not_after.duration_since(period.not_before).unwrap())
        };
        assert_eq!(length(None, hour, far), Some(hour + BACKDATE));
        assert_eq!(length(None, 8 * hour, far), Some(8 * hour));
        assert_eq!(length(Some(minute), hour, far), Some(10 * minute + BACKDATE));
        assert_eq!(length(Some(2 * hour), hour, far), Some(hour + BACKDATE));
        assert_eq!(length(Some(15 * minute), 5 * minute, far), Some(5 * minute + BACKDATE));
        assert_eq!(length(None, 50 * hour, now + 3 * minute), Some(3 * minute + BACKDATE));
        assert_eq!(length(None, hour, now), None);
        assert_eq!(length(None, hour, now - minute), None);
    }
}
