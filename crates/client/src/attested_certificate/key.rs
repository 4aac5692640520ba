//! The key of a node: in software, or in the TPM (AT-114, AT-117).

use std::fmt;

use portcullis_pki::tls::RemoteKey;
use portcullis_pki::tpm::PublicArea;
use portcullis_pki::{KeyPair, Request};
use portcullis_tpm::{CreatedKey, Creation, Pcrs, Tpm, Wrapped};
use serde::{Deserialize, Serialize};

use super::error::AttestedError;

/// The key of a node.
pub enum NodeKey {
    /// A key in software, which a client can use (classes K0 and K1).
    Software(KeyPair),
    /// A key that the TPM made and that never leaves it (classes K2 and K3).
    Resident(Box<ResidentKey>),
}

/// A key in the TPM.
pub struct ResidentKey {
    tpm: Tpm,
    key: CreatedKey,
    public_key: Vec<u8>,
}

/// A key in the TPM, as it is kept: only the same TPM can load it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeptKey {
    #[serde(with = "base64_text")]
    key: Vec<u8>,
    #[serde(with = "base64_text")]
    creation: Vec<u8>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pcrs: Vec<u8>,
}

impl fmt::Debug for NodeKey {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software(_) => "Software(..)",
            Self::Resident(_) => "Resident(..)",
        })
    }
}

impl ResidentKey {
    /// Makes a key in a TPM.
    ///
    /// # Errors
    /// The TPM fails.
    pub fn create(tpm: Tpm, bound_to: Option<Pcrs>) -> Result<Self, AttestedError> {
        let options = portcullis_tpm::KeyOptions { bound_to, ..portcullis_tpm::KeyOptions::default() };
        let key = tpm.create_key(options).map_err(tpm_error)?;
        Self::of(tpm, key)
    }

    fn of(tpm: Tpm, key: CreatedKey) -> Result<Self, AttestedError> {
        let area = PublicArea::parse(key.wrapped.public())
            .map_err(|error| AttestedError::Integrity(format!("the key of the TPM: {error}")))?;
        Ok(Self { tpm, key, public_key: area.public_key_der().to_vec() })
    }

    /// Reads a kept key.
    fn read(tpm: Tpm, text: &[u8]) -> Result<Self, AttestedError> {
        let broken = |error: &dyn fmt::Display| AttestedError::Integrity(format!("the kept key: {error}"));
        let kept: KeptKey = serde_json::from_slice(text).map_err(|error| broken(&error))?;
        let wrapped = Wrapped::from_bytes(&kept.key).map_err(|error| broken(&error))?;
        let creation = Creation::from_bytes(&kept.creation).map_err(|error| broken(&error))?;
        let bound_to = match kept.pcrs.is_empty() {
            true => None,
            false => Some(Pcrs::new(&kept.pcrs).map_err(|error| broken(&error))?),
        };
        Self::of(tpm, CreatedKey { wrapped, bound_to, creation })
    }

    fn written(&self) -> Result<Vec<u8>, AttestedError> {
        let creation = self.key.creation.to_bytes();
        let kept = KeptKey {
            key: self.key.wrapped.to_bytes(),
            creation: creation.map_err(|error| AttestedError::Integrity(error.to_string()))?,
            pcrs: self.key.bound_to.into_iter().flat_map(Pcrs::indexes).collect(),
        };
        serde_json::to_vec(&kept).map_err(|error| AttestedError::Integrity(error.to_string()))
    }

    /// The key as the TPM returned it.
    pub fn created(&self) -> &CreatedKey {
        &self.key
    }

    /// Signs a SHA-256 digest; the signature is in DER form.
    ///
    /// # Errors
    /// The TPM fails, or the PCRs that the key is bound to have changed.
    pub fn sign(&self, digest: &[u8; 32]) -> Result<Vec<u8>, AttestedError> {
        let signature = self.tpm.sign_digest(&self.key.wrapped, self.key.bound_to, digest);
        Ok(signature.map_err(tpm_error)?.der().to_vec())
    }
}

impl RemoteKey for ResidentKey {
    fn sign(&self, digest: &[u8; 32]) -> Result<Vec<u8>, String> {
        // The TPM takes up to a second. Other connections go on meanwhile.
        tokio::task::block_in_place(|| Self::sign(self, digest)).map_err(|error| error.to_string())
    }
}

impl NodeKey {
    /// The names of the files with software keys and with keys of the TPM.
    pub(crate) const FILES: [&'static str; 2] = ["key", "tpm"];

    /// The public key: a DER SubjectPublicKeyInfo.
    pub fn public_der(&self) -> &[u8] {
        match self {
            Self::Software(key) => key.public_der(),
            Self::Resident(key) => &key.public_key,
        }
    }

    /// The extension of the file that keeps the key, and its contents.
    pub(crate) fn written(&self) -> Result<(&'static str, Vec<u8>), AttestedError> {
        let [software, resident] = Self::FILES;
        Ok(match self {
            Self::Software(key) => (software, key.to_pem().into_bytes()),
            Self::Resident(key) => (resident, key.written()?),
        })
    }

    /// Reads a key from a file with this extension. A key of the TPM needs the TPM's address, but does not contact it.
    pub(crate) fn read(extension: &str, contents: &[u8], tpm: Option<&Tpm>) -> Result<Self, AttestedError> {
        if extension == "tpm" {
            let tpm = tpm.ok_or_else(|| AttestedError::Integrity("the key is in a TPM".to_owned()))?;
            return Ok(Self::Resident(Box::new(ResidentKey::read(tpm.clone(), contents)?)));
        }
        let key = KeyPair::from_pem(contents).map_err(|error| AttestedError::Integrity(error.to_string()))?;
        Ok(Self::Software(key))
    }

    /// Signs a request.
    pub(crate) fn request(&self, template: &Request) -> Result<String, AttestedError> {
        match self {
            Self::Software(key) => {
                template.to_pem(key).map_err(|error| AttestedError::Temporary(error.to_string()))
            }
            Self::Resident(key) => template.to_pem_by(&key.public_key, |digest| key.sign(digest)),
        }
    }

    /// Whether it is an RSA key, which has more usages.
    pub(crate) fn is_rsa(&self) -> bool {
        matches!(self, Self::Software(key) if key.is_rsa())
    }
}

/// A failure of the TPM. It may pass, and is never a reason to attest in a weaker way (AT-125).
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn tpm_error(error: portcullis_tpm::TpmError) -> AttestedError {
    AttestedError::Temporary(error.to_string())
}

mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(|_| serde::de::Error::custom("not base64"))
    }
}
