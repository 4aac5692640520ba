//! Tokens, checked with openssl: it verifies the signatures of this crate, and this crate verifies those of openssl.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "runs openssl on files, today")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_pki::KeyPair;
use portcullis_pki::jwt::{PublicKey, SignatureError, SigningKey, TokenKeyError, UnverifiedToken};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use proptest::prelude::*;
use serde_json::{Value, json};

struct Folder(Scratch);

impl Folder {
    fn new() -> Self {
        Self(Scratch::new())
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    fn openssl(&self, words: &str) -> String {
        tool::openssl(self.0.path(), words)
    }

    /// A key made by openssl: `NAME.key` and `NAME.pub`.
    fn key(&self, name: &str, kind: &str) -> KeyPair {
        self.openssl(&format!("genpkey {kind} -out {name}.key"));
        self.openssl(&format!("pkey -in {name}.key -pubout -out {name}.pub"));
        KeyPair::from_pem(&self.read(&format!("{name}.key"))).unwrap()
    }
}

const RSA: &str = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const P384: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-384";

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn verify(token: &str, keys: &[PublicKey]) -> Result<Value, SignatureError> {
    UnverifiedToken::read(token.as_bytes()).unwrap().verify(keys).map(|token| token.claims().unwrap())
}

/// A signature of two numbers side by side (RFC 7518, 3.4) as openssl has it: a sequence of two integers.
fn sequence(signature: &[u8]) -> Vec<u8> {
    let integer = |number: &[u8]| {
        let digits: Vec<u8> = number.iter().copied().skip_while(|byte| *byte == 0).collect();
        let sign = if digits[0] > 0x7f { vec![0] } else { vec![] };
        [vec![2, u8::try_from(sign.len() + digits.len()).unwrap()], sign, digits].concat()
    };
    let (r, s) = signature.split_at(signature.len() / 2);
    let inner = [integer(r), integer(s)].concat();
    [vec![0x30, u8::try_from(inner.len()).unwrap()], inner].concat()
}

#[test]
fn openssl_verifies_what_is_signed_here_an_72() {
    let folder = Folder::new();
    for (kind, algorithm, digest) in
        [(RSA, "RS256", "sha256"), (P256, "ES256", "sha256"), (P384, "ES384", "sha384")]
    {
        let signing = SigningKey::new(&folder.key("k", kind)).unwrap();
        let claims = json!({"iss": "here", "n": 7});
        let token = signing.sign(&claims).unwrap();
        assert_eq!(verify(&token, std::slice::from_ref(signing.public())).unwrap(), claims);

        let (message, signature) = token.rsplit_once('.').unwrap();
        let head = URL_SAFE_NO_PAD.decode(message.split_once('.').unwrap().0).unwrap();
        let head: Value = serde_json::from_slice(&head).unwrap();
        folder.openssl("pkey -pubin -in k.pub -outform DER -out k.der");
        folder.openssl("dgst -sha256 -binary -out k.id k.der");
        assert_eq!(head, json!({"alg": algorithm, "kid": URL_SAFE_NO_PAD.encode(folder.read("k.id"))}));

        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let signature = if kind == RSA { signature } else { sequence(&signature) };
        fs::write(folder.0.path().join("signature"), signature).unwrap();
        fs::write(folder.0.path().join("message"), message).unwrap();
        let verdict = folder.openssl(&format!("dgst -{digest} -verify k.pub -signature signature message"));
        assert_eq!(verdict.trim(), "Verified OK", "{algorithm}");
    }
}

#[test]
fn what_openssl_signs_is_taken_from_the_key_alone_and_by_its_algorithm_alone_an_71() {
    let folder = Folder::new();
    folder.key("a", RSA);
    folder.key("b", RSA);
    let keys = |name: &str| PublicKey::all_from_pem(&folder.read(name)).unwrap();
    let (a, b) = (keys("a.pub"), keys("b.pub"));
    let both = [b.clone(), a.clone()].concat();
    let sign = |head: Value, how: &str| {
        let message = format!("{}.{}", part(&head), part(&json!({"iss": "there"})));
        fs::write(folder.0.path().join("m"), &message).unwrap();
        folder.openssl(&format!("dgst {how} -binary -out s m"));
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(folder.read("s")))
    };
    let good = sign(json!({"alg": "RS256"}), "-sha256 -sign a.key");
    assert!(verify(&good, &a).is_ok() && verify(&good, &both).is_ok());
    assert_eq!(verify(&good, &b), Err(SignatureError::Signature));
    assert_eq!(verify(&good, &[]), Err(SignatureError::NoKey));
    // With an id only that key is tried.
    let named = |id: &str| sign(json!({"alg": "RS256", "kid": id}), "-sha256 -sign a.key");
    assert!(verify(&named(a[0].id()), &both).is_ok());
    assert_eq!(verify(&named(b[0].id()), &both), Err(SignatureError::Signature));
    assert_eq!(verify(&named("nobody"), &both), Err(SignatureError::NoKey));
    // The token does not choose how it is verified.
    let secret: String = folder.read("a.pub").iter().map(|byte| format!("{byte:02x}")).collect();
    for (head, how) in [
        (json!({"alg": "HS256"}), format!("-sha256 -mac HMAC -macopt hexkey:{secret}")),
        (json!({"alg": "RS384"}), "-sha384 -sign a.key".to_owned()),
        (json!({"alg": "RS512"}), "-sha512 -sign a.key".to_owned()),
        (json!({"alg": "RS256"}), "-sha512 -sign a.key".to_owned()),
        (json!({"alg": "PS256"}), "-sha256 -sigopt rsa_padding_mode:pss -sign a.key".to_owned()),
        (json!({"alg": "ES256"}), "-sha256 -sign a.key".to_owned()),
        (json!({"alg": "none"}), "-sha256 -sign a.key".to_owned()),
        (json!({}), "-sha256 -sign a.key".to_owned()),
        (json!({"alg": "RS256", "crit": ["exp"], "exp": 1}), "-sha256 -sign a.key".to_owned()),
    ] {
        assert_eq!(verify(&sign(head.clone(), &how), &a), Err(SignatureError::Signature), "{head}");
    }
    let (message, _) = good.rsplit_once('.').unwrap();
    assert_eq!(verify(&format!("{message}."), &a), Err(SignatureError::Signature));
}

#[test]
fn keys_are_read_in_every_form_that_openssl_writes_an_71() {
    let folder = Folder::new();
    folder.key("rsa", RSA);
    folder.openssl("rsa -in rsa.key -traditional -out rsa.pkcs1");
    folder.key("ec", P256);
    folder.openssl("ec -in ec.key -out ec.sec1");
    folder.openssl("req -new -x509 -key ec.key -subj /CN=x -days 2 -out ec.crt");
    let ids = |names: &[&str]| -> Vec<String> {
        let text: Vec<u8> = names.iter().flat_map(|name| folder.read(name)).collect();
        PublicKey::all_from_pem(&text).unwrap().iter().map(|key| key.id().to_owned()).collect()
    };
    let rsa = ids(&["rsa.key", "rsa.pub", "rsa.pkcs1"]);
    assert!(rsa.len() == 3 && rsa.iter().all(|id| *id == rsa[0]));
    let ec = ids(&["ec.key", "ec.pub", "ec.sec1", "ec.crt"]);
    assert!(ec.len() == 4 && ec.iter().all(|id| *id == ec[0]));
    // Each private form signs.
    for name in ["rsa.key", "rsa.pkcs1", "ec.key", "ec.sec1"] {
        let signing = SigningKey::new(&KeyPair::from_pem(&folder.read(name)).unwrap()).unwrap();
        let token = signing.sign(&json!({"iss": "x"})).unwrap();
        assert!(verify(&token, std::slice::from_ref(signing.public())).is_ok(), "{name}");
    }
    let jwk = |name: &str| {
        serde_json::to_value(PublicKey::all_from_pem(&folder.read(name)).unwrap()[0].jwk()).unwrap()
    };
    let modulus = folder.openssl("rsa -in rsa.key -noout -modulus");
    let n = URL_SAFE_NO_PAD.decode(jwk("rsa.pub")["n"].as_str().unwrap()).unwrap();
    let n: String = n.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(modulus.trim(), format!("Modulus={n}"));
    assert_eq!(jwk("rsa.pub")["e"], "AQAB");
    let key = jwk("ec.pub");
    let text = folder.openssl("pkey -pubin -in ec.pub -noout -text").replace([' ', '\n', ':'], "");
    for coordinate in ["x", "y"] {
        let bytes = URL_SAFE_NO_PAD.decode(key[coordinate].as_str().unwrap()).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(bytes.len() == 32 && text.contains(&hex), "{coordinate}");
    }
    for (kind, name) in [
        ("-algorithm RSA -pkeyopt rsa_keygen_bits:1024", "weak"),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-521", "p521"),
        ("-algorithm ED25519", "ed"),
    ] {
        folder.openssl(&format!("genpkey {kind} -out {name}.key"));
        folder.openssl(&format!("pkey -in {name}.key -pubout -out {name}.pub"));
        let refused = PublicKey::all_from_pem(&folder.read(&format!("{name}.pub")));
        assert!(matches!(refused, Err(TokenKeyError::Unsupported(0))), "{name}");
        assert!(PublicKey::all_from_pem(&folder.read(&format!("{name}.key"))).is_err(), "{name}");
    }
    assert!(matches!(PublicKey::all_from_pem(b"no key"), Err(TokenKeyError::Empty)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_token_that_is_changed_anywhere_is_not_taken(at in 0usize..10_000, byte in any::<u8>()) {
        let signing = SigningKey::new(&KeyPair::generate().unwrap()).unwrap();
        let token = signing.sign(&json!({"iss": "x", "sub": "y"})).unwrap();
        let mut changed = token.clone().into_bytes();
        let at = at % changed.len();
        changed[at] = byte;
        let keys = std::slice::from_ref(signing.public());
        let is_taken = UnverifiedToken::read(&changed).is_some_and(|token| token.verify(keys).is_ok());
        prop_assert!(!is_taken || changed == token.as_bytes());
    }
}
