//! Certificates of endorsement keys: good, foreign, forged and expired ones (AT-119.2 to AT-119.4, AT-206, ST-15, ST-16,
//! ST-30).

use std::time::{Duration, SystemTime};

use portcullis_attestation::Reason;
use portcullis_attestation::tpm::{Policy, Trust, prove};
use portcullis_pki::tpm::endorsement::Roots;
use portcullis_pki::tpm::evidence::Bytes;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::tool;

use crate::fixture::{FIXED, Node, is_refused};

/// A certificate for the endorsement key of a chip by an authority of our own, with these lines of configuration.
fn certificate(node: &Node, name: &str, extensions: &str, more: &str) -> Bytes {
    let folder = node.bench.folder();
    if !folder.join("own-ca.pem").exists() {
        tool::openssl(
            folder,
            "req -x509 -newkey rsa:2048 -nodes -keyout own-ca.key -out own-ca.pem -subj /CN=own -days 30",
        );
        node.bench.run("tpm2_readpublic -c 0x81010001 -f pem -o ek.pem");
        // As the certificates of many manufacturers, it has no subject.
        tool::openssl(folder, "req -new -newkey rsa:2048 -nodes -keyout x.key -out x.csr -subj /");
    }
    node.bench.write("extensions.cnf", extensions.as_bytes());
    tool::openssl(
        folder,
        &format!(
            "x509 -req -in x.csr -force_pubkey ek.pem -CA own-ca.pem -CAkey own-ca.key -CAcreateserial -out {name} \
             -outform DER -extfile extensions.cnf{more}"
        ),
    );
    Bytes(node.bench.read(name))
}

const GOOD: &str =
    "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,keyEncipherment\nextendedKeyUsage=2.23.133.8.1\n";

#[test]
fn certificates_are_refused_for_what_is_wrong_with_them_at_119_2_st_30() {
    let node = Node::new(FIXED, "");
    let own_roots = || Roots::from_pem(&node.bench.read("own-ca.pem")).unwrap();
    let prove_with = |bytes: Bytes, now: SystemTime| {
        let policy = Policy { trust: Trust::Certificate(own_roots()), ..node.policy() };
        let mut evidence = node.evidence.clone();
        evidence.ek_cert = Some(bytes);
        prove(&evidence, &node.challenge(), &policy, &node.machine(), now)
    };
    let good = certificate(&node, "good.der", GOOD, " -days 2");
    let now = SystemTime::now() + Duration::from_secs(60);
    assert_eq!(prove_with(good.clone(), now).outcome.map(|_| ()), Ok(()));
    // The padding of the chip's storage.
    let padded = Bytes([&good.0[..], &[0xff; 100]].concat());
    assert!(prove_with(padded, now).outcome.is_ok());
    for (what, extensions) in [
        ("an authority", GOOD.replace("CA:FALSE", "CA:TRUE")),
        ("another usage", GOOD.replace("keyEncipherment", "digitalSignature")),
        ("another extended usage", GOOD.replace("2.23.133.8.1", "clientAuth")),
        ("an unknown critical extension", format!("{GOOD}1.2.3.4=critical,ASN1:NULL\n")),
        ("a critical name that is not of a chip", format!("{GOOD}subjectAltName=critical,DNS:a.example\n")),
    ] {
        let bytes = certificate(&node, "bad.der", &extensions, " -days 2");
        println!("{what}");
        is_refused(&prove_with(bytes, now), Reason::EkCertInvalid, "AT-119.2");
    }
    // No key usage and no extended key usage restrict nothing.
    let plain = certificate(&node, "plain.der", "basicConstraints=critical,CA:FALSE\n", " -days 2");
    assert!(prove_with(plain, now).outcome.is_ok());
    let days = |count: u64| Duration::from_secs(count * 24 * 3600);
    is_refused(&prove_with(good.clone(), now + days(3)), Reason::EkCertInvalid, "AT-119.2");
    is_refused(&prove_with(good.clone(), now - days(3)), Reason::EkCertInvalid, "AT-119.2");
    for bytes in [good.0[..100].to_vec(), Vec::new(), vec![0x30, 0], vec![0x30; 4096]] {
        is_refused(&prove_with(Bytes(bytes), now), Reason::EkCertInvalid, "AT-119.2");
    }
    let mut none = node.evidence.clone();
    none.ek_cert = None;
    is_refused(&node.prove(&none), Reason::EkCertInvalid, "AT-119.2");
    // The revoked one of two.
    let folder = node.bench.folder();
    node.bench.write("index.txt", b"");
    node.bench.write("crlnumber", b"01\n");
    node.bench.write(
        "ca.cnf",
        b"[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\ndefault_md=sha256\ndefault_crl_days=10\ncrlnumber=crlnumber\n\
          crl_extensions=list\n[list]\nauthorityKeyIdentifier=keyid:always\n",
    );
    tool::openssl(folder, "x509 -inform DER -in good.der -out good.pem");
    tool::openssl(folder, "ca -config ca.cnf -cert own-ca.pem -keyfile own-ca.key -revoke good.pem");
    tool::openssl(folder, "ca -config ca.cnf -cert own-ca.pem -keyfile own-ca.key -gencrl -out crl.pem");
    let with_list = |bytes: Bytes, at: SystemTime, refuses_stale| {
        let roots = own_roots().with_revocations(&node.bench.read("crl.pem"), refuses_stale).unwrap();
        let policy = Policy { trust: Trust::Certificate(roots), ..node.policy() };
        let mut evidence = node.evidence.clone();
        evidence.ek_cert = Some(bytes);
        prove(&evidence, &node.challenge(), &policy, &node.machine(), at)
    };
    is_refused(&with_list(good, now, false), Reason::EkChainUntrusted, "AT-119.3");
    let other = certificate(&node, "other.der", GOOD, " -days 25");
    assert!(with_list(other.clone(), now, true).outcome.is_ok());
    assert!(with_list(other.clone(), now + days(15), false).outcome.is_ok());
    is_refused(&with_list(other, now + days(15), true), Reason::EkChainUntrusted, "AT-119.3");
}

#[test]
fn chains_lead_to_a_trusted_root_or_are_refused_at_119_3_st_30() {
    let node = Node::new(FIXED, "");
    let read = |path| std::fs::read(path).unwrap();
    let root = read(node.bench.manufacturer.root());
    let issuer = read(node.bench.manufacturer.issuer());
    let with = |roots: Roots, chain: Vec<Bytes>| {
        let policy = Policy { trust: Trust::Certificate(roots), ..node.policy() };
        let mut evidence = node.evidence.clone();
        evidence.ek_chain = chain;
        node.prove_by(&evidence, &policy, &node.machine())
    };
    let roots = || Roots::from_pem(&root).unwrap();
    let sent = Bytes(portcullis_pki::pem::first(&issuer).unwrap().der);
    assert!(with(roots().with_intermediates(&issuer), Vec::new()).outcome.is_ok());
    assert!(with(roots(), vec![sent.clone()]).outcome.is_ok(), "the node sends the intermediate certificate");
    is_refused(&with(roots(), Vec::new()), Reason::EkChainUntrusted, "AT-119.3");
    let mut damaged = sent.clone();
    let middle = damaged.0.len() / 2;
    damaged.0[middle] ^= 1;
    is_refused(&with(roots(), vec![damaged]), Reason::EkChainUntrusted, "AT-119.3");
    // Another manufacturer, of the same names.
    let other = Node::new(FIXED, "");
    is_refused(&with(other.roots(), vec![sent]), Reason::EkChainUntrusted, "AT-119.3");
    // The certificate of another chip of the same manufacturer.
    let second = node.bench.manufacturer.make("node-b");
    second.tool(node.bench.folder(), "tpm2_nvread 0x01c00002 -C o -o second.der");
    node.refused(Reason::EkMismatch, "AT-119.4", |e| e.ek_cert = Some(Bytes(node.bench.read("second.der"))));
    // One that the node signed itself, over its real endorsement key.
    for extensions in [GOOD, "basicConstraints=critical,CA:FALSE\n"] {
        let own = certificate(&node, "self.der", extensions, " -days 2");
        node.refused(Reason::EkChainUntrusted, "AT-119.3", |e| e.ek_cert = Some(own));
    }
    // openssl agrees about who certified which chip.
    let folder = node.bench.folder();
    node.bench.write("first.der", &node.evidence.ek_cert.as_ref().unwrap().0);
    for name in ["first", "second"] {
        tool::openssl(folder, &format!("x509 -inform DER -in {name}.der -out {name}.pem"));
    }
    let accepts = |manufacturer: &Manufacturer, with_issuer: bool, name: &str| {
        let issuer = manufacturer.issuer();
        let issuer = if with_issuer { format!(" -untrusted {}", issuer.display()) } else { String::new() };
        let root = manufacturer.root();
        tool::try_openssl(folder, &format!("verify -CAfile {}{issuer} {name}.pem", root.display())).code == 0
    };
    assert!(
        accepts(&node.bench.manufacturer, true, "first") && accepts(&node.bench.manufacturer, true, "second")
    );
    assert!(!accepts(&node.bench.manufacturer, false, "first"));
    assert!(!accepts(&other.bench.manufacturer, true, "first"));
    // A flipped byte of the signature.
    node.refused(Reason::EkChainUntrusted, "AT-119.3", |e| {
        let cert = e.ek_cert.as_mut().unwrap();
        let length = 4 + usize::from(u16::from_be_bytes([cert.0[2], cert.0[3]]));
        cert.0[length - 1] ^= 1;
    });
}
