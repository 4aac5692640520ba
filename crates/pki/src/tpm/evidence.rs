//! The evidence of a TPM: the member `tpm` of the envelope (AT-115, AT-116).
//!
//! In the first request the node sends its public keys and the certificate of its endorsement key. In the second one it adds
//! the statements that its attestation key signed over the nonce, and the secret that the TPM opened.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::sha256;

/// The most PCRs of a quote: all that a TPM has.
const MAX_PCRS: usize = 24;

/// Bytes that are base64 in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_bytes());
        bytes.map(Self).map_err(|_| serde::de::Error::custom("not base64"))
    }
}

/// Reads an object, or none from `null`. Without it serde also reads a struct from an array of its members.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    struct ObjectVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = Option<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(members)).map(Some)
        }
    }

    deserializer.deserialize_any(ObjectVisitor(PhantomData))
}

/// The evidence. Structures are as the TPM writes them; nothing is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TpmEvidence {
    /// The certificate of the endorsement key, in DER; none if the TPM has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ek_cert: Option<Bytes>,
    /// Intermediate certificates for it, in DER.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ek_chain: Vec<Bytes>,
    /// The endorsement key, a TPM2B_PUBLIC.
    pub ek_pub: Bytes,
    /// The attestation key, a TPM2B_PUBLIC.
    pub ak_pub: Bytes,
    /// The kubelet's key, a TPM2B_PUBLIC.
    pub key_pub: Bytes,
    /// The statement that the kubelet's key is in the TPM.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub certify: Option<Signed>,
    /// The statement that the kubelet's key was created in the TPM.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub creation: Option<Creation>,
    /// The statement about the PCRs.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub quote: Option<Quote>,
    /// The secret of the challenge, as the TPM opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activated: Option<Bytes>,
}

/// A statement and its signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// A TPMS_ATTEST.
    pub attest: Bytes,
    /// A TPMT_SIGNATURE.
    pub sig: Bytes,
}

/// The statement that a key was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creation {
    /// A TPMS_CREATION_DATA.
    pub data: Bytes,
    /// A TPMS_ATTEST.
    pub attest: Bytes,
    /// A TPMT_SIGNATURE.
    pub sig: Bytes,
}

/// The statement about PCRs, and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// A TPMS_ATTEST.
    pub attest: Bytes,
    /// A TPMT_SIGNATURE.
    pub sig: Bytes,
    /// The values in hexadecimal digits, by the name of the bank, such as `sha256`, and the number of the PCR.
    pub pcrs: BTreeMap<String, BTreeMap<u32, String>>,
}

impl TpmEvidence {
    /// Reads the member of the envelope. Unknown members are ignored (AT-54).
    ///
    /// # Errors
    /// It is malformed; the text says how.
    pub fn read(member: &str) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(member);
        let evidence: Option<Self> = object(&mut reader)
            .and_then(|read| reader.end().map(|()| read))
            .map_err(|error| format!("tpm: {error}"))?;
        let evidence = evidence.ok_or("tpm: it must be an object")?;
        let pcrs = evidence.quote.iter().flat_map(|quote| quote.pcrs.values()).map(BTreeMap::len);
        if pcrs.sum::<usize>() > MAX_PCRS {
            return Err(format!("tpm: more than {MAX_PCRS} PCRs"));
        }
        Ok(evidence)
    }
}

/// What a statement is about, as its qualifying data says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The kubelet's key is in the TPM.
    Certify,
    /// The kubelet's key was created in the TPM.
    Creation,
    /// The PCRs.
    Quote,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Certify => "certify",
            Self::Creation => "creation",
            Self::Quote => "quote",
        }
    }
}

/// The data that a statement must include (AT-115): it binds the statement to a challenge and to a certificate request.
pub fn qualifying_data(purpose: Purpose, nonce: &[u8], csr_digest: &[u8; 32]) -> [u8; 32] {
    sha256(&[b"kubelet-authenticator ", purpose.as_str().as_bytes(), &[0], nonce, csr_digest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_at_116() {
        let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
        let signed = Signed { attest: bytes("a"), sig: bytes("s") };
        let pcrs = BTreeMap::from([("sha256".to_owned(), BTreeMap::from([(7, "00".repeat(32))]))]);
        let evidence = TpmEvidence {
            ek_cert: Some(bytes("cert")),
            ek_chain: vec![bytes("chain")],
            ek_pub: bytes("ek"),
            ak_pub: bytes("ak"),
            key_pub: bytes("key"),
            certify: Some(signed),
            creation: Some(Creation { data: bytes("d"), attest: bytes("a"), sig: bytes("s") }),
            quote: Some(Quote { attest: bytes("a"), sig: bytes("s"), pcrs }),
            activated: Some(bytes("secret")),
        };
        let text = serde_json::to_string(&evidence).unwrap();
        assert_eq!(TpmEvidence::read(&text), Ok(evidence));
        let ignored = TpmEvidence::read(r#"{"ekPub":"ZWs=","more":1}"#).unwrap();
        assert_eq!(ignored.ek_pub, bytes("ek"));
        assert!(TpmEvidence::read(r#"{"ekPub":"ZW"}"#).is_err());
        for not_an_object in ["[]", "null", "{}{}", "", r#"{"certify":["",""]}"#, r#"{"quote":["","",{}]}"#] {
            assert!(TpmEvidence::read(not_an_object).is_err(), "{not_an_object}");
        }
        assert_eq!(TpmEvidence::read(r#"{"certify":null}"#).unwrap().certify, None);
        let many: BTreeMap<u32, String> = (0..25).map(|at| (at, String::new())).collect();
        let many = serde_json::json!({"quote": {"attest": "", "sig": "", "pcrs": {"sha256": many}}});
        assert!(TpmEvidence::read(&many.to_string()).is_err());
    }
}
