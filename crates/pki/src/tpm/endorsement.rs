//! Certificates of endorsement keys: what the manufacturer of a TPM says about it (AT-111, AT-119.2 to AT-119.4).

use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    BorrowedCertRevocationList, CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5280::{
    ID_CE_BASIC_CONSTRAINTS, ID_CE_EXT_KEY_USAGE, ID_CE_KEY_USAGE, ID_CE_SUBJECT_ALT_NAME,
};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage as KeyUsageExtension, KeyUsages, SubjectAltName,
};

use super::public::{KeyType, PublicArea};
use crate::cert::Facts;
use crate::{pem, sha256};

/// The largest certificate that is read. Bytes (AT-119.1).
pub const MAX_CERTIFICATE_BYTES: usize = 4 * 1024;
/// The most certificates between that of the key and a root, as a node sends them (AT-119.1).
pub const MAX_CHAIN: usize = 5;

/// The usage of endorsement keys: `tcg-kp-EKCertificate`.
const ENDORSEMENT_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.23.133.8.1");
const ENDORSEMENT_KEY_DER: &[u8] = &[0x67, 0x81, 0x05, 0x08, 0x01];
const MANUFACTURER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.23.133.2.1");
const MODEL: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.23.133.2.2");
const FIRMWARE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.23.133.2.3");

/// The certificate of an endorsement key. It is read, and not verified.
#[derive(Clone, Debug)]
pub struct EndorsementCertificate {
    der: CertificateDer<'static>,
    certificate: Box<Certificate>,
    public_key_der: Vec<u8>,
}

/// The manufacturer, the model and the firmware version of a TPM, as its certificate has them. Empty where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChipModel {
    /// The manufacturer, such as `id:00001014`.
    pub manufacturer: String,
    /// The model.
    pub model: String,
    /// The firmware version.
    pub firmware: String,
}

impl EndorsementCertificate {
    /// Reads a certificate in DER. Bytes behind it are the padding of a TPM's storage, and are cut off (AT-111).
    ///
    /// # Errors
    /// Too large, or malformed; the text says which.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_CERTIFICATE_BYTES {
            return Err(format!("the certificate is larger than {MAX_CERTIFICATE_BYTES} bytes"));
        }
        let der = without_padding(bytes).ok_or("the certificate is not a DER SEQUENCE")?;
        let malformed = |error: &dyn std::fmt::Display| format!("the certificate cannot be read: {error}");
        let certificate = Certificate::from_der(der).map_err(|error| malformed(&error))?;
        let facts = Facts::read(der).map_err(|error| malformed(&error))?;
        Ok(Self {
            der: CertificateDer::from(der.to_vec()),
            certificate: Box::new(certificate),
            public_key_der: facts.public_key,
        })
    }

    /// The SHA-256 digest of the certificate.
    pub fn digest(&self) -> [u8; 32] {
        sha256(&self.der)
    }

    /// Whether the certificate is for this key (AT-119.4).
    pub fn is_for(&self, key: &PublicArea) -> bool {
        self.public_key_der == key.public_key_der()
    }

    /// Checks that it is a certificate for an endorsement key of this kind, and valid at this time (AT-119.2). Who signed it
    /// is not checked.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, key: KeyType, now: SystemTime) -> Result<ChipModel, String> {
        let validity = self.certificate.tbs_certificate().validity();
        let (from, to) = (validity.not_before.to_system_time(), validity.not_after.to_system_time());
        if !(from..=to).contains(&now) {
            return Err("the certificate is not valid at this time".to_owned());
        }
        let mut model = ChipModel::default();
        for extension in self.certificate.tbs_certificate().extensions().into_iter().flatten() {
            let value = extension.extn_value.as_bytes();
            let malformed = |_| format!("the extension {} is malformed", extension.extn_id);
            match extension.extn_id {
                ID_CE_BASIC_CONSTRAINTS => {
                    let constraints = BasicConstraints::from_der(value).map_err(malformed)?;
                    if constraints.ca {
                        return Err("the certificate is one of an authority".to_owned());
                    }
                }
                ID_CE_KEY_USAGE => {
                    let usages = KeyUsageExtension::from_der(value).map_err(malformed)?;
                    let (needed, name) = match key {
                        KeyType::Rsa(_) => (KeyUsages::KeyEncipherment, "key encipherment"),
                        KeyType::P256 | KeyType::P384 => (KeyUsages::KeyAgreement, "key agreement"),
                    };
                    if !usages.0.contains(needed) {
                        return Err(format!("the certificate lacks the key usage {name}"));
                    }
                }
                ID_CE_EXT_KEY_USAGE => {
                    let usages = ExtendedKeyUsage::from_der(value).map_err(malformed)?;
                    if !usages.0.contains(&ENDORSEMENT_KEY) {
                        return Err(format!(
                            "the certificate lacks the extended key usage {ENDORSEMENT_KEY}"
                        ));
                    }
                }
                ID_CE_SUBJECT_ALT_NAME => {
                    model =
                        chip_model(&SubjectAltName::from_der(value).map_err(malformed)?, extension.critical)?;
                }
                other if extension.critical => {
                    return Err(format!(
                        "the certificate has the critical extension {other}, which is not known"
                    ));
                }
                _ => {}
            }
        }
        Ok(model)
    }

    /// Verifies that a chain leads from the certificate to a root (AT-119.3), through the configured intermediate
    /// certificates and those that the node sent.
    ///
    /// # Errors
    /// There is no such chain, or a certificate of it is revoked.
    pub fn verify_chain(&self, roots: &Roots, sent: &[Vec<u8>], now: SystemTime) -> Result<(), String> {
        if sent.len() > MAX_CHAIN {
            return Err(format!("the node sent more than {MAX_CHAIN} intermediate certificates"));
        }
        let sent = sent.iter().filter_map(|bytes| without_padding(bytes));
        let sent = sent.map(|der| CertificateDer::from(der.to_vec()));
        let mut intermediates: Vec<CertificateDer<'_>> =
            roots.intermediates.iter().cloned().chain(sent).collect();
        intermediates.retain(|der| may_sign_certificates(der));
        let leaf = EndEntityCert::try_from(&self.der).map_err(|error| error.to_string())?;
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let lists: Vec<&CertRevocationList<'_>> = roots.revocations.iter().collect();
        // Authorities without a list revoke nothing.
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            let expiration = match roots.refuses_stale_lists {
                true => ExpirationPolicy::Enforce,
                false => ExpirationPolicy::Ignore,
            };
            options.with_status_policy(UnknownStatusPolicy::Allow).with_expiration_policy(expiration).build()
        });
        let verified = leaf.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &roots.anchors,
            &intermediates,
            UnixTime::since_unix_epoch(since_epoch),
            // Issuers have no extended key usage as a rule.
            KeyUsage::required_if_present(ENDORSEMENT_KEY_DER),
            revocation,
            None,
        );
        verified.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// A certificate without what follows its outer SEQUENCE.
fn without_padding(bytes: &[u8]) -> Option<&[u8]> {
    let mut elements = crate::der::Elements::of(bytes).ok()?;
    Some(elements.required().ok()?.raw)
}

/// Whether an intermediate certificate has the key usage for signing certificates, or no key usage at all.
fn may_sign_certificates(der: &CertificateDer<'_>) -> bool {
    let Ok(certificate) = Certificate::from_der(der) else { return false };
    let mut extensions = certificate.tbs_certificate().extensions().into_iter().flatten();
    let Some(usage) = extensions.find(|extension| extension.extn_id == ID_CE_KEY_USAGE) else { return true };
    let usages = KeyUsageExtension::from_der(usage.extn_value.as_bytes());
    usages.is_ok_and(|usages| usages.0.contains(KeyUsages::KeyCertSign))
}

/// Reads the model from the alternative names. Critical ones must be one directory name, which has all three.
fn chip_model(names: &SubjectAltName, is_critical: bool) -> Result<ChipModel, String> {
    let mut model = ChipModel::default();
    for name in &names.0 {
        let GeneralName::DirectoryName(name) = name else { continue };
        for attribute in name.iter() {
            let text = String::from_utf8_lossy(attribute.value.value()).into_owned();
            match attribute.oid {
                MANUFACTURER => model.manufacturer = text,
                MODEL => model.model = text,
                FIRMWARE => model.firmware = text,
                _ => {}
            }
        }
    }
    let is_complete = ![&model.manufacturer, &model.model, &model.firmware].into_iter().any(String::is_empty);
    let is_only = matches!(&*names.0, [GeneralName::DirectoryName(_)]);
    if is_critical && !(is_complete && is_only) {
        return Err("the critical alternative name is not that of a TPM".to_owned());
    }
    Ok(model)
}

/// The authorities that are trusted to certify endorsement keys.
#[derive(Debug, Default)]
pub struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    intermediates: Vec<CertificateDer<'static>>,
    revocations: Vec<CertRevocationList<'static>>,
    refuses_stale_lists: bool,
}

impl Roots {
    /// Reads the trusted authorities, in PEM.
    ///
    /// # Errors
    /// A certificate cannot be used, or there is none.
    pub fn from_pem(text: &[u8]) -> Result<Self, String> {
        let anchor = |der: CertificateDer<'static>| {
            let anchor = webpki::anchor_from_trusted_cert(&der).map(|anchor| anchor.to_owned());
            anchor.map_err(|error| format!("a root certificate cannot be used: {error}"))
        };
        let anchors = pem::certificates(text).map(anchor).collect::<Result<Vec<_>, _>>()?;
        if anchors.is_empty() {
            return Err("there is no root certificate".to_owned());
        }
        Ok(Self { anchors, ..Self::default() })
    }

    /// Adds intermediate certificates, in PEM, which the chains of nodes may lead through.
    #[must_use]
    pub fn with_intermediates(mut self, text: &[u8]) -> Self {
        self.intermediates.extend(pem::certificates(text));
        self
    }

    /// Adds revocation lists, in PEM. `refuses_stale` is whether chains fail if a list is older than it may be.
    ///
    /// # Errors
    /// A list is malformed.
    pub fn with_revocations(mut self, text: &[u8], refuses_stale: bool) -> Result<Self, String> {
        for block in pem::blocks(text).into_iter().filter(|block| block.label == "X509 CRL") {
            let list = BorrowedCertRevocationList::from_der(&block.der).and_then(|list| list.to_owned());
            let list = list.map_err(|error| format!("a revocation list cannot be used: {error}"))?;
            self.revocations.push(list.into());
        }
        self.refuses_stale_lists = refuses_stale;
        Ok(self)
    }
}
