//! Malformed structures (AT-119.1, AT-206, ST-31), and public keys in both forms (AT-37, AT-207).

use portcullis_pki::tpm::{CreationData, PublicArea, Signature, Statement};
use portcullis_testkit::tool;

use portcullis_testkit::software_tpm::Bench;

use crate::bench::{FIXED, NONCE, public};

#[test]
fn structures_that_are_cut_or_longer_or_of_another_type_are_malformed_at_119_1_st_31() {
    let bench = Bench::new();
    bench.run("tpm2_readpublic -c 0x81010001 -o ek.pub -f tss");
    bench.make_attestation_key("ecc256", "ecdsa");
    bench.make_key(FIXED, NONCE, "");
    bench.run("tpm2_certify -c key.ctx -C ak.ctx -g sha256 -o certify.attest -s certify.sig");
    bench.run(&format!("tpm2_quote -c ak.ctx -l sha256:7 -q {NONCE} -m quote.attest -s quote.sig -g sha256"));
    let quote = bench.read("quote.attest");
    bench.make_attestation_key("rsa2048", "rsassa");
    bench.run("tpm2_quote -c ak.ctx -l sha256:7 -m rsa.attest -s rsa.sig -g sha256 --scheme rsassa");
    type Reads = fn(&[u8]) -> bool;
    let structures: [(&str, Vec<u8>, Reads); 7] = [
        ("an RSA key", bench.read("ek.pub"), |bytes| PublicArea::parse(bytes).is_ok()),
        ("an ECC key", bench.read("key.pub"), |bytes| PublicArea::parse(bytes).is_ok()),
        ("a certification", bench.read("certify.attest"), |bytes| Statement::parse(bytes).is_ok()),
        ("a quote", quote.clone(), |bytes| Statement::parse(bytes).is_ok()),
        ("creation data", bench.read("key.cdata")[2..].to_vec(), |bytes| CreationData::parse(bytes).is_ok()),
        ("a signature", bench.read("quote.sig"), |bytes| Signature::parse(bytes).is_ok()),
        ("an RSA signature", bench.read("rsa.sig"), |bytes| Signature::parse(bytes).is_ok()),
    ];
    for (what, bytes, reads) in structures {
        assert!(reads(&bytes), "{what}");
        for length in 0..bytes.len() {
            assert!(!reads(&bytes[..length]), "{what}: {length} of {} bytes", bytes.len());
        }
        assert!(!reads(&[&bytes[..], &[0]].concat()), "{what}: one byte more");
    }
    let mut wrong = quote.clone();
    wrong[0] = 0;
    assert!(Statement::parse(&wrong).is_err(), "another magic number");
    // A certification is no quote.
    wrong = quote;
    wrong[5] = 0x17;
    assert!(Statement::parse(&wrong).is_err(), "another type");
}

#[test]
fn a_public_key_is_the_one_that_the_tool_writes_at_119_10() {
    let bench = Bench::new();
    bench.make_key(FIXED, NONCE, "");
    bench.make_attestation_key("rsa2048", "rsassa");
    for (context, name) in
        [("0x81010001", "ek1"), ("0x81010016", "ek2"), ("key.ctx", "key"), ("ak.ctx", "ak")]
    {
        bench.run(&format!("tpm2_readpublic -c {context} -f tss -o {name}.pub -n {name}.name"));
        bench.run(&format!("tpm2_readpublic -c {context} -f der -o {name}.der"));
        let read = public(&bench, &format!("{name}.pub"));
        assert_eq!(read.public_key_der(), bench.read(&format!("{name}.der")), "{name}");
        assert_eq!(read.name().as_bytes(), bench.read(&format!("{name}.name")), "{name}");
    }
}

/// A TPM2B_PUBLIC of a signing key on P-256 (AT-114, annex A).
fn public_area(x: &[u8], y: &[u8]) -> Vec<u8> {
    let mut area =
        vec![0x00, 0x23, 0x00, 0x0b, 0x00, 0x04, 0x00, 0x72, 0, 0, 0x00, 0x10, 0x00, 0x18, 0x00, 0x0b];
    area.extend([0x00, 0x03, 0x00, 0x10]);
    for coordinate in [x, y] {
        area.extend(u16::try_from(coordinate.len()).unwrap().to_be_bytes());
        area.extend(coordinate);
    }
    [&u16::try_from(area.len()).unwrap().to_be_bytes()[..], &area].concat()
}

#[test]
fn coordinates_with_zero_bytes_in_front_are_padded_at_37_at_207() {
    let folder = portcullis_testkit::scratch::Scratch::new();
    let mut short = 0;
    for _ in 0..1_000 {
        let key = portcullis_pki::KeyPair::generate().unwrap();
        let der = key.public_der();
        let (x, y) = der[der.len() - 64..].split_at(32);
        let full = PublicArea::parse(&public_area(x, y)).unwrap();
        assert_eq!(full.public_key_der(), der);
        let strip = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
        let stripped = PublicArea::parse(&public_area(&strip(x), &strip(y))).unwrap();
        assert_eq!(stripped.public_key_der(), der);
        // The name is that of the bytes, so the two differ.
        let is_short = x[0] == 0 || y[0] == 0;
        assert_eq!(full.name() != stripped.name(), is_short);
        if is_short && short == 0 {
            folder.write("key.der", der);
            tool::openssl(folder.path(), "pkey -pubin -inform DER -in key.der -noout");
        }
        short += usize::from(is_short);
    }
    assert!(short > 0, "about one key in 128 has a zero byte in front");
}
