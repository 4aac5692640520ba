//! openssl accepts all that this crate writes, and this crate reads what openssl writes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "runs openssl on files, today")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

use std::fs;
use std::time::{Duration, SystemTime};

use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::cert::VerifyError;
use portcullis_pki::csr::{self, CsrError, Hash, KeyKind, SignatureKind, UncheckedCsr};
use portcullis_pki::{
    CaBundle, CertificateAuthority, CertificateDer, Csr, KeyPair, UnverifiedCertificate, pem,
};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Folder(Scratch);

impl Folder {
    fn new() -> Self {
        Self(Scratch::new())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.0.write(name, text);
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    /// Runs openssl here. The words are separated by single spaces.
    fn try_openssl(&self, words: &str) -> Result<String, String> {
        let finished = tool::try_openssl(self.0.path(), words);
        if finished.code == 0 { Ok(finished.stdout) } else { Err(finished.stderr + &finished.stdout) }
    }

    fn openssl(&self, words: &str) -> String {
        tool::openssl(self.0.path(), words)
    }

    /// An authority made by openssl: `NAME.crt` and `NAME.key`.
    fn authority(&self, name: &str, extensions: &str) {
        self.write(&format!("{name}.cnf"), format!("[req]\ndistinguished_name=dn\n[dn]\n[ext]\nbasicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign\n{extensions}\n"));
        self.openssl(&format!("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.crt -subj /CN={name} -days 30 -config {name}.cnf -extensions ext"));
    }

    /// A certificate signed by openssl.
    fn leaf(&self, issuer: &str, name: &str, subject: &str, extensions: &str) -> Vec<u8> {
        self.write(
            "oids.cnf",
            "oid_section=oids\n[oids]\nuserid2=1.3.6.1.4.1.57683.2\n[req]\ndistinguished_name=dn\n[dn]\n",
        );
        self.openssl(&format!("req -config oids.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr -subj {subject}"));
        self.write("ext", format!("subjectKeyIdentifier=hash\n{extensions}\n"));
        self.openssl(&format!("x509 -req -in {name}.csr -CA {issuer}.crt -CAkey {issuer}.key -CAcreateserial -days 10 -extfile ext -out {name}.crt"));
        self.read(&format!("{name}.crt"))
    }
}

fn shown(pems: &[&[u8]]) -> UnverifiedCertificate {
    let chain: Vec<CertificateDer<'static>> =
        pems.iter().map(|p| CertificateDer::from(pem::first(p).unwrap().der)).collect();
    UnverifiedCertificate::from_chain(&chain).unwrap()
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn issued_certificates_satisfy_openssl() {
    let folder = Folder::new();
    let ca = CertificateAuthority::generate("portcullis-ca", now(), 3650 * DAY).unwrap();
    let key = KeyPair::generate().unwrap();
    let template = Template {
        common_name: "kubernetes-admin".into(),
        organizations: vec!["system:masters".into(), "b".into(), "a".into()],
        dns_names: vec!["localhost".into(), "kubernetes.default".into()],
        ip_addresses: vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
        usage: Usage::Client,
        lifetime: 365 * DAY,
    };
    let client = ca.issue(&template, &key, now()).unwrap();
    let server = ca.issue(&Template { usage: Usage::Server, ..template }, &key, now()).unwrap();
    folder.write("ca.crt", ca.certificate_pem());
    folder.write("client.crt", pem::encode("CERTIFICATE", &client));
    folder.write("server.crt", pem::encode("CERTIFICATE", &server));
    folder.write("key", key.to_pem());
    folder.write("ca.key", ca.key().to_pem());

    folder.openssl("verify -x509_strict -CAfile ca.crt -purpose sslclient client.crt");
    folder.openssl("verify -x509_strict -CAfile ca.crt -purpose sslserver server.crt");
    assert!(folder.try_openssl("verify -CAfile ca.crt -purpose sslserver client.crt").is_err());
    assert!(folder.try_openssl("verify -CAfile ca.crt -purpose sslclient server.crt").is_err());
    folder.openssl("verify -CAfile ca.crt -verify_hostname kubernetes.default server.crt");
    folder.openssl("verify -CAfile ca.crt -verify_ip ::1 server.crt");
    let subject = folder.openssl("x509 -in client.crt -noout -subject -nameopt sep_comma_plus");
    assert_eq!(subject.trim(), "subject=O=system:masters,O=b,O=a,CN=kubernetes-admin");
    assert_eq!(
        folder.openssl("pkey -in key -pubout"),
        folder.openssl("x509 -in client.crt -noout -pubkey"),
        "the key that is written is the key of the certificate"
    );

    let identity = shown(&[&folder.read("client.crt")])
        .verify(&CaBundle::from_pem(&folder.read("ca.crt")).unwrap(), now())
        .unwrap();
    let identity = identity.identity().unwrap();
    assert_eq!(identity.common_name(), "kubernetes-admin");
    assert_eq!(identity.organizations(), ["system:masters", "b", "a"]);
    let hash = folder.openssl("x509 -in client.crt -noout -fingerprint -sha256");
    let hash = hash.trim().rsplit('=').next().unwrap().replace(':', "").to_lowercase();
    assert_eq!(identity.credential_id(), format!("X509SHA256={hash}"), "AN-45");
}

#[test]
fn an_authority_is_read_back_and_a_foreign_key_is_refused() {
    let folder = Folder::new();
    folder.authority("root", "subjectKeyIdentifier=hash");
    folder.authority("other", "");
    let ca = CertificateAuthority::from_pem(&folder.read("root.crt"), &folder.read("root.key")).unwrap();
    assert!(CertificateAuthority::from_pem(&folder.read("root.crt"), &folder.read("other.key")).is_err());
    assert!(CertificateAuthority::from_pem(b"nothing", &folder.read("other.key")).is_err());
    let template = Template {
        common_name: "x".into(),
        organizations: vec![],
        dns_names: vec![],
        ip_addresses: vec![],
        usage: Usage::Client,
        lifetime: DAY,
    };
    let leaf = ca.issue(&template, &KeyPair::generate().unwrap(), now()).unwrap();
    folder.write("leaf.crt", pem::encode("CERTIFICATE", &leaf));
    folder.openssl("verify -CAfile root.crt -purpose sslclient leaf.crt");
}

#[test]
fn keys_of_every_form_and_kind_are_read_and_sign() {
    let folder = Folder::new();
    for (kind, make) in [
        ("sec1", "ecparam -name prime256v1 -genkey -noout -out key"),
        ("p384", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out key"),
        ("p521", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -out key"),
        ("rsa", "genrsa -out key 2048"),
        ("pkcs1", "genrsa -traditional -out key 2048"),
    ] {
        folder.openssl(make);
        folder.openssl("req -x509 -new -key key -out ca.crt -subj /CN=ca -days 5");
        let ca = CertificateAuthority::from_pem(&folder.read("ca.crt"), &folder.read("key"))
            .unwrap_or_else(|e| panic!("{kind}: {e}"));
        let template = Template {
            common_name: "x".into(),
            organizations: vec![],
            dns_names: vec!["x".into()],
            ip_addresses: vec![],
            usage: Usage::Server,
            lifetime: DAY,
        };
        let leaf = ca.issue(&template, &KeyPair::generate().unwrap(), now()).unwrap();
        folder.write("leaf.crt", pem::encode("CERTIFICATE", &leaf));
        folder.openssl("verify -CAfile ca.crt -purpose sslserver leaf.crt");
        folder.write("again", KeyPair::from_pem(&folder.read("key")).unwrap().to_pem());
        assert_eq!(
            folder.openssl("pkey -in again -pubout"),
            folder.openssl("pkey -in key -pubout"),
            "{kind}: the key is written as it was read"
        );
    }
    folder.openssl("genrsa -out small 1024");
    assert!(KeyPair::from_pem(&folder.read("small")).is_err());
    folder.openssl("ecparam -name secp256k1 -genkey -noout -out odd");
    assert!(KeyPair::from_pem(&folder.read("odd")).is_err());
    assert!(KeyPair::from_pem(b"").is_err());
}

#[test]
fn extended_key_usage_decides_for_every_element_an_41() {
    let folder = Folder::new();
    folder.authority("root", "");
    folder.authority("servers", "extendedKeyUsage=serverAuth");
    folder.authority("clients", "extendedKeyUsage=clientAuth,serverAuth");
    let ask = |issuer: &str, extensions: &str| {
        let leaf = folder.leaf(issuer, "leaf", "/CN=jane", extensions);
        let bundle = CaBundle::from_pem(&folder.read(&format!("{issuer}.crt"))).unwrap();
        shown(&[&leaf]).verify(&bundle, now()).is_ok()
    };
    assert!(ask("root", ""), "no usage means every usage");
    assert!(ask("root", "extendedKeyUsage=clientAuth"));
    assert!(ask("root", "extendedKeyUsage=serverAuth,clientAuth"));
    assert!(ask("root", "extendedKeyUsage=anyExtendedKeyUsage"));
    assert!(!ask("root", "extendedKeyUsage=serverAuth"));
    assert!(!ask("root", "extendedKeyUsage=codeSigning,emailProtection"));
    assert!(ask("clients", "extendedKeyUsage=clientAuth"));
    assert!(!ask("servers", "extendedKeyUsage=clientAuth"), "the authority itself is restricted");
    assert!(!ask("servers", ""));
}

#[test]
fn intermediates_come_from_the_client_and_are_checked_too() {
    let folder = Folder::new();
    folder.authority("root", "");
    folder.leaf("root", "middle", "/CN=middle", "basicConstraints=critical,CA:true\nkeyUsage=keyCertSign");
    folder.leaf(
        "root",
        "wrong",
        "/CN=middle",
        "basicConstraints=critical,CA:true\nextendedKeyUsage=serverAuth",
    );
    let bundle = CaBundle::from_pem(&folder.read("root.crt")).unwrap();
    let leaf = folder.leaf("middle", "leaf", "/O=g/CN=jane", "extendedKeyUsage=clientAuth");
    let middle = folder.read("middle.crt");
    assert!(shown(&[&leaf, &middle]).verify(&bundle, now()).is_ok());
    assert!(matches!(
        shown(&[&leaf]).verify(&bundle, now()),
        Err(VerifyError::Chain(webpki::Error::UnknownIssuer))
    ));
    let under_wrong = folder.leaf("wrong", "leaf", "/CN=jane", "extendedKeyUsage=clientAuth");
    assert!(shown(&[&under_wrong, &folder.read("wrong.crt")]).verify(&bundle, now()).is_err());
    // A leaf that is no authority cannot vouch for another.
    let under_leaf = folder.leaf("leaf", "deep", "/CN=root", "");
    assert!(shown(&[&under_leaf, &folder.read("leaf.crt"), &middle]).verify(&bundle, now()).is_err());
}

#[test]
fn time_is_checked_for_the_leaf_and_for_the_authority() {
    let folder = Folder::new();
    folder.authority("root", "");
    let leaf = folder.leaf("root", "leaf", "/CN=jane", "");
    let bundle = CaBundle::from_pem(&folder.read("root.crt")).unwrap();
    let jane = shown(&[&leaf]);
    let verified = jane.verify(&bundle, now()).unwrap();
    assert!(jane.verify(&bundle, now() - 2 * DAY).is_err(), "not yet valid");
    assert!(jane.verify(&bundle, now() + 11 * DAY).is_err(), "expired");
    assert!(verified.is_valid_at(now() + 9 * DAY));
    assert!(!verified.is_valid_at(now() + 11 * DAY));
    assert!(!verified.is_valid_at(now() - DAY));

    // The authority expires before the leaf.
    let brief = CertificateAuthority::generate("brief", now(), DAY).unwrap();
    folder.write("brief.crt", brief.certificate_pem());
    folder.write("brief.key", brief.key().to_pem());
    let leaf = folder.leaf("brief", "leaf2", "/CN=jane", "");
    let bundle = CaBundle::from_pem(&folder.read("brief.crt")).unwrap();
    let verified = shown(&[&leaf]).verify(&bundle, now()).unwrap();
    assert!(!verified.is_valid_at(now() + 2 * DAY));
    assert!(shown(&[&leaf]).verify(&bundle, now() + 2 * DAY).is_err());
}

#[test]
fn a_certificate_of_an_unknown_authority_with_the_same_name_is_refused() {
    let folder = Folder::new();
    folder.authority("root", "");
    let leaf = folder.leaf("root", "leaf", "/CN=jane", "");
    folder.authority("root", "");
    let bundle = CaBundle::from_pem(&folder.read("root.crt")).unwrap();
    assert!(shown(&[&leaf]).verify(&bundle, now()).is_err());
}

#[test]
fn the_subject_becomes_the_identity_an_42_to_an_44() {
    let folder = Folder::new();
    folder.authority("root", "");
    let bundle = CaBundle::from_pem(&folder.read("root.crt")).unwrap();
    let ask = |subject: &str| {
        let leaf = folder.leaf("root", "leaf", subject, "");
        shown(&[&leaf]).verify(&bundle, now()).map(|v| {
            v.identity()
                .map(|i| (i.common_name().to_owned(), i.organizations().join(","), i.user_id().to_owned()))
        })
    };
    let is = |n: &str, o: &str, u: &str| Some((n.to_owned(), o.to_owned(), u.to_owned()));
    assert_eq!(
        ask("/CN=first/O=b/CN=last/O=a").unwrap(),
        is("last", "b,a", ""),
        "the last common name counts"
    );
    assert_eq!(ask("/O=only").unwrap(), None, "AN-43: no common name is nobody, not an error");
    assert_eq!(ask("/CN=j/userid2=u1").unwrap(), is("j", "", "u1"));
    assert!(ask("/CN=j/userid2=u1/userid2=u2").is_err(), "AN-44: at most one");
}

#[test]
fn requests_of_every_kind_of_key_are_proved_cs_53() {
    let folder = Folder::new();
    for (kind, key) in [
        ("p256", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key"),
        ("p384", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out key"),
        ("p521", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -out key"),
        ("rsa2048", "genrsa -out key 2048"),
        ("ed25519", "genpkey -algorithm ed25519 -out key"),
    ] {
        folder.openssl(key);
        folder.openssl("req -new -key key -out csr -subj /O=system:nodes/CN=first/CN=system:node:n1 -addext subjectAltName=DNS:n1,IP:10.0.0.1,IP:fd00::1,email:a@b,URI:spiffe://x,otherName:1.2.3;UTF8:z");
        let text = folder.read("csr");
        let csr = Csr::from_pem(&text).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(csr.subject().common_name().unwrap(), "system:node:n1");
        assert_eq!(csr.subject().organizations().unwrap(), ["system:nodes"]);
        assert_eq!(csr.names().dns, ["n1"]);
        assert_eq!(
            csr.names().ip.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.1", "fd00::1"]
        );
        assert_eq!(
            (csr.names().email.join(","), csr.names().uri.join(",")),
            ("a@b".into(), "spiffe://x".into())
        );
        assert_eq!(csr::common_name(&text).unwrap(), "system:node:n1");
        assert_eq!(
            pem::encode("PUBLIC KEY", csr.public_key_der()),
            folder.openssl("req -in csr -noout -pubkey"),
            "{kind}"
        );

        // Another key's signature, and other bytes under the same signature.
        let mut der = pem::first(&text).unwrap().der;
        let at = der.windows(2).position(|w| w == b"n1").unwrap();
        der[at + 1] = b'2';
        let forged = pem::encode("CERTIFICATE REQUEST", &der);
        assert_eq!(Csr::from_pem(forged.as_bytes()), Err(CsrError::Signature), "{kind}");
        assert_eq!(
            csr::common_name(forged.as_bytes()).unwrap(),
            "system:node:n2",
            "NR-99: not verified there"
        );
    }
}

#[test]
fn the_kinds_of_keys_and_signatures_are_those_of_kubernetes_cs_18() {
    let folder = Folder::new();
    let curve = |name: &str| format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:{name} -out key");
    let rsa = |bits: u64| (KeyKind::Rsa { bits }, format!("genrsa -out key {bits}"));
    let keys = [
        (KeyKind::P256, curve("P-256")),
        (KeyKind::P384, curve("P-384")),
        (KeyKind::P521, curve("P-521")),
        rsa(1024),
        rsa(1031),
        rsa(2048),
    ];
    let hashes =
        [("sha1", Hash::Sha1), ("sha256", Hash::Sha256), ("sha384", Hash::Sha384), ("sha512", Hash::Sha512)];
    for (kind, make) in &keys {
        folder.openssl(make);
        let is_rsa = matches!(kind, KeyKind::Rsa { .. });
        let mut signatures = Vec::new();
        for (name, hash) in hashes {
            let plain = if is_rsa { SignatureKind::RsaPkcs1(hash) } else { SignatureKind::Ecdsa(hash) };
            signatures.push((plain, format!("-{name}")));
            // With SHA-512 and its salt, 1024 bits are not enough for PSS.
            if is_rsa && name != "sha1" && (*kind == KeyKind::Rsa { bits: 2048 } || name != "sha512") {
                let words = format!("-{name} -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest");
                signatures.push((SignatureKind::RsaPss(hash), words));
            }
        }
        for (signature, words) in signatures {
            folder.openssl(&format!("req -new -key key -out csr -subj /CN=x {words}"));
            let text = folder.read("csr");
            let is_short = matches!(kind, KeyKind::Rsa { bits } if *bits < 2048);
            if is_short
                && matches!(signature, SignatureKind::RsaPkcs1(Hash::Sha384) | SignatureKind::RsaPss(_))
            {
                assert_eq!(Csr::from_pem(&text), Err(CsrError::UnsupportedAlgorithm), "{kind:?} {words}");
                continue;
            }
            let csr = Csr::from_pem(&text).unwrap_or_else(|e| panic!("{kind:?} {words}: {e}"));
            assert_eq!((csr.key(), csr.signature()), (*kind, signature));
            // Every bit of the signature counts.
            let mut der = pem::first(&text).unwrap().der;
            let last = der.len() - 5;
            der[last] ^= 4;
            let forged = pem::encode("CERTIFICATE REQUEST", &der);
            assert_eq!(Csr::from_pem(forged.as_bytes()), Err(CsrError::Signature), "{kind:?} {words}");
        }
    }
    for unsupported in
        ["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp224r1 -out key", "genrsa -out key 1023"]
    {
        folder.openssl(unsupported);
        folder.openssl("req -new -key key -out csr -subj /CN=x");
        let text = folder.read("csr");
        assert_eq!(Csr::from_pem(&text), Err(CsrError::UnsupportedAlgorithm), "{unsupported}");
        assert_eq!(csr::common_name(&text).as_deref(), Ok("x"), "NR-99: names are read all the same");
    }
    for refused in [
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1 -out key",
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:brainpoolP256r1 -out key",
        "genpkey -algorithm ed448 -out key",
        "genrsa -out key 1023",
        "genrsa -out key 768",
    ] {
        folder.openssl(refused);
        folder.openssl("req -new -key key -out csr -subj /CN=x");
        assert!(Csr::from_pem(&folder.read("csr")).is_err(), "{refused}");
    }
    for refused in ["-md5", "-sha224", "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:20"] {
        folder.openssl("genrsa -out key 2048");
        folder.openssl(&format!("req -new -key key -out csr -subj /CN=x {refused}"));
        assert!(Csr::from_pem(&folder.read("csr")).is_err(), "{refused}");
    }
}

#[test]
fn what_a_request_asks_for_beside_names_is_told() {
    let folder = Folder::new();
    folder.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key");
    let ask = |extension: &str| {
        folder.openssl(&format!("req -new -key key -out csr -subj /CN=x -addext {extension}"));
        Csr::from_pem(&folder.read("csr")).unwrap()
    };
    let authority = ask("basicConstraints=critical,CA:TRUE");
    let [extension] = authority.extensions() else { panic!("one extension") };
    assert_eq!((extension.oid.as_str(), extension.is_critical), ("2.5.29.19", true));
    assert!(extension.asks_for_authority());
    assert!(!ask("basicConstraints=CA:FALSE").extensions()[0].asks_for_authority());
    assert!(!ask("keyUsage=keyCertSign").extensions()[0].asks_for_authority());
    let text = folder.read("csr");
    assert!(!Csr::from_pem(&[text.as_slice(), b" \n\t"].concat()).unwrap().has_trailing_data());
    assert!(Csr::from_pem(&[text.as_slice(), text.as_slice()].concat()).unwrap().has_trailing_data());
    assert!(Csr::from_pem(&[text.as_slice(), b"x"].concat()).unwrap().has_trailing_data());
}

#[test]
fn what_is_no_request_is_refused_nr_99() {
    let folder = Folder::new();
    folder.authority("root", "");
    folder.openssl("req -new -key root.key -out csr -subj /CN=x");
    let csr = folder.read("csr");
    let text = String::from_utf8(csr.clone()).unwrap();
    assert_eq!(csr::common_name(b""), Err(CsrError::NoPem));
    assert_eq!(csr::common_name(&folder.read("root.crt")), Err(CsrError::Label("CERTIFICATE".into())));
    let after = [folder.read("root.crt"), csr.clone()].concat();
    assert!(csr::common_name(&after).is_err(), "only the first block counts");
    assert_eq!(csr::common_name(format!("junk\n{text}more").as_bytes()).as_deref(), Ok("x"));
    let new = text.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST");
    assert!(csr::common_name(new.as_bytes()).is_err());
    let cert = text.replace("CERTIFICATE REQUEST", "CERTIFICATE");
    assert!(csr::common_name(cert.as_bytes()).is_err());
    assert!(
        csr::common_name(pem::encode("CERTIFICATE REQUEST", &folder.read("root.crt")).as_bytes()).is_err()
    );
    let mut trailing = pem::first(&csr).unwrap().der;
    trailing.push(0);
    assert!(csr::common_name(pem::encode("CERTIFICATE REQUEST", &trailing).as_bytes()).is_err());
    let large = format!("{}{text}", "x".repeat(csr::MAX_PEM_BYTES));
    assert_eq!(csr::common_name(large.as_bytes()), Err(CsrError::TooLarge));
}

#[test]
fn no_byte_of_a_request_or_certificate_makes_reading_fail_other_than_by_an_error() {
    let folder = Folder::new();
    folder.authority("root", "");
    folder
        .openssl("req -new -key root.key -out csr -subj /O=g/CN=x -addext subjectAltName=DNS:n1,IP:10.0.0.1");
    let request = pem::first(&folder.read("csr")).unwrap().der;
    let leaf = pem::first(&folder.leaf("root", "leaf", "/CN=jane", "")).unwrap().der;
    let bundle = CaBundle::from_pem(&folder.read("root.crt")).unwrap();
    for i in 0..request.len() {
        for flip in [0x01, 0x20, 0x80, 0xff] {
            let mut bytes = request.clone();
            bytes[i] ^= flip;
            let text = pem::encode("CERTIFICATE REQUEST", &bytes);
            assert!(UncheckedCsr::parse(text.as_bytes()).and_then(UncheckedCsr::check).is_err(), "byte {i}");
            let text = pem::encode("CERTIFICATE REQUEST", &request[..i]);
            assert!(UncheckedCsr::parse(text.as_bytes()).is_err(), "cut at {i}");
        }
    }
    for i in 0..leaf.len() {
        let mut bytes = leaf.clone();
        bytes[i] ^= 0x01;
        let forged = UnverifiedCertificate::from_chain(&[CertificateDer::from(bytes)]).unwrap();
        assert!(forged.verify(&bundle, now()).is_err(), "byte {i}");
    }
}

#[test]
fn a_bundle_without_certificates_is_refused() {
    assert!(CaBundle::from_pem(b"").is_err());
    assert!(CaBundle::from_pem(pem::encode("CERTIFICATE", b"x").as_bytes()).is_err());
}
