//! Certificate requests (PKCS#10): parsed, and then proved to be signed with the key that they ask a certificate for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls_pki_types::SignatureVerificationAlgorithm;
use webpki::aws_lc_rs as algorithms;
use x509_cert::der::asn1::{BitString, ObjectIdentifier};
use x509_cert::der::{Encode, Tag, TagNumber};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use crate::der::{Element, only};
use crate::name::{Subject, SubjectError};
use crate::pem;

/// The largest request that is looked at. Bytes of PEM. A request for a certificate with a hundred names and an RSA key of
/// 8192 bits has about a sixth of that.
pub const MAX_PEM_BYTES: usize = 64 * 1024;
/// The most subject alternative names that a request may hold.
pub const MAX_NAMES: usize = 1000;

const LABEL: &str = "CERTIFICATE REQUEST";
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");

/// The signatures that prove possession of a key. RSA from 2048 bits on.
static SIGNATURES: &[&dyn SignatureVerificationAlgorithm] = &[
    algorithms::ECDSA_P256_SHA256,
    algorithms::ECDSA_P256_SHA384,
    algorithms::ECDSA_P256_SHA512,
    algorithms::ECDSA_P384_SHA256,
    algorithms::ECDSA_P384_SHA384,
    algorithms::ECDSA_P384_SHA512,
    algorithms::ECDSA_P521_SHA256,
    algorithms::ECDSA_P521_SHA384,
    algorithms::ECDSA_P521_SHA512,
    algorithms::ED25519,
    algorithms::RSA_PKCS1_2048_8192_SHA256,
    algorithms::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
    algorithms::RSA_PKCS1_2048_8192_SHA384,
    algorithms::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
    algorithms::RSA_PKCS1_2048_8192_SHA512,
    algorithms::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
];

/// A certificate request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    /// Not a PKCS#10 request inside.
    #[error("not a PKCS#10 request: {0}")]
    Der(#[from] x509_cert::der::Error),
    /// The first PEM block is of another type.
    #[error("PEM block type must be CERTIFICATE REQUEST, not {0}")]
    Label(String),
    /// No PEM block.
    #[error("no PEM block of type CERTIFICATE REQUEST")]
    NoPem,
    /// The signature is not by the key that the request is for.
    #[error("the request is not signed with the key that it is for")]
    Signature,
    /// The subject cannot be used.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// Too large to look at.
    #[error("the request is larger than {MAX_PEM_BYTES} bytes")]
    TooLarge,
    /// Too many names.
    #[error("the request has more than {MAX_NAMES} subject alternative names")]
    TooManyNames,
    /// A kind of key or signature that is not supported, or an RSA key below 2048 bits.
    #[error("the kind or size of the request's key, or its signature algorithm, is not supported")]
    UnsupportedAlgorithm,
}

/// A request whose signature nobody has checked: good for comparing names (NR-99), never for signing.
#[derive(Clone, Debug)]
pub struct UncheckedCsr {
    csr: Csr,
    /// The signed bytes.
    signed: Vec<u8>,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
    public_key: SubjectPublicKeyInfoOwned,
}

/// A certificate request whose signature was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr {
    subject: Subject,
    subject_der: Vec<u8>,
    public_key_der: Vec<u8>,
    names: Names,
    extended_key_usage: Vec<String>,
}

/// The subject alternative names of a request, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: Vec<String>,
    /// E-mail addresses.
    pub email: Vec<String>,
    /// IP addresses.
    pub ip: Vec<IpAddr>,
    /// URIs.
    pub uri: Vec<String>,
}

/// The common name of a request in PEM form, without checking its signature (NR-99, NR-100).
///
/// # Errors
/// Anything that is not a certificate request in the first PEM block.
pub fn common_name(pem: &[u8]) -> Result<String, CsrError> {
    Ok(UncheckedCsr::parse(pem)?.subject().common_name()?.to_owned())
}

impl UncheckedCsr {
    /// Reads the first PEM block of the text (NR-99, CS-53).
    ///
    /// # Errors
    /// See [`CsrError`].
    pub fn parse(text: &[u8]) -> Result<Self, CsrError> {
        if text.len() > MAX_PEM_BYTES {
            return Err(CsrError::TooLarge);
        }
        let block = pem::first(text).ok_or(CsrError::NoPem)?;
        if block.label != LABEL {
            return Err(CsrError::Label(block.label));
        }
        let mut request = only(&block.der)?.children(Tag::Sequence)?;
        let info = request.required()?;
        let algorithm = request.required()?.decode()?;
        let signature = request.required()?.decode()?;
        if request.optional()?.is_some() {
            return Err(trailing());
        }

        let mut fields = info.children(Tag::Sequence)?;
        fields.required()?.tag().assert_eq(Tag::Integer)?;
        let subject = fields.required()?;
        subject.tag().assert_eq(Tag::Sequence)?;
        let public_key = fields.required()?;
        let mut extensions = Vec::new();
        while let Some(field) = fields.optional()? {
            field.tag().assert_eq(Tag::ContextSpecific { constructed: true, number: TagNumber(0) })?;
            let mut attributes = crate::der::Elements::of(field.contents())?;
            while let Some(attribute) = attributes.optional()? {
                extensions.extend(requested_extensions(&attribute)?);
            }
        }

        let mut csr = Csr {
            subject: Subject::read(subject.contents())?,
            subject_der: subject.raw.to_vec(),
            public_key_der: public_key.raw.to_vec(),
            names: Names::default(),
            extended_key_usage: Vec::new(),
        };
        for extension in extensions {
            let value = extension.extn_value.as_bytes();
            match extension.extn_id {
                SUBJECT_ALT_NAME => csr.names.read(value)?,
                EXTENDED_KEY_USAGE => {
                    let usages = only(value)?.decode::<ExtendedKeyUsage>()?;
                    csr.extended_key_usage = usages.0.iter().map(ToString::to_string).collect();
                }
                _ => {}
            }
        }
        Ok(Self { signed: info.raw.to_vec(), algorithm, signature, public_key: public_key.decode()?, csr })
    }

    /// The subject that is asked for.
    pub fn subject(&self) -> &Subject {
        &self.csr.subject
    }

    /// Checks that the request is signed with the key that it is for.
    ///
    /// # Errors
    /// A wrong signature, or a kind or size of key that is not supported.
    pub fn check(self) -> Result<Csr, CsrError> {
        let signature_id = identifier(&self.algorithm)?;
        let key_id = identifier(&self.public_key.algorithm)?;
        let signature = self.signature.as_bytes().ok_or(CsrError::Signature)?;
        let key = self.public_key.subject_public_key.as_bytes().ok_or(CsrError::Signature)?;
        let mut candidates = SIGNATURES
            .iter()
            .filter(|a| *a.signature_alg_id() == *signature_id && *a.public_key_alg_id() == *key_id)
            .peekable();
        if candidates.peek().is_none() {
            return Err(CsrError::UnsupportedAlgorithm);
        }
        if candidates.any(|a| a.verify_signature(key, &self.signed, signature).is_ok()) {
            return Ok(self.csr);
        }
        Err(CsrError::Signature)
    }
}

impl Csr {
    /// Reads a request and checks its signature.
    ///
    /// # Errors
    /// See [`CsrError`].
    pub fn from_pem(text: &[u8]) -> Result<Self, CsrError> {
        UncheckedCsr::parse(text)?.check()
    }

    /// The subject that is asked for.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The subject as it was written: a DER SEQUENCE.
    pub fn subject_der(&self) -> &[u8] {
        &self.subject_der
    }

    /// The key that the certificate is for: a DER SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> &[u8] {
        &self.public_key_der
    }

    /// The subject alternative names. Kinds that are not listed are neither kept nor refused (CS-53).
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The extended key usages that the request itself asks for, as dotted object identifiers. Kubernetes goes by
    /// `spec.usages` instead.
    pub fn extended_key_usage(&self) -> &[String] {
        &self.extended_key_usage
    }
}

fn trailing() -> CsrError {
    CsrError::Der(x509_cert::der::ErrorKind::Failed.into())
}

/// An algorithm identifier as the verification library compares it: the contents, without the SEQUENCE around.
fn identifier(algorithm: &AlgorithmIdentifierOwned) -> Result<Vec<u8>, CsrError> {
    let der = algorithm.to_der()?;
    Ok(only(&der)?.contents().to_vec())
}

fn requested_extensions(attribute: &Element<'_>) -> Result<Vec<Extension>, CsrError> {
    let mut pair = attribute.children(Tag::Sequence)?;
    if pair.required()?.decode::<ObjectIdentifier>()? != EXTENSION_REQUEST {
        return Ok(Vec::new());
    }
    let mut values = pair.required()?.children(Tag::Set)?;
    let mut extensions = Vec::new();
    while let Some(value) = values.optional()? {
        extensions.extend(value.decode::<Vec<Extension>>()?);
    }
    Ok(extensions)
}

impl Names {
    fn read(&mut self, extension: &[u8]) -> Result<(), CsrError> {
        let mut names = only(extension)?.children(Tag::Sequence)?;
        let mut count = 0;
        while let Some(name) = names.optional()? {
            count += 1;
            if count > MAX_NAMES {
                return Err(CsrError::TooManyNames);
            }
            let Tag::ContextSpecific { number, .. } = name.tag() else { return Err(trailing()) };
            match number.value() {
                1 => self.email.push(ascii(name.contents())?),
                2 => self.dns.push(ascii(name.contents())?),
                6 => self.uri.push(ascii(name.contents())?),
                7 => self.ip.push(address(name.contents())?),
                _ => {}
            }
        }
        Ok(())
    }
}

fn ascii(bytes: &[u8]) -> Result<String, CsrError> {
    if !bytes.is_ascii() {
        return Err(CsrError::Der(Tag::Ia5String.value_error().into()));
    }
    Ok(bytes.iter().map(|b| char::from(*b)).collect())
}

fn address(bytes: &[u8]) -> Result<IpAddr, CsrError> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(v6) => Ok(IpAddr::V6(Ipv6Addr::from(v6))),
        Err(_) => Err(CsrError::Der(Tag::OctetString.length_error().into())),
    }
}
