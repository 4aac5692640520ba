//! A node with a software TPM, and what it sends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use portcullis_attestation::tpm::{Challenge, Machine, PcrMode, PcrPolicy, Policy, Trust, Verified, prove};
use portcullis_attestation::{KeyClass, Reason, Report};
use portcullis_pki::tpm::PublicArea;
use portcullis_pki::tpm::endorsement::Roots;
use portcullis_pki::tpm::evidence::{Bytes, Creation, Purpose, Quote, Signed, TpmEvidence, qualifying_data};
use portcullis_testkit::software_tpm::Bench;

pub(crate) const NONCE: [u8; 32] = [3; 32];
pub(crate) const SECRET: [u8; 32] = [4; 32];
pub(crate) const DIGEST: [u8; 32] = [5; 32];
/// The attributes of a key that cannot leave the chip (AT-114).
pub(crate) const FIXED: &str = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign";
/// The PCRs of the tests, which are all zero in a new chip.
pub(crate) const PCRS: [u32; 6] = [0, 1, 2, 3, 4, 7];

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn qualifying(purpose: Purpose) -> [u8; 32] {
    qualifying_data(purpose, &NONCE, &DIGEST)
}

/// A node, with the keys that its second request is about.
pub(crate) struct Node {
    pub(crate) bench: Bench,
    pub(crate) evidence: TpmEvidence,
    /// The key in its certificate request.
    pub(crate) public_key: Vec<u8>,
}

impl Node {
    /// A node whose key has these attributes, and all evidence of it.
    pub(crate) fn new(attributes: &str, more: &str) -> Self {
        let bench = Bench::new();
        bench.make_attestation_key("ecc256", "ecdsa");
        bench.make_key(attributes, &hex(&NONCE), more);
        Self::with_keys(bench)
    }

    /// A node with the keys that were made on the bench.
    pub(crate) fn with_keys(bench: Bench) -> Self {
        bench.run("tpm2_readpublic -c 0x81010001 -o ek.pub -f tss");
        bench.run("tpm2_nvread 0x01c00002 -C o -o ek.der");
        let file = |name: &str| Bytes(bench.read(name));
        let (attest, sig) = bench.certify(&qualifying(Purpose::Certify));
        bench.run(&format!(
            "tpm2_certifycreation -C ak.ctx -c key.ctx -d key.chash -t key.ticket -g sha256 -q {} -o creation.sig \
             --attestation creation.attest",
            hex(&qualifying(Purpose::Creation))
        ));
        let evidence = TpmEvidence {
            ek_cert: Some(file("ek.der")),
            ek_chain: Vec::new(),
            ek_pub: file("ek.pub"),
            ak_pub: file("ak.pub"),
            key_pub: file("key.pub"),
            certify: Some(Signed { attest: Bytes(attest), sig: Bytes(sig) }),
            creation: Some(Creation {
                data: Bytes(bench.read("key.cdata")[2..].to_vec()),
                attest: file("creation.attest"),
                sig: file("creation.sig"),
            }),
            quote: Some(quote(&bench, &PCRS, &[0; 32])),
            activated: Some(Bytes(SECRET.to_vec())),
        };
        let public_key = PublicArea::parse(&bench.read("key.pub")).unwrap().public_key_der().to_vec();
        Self { bench, evidence, public_key }
    }

    /// The roots that certify the chips of its manufacturer.
    pub(crate) fn roots(&self) -> Roots {
        let read = |path| std::fs::read(path).unwrap();
        let roots = Roots::from_pem(&read(self.bench.manufacturer.root())).unwrap();
        roots.with_intermediates(&read(self.bench.manufacturer.issuer()))
    }

    /// The strictest policy that it satisfies.
    pub(crate) fn policy(&self) -> Policy {
        let mut pcrs =
            PcrPolicy { mode: PcrMode::Enforce, selection: BTreeSet::from(PCRS), ..PcrPolicy::default() };
        pcrs.accepted.values = PCRS.into_iter().map(|at| (at, BTreeSet::from([vec![0; 32]]))).collect();
        Policy {
            trust: Trust::CertificateAndDigest(self.roots()),
            minimum: KeyClass::K2,
            key_policy: Vec::new(),
            requires_creation: true,
            pcrs,
        }
    }

    /// What is known about it.
    pub(crate) fn machine(&self) -> Machine {
        let digest = PublicArea::parse(&self.evidence.ek_pub.0).unwrap().digest();
        Machine { listed: BTreeSet::from([digest]), ..Machine::default() }
    }

    pub(crate) fn prove(&self, evidence: &TpmEvidence) -> Report<Verified> {
        self.prove_by(evidence, &self.policy(), &self.machine())
    }

    pub(crate) fn prove_by(
        &self,
        evidence: &TpmEvidence,
        policy: &Policy,
        machine: &Machine,
    ) -> Report<Verified> {
        prove(evidence, &self.challenge(), policy, machine, SystemTime::now())
    }

    pub(crate) fn challenge(&self) -> Challenge<'_> {
        Challenge { nonce: &NONCE, secret: &SECRET, csr_digest: &DIGEST, csr_public_key: &self.public_key }
    }

    /// The evidence after a change is refused for this reason, by this rule.
    #[track_caller]
    pub(crate) fn refused(&self, reason: Reason, rule: &str, change: impl FnOnce(&mut TpmEvidence)) {
        let mut evidence = self.evidence.clone();
        change(&mut evidence);
        is_refused(&self.prove(&evidence), reason, rule);
    }
}

/// A quote of these PCRs, of which each is said to have this value.
pub(crate) fn quote(bench: &Bench, pcrs: &[u32], value: &[u8]) -> Quote {
    let list: Vec<String> = pcrs.iter().map(ToString::to_string).collect();
    bench.run(&format!(
        "tpm2_quote -c ak.ctx -l sha256:{} -q {} -m quote.attest -s quote.sig -g sha256",
        list.join(","),
        hex(&qualifying(Purpose::Quote))
    ));
    let values = pcrs.iter().map(|at| (*at, hex(value))).collect();
    Quote {
        attest: Bytes(bench.read("quote.attest")),
        sig: Bytes(bench.read("quote.sig")),
        pcrs: BTreeMap::from([("sha256".to_owned(), values)]),
    }
}

#[track_caller]
pub(crate) fn is_refused<T: std::fmt::Debug>(report: &Report<T>, reason: Reason, rule: &str) {
    let refusal = report.outcome.as_ref().unwrap_err();
    assert_eq!((refusal.reason, refusal.rule), (reason, rule), "{report:#?}");
}
