//! Certificates and certificate requests. No mutated one is accepted unless its contents are those that were signed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use portcullis_pki::csr::{self, UncheckedCsr};
use portcullis_pki::{CaBundle, CertificateDer, Csr, UnverifiedCertificate, pem};
use portcullis_testkit::recorded;

pub(super) const PEM: &[&str] = &[
    "-----BEGIN CERTIFICATE-----\n",
    "-----END CERTIFICATE-----\n",
    "-----BEGIN CERTIFICATE REQUEST-----\n",
    "-----END CERTIFICATE REQUEST-----\n",
    "-----BEGIN X-----\n",
    "-----END X-----\n",
    "-----BEGIN -----\n",
    "-----",
    "Proc-Type: 4,ENCRYPTED\n",
    "\n\n",
    "\r\n",
    "====",
    "AAAA",
];

pub(super) const DER: &[&str] = &[
    "\x30\x00",
    "\x30\x03\x02\x01\x00",
    "\x31\x00",
    "\x04\x00",
    "\x05\x00",
    "\x03\x01\x00",
    "\x06\x03\x55\x04\x03",
    "\x06\x03\x55\x04\x0a",
    "\x06\x03\x55\x1d\x11",
    "\x06\x03\x55\x1d\x25",
    "\x0c\x05admin",
    "\x13\x0esystem:masters",
    "\x30\x7f",
    "\x1f\x7f",
];

/// 2027-01-01, when the whole corpus is valid.
const NOW: Duration = Duration::from_secs(1_798_761_600);

fn corpus(name: &str) -> Vec<u8> {
    let path = recorded::repository().join("fuzz/corpus").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

static BUNDLE: LazyLock<CaBundle> =
    LazyLock::new(|| CaBundle::from_pem(&corpus("certificate-pem/ca.pem")).expect("an authority"));

/// The intermediate authority of some of the certificates.
static INTERMEDIATE: LazyLock<Vec<u8>> = LazyLock::new(|| corpus("certificate-der/mid.der"));

/// The subject and key of every request in the corpus.
static REQUESTS: LazyLock<BTreeSet<(String, Vec<u8>)>> = LazyLock::new(|| {
    let names = ["admin", "node", "plain", "rsa", "serving"];
    let requests = names.map(|name| {
        let text = pem::encode("CERTIFICATE REQUEST", &corpus(&format!("csr-der/{name}.der")));
        let csr = Csr::from_pem(text.as_bytes()).expect("a request of openssl");
        (format!("{:?}", csr.subject()), csr.public_key_der().to_vec())
    });
    BTreeSet::from(requests)
});

pub(super) fn pem(input: &[u8]) -> bool {
    let blocks = pem::blocks(input);
    assert_eq!(pem::first(input).as_ref(), blocks.first());
    let written: String = blocks.iter().map(|block| pem::encode(&block.label, &block.der)).collect();
    let again: Vec<pem::Block> =
        blocks.iter().map(|block| pem::Block { has_headers: false, ..block.clone() }).collect();
    assert_eq!(
        pem::blocks(written.as_bytes()),
        again,
        "what was read is written, without headers, and read again"
    );
    !blocks.is_empty()
}

pub(super) fn csr_pem(input: &[u8]) -> bool {
    let name = csr::common_name(input);
    let unchecked = UncheckedCsr::parse(input);
    assert!(unchecked.is_ok() || name.is_err(), "a name comes from a request");
    let Ok(unchecked) = unchecked else { return false };
    assert_eq!(unchecked.subject().common_name().ok(), name.as_deref().ok());
    let Ok(csr) = unchecked.check() else { return false };
    assert_eq!(csr.subject().common_name().ok(), name.as_deref().ok());
    let found = (format!("{:?}", csr.subject()), csr.public_key_der().to_vec());
    assert!(REQUESTS.contains(&found), "what the key has not signed is not taken");
    true
}

pub(super) fn csr_der(input: &[u8]) -> bool {
    csr_pem(pem::encode("CERTIFICATE REQUEST", input).as_bytes())
}

pub(super) fn certificate_pem(input: &[u8]) -> bool {
    let bundle = CaBundle::from_pem(input);
    let chain: Vec<CertificateDer<'_>> =
        pem::blocks(input).into_iter().map(|block| CertificateDer::from(block.der)).collect();
    verify(&chain) || bundle.is_ok()
}

pub(super) fn certificate_der(input: &[u8]) -> bool {
    verify(&[CertificateDer::from(input), CertificateDer::from(INTERMEDIATE.as_slice())])
}

/// Returns whether the chain is accepted. If so, its subject must be one that the authority has named.
fn verify(chain: &[CertificateDer<'_>]) -> bool {
    let Some(certificate) = UnverifiedCertificate::from_chain(chain) else { return false };
    let now = SystemTime::UNIX_EPOCH + NOW;
    let Ok(verified) = certificate.verify(&BUNDLE, now) else { return false };
    assert!(verified.is_valid_at(now), "what was accepted now is valid now");
    let Some(identity) = verified.identity() else { return true };
    let organizations: Vec<&str> = identity.organizations().iter().map(String::as_str).collect();
    // The serving certificate is not valid for clients.
    assert!(
        matches!(
            (identity.common_name(), organizations.as_slice()),
            ("system:node:n0", ["system:nodes"])
                | ("kubernetes-admin", ["system:masters", "b"])
                | ("last", [])
        ),
        "{identity:?}"
    );
    true
}
