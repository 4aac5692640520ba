//! Client certificates: unverified ones, which have no identity, and verified ones (AN-40 to AN-46).
//!
//! There is no revocation, and subject alternative names are ignored (AN-46).

use std::time::{Duration, SystemTime};

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage, RequiredEkuNotFoundContext,
};
use x509_cert::der::asn1::{BitString, ObjectIdentifier};
use x509_cert::der::oid::db::rfc5280::{
    ID_CE_EXT_KEY_USAGE, ID_CE_SUBJECT_ALT_NAME, ID_CE_SUBJECT_KEY_IDENTIFIER,
};
use x509_cert::der::{Tag, TagNumber};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_cert::time::Validity;

use crate::der::{Element, Elements, only};
use crate::hash::sha256;
use crate::name::{Subject, SubjectError};
use crate::pem;
use crate::usage::{ANY as ANY_USAGE, CLIENT_AUTH};

/// A certificate that a client presented, with proof that it has the key, before verification. Only
/// [`UnverifiedCertificate::verify`] gives an identity.
#[derive(Clone, Debug)]
pub struct UnverifiedCertificate {
    leaf: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
}

/// The identity in a verified certificate. Only verification creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    common_name: String,
    organizations: Vec<String>,
    user_id: String,
    credential_id: String,
}

/// A certificate chain that was verified, and when it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    identity: Option<Identity>,
    not_before: SystemTime,
    not_after: SystemTime,
}

/// A certificate that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The chain does not end at an authority of the bundle, is not valid at this time, or is not meant for clients.
    #[error("the certificate is not accepted: {0}")]
    Chain(webpki::Error),
    /// Malformed DER.
    #[error("the certificate cannot be read")]
    Der(#[from] x509_cert::der::Error),
    /// The subject cannot be used.
    #[error(transparent)]
    Subject(#[from] SubjectError),
}

/// A bundle of certificate authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaBundleError {
    /// A block that is not a certificate of an authority.
    #[error("certificate {0} of the bundle cannot be used as a certificate authority: {1}")]
    Certificate(usize, String),
    /// It holds no certificate.
    #[error("the bundle holds no certificate")]
    Empty,
}

/// The trusted certificate authorities of clients.
#[derive(Clone, Debug)]
pub struct CaBundle {
    authorities: Vec<Authority>,
}

#[derive(Clone, Debug)]
struct Authority {
    anchor: TrustAnchor<'static>,
    validity: Validity,
    is_for_clients: bool,
}

impl CaBundle {
    /// Reads a bundle in PEM form. Blocks of other kinds are skipped, as in Kubernetes.
    ///
    /// # Errors
    /// No certificate, or one that cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<Self, CaBundleError> {
        let mut authorities = Vec::new();
        for (i, block) in pem::blocks(text).into_iter().filter(|b| b.label == "CERTIFICATE").enumerate() {
            let known = KnownAuthority::read(block.der).map_err(|e| CaBundleError::Certificate(i, e))?;
            authorities.push(known.authority);
        }
        Self::of(authorities)
    }

    /// A bundle of these authorities.
    ///
    /// # Errors
    /// There are none.
    pub fn from_authorities<'a>(
        authorities: impl IntoIterator<Item = &'a KnownAuthority>,
    ) -> Result<Self, CaBundleError> {
        Self::of(authorities.into_iter().map(|known| known.authority.clone()).collect())
    }

    fn of(authorities: Vec<Authority>) -> Result<Self, CaBundleError> {
        if authorities.is_empty() {
            return Err(CaBundleError::Empty);
        }
        Ok(Self { authorities })
    }
}

/// One certificate authority of a bundle, with its digests and name.
#[derive(Clone, Debug)]
pub struct KnownAuthority {
    authority: Authority,
    digest: [u8; 32],
    key_digest: [u8; 32],
    common_name: String,
    not_after: SystemTime,
}

impl KnownAuthority {
    /// Reads a certificate in DER form.
    ///
    /// # Errors
    /// It is not a certificate of an authority; the text says why.
    pub fn read(der: Vec<u8>) -> Result<Self, String> {
        let der = CertificateDer::from(der);
        let facts = Facts::read(&der).map_err(|e| e.to_string())?;
        let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|e| e.to_string())?.to_owned();
        Ok(Self {
            authority: Authority { anchor, validity: facts.validity, is_for_clients: facts.is_for_clients },
            digest: sha256(&der),
            key_digest: sha256(&facts.public_key),
            common_name: facts.subject.common_name().unwrap_or_default().to_owned(),
            not_after: facts.validity.not_after.to_system_time(),
        })
    }

    /// The SHA-256 hash of the certificate.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The SHA-256 hash of its public key, which all certificates of one signer share.
    pub fn key_digest(&self) -> [u8; 32] {
        self.key_digest
    }

    /// Its common name; empty if it has none.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// When it stops being valid.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }
}

/// Accepts a certificate of a chain when it lists client authentication or any usage, or no usage at all (AN-41).
struct ForClients;

impl ExtendedKeyUsageValidator for ForClients {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut present = Vec::new();
        for purpose in purposes {
            let oid = purpose?.to_decoded_oid();
            if is_same_oid(&oid, CLIENT_AUTH) || is_same_oid(&oid, ANY_USAGE) {
                return Ok(());
            }
            present.push(oid);
        }
        if present.is_empty() {
            return Ok(());
        }
        Err(webpki::Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext {
            required: KeyUsage::client_auth(),
            present,
        }))
    }
}

fn is_same_oid(arcs: &[usize], oid: ObjectIdentifier) -> bool {
    oid.arcs().map(|a| usize::try_from(a).ok()).eq(arcs.iter().map(|a| Some(*a)))
}

impl UnverifiedCertificate {
    /// The certificates that a peer sent, its own first. `None` if it sent none.
    pub fn from_chain(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let (leaf, intermediates) = chain.split_first()?;
        Some(Self {
            leaf: leaf.clone().into_owned(),
            intermediates: intermediates.iter().map(|c| c.clone().into_owned()).collect(),
        })
    }

    /// When the client's own certificate stops being valid, by its own account. `None` if it cannot be read.
    pub fn not_after(&self) -> Option<SystemTime> {
        Facts::read(&self.leaf).ok().map(|facts| facts.validity.not_after.to_system_time())
    }

    /// Verifies the chain of a client (AN-41): every element, the authority included, must be valid at `now` and meant for
    /// clients.
    ///
    /// DIVERGES: a certificate authority as the client's own certificate, certificates of X.509 version 1 and RSA keys below
    /// 2048 bits are refused; Kubernetes accepts them.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn verify(&self, bundle: &CaBundle, now: SystemTime) -> Result<Verified, VerifyError> {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let usable: Vec<&Authority> =
            bundle.authorities.iter().filter(|a| a.is_for_clients && contains(&a.validity, now)).collect();
        let anchors: Vec<TrustAnchor<'_>> = usable.iter().map(|a| a.anchor.clone()).collect();
        let leaf = EndEntityCert::try_from(&self.leaf).map_err(VerifyError::Chain)?;
        let path = leaf
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &anchors,
                &self.intermediates,
                UnixTime::since_unix_epoch(since_epoch),
                ForClients,
                None,
                None,
            )
            .map_err(VerifyError::Chain)?;

        // The chain is valid while every element of the path is.
        let anchor = path.anchor();
        let mut validities: Vec<Validity> = usable
            .iter()
            .filter(|a| {
                a.anchor.subject == anchor.subject
                    && a.anchor.subject_public_key_info == anchor.subject_public_key_info
            })
            .map(|a| a.validity)
            .collect();
        let facts = Facts::read(&self.leaf)?;
        validities.push(facts.validity);
        for intermediate in path.intermediate_certificates() {
            validities.push(Facts::read(&intermediate.der())?.validity);
        }
        let not_before = validities.iter().map(|v| v.not_before.to_system_time()).max();
        let not_after = validities.iter().map(|v| v.not_after.to_system_time()).min();

        Ok(Verified {
            identity: Identity::of(&facts.subject, &self.leaf)?,
            not_before: not_before.unwrap_or(now),
            not_after: not_after.unwrap_or(now),
        })
    }
}

fn contains(validity: &Validity, now: SystemTime) -> bool {
    (validity.not_before.to_system_time()..=validity.not_after.to_system_time()).contains(&now)
}

impl Verified {
    /// The identity. `None` for a certificate without a common name (AN-43).
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Whether the chain is valid at this time.
    pub fn is_valid_at(&self, now: SystemTime) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

impl Identity {
    fn of(subject: &Subject, leaf: &CertificateDer<'_>) -> Result<Option<Self>, SubjectError> {
        // AN-42
        let common_name = subject.common_name()?.to_owned();
        if common_name.is_empty() {
            return Ok(None);
        }
        let organizations = subject.organizations()?.into_iter().map(str::to_owned).collect();
        let user_id = subject.user_id()?.to_owned();
        // AN-45
        let hex: String = sha256(leaf).iter().map(|b| format!("{b:02x}")).collect();
        Ok(Some(Self { common_name, organizations, user_id, credential_id: format!("X509SHA256={hex}") }))
    }

    /// The common name: the user's name (AN-42). Never empty.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The organizations, in order: the user's groups (AN-42).
    pub fn organizations(&self) -> &[String] {
        &self.organizations
    }

    /// The user's id; empty when the certificate has none (AN-44).
    pub fn user_id(&self) -> &str {
        &self.user_id
    }

    /// `X509SHA256=` and the hash of the certificate (AN-45).
    pub fn credential_id(&self) -> &str {
        &self.credential_id
    }
}

/// The fields of a certificate that this crate reads itself.
pub(crate) struct Facts {
    /// The serial number, big-endian, without the zero that makes it positive.
    pub(crate) serial: Vec<u8>,
    pub(crate) validity: Validity,
    pub(crate) subject: Subject,
    /// The name, a DER SEQUENCE.
    pub(crate) subject_der: Vec<u8>,
    /// A DER SubjectPublicKeyInfo.
    pub(crate) public_key: Vec<u8>,
    /// The subject key identifier, if there is one.
    pub(crate) key_identifier: Option<Vec<u8>>,
    /// The value of the subject alternative name extension, if there is one.
    pub(crate) alternative_names: Option<Vec<u8>>,
    is_for_clients: bool,
}

impl Facts {
    pub(crate) fn read(der: &[u8]) -> Result<Self, VerifyError> {
        let mut certificate = only(der)?.children(Tag::Sequence)?;
        let mut fields = certificate.required()?.children(Tag::Sequence)?;
        let tagged = |number| Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
        if fields.peek() == Some(tagged(0)) {
            fields.required()?;
        }
        let serial = match fields.required()?.contents() {
            [0, rest @ ..] if !rest.is_empty() => rest.to_vec(),
            all => all.to_vec(),
        };
        let _algorithm = fields.required()?;
        let _issuer = fields.required()?;
        let validity = fields.required()?.decode()?;
        let subject = fields.required()?;
        let public_key = fields.required()?.raw.to_vec();
        let mut is_for_clients = true;
        let mut key_identifier = None;
        let mut alternative_names = None;
        while let Some(field) = fields.optional()? {
            if field.tag() != tagged(3) {
                continue;
            }
            for extension in only(field.contents())?.decode::<Vec<Extension>>()? {
                let value = only(extension.extn_value.as_bytes())?;
                match extension.extn_id {
                    ID_CE_EXT_KEY_USAGE => {
                        let usages = value.decode::<ExtendedKeyUsage>()?;
                        is_for_clients = usages.0.iter().any(|u| *u == CLIENT_AUTH || *u == ANY_USAGE);
                    }
                    ID_CE_SUBJECT_ALT_NAME => alternative_names = Some(value.raw.to_vec()),
                    ID_CE_SUBJECT_KEY_IDENTIFIER => key_identifier = Some(value.contents().to_vec()),
                    _ => {}
                }
            }
        }
        subject.tag().assert_eq(Tag::Sequence)?;
        Ok(Self {
            serial,
            validity,
            subject: Subject::read(subject.contents())?,
            subject_der: subject.raw.to_vec(),
            public_key,
            key_identifier,
            alternative_names,
            is_for_clients,
        })
    }
}

/// Whether a certificate in DER form can be read and is valid at this time.
pub(crate) fn is_current(der: &[u8], now: SystemTime) -> bool {
    Facts::read(der).is_ok_and(|facts| contains(&facts.validity, now))
}

/// When a certificate in PEM form stops being valid.
///
/// # Errors
/// The text does not begin with a certificate.
pub fn not_after(certificate_pem: &[u8]) -> Result<SystemTime, VerifyError> {
    not_after_der(&pem::first(certificate_pem).map(|block| block.der).unwrap_or_default())
}

/// When a certificate in DER form stops being valid.
pub(crate) fn not_after_der(certificate: &[u8]) -> Result<SystemTime, VerifyError> {
    Ok(Facts::read(certificate)?.validity.not_after.to_system_time())
}

/// Text that does not consist of certificates alone (CS-23).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificatesError {
    /// A block that cannot be read.
    #[error(transparent)]
    Certificate(#[from] VerifyError),
    /// A block has headers.
    #[error("no PEM block headers are permitted")]
    Headers,
    /// A block of another kind.
    #[error("only CERTIFICATE PEM blocks are allowed, found {0:?}")]
    Label(String),
    /// There is no block.
    #[error("must contain at least one CERTIFICATE PEM block")]
    None,
}

/// Checks that a text holds certificates in PEM form and no other blocks (CS-23). A block may hold several. Signers and
/// validity are not checked.
///
/// # Errors
/// See [`CertificatesError`].
pub fn check_certificates(text: &[u8]) -> Result<(), CertificatesError> {
    let blocks = pem::blocks(text);
    if blocks.is_empty() {
        return Err(CertificatesError::None);
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            return Err(CertificatesError::Label(block.label));
        }
        if block.has_headers {
            return Err(CertificatesError::Headers);
        }
        let malformed = |error| CertificatesError::Certificate(VerifyError::Der(error));
        let mut certificates = Elements::of(&block.der).map_err(malformed)?;
        let mut next = certificates.required().map(Some);
        while let Some(certificate) = next.map_err(malformed)? {
            check_whole(&certificate)?;
            next = certificates.optional();
        }
    }
    Ok(())
}

/// Checks that a certificate is complete: it has a signature, and names the same algorithm inside and outside.
fn check_whole(certificate: &Element<'_>) -> Result<(), VerifyError> {
    Facts::read(certificate.raw)?;
    let mut outer = certificate.children(Tag::Sequence)?;
    let mut inner = outer.required()?.children(Tag::Sequence)?;
    let algorithm = outer.required()?;
    outer.required()?.decode::<BitString>()?;
    let mut field = inner.required()?;
    if field.tag() != Tag::Integer {
        field = inner.required()?;
    }
    field.tag().assert_eq(Tag::Integer)?;
    let is_same = inner.required()?.raw == algorithm.raw;
    if is_same { Ok(()) } else { Err(VerifyError::Der(Tag::Sequence.value_error().into())) }
}
