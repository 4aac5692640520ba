//! The parsed evidence (AT-119.1).

use portcullis_pki::tpm::endorsement::{EndorsementCertificate, MAX_CERTIFICATE_BYTES, MAX_CHAIN};
use portcullis_pki::tpm::evidence::{Bytes, Signed, TpmEvidence};
use portcullis_pki::tpm::{CreationData, PublicArea, Signature, Statement};

/// The public keys of both requests.
pub(super) struct Keys {
    pub(super) endorsement: PublicArea,
    pub(super) attestation: PublicArea,
    pub(super) own: PublicArea,
    pub(super) chain: Vec<Vec<u8>>,
}

/// A statement, with the bytes that are signed.
pub(super) struct SignedStatement {
    pub(super) statement: Statement,
    pub(super) signed: Vec<u8>,
    pub(super) signature: Signature,
}

/// The statements of the second request.
pub(super) struct Statements {
    pub(super) certify: SignedStatement,
    pub(super) creation: Option<(CreationData, SignedStatement)>,
    pub(super) quote: Option<SignedStatement>,
}

impl Keys {
    pub(super) fn parse(evidence: &TpmEvidence) -> Result<Self, String> {
        let key = |what: &str, bytes: &Bytes| {
            PublicArea::parse(&bytes.0).map_err(|error| format!("{what}: {error}"))
        };
        if evidence.ek_chain.len() > MAX_CHAIN {
            return Err(format!("ekChain: more than {MAX_CHAIN} certificates"));
        }
        if evidence.ek_cert.iter().chain(&evidence.ek_chain).any(|cert| cert.0.len() > MAX_CERTIFICATE_BYTES)
        {
            return Err(format!("ekCert, ekChain: a certificate of more than {MAX_CERTIFICATE_BYTES} bytes"));
        }
        Ok(Self {
            endorsement: key("ekPub", &evidence.ek_pub)?,
            attestation: key("akPub", &evidence.ak_pub)?,
            own: key("keyPub", &evidence.key_pub)?,
            chain: evidence.ek_chain.iter().map(|bytes| bytes.0.clone()).collect(),
        })
    }
}

/// The certificate of the endorsement key; none if the node sent none.
pub(super) fn certificate(evidence: &TpmEvidence) -> Option<Result<EndorsementCertificate, String>> {
    evidence.ek_cert.as_ref().map(|bytes| EndorsementCertificate::parse(&bytes.0))
}

impl SignedStatement {
    fn parse(what: &str, attest: &Bytes, signature: &Bytes) -> Result<Self, String> {
        let statement = Statement::parse(&attest.0).map_err(|error| format!("{what}: {error}"))?;
        let signature = Signature::parse(&signature.0).map_err(|error| format!("{what}: {error}"))?;
        Ok(Self { statement, signed: attest.0.clone(), signature })
    }
}

impl Statements {
    pub(super) fn parse(evidence: &TpmEvidence) -> Result<Self, String> {
        let signed = |what: &str, Signed { attest, sig }: &Signed| SignedStatement::parse(what, attest, sig);
        let creation = evidence.creation.as_ref().map(|creation| {
            let data = CreationData::parse(&creation.data.0).map_err(|error| format!("creation: {error}"))?;
            Ok((data, SignedStatement::parse("creation", &creation.attest, &creation.sig)?))
        });
        let quote = evidence.quote.as_ref();
        Ok(Self {
            certify: signed("certify", evidence.certify.as_ref().ok_or("certify is missing")?)?,
            creation: creation.transpose().map_err(|error: String| error)?,
            quote: quote
                .map(|quote| SignedStatement::parse("quote", &quote.attest, &quote.sig))
                .transpose()?,
        })
    }
}
