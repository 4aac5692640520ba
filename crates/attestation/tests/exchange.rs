//! The whole exchange of a node with a software TPM: both requests, and the challenge between them (AT-101, AT-102, AT-116,
//! AT-205, ST-32).
#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop, and runs at the time of its chips"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use portcullis_attestation::challenge::{Bound, Keys};
use portcullis_attestation::tpm::{self, Machine, PcrMode, PcrPolicy, Policy, Trust, Verified};
use portcullis_attestation::{KeyClass, Reason, Refusal};
use portcullis_pki::tpm::PublicArea;
use portcullis_pki::tpm::credential;
use portcullis_pki::tpm::endorsement::Roots;
use portcullis_pki::tpm::evidence::{Bytes, Creation, Purpose, Quote, Signed, TpmEvidence, qualifying_data};
use portcullis_testkit::software_tpm::{Manufacturer, SoftwareTpm};
use portcullis_testkit::tool::openssl;
use portcullis_tpm::{
    AttestedKey, Challenge, Chip, CreatedKey, EndorsementKind, KeyOptions, Pcrs, SoftwareKey, Statement, Tpm,
};

const KEYS: Keys = Keys { current: [1; 32], previous: None };
const CSR_DIGEST: [u8; 32] = [5; 32];
const PCRS: [u8; 3] = [0, 4, 7];

fn client(tpm: &SoftwareTpm) -> Tpm {
    Tpm::at(format!("swtpm:path={}", tpm.socket().display()).parse().unwrap())
}

fn pcrs() -> Pcrs {
    Pcrs::new(&PCRS).unwrap()
}

fn policy(manufacturer: &Manufacturer, minimum: KeyClass, key: Option<&CreatedKey>) -> Policy {
    let read = |path| std::fs::read(path).unwrap();
    let roots = Roots::from_pem(&read(manufacturer.root())).unwrap();
    let area = key.map(|key| PublicArea::parse(key.wrapped.public()).unwrap());
    Policy {
        trust: Trust::Certificate(roots.with_intermediates(&read(manufacturer.issuer()))),
        minimum,
        key_policy: area.map(|area| area.policy().to_vec()).unwrap_or_default(),
        requires_creation: minimum >= KeyClass::K2,
        pcrs: PcrPolicy {
            mode: PcrMode::Record,
            selection: PCRS.into_iter().map(u32::from).collect(),
            ..PcrPolicy::default()
        },
    }
}

fn signed(statement: &Statement) -> Signed {
    Signed { attest: Bytes(statement.attest.clone()), sig: Bytes(statement.signature.raw().to_vec()) }
}

/// Both requests of a node. `other` answers the challenge instead of the chip that asked for it, if it is given.
fn exchange(
    chip: &Chip,
    other: Option<&Chip>,
    key: AttestedKey<'_>,
    policy: &Policy,
    machine: &Machine,
) -> Result<Verified, Refusal> {
    let now = SystemTime::now();
    // The first request.
    let first = chip.enrol(key).unwrap();
    let mut evidence = TpmEvidence {
        ek_cert: first.ek_certificate.map(Bytes),
        ek_chain: first.ek_chain.into_iter().map(Bytes).collect(),
        ek_pub: Bytes(first.ek_public),
        ak_pub: Bytes(first.ak_public),
        key_pub: Bytes(first.key_public),
        ..TpmEvidence::default()
    };
    let enrolled = tpm::enrol(&evidence, policy, machine, now).outcome?;
    let public_key = PublicArea::parse(&evidence.key_pub.0).unwrap();
    let digest = public_key.digest();
    let bound = Bound {
        request_uid: "u1",
        username: "system:bootstrap:abcdef",
        common_name: "system:node:n1",
        public_key: &digest,
        attestation_key: Some(&enrolled.attestation_key),
    };
    // The challenge. The controller remembers nothing of it.
    let issued = KEYS.issue([3; 32], &bound, now);
    let endorsement_key = &enrolled.endorsement_key;
    let secret = issued.secret(&bound, endorsement_key.name_algorithm());
    let credential = credential::make(endorsement_key, &enrolled.attestation_key, &secret).unwrap();
    // The second request.
    let qualifying = |purpose| qualifying_data(purpose, &issued.nonce, &CSR_DIGEST);
    let proof = other.unwrap_or(chip).prove(
        key,
        &Challenge {
            credential_blob: &credential.blob,
            encrypted_secret: &credential.encrypted_secret,
            certify: qualifying(Purpose::Certify),
            creation: qualifying(Purpose::Creation),
            quote: qualifying(Purpose::Quote),
            pcrs: pcrs(),
        },
    );
    let Ok(proof) = proof else {
        // The chip does not open the secret of another one: there is nothing to send.
        return tpm::prove(&evidence, &challenge(&issued, &secret, &public_key), policy, machine, now)
            .outcome;
    };
    let hex = |value: &[u8; 32]| value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let values = proof.quote.values.iter().map(|(index, value)| (u32::from(*index), hex(value)));
    evidence.certify = Some(signed(&proof.certify));
    evidence.creation = proof.creation.map(|(data, statement)| {
        let Signed { attest, sig } = signed(&statement);
        Creation { data: Bytes(data[2..].to_vec()), attest, sig }
    });
    let Signed { attest, sig } = signed(&proof.quote.statement);
    evidence.quote = Some(Quote { attest, sig, pcrs: BTreeMap::from([("sha256".into(), values.collect())]) });
    evidence.activated = Some(Bytes(proof.activated));
    // Another replica verifies.
    let rotated = Keys { current: [2; 32], previous: Some(KEYS.current) };
    let verified = rotated.verify(&issued.id, &bound, now).unwrap();
    let secret = verified.secret(&bound, endorsement_key.name_algorithm());
    tpm::prove(&evidence, &challenge(&verified, &secret, &public_key), policy, machine, now).outcome
}

fn challenge<'a>(
    issued: &'a portcullis_attestation::challenge::Challenge,
    secret: &'a [u8],
    key: &'a PublicArea,
) -> tpm::Challenge<'a> {
    tpm::Challenge {
        nonce: &issued.nonce,
        secret,
        csr_digest: &CSR_DIGEST,
        csr_public_key: key.public_key_der(),
    }
}

#[test]
fn keys_of_each_class_are_attested_with_both_endorsement_keys_at_205() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let resident = client(&tpm).create_key(KeyOptions::default()).unwrap();
    let bound_to = KeyOptions { bound_to: Some(pcrs()), ..KeyOptions::default() };
    let bound = client(&tpm).create_key(bound_to).unwrap();
    let folder = manufacturer.folder();
    openssl(folder, "ecparam -name prime256v1 -genkey -noout -outform der -out soft.der");
    let der = std::fs::read(folder.join("soft.der")).unwrap();
    let software = SoftwareKey::new(&der[der.len() - 65..], &der[7..39]).unwrap();
    let (k1, k2) = (AttestedKey::Software(&software), AttestedKey::Resident(&resident));
    let k3 = AttestedKey::Resident(&bound);
    let machine = Machine::default();
    for kind in [EndorsementKind::Rsa2048, EndorsementKind::HighP384] {
        let chip = Chip::open_with(client(&tpm), kind, None).unwrap();
        for (class, key) in [(KeyClass::K1, k1), (KeyClass::K2, k2), (KeyClass::K3, k3)] {
            let policy = policy(&manufacturer, class, Some(&bound));
            let verified = exchange(&chip, None, key, &policy, &machine);
            assert_eq!(verified.map(|verified| verified.key_class), Ok(class), "{kind:?}");
        }
        // The class below is not enough.
        let refused = |class, key| {
            let policy = policy(&manufacturer, class, Some(&bound));
            exchange(&chip, None, key, &policy, &machine).map_err(|refusal| refusal.reason)
        };
        assert_eq!(refused(KeyClass::K2, k1), Err(Reason::KeyClassTooLow));
        assert_eq!(refused(KeyClass::K3, k2), Err(Reason::KeyPolicy));
    }
    // After a restart: the attestation key is loaded again, the clock goes on.
    let chip = Chip::open(client(&tpm), None).unwrap();
    let kept = chip.attestation_key().clone();
    let policy = policy(&manufacturer, KeyClass::K2, None);
    let before = exchange(&chip, None, k2, &policy, &machine).unwrap();
    tpm.restart();
    let chip = Chip::open(client(&tpm), Some(kept)).unwrap();
    let known = Machine {
        listed: BTreeSet::from([before.endorsement_key]),
        clock: Some(before.clock),
        ..Machine::default()
    };
    let after = exchange(&chip, None, k2, &policy, &known).unwrap();
    assert_eq!(after.attestation_key, before.attestation_key);
    assert!(after.clock.reset_count > before.clock.reset_count);
    let ahead = portcullis_attestation::SeenClock { reset_count: after.clock.reset_count + 1, ..after.clock };
    let went_back = Machine { clock: Some(ahead), ..known };
    let refused = exchange(&chip, None, k2, &policy, &went_back).unwrap_err();
    assert_eq!((refused.reason, refused.rule), (Reason::TpmClock, "AT-119.15"));
}

#[test]
fn a_chip_answers_no_challenge_of_another_one_and_a_copied_disk_is_worth_nothing_at_206() {
    let manufacturer = Manufacturer::new();
    let (tpm, thief) = (manufacturer.make("node-a"), manufacturer.make("node-b"));
    let key = client(&tpm).create_key(KeyOptions::default()).unwrap();
    let key = AttestedKey::Resident(&key);
    let chip = Chip::open(client(&tpm), None).unwrap();
    let policy = policy(&manufacturer, KeyClass::K2, None);
    let digest = exchange(&chip, None, key, &policy, &Machine::default()).unwrap().endorsement_key;
    let machine = Machine { listed: BTreeSet::from([digest]), ..Machine::default() };
    // The copied disk: the wrapped keys of the node, in another machine. Its chip loads none of them, and a request for the
    // challenge in its own name is that of a swapped chip.
    let copied = Chip::open(client(&thief), Some(chip.attestation_key().clone())).unwrap();
    let refused = exchange(&chip, Some(&copied), key, &policy, &machine).unwrap_err();
    assert_eq!(refused.reason, Reason::TpmMalformed, "there is no answer at all: {refused:?}");
    let swapped = Chip::open(client(&thief), None).unwrap();
    let own = client(&thief).create_key(KeyOptions::default()).unwrap();
    let refused = exchange(&swapped, None, AttestedKey::Resident(&own), &policy, &machine).unwrap_err();
    assert_eq!((refused.reason, refused.rule), (Reason::EkNotForMachine, "AT-119.6"));
}
