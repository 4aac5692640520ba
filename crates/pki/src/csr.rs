//! Certificate requests (PKCS#10): parsed, and then proved to be signed with the key that they ask a certificate for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use x509_cert::der::asn1::{BitString, ObjectIdentifier};
use x509_cert::der::{Tag, TagNumber};
use x509_cert::ext::pkix::BasicConstraints;

use crate::der::{Element, Elements, only};
use crate::name::{Subject, SubjectError};
use crate::pem;
use crate::signature::PublicKey;
pub use crate::signature::{Hash, KeyKind, SignatureKind};
use crate::uri::{is_uri, rewritten};

/// The largest request that is looked at. Bytes of PEM. DIVERGES: Kubernetes looks at whatever fits into a body, with any
/// number of names, and checks RSA keys of any length; here names end at [`MAX_NAMES`] and keys at 16,384 bits. A request for a certificate with a hundred names and an RSA key of
/// 8192 bits has about a sixth of that.
pub const MAX_PEM_BYTES: usize = 64 * 1024;
/// The most subject alternative names that a request may hold.
pub const MAX_NAMES: usize = 1000;

const LABEL: &str = "CERTIFICATE REQUEST";
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");

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
    /// An extension is asked for twice.
    #[error("the request asks for the extension {0} twice")]
    Twice(ObjectIdentifier),
    /// A URI that is none.
    #[error("the request has the URI {0:?}, which cannot be read")]
    Uri(String),
    /// A kind of key or signature that is not supported.
    #[error("the kind or size of the request's key, or its signature algorithm, is not supported")]
    UnsupportedAlgorithm,
}

/// A request whose signature nobody has checked: good for comparing names (NR-99), never for signing.
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

/// A certificate request whose signature was checked.
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

/// An extension that is asked for. Kubernetes goes by `spec.usages` and takes over subject alternative names alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedExtension {
    /// Which one, as `2.5.29.17`.
    pub oid: String,
    /// Whether a reader who does not know it is to refuse the certificate.
    pub is_critical: bool,
    /// What it says, in DER.
    pub value: Vec<u8>,
}

impl RequestedExtension {
    /// Whether these are basic constraints that ask for a certificate authority. What cannot be read asks for one.
    pub fn asks_for_authority(&self) -> bool {
        let constraints = || only(&self.value)?.decode::<BasicConstraints>();
        self.oid == BASIC_CONSTRAINTS.to_string() && constraints().map_or(true, |found| found.ca)
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
        let (block, rest) = pem::first_and_rest(text).ok_or(CsrError::NoPem)?;
        if block.label != LABEL {
            return Err(CsrError::Label(block.label));
        }
        // Go lets more stand at the end of a SEQUENCE than it knows.
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
        for extension in extensions.iter().filter(|extension| extension.oid == SUBJECT_ALT_NAME.to_string()) {
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

    /// The subject that is asked for.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Checks that the request is signed with the key that it is for.
    ///
    /// # Errors
    /// A wrong signature, or a kind or size of key that is not supported.
    pub fn check(self) -> Result<Csr, CsrError> {
        let (Some(key), Some(kind)) = (&self.key, self.signature_kind) else {
            return Err(CsrError::UnsupportedAlgorithm);
        };
        if !key.has_signed(kind, &self.signed, &self.signature) {
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

    /// The key that the certificate is for: a DER SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> &[u8] {
        &self.public_key_der
    }

    /// The subject alternative names. Kinds that are not listed are neither kept nor refused (CS-53).
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The extensions that are asked for, in order; none twice.
    pub fn extensions(&self) -> &[RequestedExtension] {
        &self.extensions
    }

    /// Whether anything but white space follows the first PEM block. Kubernetes passes it over; who stores it may be made
    /// to carry another request for somebody who reads on.
    pub fn has_trailing_data(&self) -> bool {
        self.has_trailing_data
    }

    /// The kind of the key.
    pub fn key(&self) -> KeyKind {
        self.key
    }

    /// How the request is signed.
    pub fn signature(&self) -> SignatureKind {
        self.signature
    }
}

/// What the attributes ask for. One that cannot be read is passed over, as in Go.
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

/// The first value of an attribute that asks for extensions.
fn extension_request(attribute: &Element<'_>) -> Option<Vec<u8>> {
    let mut pair = attribute.children(Tag::Sequence).ok()?;
    let oid = pair.required().ok()?.decode::<ObjectIdentifier>().ok()?;
    let mut values = pair.required().ok()?.children(Tag::Set).ok()?;
    let first = values.required().ok()?.raw.to_vec();
    while values.optional().ok()?.is_some() {}
    (oid == EXTENSION_REQUEST).then_some(first)
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
