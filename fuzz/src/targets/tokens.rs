//! Tokens of service accounts and of issuers, the keys of both, and the configuration of authentication. No mutated token is
//! accepted unless its contents are those that were signed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use portcullis_pki::jwks::KeySet;
use portcullis_pki::jwt::{PublicKey, UnverifiedToken};
use portcullis_server::authn::anonymous::Anonymous;
use portcullis_server::authn::configuration::Configuration;
use portcullis_server::authn::jwt::configuration::IssuerSettings;
use portcullis_testkit::recorded;

pub(super) const TOKEN: &[&str] =
    &["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9", ".", "..", "AA", "=", "-_", "+/", "e30"];

pub(super) const KEY_SET: &[&str] = &[
    r#"{"keys":["#,
    r#"{"kty":"RSA","n":"","e":"AQAB"}"#,
    r#"{"kty":"EC","crv":"P-256","x":"","y":""}"#,
    r#""kid":"#,
    "null",
    "]}",
];

pub(super) const CONFIGURATION: &[&str] = &[
    "apiVersion: apiserver.config.k8s.io/v1\n",
    "kind: AuthenticationConfiguration\n",
    "anonymous:\n",
    "  enabled: true\n",
    "  conditions:\n",
    "  - path: /livez\n",
    "jwt: []\n",
    "jwt:\n- issuer:\n    url: https://a\n    audiences: [a]\n",
    "  claimMappings:\n    username: {claim: sub, prefix: ''}\n",
    "{expression: claims.x}",
    "discoveryURL: https://b\n",
    "&a [*a]",
    "---\n",
];

static KEYS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| {
    let folder = recorded::repository().join("fuzz/corpus/token-key");
    let read = |name: &str| fs::read(folder.join(name)).expect("a key");
    [read("rsa.pem"), read("ec.pem")]
        .iter()
        .flat_map(|text| PublicKey::all_from_pem(text).expect("a key"))
        .collect()
});

/// The keys of an issuer.
static ISSUER_KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let file = recorded::repository().join("fuzz/corpus/issuer-keys/set.json");
    KeySet::read(&fs::read(file).expect("a key set")).expect("a key set")
});

/// Every token that was signed with one of the keys, without its signature.
static SIGNED: LazyLock<BTreeSet<Vec<u8>>> = LazyLock::new(|| signed("token"));

/// Every token that the issuer has signed, without its signature.
static SIGNED_BY_ISSUER: LazyLock<BTreeSet<Vec<u8>>> = LazyLock::new(|| signed("issuer-token"));

fn signed(corpus: &str) -> BTreeSet<Vec<u8>> {
    let folder = recorded::repository().join("fuzz/corpus").join(corpus);
    let files = fs::read_dir(folder).expect("a corpus");
    let tokens = files.map(|file| fs::read(file.expect("a file").path()).expect("a token"));
    tokens.map(|token| message(&token).to_owned()).collect()
}

fn message(token: &[u8]) -> &[u8] {
    let end = token.iter().rposition(|byte| *byte == b'.').unwrap_or_default();
    token.get(..end).unwrap_or_default()
}

pub(super) fn token(input: &[u8]) -> bool {
    let Some(unverified) = UnverifiedToken::read(input) else { return false };
    let issuer = unverified.issuer().to_owned();
    let Ok(verified) = unverified.verify(&KEYS) else { return false };
    assert!(SIGNED.contains(message(input)), "a token that nobody has signed");
    assert_eq!(verified.issuer(), issuer, "the same issuer before and after");
    true
}

pub(super) fn issuer_token(input: &[u8]) -> bool {
    let Some(unverified) = UnverifiedToken::read(input) else { return false };
    let Ok(verified) = unverified.verify_by(&ISSUER_KEYS) else { return false };
    assert!(SIGNED_BY_ISSUER.contains(message(input)), "a token that nobody has signed");
    assert_eq!(verified.issuer(), unverified.issuer(), "the same issuer before and after");
    true
}

pub(super) fn issuer_keys(input: &[u8]) -> bool {
    let Ok(keys) = KeySet::read(input) else { return false };
    assert!(keys.len() <= 64, "a bounded number of keys");
    !keys.is_empty()
}

pub(super) fn token_key(input: &[u8]) -> bool {
    let Ok(keys) = PublicKey::all_from_pem(input) else { return false };
    assert!(!keys.is_empty(), "no key is an error");
    for key in &keys {
        assert!(matches!(key.algorithm(), "RS256" | "ES256" | "ES384"), "{}", key.algorithm());
        assert_eq!(key.id().len(), 43, "a hash in base64url");
    }
    true
}

pub(super) fn authentication_configuration(input: &[u8]) -> bool {
    let Ok(read) = Configuration::read(input, &IssuerSettings::default()) else { return false };
    if let Some(Anonymous::At(paths)) = read.anonymous {
        assert!(!paths.is_empty() && paths.iter().all(|path| path.starts_with('/')), "{paths:?}");
    }
    assert!(read.issuers.iter().all(|issuer| issuer.url().starts_with("https://")), "only over TLS");
    true
}
