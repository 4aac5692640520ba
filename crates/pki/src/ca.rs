//! A certificate authority: makes itself, and issues certificates for keys that we hold ourselves.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use rustls_pki_types::CertificateDer;
use signature::Keypair;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder, CertificateBuilder};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::{
    Any, BitString, Ia5String, ObjectIdentifier, OctetString, SetOfVec, Utf8StringRef,
};
use x509_cert::der::{Decode, Document, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{
    AlgorithmIdentifierOwned, DynSignatureAlgorithmIdentifier, EncodePublicKey, SubjectPublicKeyInfoOwned,
    SubjectPublicKeyInfoRef,
};
use x509_cert::time::{Time, Validity};

use crate::cert::{Facts, VerifyError};
use crate::key::{KeyError, KeyPair};
use crate::name::{COMMON_NAME, ORGANIZATION};
use crate::pem;

const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// Certificates are valid from a little before they are made, for clocks that run late.
const BACKDATE: Duration = Duration::from_secs(5 * 60);

/// A certificate authority that cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A certificate could not be put together.
    #[error("cannot make a certificate: {0}")]
    Build(String),
    /// The certificate cannot be read.
    #[error("the certificate authority's certificate cannot be read")]
    Certificate(#[from] VerifyError),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key is not that of the certificate.
    #[error("the certificate authority's key does not belong to its certificate")]
    Mismatch,
    /// No certificate in the text.
    #[error("no certificate in PEM form")]
    NoCertificate,
}

impl From<x509_cert::der::Error> for CaError {
    fn from(error: x509_cert::der::Error) -> Self {
        Self::Build(error.to_string())
    }
}

impl From<x509_cert::builder::Error> for CaError {
    fn from(error: x509_cert::builder::Error) -> Self {
        Self::Build(error.to_string())
    }
}

/// A certificate authority.
#[derive(Debug)]
pub struct CertificateAuthority {
    key: KeyPair,
    certificate: CertificateDer<'static>,
    subject: Name,
    /// What the certificate calls its key; certificates that it issues repeat that.
    key_identifier: Option<Vec<u8>>,
}

/// What a certificate is to say.
#[derive(Clone, Debug)]
pub struct Template {
    /// The common name.
    pub common_name: String,
    /// The organizations, each a name part of its own, in this order.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// What the certificate may be used for.
    pub usage: Usage,
    /// How long it is valid from now on.
    pub lifetime: Duration,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To prove who a client is.
    Client,
    /// To prove who a server is.
    Server,
}

impl CertificateAuthority {
    /// Makes a new authority with a new key.
    ///
    /// # Errors
    /// See [`CaError`].
    pub fn generate(common_name: &str, now: SystemTime, lifetime: Duration) -> Result<Self, CaError> {
        Self::with_key(KeyPair::generate()?, common_name, now, lifetime)
    }

    /// Makes a new certificate for an authority whose key is there already.
    ///
    /// # Errors
    /// See [`CaError`].
    pub fn with_key(
        key: KeyPair,
        common_name: &str,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        let subject = name(common_name, &[])?;
        let profile = Profile {
            subject: subject.clone(),
            issuer: subject.clone(),
            alternative_names: Vec::new(),
            authority: Authority::Itself,
        };
        let certificate = build(profile, &key, key.public_der(), now, lifetime)?;
        let key_identifier = Facts::read(&certificate)?.key_identifier;
        Ok(Self { key, certificate, subject, key_identifier })
    }

    /// An authority whose certificate says other things than ours.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub(crate) fn of(
        key: KeyPair,
        certificate: CertificateDer<'static>,
        subject: Name,
    ) -> Result<Self, CaError> {
        let key_identifier = Facts::read(&certificate)?.key_identifier;
        Ok(Self { key, certificate, subject, key_identifier })
    }

    /// Reads an authority from its certificate and key in PEM form.
    ///
    /// # Errors
    /// Text that holds neither, or a key that is not the certificate's.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CaError> {
        let block = pem::blocks(certificate)
            .into_iter()
            .find(|b| b.label == "CERTIFICATE")
            .ok_or(CaError::NoCertificate)?;
        let key = KeyPair::from_pem(key)?;
        let facts = Facts::read(&block.der)?;
        if facts.public_key != key.public_der() {
            return Err(CaError::Mismatch);
        }
        Ok(Self {
            key,
            certificate: CertificateDer::from(block.der),
            subject: Name::from_der(&facts.subject_der)?,
            key_identifier: facts.key_identifier,
        })
    }

    /// Issues a certificate for a key that we hold.
    ///
    /// # Errors
    /// A name that no certificate can hold.
    pub fn issue(
        &self,
        template: &Template,
        key: &KeyPair,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, CaError> {
        let mut alternative_names = Vec::new();
        for dns in &template.dns_names {
            alternative_names.push(GeneralName::DnsName(Ia5String::new(dns)?));
        }
        for ip in &template.ip_addresses {
            let octets = match ip {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            alternative_names.push(GeneralName::IpAddress(OctetString::new(octets)?));
        }
        let profile = Profile {
            subject: name(&template.common_name, &template.organizations)?,
            issuer: self.subject.clone(),
            alternative_names,
            authority: Authority::Other {
                key_identifier: self.key_identifier.clone(),
                usage: template.usage,
            },
        };
        build(profile, &self.key, key.public_der(), now, template.lifetime)
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The authority's own certificate as PEM text.
    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    /// The authority's key.
    pub fn key(&self) -> &KeyPair {
        &self.key
    }
}

/// A certificate of this profile for a public key, signed.
///
/// # Errors
/// See [`CaError`].
pub(crate) fn build(
    profile: impl BuilderProfile,
    signer: &KeyPair,
    public_key: &[u8],
    now: SystemTime,
    lifetime: Duration,
) -> Result<CertificateDer<'static>, CaError> {
    let validity = Validity::new(time(now.checked_sub(BACKDATE))?, time(now.checked_add(lifetime))?);
    let public_key = SubjectPublicKeyInfoOwned::from_der(public_key)?;
    let signer = Signer(signer);
    let mut builder = CertificateBuilder::new(profile, serial_number()?, validity, public_key)?;
    let signed = builder.finalize(&signer)?;
    let signature = BitString::from_bytes(&signer.0.sign(&signed)?)?;
    let certificate = builder.assemble(signature, &signer)?;
    Ok(CertificateDer::from(certificate.to_der()?))
}

fn time(at: Option<SystemTime>) -> Result<Time, CaError> {
    let at = at.ok_or_else(|| CaError::Build("the time is out of range".to_owned()))?;
    Ok(Time::try_from(at)?)
}

/// 127 random bits.
fn serial_number() -> Result<SerialNumber, CaError> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| KeyError::Generate)?;
    let [first, ..] = &mut bytes;
    // Positive, and never with a leading zero byte.
    *first = (*first & 0x7f) | 0x40;
    Ok(SerialNumber::new(&bytes)?)
}

/// A name with the organizations before the common name, one part each, so that their order is kept.
fn name(common_name: &str, organizations: &[String]) -> Result<Name, CaError> {
    let mut parts = RdnSequence::default();
    let organizations = organizations.iter().map(|o| (ORGANIZATION, o.as_str()));
    for (oid, text) in organizations.chain([(COMMON_NAME, common_name)]) {
        let value = Any::encode_from(&Utf8StringRef::new(text)?)?;
        let part = SetOfVec::try_from(vec![AttributeTypeAndValue { oid, value }])?;
        parts.push(RelativeDistinguishedName::from(part));
    }
    Ok(Name::from_der(&parts.to_der()?)?)
}

/// What goes into a certificate beside the key.
struct Profile {
    subject: Name,
    issuer: Name,
    alternative_names: Vec<GeneralName>,
    authority: Authority,
}

/// Who signs.
enum Authority {
    /// The certificate signs itself: it is an authority.
    Itself,
    /// An authority signs it for one use.
    Other { key_identifier: Option<Vec<u8>>, usage: Usage },
}

impl BuilderProfile for Profile {
    fn get_issuer(&self, _subject: &Name) -> Name {
        self.issuer.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        key: SubjectPublicKeyInfoRef<'_>,
        _issuer_key: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        let mut extensions = Vec::new();
        let subject = tbs.subject();
        let is_authority = matches!(self.authority, Authority::Itself);
        let usages = if is_authority {
            KeyUsages::KeyCertSign | KeyUsages::CRLSign | KeyUsages::DigitalSignature
        } else {
            KeyUsages::DigitalSignature.into()
        };
        extensions.push(KeyUsage(usages).to_extension(subject, &extensions)?);
        let constraints = BasicConstraints { ca: is_authority, path_len_constraint: None };
        extensions.push(constraints.to_extension(subject, &extensions)?);
        match &self.authority {
            Authority::Itself => {
                extensions
                    .push(SubjectKeyIdentifier(key_identifier(key)?).to_extension(subject, &extensions)?);
            }
            Authority::Other { key_identifier, usage } => {
                let purpose = match usage {
                    Usage::Client => CLIENT_AUTH,
                    Usage::Server => SERVER_AUTH,
                };
                extensions.push(ExtendedKeyUsage(vec![purpose]).to_extension(subject, &extensions)?);
                if let Some(identifier) = key_identifier {
                    let authority = AuthorityKeyIdentifier {
                        key_identifier: Some(OctetString::new(identifier.as_slice())?),
                        ..AuthorityKeyIdentifier::default()
                    };
                    extensions.push(authority.to_extension(subject, &extensions)?);
                }
            }
        }
        if !self.alternative_names.is_empty() {
            let names = SubjectAltName(self.alternative_names.clone());
            extensions.push(names.to_extension(subject, &extensions)?);
        }
        Ok(extensions)
    }
}

/// The first 160 bits of the hash of the public key.
pub(crate) fn key_identifier(key: SubjectPublicKeyInfoRef<'_>) -> x509_cert::builder::Result<OctetString> {
    let hash = digest(&SHA256, key.subject_public_key.raw_bytes());
    let short: Vec<u8> = hash.as_ref().iter().copied().take(20).collect();
    Ok(OctetString::new(short)?)
}

/// Our key in the shape that the certificate builder wants.
struct Signer<'a>(&'a KeyPair);

#[derive(Clone)]
struct PublicKey(Vec<u8>);

impl Keypair for Signer<'_> {
    type VerifyingKey = PublicKey;

    fn verifying_key(&self) -> PublicKey {
        PublicKey(self.0.public_der().to_vec())
    }
}

impl EncodePublicKey for PublicKey {
    fn to_public_key_der(&self) -> x509_cert::spki::Result<Document> {
        Ok(Document::try_from(self.0.clone())?)
    }
}

impl DynSignatureAlgorithmIdentifier for Signer<'_> {
    fn signature_algorithm_identifier(&self) -> x509_cert::spki::Result<AlgorithmIdentifierOwned> {
        Ok(self.0.signature_algorithm())
    }
}
