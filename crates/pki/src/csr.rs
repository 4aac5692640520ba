//! Certificate requests (PKCS#10): first parsed, then verified to be signed with the key that they contain.
//!
//! Whether a request is approved is decided elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use x509_cert::der::asn1::{BitString, ObjectIdentifier};
use x509_cert::der::oid::db::rfc5280::{ID_CE_BASIC_CONSTRAINTS, ID_CE_SUBJECT_ALT_NAME};
use x509_cert::der::oid::db::rfc5912::ID_EXTENSION_REQ;
use x509_cert::der::{Tag, TagNumber};
use x509_cert::ext::pkix::BasicConstraints;

use crate::der::{Element, Elements, only};
use crate::name::{Subject, SubjectError};
use crate::pem;
use crate::signature::PublicKey;
pub use crate::signature::{Hash, KeyKind, SignatureKind};
use crate::uri::{is_uri, rewritten};

/// The largest request that is read. Bytes of PEM. DIVERGES: Kubernetes reads whatever fits into a request body, with any
/// number of names; here the limit of names is [`MAX_NAMES`]. A request with a hundred names and an RSA key of 8192 bits has
/// about a sixth of this size.
pub const MAX_PEM_BYTES: usize = 64 * 1024;
/// The most subject alternative names that a request may hold.
pub const MAX_NAMES: usize = 1000;

const LABEL: &str = "CERTIFICATE REQUEST";

/// A certificate request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    /// Malformed DER.
    #[error("not a PKCS#10 request: {0}")]
    Der(#[from] x509_cert::der::Error),
    /// The first PEM block is of another type.
    #[error("PEM block type must be CERTIFICATE REQUEST, not {0}")]
    Label(String),
    /// No PEM block.
    #[error("no PEM block of type CERTIFICATE REQUEST")]
    NoPem,
    /// The signature is not by the key in the request.
    #[error("the request is not signed with the key that it is for")]
    Signature,
    /// The subject cannot be used.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// Too large.
    #[error("the request is larger than {MAX_PEM_BYTES} bytes")]
    TooLarge,
    /// Too many names.
    #[error("the request has more than {MAX_NAMES} subject alternative names")]
    TooManyNames,
    /// An extension is requested twice.
    #[error("the request asks for the extension {0} twice")]
    Twice(ObjectIdentifier),
    /// A malformed URI.
    #[error("the request has the URI {0:?}, which cannot be read")]
    Uri(String),
    /// A kind of key or signature that is not supported.
    #[error(
        "the request's key or signature algorithm is not supported: need ECDSA on P-256, P-384 or P-521, Ed25519, RSA of \
         1024 to 8192 bits over SHA-1, SHA-256 or SHA-512, or RSA of 2048 to 8192 bits over SHA-384 or with RSA-PSS"
    )]
    UnsupportedAlgorithm,
}

/// A request whose signature is not verified: good for comparing names (NR-99), never for signing.
#[derive(Clone, Debug)]
pub struct UncheckedCsr {
    subject: Subject,
    public_key_der: Vec<u8>,
    names: Names,
    extensions: Vec<RequestedExtension>,
    has_trailing_data: bool,
    /// The signed bytes.
    signed: Vec<u8>,
    signature: Vec<u8>,
    signature_kind: Option<SignatureKind>,
    key: Option<PublicKey>,
}

/// A certificate request whose signature is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr {
    subject: Subject,
    public_key_der: Vec<u8>,
    names: Names,
    extensions: Vec<RequestedExtension>,
    has_trailing_data: bool,
    key: KeyKind,
    signature: SignatureKind,
}

/// A requested extension. Kubernetes copies subject alternative names alone, and takes the usages from `spec.usages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedExtension {
    /// The object identifier, such as `2.5.29.17`.
    pub oid: String,
    /// Whether it is marked critical.
    pub is_critical: bool,
    /// The value, in DER.
    pub value: Vec<u8>,
}

impl RequestedExtension {
    /// Whether these are basic constraints of a certificate authority. Malformed ones count as such.
    pub fn asks_for_authority(&self) -> bool {
        let constraints = || only(&self.value)?.decode::<BasicConstraints>();
        self.oid == ID_CE_BASIC_CONSTRAINTS.to_string() && constraints().map_or(true, |found| found.ca)
    }
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
    /// How many names of other kinds there are.
    pub others: usize,
}

/// The common name of a request in PEM form. Does not verify the signature (NR-99, NR-100).
///
/// # Errors
/// Anything that is not a certificate request in the first PEM block.
pub fn common_name(pem: &[u8]) -> Result<String, CsrError> {
    Ok(UncheckedCsr::parse(pem)?.subject().common_name()?.to_owned())
}

/// The organizations that a request asks for, in order. The signature is not verified.
///
/// # Errors
/// As [`common_name`].
pub fn organizations(pem: &[u8]) -> Result<Vec<String>, CsrError> {
    let request = UncheckedCsr::parse(pem)?;
    Ok(request.subject().organizations()?.into_iter().map(str::to_owned).collect())
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
        let (block, rest) = pem::first_and_rest(text).ok_or(CsrError::NoPem)?;
        if block.label != LABEL {
            return Err(CsrError::Label(block.label));
        }
        // As in Go, further elements at the end of a SEQUENCE are ignored.
        let mut request = only(&block.der)?.children(Tag::Sequence)?;
        let info = request.required()?;
        let signature_kind = SignatureKind::read(&request.required()?)?;
        let signature = request.required()?.decode::<BitString>()?;

        let mut fields = info.children(Tag::Sequence)?;
        fields.required()?.tag().assert_eq(Tag::Integer)?;
        let subject = only(fields.required()?.raw)?;
        subject.tag().assert_eq(Tag::Sequence)?;
        let public_key = fields.required()?;
        let attributes = fields.required()?;
        attributes.tag().assert_eq(Tag::ContextSpecific { constructed: true, number: TagNumber(0) })?;

        let extensions = requested_extensions(attributes.contents())?;
        let mut names = Names::default();
        for extension in
            extensions.iter().filter(|extension| extension.oid == ID_CE_SUBJECT_ALT_NAME.to_string())
        {
            names.read(&extension.value)?;
        }
        Ok(Self {
            subject: Subject::of_request(subject.contents())?,
            public_key_der: public_key.raw.to_vec(),
            names,
            extensions,
            has_trailing_data: !rest.trim_ascii().is_empty(),
            signed: info.raw.to_vec(),
            signature: signature.as_bytes().ok_or(CsrError::Signature)?.to_vec(),
            signature_kind,
            key: PublicKey::read(&public_key)?,
        })
    }

    /// The requested subject.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Verifies that the request is signed with the key that it contains.
    ///
    /// # Errors
    /// A wrong signature, or a kind or size of key that is not supported.
    pub fn check(self) -> Result<Csr, CsrError> {
        let (Some(key), Some(kind)) = (&self.key, self.signature_kind) else {
            return Err(CsrError::UnsupportedAlgorithm);
        };
        let has_signed = key.has_signed(kind, &self.signed, &self.signature);
        if !has_signed.ok_or(CsrError::UnsupportedAlgorithm)? {
            return Err(CsrError::Signature);
        }
        Ok(Csr {
            key: key.kind(),
            signature: kind,
            subject: self.subject,
            public_key_der: self.public_key_der,
            names: self.names,
            extensions: self.extensions,
            has_trailing_data: self.has_trailing_data,
        })
    }
}

impl Csr {
    /// Reads a request and verifies its signature.
    ///
    /// # Errors
    /// See [`CsrError`].
    pub fn from_pem(text: &[u8]) -> Result<Self, CsrError> {
        UncheckedCsr::parse(text)?.check()
    }

    /// The requested subject.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The public key: a DER SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> &[u8] {
        &self.public_key_der
    }

    /// The subject alternative names. Names of other kinds are counted, and neither kept nor refused (CS-53).
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The requested extensions, in order; none twice.
    pub fn extensions(&self) -> &[RequestedExtension] {
        &self.extensions
    }

    /// Whether anything but white space follows the first PEM block. Kubernetes ignores it; it could smuggle another request
    /// to a reader that does not.
    pub fn has_trailing_data(&self) -> bool {
        self.has_trailing_data
    }

    /// The kind of the key.
    pub fn key(&self) -> KeyKind {
        self.key
    }

    /// The signature algorithm.
    pub fn signature(&self) -> SignatureKind {
        self.signature
    }
}

/// The extensions that the attributes request. Malformed attributes are skipped, as in Go.
fn requested_extensions(attributes: &[u8]) -> Result<Vec<RequestedExtension>, CsrError> {
    let mut found: Vec<RequestedExtension> = Vec::new();
    let mut attributes = Elements::of(attributes)?;
    while let Some(attribute) = attributes.optional()? {
        let Some(value) = extension_request(&attribute) else { continue };
        let mut extensions = only(&value)?.children(Tag::Sequence)?;
        while let Some(extension) = extensions.optional()? {
            let mut fields = extension.children(Tag::Sequence)?;
            let id = fields.required()?.decode::<ObjectIdentifier>()?;
            let mut value = fields.required()?;
            let is_critical = value.tag() == Tag::Boolean && value.decode::<bool>()?;
            if value.tag() == Tag::Boolean {
                value = fields.required()?;
            }
            value.tag().assert_eq(Tag::OctetString)?;
            let oid = id.to_string();
            if found.iter().any(|other| other.oid == oid) {
                return Err(CsrError::Twice(id));
            }
            found.push(RequestedExtension { oid, is_critical, value: value.contents().to_vec() });
        }
    }
    Ok(found)
}

/// The first value of an extension request attribute.
fn extension_request(attribute: &Element<'_>) -> Option<Vec<u8>> {
    let mut pair = attribute.children(Tag::Sequence).ok()?;
    let oid = pair.required().ok()?.decode::<ObjectIdentifier>().ok()?;
    let mut values = pair.required().ok()?.children(Tag::Set).ok()?;
    let first = values.required().ok()?.raw.to_vec();
    while values.optional().ok()?.is_some() {}
    (oid == ID_EXTENSION_REQ).then_some(first)
}

impl Names {
    pub(crate) fn read(&mut self, extension: &[u8]) -> Result<(), CsrError> {
        let outer = Elements::of(extension)?.required()?;
        let mut names = outer.children(Tag::Sequence)?;
        let mut count = 0;
        while let Some(name) = names.optional()? {
            count += 1;
            if count > MAX_NAMES {
                return Err(CsrError::TooManyNames);
            }
            let Tag::ContextSpecific { number, constructed: false } = name.tag() else {
                self.others += 1;
                continue;
            };
            match number.value() {
                1 => self.email.push(ascii(name.contents())?),
                2 => self.dns.push(ascii(name.contents())?),
                6 => {
                    let uri = ascii(name.contents())?;
                    if !is_uri(&uri) {
                        return Err(CsrError::Uri(uri));
                    }
                    self.uri.push(rewritten(&uri));
                }
                7 => self.ip.push(address(name.contents())?),
                _ => self.others += 1,
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
