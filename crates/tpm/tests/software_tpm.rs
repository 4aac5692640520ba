//! The client against software TPMs, with `tpm2-tools` and openssl as referees.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot be set up must stop"
)]

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use portcullis_testkit::software_tpm::{Manufacturer, SoftwareTpm};
use portcullis_testkit::tool::{openssl, try_openssl};
use portcullis_tpm::{
    Address, AttestationKey, AttestationParent, AttestedKey, Challenge, Chip, CreatedKey, Creation,
    EndorsementKind, KeyOptions, Pcrs, SoftwareKey, Statement, Tpm, Wrapped,
};

const NONCE: [u8; 32] = [0xa5; 32];
const RSA: EndorsementKind = EndorsementKind::Rsa2048;

/// A manufacturer, a chip, and our client of it. Files lie in the folder of the manufacturer.
struct Rig {
    chip: SoftwareTpm,
    tpm: Tpm,
    maker: Manufacturer,
}

impl Rig {
    fn new() -> Self {
        let maker = Manufacturer::new();
        let chip = maker.make("a");
        let tpm = client(&chip);
        Self { chip, tpm, maker }
    }

    fn folder(&self) -> &Path {
        self.maker.folder()
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder().join(name)).unwrap()
    }

    fn tool(&self, words: &str) -> String {
        self.chip.tool(self.folder(), words)
    }

    fn ak(&self) -> AttestationKey {
        self.tpm.create_attestation_key(AttestationParent::StorageRoot).unwrap()
    }

    fn key(&self) -> CreatedKey {
        self.tpm.create_key(KeyOptions { outside_info: &NONCE, ..KeyOptions::default() }).unwrap()
    }

    /// Writes the public key of a public area as `NAME.pem`, by the tools.
    fn pem(&self, name: &str, public: &[u8]) {
        self.write(&format!("{name}.pub"), public);
        self.tool(&format!("tpm2_loadexternal -C n -u {name}.pub -c {name}.ctx -n {name}.name"));
        self.tool(&format!("tpm2_readpublic -c {name}.ctx -f pem -o {name}.pem"));
    }

    /// The tools make a credential: the blob and the encrypted secret (ST-24).
    fn credential(&self, ek_public: &[u8], name: &[u8], secret: &[u8]) -> (Vec<u8>, Vec<u8>) {
        self.write("ek.pub", ek_public);
        self.write("secret", secret);
        let words = "tpm2_makecredential -T none -u ek.pub -s secret -o credential -n";
        self.tool(&format!("{words} {}", hex(name)));
        let file = self.read("credential");
        assert_eq!(file[..8], [0xba, 0xdc, 0xc0, 0xde, 0, 0, 0, 1]);
        let (blob, encrypted) = file[8..].split_at(2 + usize::from(u16::from_be_bytes([file[8], file[9]])));
        (blob.to_vec(), encrypted.to_vec())
    }

    /// openssl must accept the signature of a statement.
    fn verify(&self, key: &str, statement: &Statement) {
        self.write("attest", &statement.attest);
        self.write("attest.sig", statement.signature.der());
        openssl(self.folder(), &format!("dgst -sha256 -verify {key}.pem -signature attest.sig attest"));
    }
}

fn client(chip: &SoftwareTpm) -> Tpm {
    Tpm::at(chip.connection().parse().unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn pcrs(indexes: &[u8]) -> Pcrs {
    Pcrs::new(indexes).unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, portcullis_tpm::TpmError>) -> u32 {
    result.unwrap_err().code().unwrap().0
}

#[test]
fn endorsement_keys_and_their_certificates_are_those_that_the_tools_read_at_111() {
    let rig = Rig::new();
    let handles =
        [(RSA, "0x81010001", "0x01c00002"), (EndorsementKind::HighP384, "0x81010016", "0x01c00016")];
    for (kind, handle, index) in handles {
        let key = rig.tpm.endorsement_key_of(kind).unwrap();
        rig.tool(&format!("tpm2_readpublic -c {handle} -o ek.pub -f tss"));
        assert_eq!(key.public, rig.read("ek.pub"));
        rig.tool(&format!("tpm2_nvread {index} -C o -o ek.der"));
        assert_eq!(key.certificate.unwrap(), rig.read("ek.der"));
    }
    assert_eq!(rig.tpm.endorsement_key().unwrap().kind, RSA);
    assert_eq!(rig.tpm.certified_kinds().unwrap(), [RSA, EndorsementKind::HighP384]);
}

#[test]
fn endorsement_keys_made_from_templates_are_those_of_the_manufacturer_and_of_the_tools_at_111() {
    let rig = Rig::new();
    for (kind, handle) in [(RSA, "0x81010001"), (EndorsementKind::HighP384, "0x81010016")] {
        let persistent = rig.tpm.endorsement_key_of(kind).unwrap();
        rig.tool(&format!("tpm2_evictcontrol -C o -c {handle}"));
        assert_eq!(rig.tpm.endorsement_key_of(kind).unwrap(), persistent);
    }
    rig.tool("tpm2_createek -G ecc -c p256.ctx -u p256.pub -f tss");
    assert_eq!(rig.tpm.endorsement_key_of(EndorsementKind::P256).unwrap().public, rig.read("p256.pub"));
    assert!(rig.tpm.endorsement_key_of(EndorsementKind::HighRsa3072).is_err());
}

#[test]
fn padding_is_cut_and_a_chain_may_continue_at_the_next_index_at_111() {
    let rig = Rig::new();
    assert_eq!(rig.tpm.certificate_chain().unwrap(), Vec::<Vec<u8>>::new());
    for (pem, der) in [(rig.maker.issuer(), "issuer.der"), (rig.maker.root(), "root.der")] {
        openssl(rig.folder(), &format!("x509 -in {} -outform der -out {der}", pem.display()));
    }
    let (issuer, root) = (rig.read("issuer.der"), rig.read("root.der"));
    let chain = [&*issuer, &[0xff; 9], &*root, &[0; 40]].concat();
    for (number, part) in chain.chunks(700).enumerate() {
        rig.write("part", part);
        rig.tool(&format!("tpm2_nvdefine 0x01c001{number:02x} -C o -s {}", part.len()));
        rig.tool(&format!("tpm2_nvwrite 0x01c001{number:02x} -C o -i part"));
    }
    assert_eq!(rig.tpm.certificate_chain().unwrap(), [issuer, root]);
}

#[test]
fn an_attestation_key_quotes_what_tpm2_checkquote_accepts_at_113() {
    let rig = Rig::new();
    rig.tool(&format!("tpm2_pcrextend 7:sha256={}", hex(&[7; 32])));
    for parent in [AttestationParent::StorageRoot, AttestationParent::EndorsementKey(RSA)] {
        let ak = rig.tpm.create_attestation_key(parent).unwrap();
        rig.pem("ak", ak.wrapped.public());
        let selection: Vec<u8> = (0..24).collect();
        let quote = rig.tpm.quote(pcrs(&selection), &ak, &NONCE).unwrap();
        rig.write("quote", &quote.statement.attest);
        rig.write("quote.sig", quote.statement.signature.raw());
        let check = "tpm2_checkquote -u ak.pem -m quote -s quote.sig -g sha256 -q";
        rig.tool(&format!("{check} {}", hex(&NONCE)));
        assert_ne!(rig.chip.try_tool(rig.folder(), &format!("{check} {}", hex(&[1; 32]))).code, 0);
        // The digest at the end of the quote is that of the values.
        let values: Vec<u8> = quote.values.iter().flat_map(|(_, value)| *value).collect();
        rig.write("values", &values);
        openssl(rig.folder(), "dgst -sha256 -binary -out values.digest values");
        assert!(quote.statement.attest.ends_with(&rig.read("values.digest")));
        rig.tool("tpm2_pcrread sha256 -o pcrs");
        assert_eq!(values, rig.read("pcrs"));
        assert_eq!(quote.values.iter().map(|(index, _)| *index).collect::<Vec<_>>(), selection);
    }
}

#[test]
fn statements_about_a_kubelet_key_have_its_name_and_the_qualifying_data_at_115() {
    let rig = Rig::new();
    let (ak, key) = (rig.ak(), rig.key());
    rig.pem("ak", ak.wrapped.public());
    rig.pem("key", key.wrapped.public());
    let name = rig.read("key.name");
    for statement in
        [rig.tpm.certify(&key, &ak, &NONCE).unwrap(), rig.tpm.certify_creation(&key, &ak, &NONCE).unwrap()]
    {
        rig.verify("ak", &statement);
        assert!(contains(&statement.attest, &name) && contains(&statement.attest, &NONCE));
    }
    // The hash of the creation data, without their size, ends the statement about the creation.
    rig.write("data", &key.creation.data()[2..]);
    openssl(rig.folder(), "dgst -sha256 -binary -out data.digest data");
    let statement = rig.tpm.certify_creation(&key, &ak, &NONCE).unwrap();
    assert!(statement.attest.ends_with(&rig.read("data.digest")));
    assert!(contains(key.creation.data(), &NONCE));
}

#[test]
fn keys_have_the_attributes_of_their_class_at_117() {
    let rig = Rig::new();
    let show = |public: &[u8]| {
        rig.write("shown.pub", public);
        rig.tool("tpm2_print -t TPM2B_PUBLIC shown.pub")
    };
    let bound =
        rig.tpm.create_key(KeyOptions { bound_to: Some(pcrs(&[7])), ..KeyOptions::default() }).unwrap();
    let shown = show(bound.wrapped.public());
    assert!(shown.contains("value: fixedtpm|fixedparent|sensitivedataorigin|sign\n"), "{shown}");
    rig.tool("tpm2_startauthsession -S session");
    rig.tool("tpm2_policypcr -S session -l sha256:7 -L policy");
    rig.tool("tpm2_flushcontext session");
    assert!(contains(bound.wrapped.public(), &rig.read("policy")));
    let shown = show(rig.key().wrapped.public());
    assert!(shown.contains("value: fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign\n"), "{shown}");
    let shown = show(rig.ak().wrapped.public());
    let attributes = "value: fixedtpm|fixedparent|sensitivedataorigin|userwithauth|restricted|sign\n";
    assert!(shown.contains(attributes), "{shown}");
}

#[test]
fn a_software_key_is_certified_also_with_leading_zeros_at_37_at_117() {
    let rig = Rig::new();
    let ak = rig.ak();
    rig.pem("ak", ak.wrapped.public());
    // These private numbers are short, and their points have an x or a y with a leading zero.
    for (scalar, coordinate) in [(&[0x2b][..], 33), (&[0x01, 0x7b][..], 1)] {
        let number = [&[0; 32][scalar.len()..], scalar].concat();
        let der = [
            &[0x30, 0x31, 2, 1, 1, 4, 0x20][..],
            &number,
            &[0xa0, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
        ];
        let der = der.concat();
        rig.write("soft.der", &der);
        openssl(rig.folder(), "ec -inform der -in soft.der -out soft.pem");
        openssl(rig.folder(), "ec -in soft.pem -pubout -outform der -out soft.spki");
        openssl(rig.folder(), "ec -in soft.pem -pubout -out soft.pub.pem");
        let spki = rig.read("soft.spki");
        let point = &spki[spki.len() - 65..];
        assert_eq!(point[coordinate], 0);
        let key = SoftwareKey::new(point, scalar).unwrap();
        let statement = rig.tpm.certify_software_key(&key, &ak, &NONCE).unwrap();
        rig.verify("ak", &statement);
        rig.pem("loaded", &key.public().unwrap());
        assert!(contains(&statement.attest, &rig.read("loaded.name")));
        assert_eq!(rig.read("loaded.pem"), rig.read("soft.pub.pem"));
    }
    assert!(SoftwareKey::new(&[4; 64], &[1]).is_err());
    assert!(SoftwareKey::new(&[4; 65], &[1; 33]).is_err());
}

#[test]
fn a_kubelet_key_signs_what_openssl_verifies_at_114() {
    let rig = Rig::new();
    let key = rig.key();
    rig.pem("key", key.wrapped.public());
    rig.write("message", b"a message");
    openssl(rig.folder(), "dgst -sha256 -binary -out digest message");
    let digest = rig.read("digest").try_into().unwrap();
    // The two numbers of a signature are short in 1 of 64 signatures: enough of them meet the padding rules of DER.
    for _ in 0..20 {
        let signature = rig.tpm.sign_digest(&key.wrapped, None, &digest).unwrap();
        rig.write("signature", signature.der());
        openssl(rig.folder(), "dgst -sha256 -verify key.pem -signature signature message");
    }
    rig.write("message", b"another message");
    assert_ne!(
        try_openssl(rig.folder(), "dgst -sha256 -verify key.pem -signature signature message").code,
        0
    );
}

#[test]
fn credentials_of_the_tools_are_activated_with_both_endorsement_keys_at_121() {
    let rig = Rig::new();
    for parent in [AttestationParent::StorageRoot, AttestationParent::EndorsementKey(RSA)] {
        let ak = rig.tpm.create_attestation_key(parent).unwrap();
        rig.pem("ak", ak.wrapped.public());
        for (kind, length) in [(RSA, 32), (EndorsementKind::HighP384, 48), (EndorsementKind::P256, 32)] {
            let secret: Vec<u8> = (0..length).collect();
            let ek = rig.tpm.endorsement_key_of(kind).unwrap();
            let (blob, encrypted) = rig.credential(&ek.public, &rig.read("ak.name"), &secret);
            assert_eq!(rig.tpm.activate_credential(kind, &ak, &blob, &encrypted).unwrap(), secret);
        }
    }
}

#[test]
fn a_credential_for_another_tpm_or_key_is_refused_at_206() {
    let rig = Rig::new();
    let ak = rig.ak();
    rig.pem("ak", ak.wrapped.public());
    let name = rig.read("ak.name");
    let other = rig.maker.make("b");
    let other_ek = client(&other).endorsement_key().unwrap();
    // N4: the endorsement key of another TPM.
    let (blob, encrypted) = rig.credential(&other_ek.public, &name, &NONCE);
    assert_eq!(code(rig.tpm.activate_credential(RSA, &ak, &blob, &encrypted)), 0x101);
    // N5: the name of another key.
    let ek = rig.tpm.endorsement_key().unwrap();
    let other_name = [&[0, 0x0b], &[3; 32][..]].concat();
    let (blob, encrypted) = rig.credential(&ek.public, &other_name, &NONCE);
    let error = rig.tpm.activate_credential(RSA, &ak, &blob, &encrypted).unwrap_err();
    assert_eq!(error.code().unwrap().0, 0x1df);
    assert!(error.to_string().contains("TPM2_ActivateCredential with 0x1df (TPM_RC_INTEGRITY"), "{error}");
    // Structures that are none do not reach the TPM.
    assert!(rig.tpm.activate_credential(RSA, &ak, &blob[1..], &encrypted).unwrap_err().code().is_none());
    // A key of another TPM cannot be loaded.
    assert_eq!(code(client(&other).quote(pcrs(&[0]), &ak, &NONCE)), 0x1df);
}

#[test]
fn wrapped_keys_survive_a_restart_at_122() {
    let rig = Rig::new();
    let aks = [AttestationParent::StorageRoot, AttestationParent::EndorsementKey(RSA)]
        .map(|parent| rig.tpm.create_attestation_key(parent).unwrap());
    let key = rig.key();
    let (bytes, creation) = (key.wrapped.to_bytes(), key.creation.to_bytes().unwrap());
    let before = rig.tpm.clock().unwrap();
    rig.chip.restart();
    assert_eq!(rig.tpm.clock().unwrap().reset_count, before.reset_count + 1);
    let kept = CreatedKey {
        wrapped: Wrapped::from_bytes(&bytes).unwrap(),
        bound_to: None,
        creation: Creation::from_bytes(&creation).unwrap(),
    };
    assert_eq!(kept, key);
    for ak in aks {
        rig.tpm.certify(&kept, &ak, &NONCE).unwrap();
        rig.tpm.certify_creation(&kept, &ak, &NONCE).unwrap();
    }
    rig.tpm.sign_digest(&kept.wrapped, None, &NONCE).unwrap();
}

#[test]
fn a_key_and_data_bound_to_pcrs_are_of_no_use_after_an_extend_at_117() {
    let rig = Rig::new();
    let seven = Some(pcrs(&[7]));
    let key = rig.tpm.create_key(KeyOptions { bound_to: seven, ..KeyOptions::default() }).unwrap();
    let sealed = rig.tpm.seal(b"secret", seven).unwrap();
    rig.tpm.sign_digest(&key.wrapped, seven, &NONCE).unwrap();
    assert_eq!(rig.tpm.unseal(&sealed, seven).unwrap(), b"secret");
    // The empty password is not enough.
    assert_eq!(code(rig.tpm.sign_digest(&key.wrapped, None, &NONCE)), 0x12f);
    assert_eq!(code(rig.tpm.unseal(&sealed, None)), 0x12f);
    // Another PCR does not matter; this one does.
    rig.tool(&format!("tpm2_pcrextend 8:sha256={}", hex(&[1; 32])));
    rig.tpm.sign_digest(&key.wrapped, seven, &NONCE).unwrap();
    rig.tool(&format!("tpm2_pcrextend 7:sha256={}", hex(&[1; 32])));
    assert_eq!(code(rig.tpm.sign_digest(&key.wrapped, seven, &NONCE)), 0x99d);
    assert_eq!(code(rig.tpm.unseal(&sealed, seven)), 0x99d);
    // What is certified is not its use.
    rig.tpm.certify(&key, &rig.ak(), &NONCE).unwrap();
}

#[test]
fn sealed_data_open_at_the_same_tpm_only_at_118() {
    let rig = Rig::new();
    for length in [1, 32, portcullis_tpm::MAX_SEALED_BYTES] {
        let data = vec![9; length];
        let sealed = rig.tpm.seal(&data, None).unwrap();
        assert_eq!(rig.tpm.unseal(&sealed, None).unwrap(), data);
    }
    assert!(rig.tpm.seal(&[], None).is_err());
    assert!(rig.tpm.seal(&[0; 129], None).is_err());
    let sealed = rig.tpm.seal(b"secret", None).unwrap();
    let other = rig.maker.make("b");
    assert_eq!(code(client(&other).unseal(&sealed, None)), 0x1df);
}

#[test]
fn a_storage_root_key_at_the_reserved_handle_is_used() {
    let rig = Rig::new();
    rig.tool("tpm2_createprimary -C o -G rsa2048 -c srk.ctx");
    rig.tool("tpm2_evictcontrol -C o -c srk.ctx 0x81000001");
    let key = rig.key();
    rig.tpm.sign_digest(&key.wrapped, None, &NONCE).unwrap();
    rig.write("key.pub", key.wrapped.public());
    rig.write("key.priv", key.wrapped.private());
    rig.tool("tpm2_load -C 0x81000001 -u key.pub -r key.priv -c key.ctx");
}

#[test]
fn a_hundred_operations_leave_nothing_in_the_tpm_st_21() {
    let rig = Rig::new();
    let (ak, key) = (rig.ak(), rig.key());
    let bound = rig.tpm.seal(b"secret", Some(pcrs(&[0]))).unwrap();
    for round in 0..25 {
        rig.tpm.certify(&key, &ak, &NONCE).unwrap();
        rig.tpm.sign_digest(&key.wrapped, None, &NONCE).unwrap();
        rig.tpm.unseal(&bound, Some(pcrs(&[0]))).unwrap();
        // One that fails after it has loaded the key and a session.
        assert_eq!(code(rig.tpm.unseal(&bound, Some(pcrs(&[1])))), 0x99d, "{round}");
    }
    for kind in ["handles-transient", "handles-loaded-session"] {
        assert_eq!(rig.chip.try_tool(rig.folder(), &format!("tpm2_getcap {kind}")).ok().trim(), "");
    }
}

#[test]
fn threads_take_turns() {
    let rig = Rig::new();
    let key = rig.key();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    rig.tpm.sign_digest(&key.wrapped, None, &NONCE).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_tcp_port_serves_as_well_as_a_unix_socket_st_20() {
    let rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = rig.chip.socket();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut server = UnixStream::connect(&socket).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            let _ = io::copy(&mut server, &mut client);
        }
    });
    for text in [format!("swtpm:host=127.0.0.1,port={port}"), format!("tcp:localhost:{port}")] {
        let tpm = Tpm::at(text.parse::<Address>().unwrap());
        assert_eq!(tpm.endorsement_key().unwrap(), rig.tpm.endorsement_key().unwrap());
        assert_eq!(tpm.random(32).unwrap().len(), 32);
    }
}

#[test]
fn the_maker_is_the_one_that_the_tools_show_at_193() {
    let rig = Rig::new();
    let properties = rig.tpm.properties().unwrap();
    let shown = rig.tool("tpm2_getcap properties-fixed");
    let value = |name: &str| {
        let behind = shown.split(name).nth(1).unwrap();
        let raw = behind.split("raw: 0x").nth(1).unwrap();
        u64::from_str_radix(raw.split('\n').next().unwrap(), 16).unwrap()
    };
    assert!(shown.contains(&format!("value: \"{}\"", properties.manufacturer)), "{shown}");
    assert!(properties.vendor.starts_with("SW"), "{properties:?}");
    let firmware = value("TPM2_PT_FIRMWARE_VERSION_1:") << 32 | value("TPM2_PT_FIRMWARE_VERSION_2:");
    assert_eq!(properties.firmware, firmware);
    assert_ne!(rig.tpm.random(32).unwrap(), rig.tpm.random(32).unwrap());
    assert!(rig.tpm.random(33).is_err());
}

#[test]
fn a_chip_gives_what_both_rounds_send_at_116() {
    let rig = Rig::new();
    let ak = Chip::open(client(&rig.chip), None).unwrap().attestation_key().clone();
    rig.pem("ak", ak.wrapped.public());
    let software = {
        openssl(rig.folder(), "ecparam -name prime256v1 -genkey -noout -outform der -out soft.der");
        let der = rig.read("soft.der");
        SoftwareKey::new(&der[der.len() - 65..], &der[7..39]).unwrap()
    };
    let resident = rig.key();
    for kind in [RSA, EndorsementKind::HighP384] {
        let chip = Chip::open_with(client(&rig.chip), kind, Some(ak.clone())).unwrap();
        for key in [AttestedKey::Resident(&resident), AttestedKey::Software(&software)] {
            let round_1 = chip.enrol(key).unwrap();
            let (blob, encrypted) = rig.credential(&round_1.ek_public, &rig.read("ak.name"), &NONCE);
            let challenge = Challenge {
                credential_blob: &blob,
                encrypted_secret: &encrypted,
                certify: [1; 32],
                creation: [2; 32],
                quote: [3; 32],
                pcrs: pcrs(&[0, 7]),
            };
            let round_2 = chip.prove(key, &challenge).unwrap();
            assert_eq!(round_2.activated, NONCE);
            rig.verify("ak", &round_2.certify);
            rig.verify("ak", &round_2.quote.statement);
            assert!(contains(&round_2.certify.attest, &[1; 32]));
            assert!(contains(&round_2.quote.statement.attest, &[3; 32]));
            rig.pem("key", &round_1.key_public);
            assert!(contains(&round_2.certify.attest, &rig.read("key.name")));
            assert_eq!(round_2.creation.is_some(), matches!(key, AttestedKey::Resident(_)));
            if let Some((_, statement)) = round_2.creation {
                rig.verify("ak", &statement);
                assert!(contains(&statement.attest, &[2; 32]));
            }
        }
    }
}
