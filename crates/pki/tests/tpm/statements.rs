//! Statements and signatures of a chip (AT-119.9, AT-119.13, AT-119.14, ST-N1 to ST-N3, ST-N6, ST-N8).

use portcullis_pki::tpm::{Body, HashAlgorithm, KeyType, PublicArea, Scheme, Signature};

use portcullis_testkit::software_tpm::Bench;

use crate::bench::{FIXED, NONCE, creation_data, public, statement};

fn verify(key: &PublicArea, message: &[u8], signature: &[u8]) -> bool {
    Signature::parse(signature).unwrap().is_by(key, message)
}

fn nonce() -> Vec<u8> {
    (0..32).collect()
}

#[test]
fn what_a_chip_states_about_a_key_is_read_and_verified_at_119_9() {
    let bench = Bench::new();
    bench.make_attestation_key("ecc256", "ecdsa");
    bench.make_key(FIXED, NONCE, "");
    let (attestation_key, key) = (public(&bench, "ak.pub"), public(&bench, "key.pub"));
    assert_eq!((key.key(), key.scheme()), (KeyType::P256, Some(Scheme::Ecdsa(HashAlgorithm::Sha256))));
    let own = attestation_key.attributes();
    assert!(own.is_fixed_tpm() && own.is_fixed_parent() && own.is_generated() && own.is_restricted());
    assert!(own.is_signing() && !own.is_decrypting());
    let of_key = key.attributes();
    assert!(of_key.is_fixed_tpm() && of_key.is_signing() && of_key.is_user_with_auth());
    assert!(!of_key.is_restricted() && !of_key.is_decrypting());

    bench.run("tpm2_certify -c key.ctx -C ak.ctx -g sha256 -o certify.attest -s certify.sig");
    bench.run(&format!(
        "tpm2_certifycreation -C ak.ctx -c key.ctx -d key.chash -t key.ticket -g sha256 -q {NONCE} -o creation.sig \
         --attestation creation.attest"
    ));
    bench.run(&format!(
        "tpm2_quote -c ak.ctx -l sha256:0,1,2,3,4,7 -q {NONCE} -m quote.attest -s quote.sig -o quote.pcrs -g sha256"
    ));
    for what in ["certify", "creation", "quote"] {
        let (message, signature) =
            (bench.read(&format!("{what}.attest")), bench.read(&format!("{what}.sig")));
        assert!(verify(&attestation_key, &message, &signature), "{what}");
        assert!(!verify(&key, &message, &signature), "{what}: another key");
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(!verify(&attestation_key, &changed, &signature), "{what}: byte {at}");
        }
    }
    let certify = statement(&bench, "certify.attest");
    assert_eq!(certify.body, Body::Certify { name: key.name().as_bytes().to_vec() });
    // The tool has no option for the data (ST-23).
    assert_eq!(certify.extra_data, [0x00, 0xff, 0x55, 0xaa]);
    let creation = statement(&bench, "creation.attest");
    let data = creation_data(&bench, "key.cdata");
    let hash = data.hash(key.name_algorithm());
    assert_eq!(bench.read("key.chash")[2..], hash);
    assert_eq!(creation.body, Body::Creation { name: key.name().as_bytes().to_vec(), hash });
    assert_eq!((creation.extra_data, data.outside_info), (nonce(), nonce()));
    let quote = statement(&bench, "quote.attest");
    assert_eq!(quote.extra_data, nonce());
    // Fresh PCRs are all zero (ST-17).
    let zeros = HashAlgorithm::Sha256.digest(&[&[0; 6 * 32]]);
    let Body::Quote { selections, digest } = quote.body else { panic!("a quote") };
    let [selection] = &*selections else { panic!("{selections:?}") };
    assert_eq!((selection.bank, &*selection.indexes), (Some(HashAlgorithm::Sha256), &[0, 1, 2, 3, 4, 7][..]));
    assert_eq!(digest, zeros);
    let signers = [certify.qualified_signer, creation.qualified_signer, quote.qualified_signer];
    assert!(!signers[0].is_empty() && signers.iter().all(|signer| *signer == signers[0]));

    // ST-N6: another PCR, another digest.
    bench.run(&format!("tpm2_pcrextend 7:sha256={NONCE}"));
    bench.run(&format!(
        "tpm2_quote -c ak.ctx -l sha256:0,1,2,3,4,7 -q {NONCE} -m q2.attest -s q2.sig -g sha256"
    ));
    let Body::Quote { digest, .. } = statement(&bench, "q2.attest").body else { panic!("a quote") };
    assert_ne!(digest, zeros);

    // ST-N8: a restart counts, and the attestation key is the same when it is loaded again.
    bench.chip.restart();
    bench.run("tpm2_startauthsession --policy-session -S s.ctx");
    bench.run("tpm2_policysecret -S s.ctx -c e");
    bench.run("tpm2_load -C 0x81010001 -P session:s.ctx -u ak.pub -r ak.priv -c ak.ctx");
    bench.run("tpm2_flushcontext s.ctx");
    bench.run("tpm2_quote -c ak.ctx -l sha256:7 -q 00 -m q3.attest -s q3.sig -g sha256");
    let later = statement(&bench, "q3.attest");
    assert!(later.clock.reset_count > quote.clock.reset_count, "{later:?}");
    assert!(verify(&attestation_key, &bench.read("q3.attest"), &bench.read("q3.sig")));
}

#[test]
fn rsa_keys_of_a_chip_sign_too_at_113() {
    let bench = Bench::new();
    for scheme in ["rsassa", "rsapss"] {
        bench.make_attestation_key("rsa2048", scheme);
        bench.run(&format!(
            "tpm2_quote -c ak.ctx -l sha256:7 -q {NONCE} -m q.attest -s q.sig -g sha256 --scheme {scheme}"
        ));
        let key = public(&bench, "ak.pub");
        assert_eq!(key.name().as_bytes(), bench.read("ak.name"), "{scheme}");
        assert!(verify(&key, &bench.read("q.attest"), &bench.read("q.sig")), "{scheme}");
    }
}

#[test]
fn keys_that_were_elsewhere_say_so_st_n1_st_n2() {
    let bench = Bench::new();
    portcullis_testkit::tool::openssl(
        bench.folder(),
        "ecparam -name prime256v1 -genkey -noout -out soft.pem",
    );
    bench.run("tpm2_createprimary -C o -G ecc -c srk.ctx");
    bench.run("tpm2_import -C srk.ctx -G ecc -i soft.pem -u imported.pub -r imported.priv");
    bench.run("tpm2_loadexternal -C n -G ecc -r soft.pem -c soft.ctx -a sign|userwithauth");
    bench.make_attestation_key("ecc256", "ecdsa");
    bench.run("tpm2_certify -c soft.ctx -C ak.ctx -g sha256 -o soft.attest -s soft.sig");
    let imported = public(&bench, "imported.pub").attributes();
    assert!(!imported.is_fixed_tpm() && !imported.is_generated());
    // The chip signs that it has the key. Its name tells that the key is not fixed to it.
    let certified = statement(&bench, "soft.attest").body;
    assert!(
        matches!(certified, Body::Certify { name } if name != public(&bench, "imported.pub").name().as_bytes())
    );
}

#[test]
fn only_a_restricted_key_refuses_to_sign_a_forged_statement_st_n3() {
    let bench = Bench::new();
    bench.make_attestation_key("ecc256", "ecdsa");
    bench.make_key(FIXED, NONCE, "");
    bench.write("forged.bin", b"\xff\x54\x43\x47\x80\x17forged");
    assert!(!bench.succeeds("tpm2_sign -c ak.ctx -g sha256 -s ecdsa -o forged.sig forged.bin"));
    bench.run("tpm2_sign -c key.ctx -g sha256 -s ecdsa -o forged.sig forged.bin");
    let key = public(&bench, "key.pub");
    assert!(verify(&key, &bench.read("forged.bin"), &bench.read("forged.sig")));
    assert!(!key.attributes().is_restricted());
}
