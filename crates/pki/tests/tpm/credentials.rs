//! Secrets for one chip: tpm2-tools open what we make, and nothing else (AT-116, AT-120, ST-N4, ST-N5).

use portcullis_pki::tpm::{Name, PublicArea, credential};

use portcullis_testkit::software_tpm::Bench;

use crate::bench::public;

/// The file of tpm2-tools (ST-24).
fn file(credential: &credential::Credential) -> Vec<u8> {
    [&[0xba, 0xdc, 0xc0, 0xde, 0, 0, 0, 1][..], &credential.blob, &credential.encrypted_secret].concat()
}

/// Opens `cred.blob`, and returns whether that worked.
fn opens(bench: &Bench, handle: &str, with_policy: bool) -> bool {
    if !with_policy {
        return bench
            .succeeds(&format!("tpm2_activatecredential -c ak.ctx -C {handle} -i cred.blob -o got.bin"));
    }
    bench.run("tpm2_startauthsession --policy-session -S s.ctx");
    bench.run("tpm2_policysecret -S s.ctx -c e");
    let done = bench.succeeds(&format!(
        "tpm2_activatecredential -c ak.ctx -C {handle} -P session:s.ctx -i cred.blob -o got.bin"
    ));
    bench.run("tpm2_flushcontext s.ctx");
    done
}

fn make(bench: &Bench, key: &PublicArea, name: &Name, secret: &[u8]) {
    bench.write("cred.blob", &file(&credential::make(key, name, secret).unwrap()));
}

#[test]
fn a_chip_opens_a_secret_for_its_rsa_key_and_the_name_of_a_key_in_it_at_120() {
    let bench = Bench::new();
    bench.run("tpm2_readpublic -c 0x81010001 -o ek.pub -f tss");
    bench.make_attestation_key("ecc256", "ecdsa");
    let (key, attestation_key) = (public(&bench, "ek.pub"), public(&bench, "ak.pub"));
    assert_eq!(attestation_key.name().as_bytes(), bench.read("ak.name"));
    for secret in [&[7; 32][..], b"short", b""] {
        make(&bench, &key, attestation_key.name(), secret);
        assert!(opens(&bench, "0x81010001", true), "{} bytes", secret.len());
        assert_eq!(bench.read("got.bin"), secret);
    }
    assert_eq!(
        credential::make(&key, attestation_key.name(), &[7; 33]),
        Err(credential::CredentialError::Secret)
    );
    assert_eq!(
        credential::make(&attestation_key, attestation_key.name(), &[7; 32]),
        Err(credential::CredentialError::Key),
        "an attestation key opens no secrets"
    );

    // ST-N5: for the name of another object.
    make(&bench, &key, key.name(), &[7; 32]);
    assert!(!opens(&bench, "0x81010001", true));

    // ST-N4: for the key of another chip.
    let other = bench.manufacturer.make("node-b");
    other.tool(bench.folder(), "tpm2_readpublic -c 0x81010001 -o other.pub -f tss");
    make(&bench, &public(&bench, "other.pub"), attestation_key.name(), &[7; 32]);
    assert!(!opens(&bench, "0x81010001", true));
}

#[test]
fn a_chip_opens_a_secret_for_its_ecc_key_at_120() {
    let bench = Bench::new();
    bench.run("tpm2_readpublic -c 0x81010016 -o ek.pub -f tss");
    bench.run("tpm2_createak -C 0x81010016 -c ak.ctx -G ecc256 -g sha256 -s ecdsa -u ak.pub -n ak.name");
    let (key, attestation_key) = (public(&bench, "ek.pub"), public(&bench, "ak.pub"));
    make(&bench, &key, attestation_key.name(), &[9; 48]);
    assert!(opens(&bench, "0x81010016", false));
    assert_eq!(bench.read("got.bin"), [9; 48]);
    make(&bench, &key, key.name(), &[9; 48]);
    assert!(!opens(&bench, "0x81010016", false));
}
