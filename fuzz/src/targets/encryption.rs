//! Encryption at rest: its configuration, values as they lie on a disk, and the envelopes of KMS plug-ins.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use portcullis_server::encryption::read;
use portcullis_store::encryption::kms::Envelope;
use portcullis_store::encryption::{Encryption, PREFIX, Resources};
use portcullis_testkit::recorded;

pub(super) const CONFIGURATION: &[&str] = &[
    "apiVersion: apiserver.config.k8s.io/v1\n",
    "kind: EncryptionConfiguration\n",
    "resources:\n",
    "- resources: [secrets]\n",
    "  providers:\n",
    "  - aescbc: {keys: [{name: a, secret: AAAA}]}\n",
    "  - aesgcm: {keys: []}\n",
    "  - secretbox:\n",
    "  - identity: {}\n",
    "  - kms: {apiVersion: v2, name: k, endpoint: 'unix:///run/kms.sock', timeout: 3s}\n",
    "'*.'",
    "'*.*'",
    "'*.apps'",
    "secrets",
    "events.events.k8s.io",
    "&a [*a]",
];

pub(super) const VALUE: &[&str] = &[
    "k8s:enc:",
    "aesgcm:v1:",
    "secretbox:v1:",
    "aescbc:v1:",
    "gcm1:",
    "gcm0:",
    "box1:",
    "identity",
    "k8s\0",
];

pub(super) const ENVELOPE: &[&str] =
    &["\n\u{1}x", "\u{12}\u{1}k", "\u{1a}\u{1}s", "\"\u{5}\n\u{3}a.b", "(\u{1}", "(\u{0}"];

pub(super) fn envelope(input: &[u8]) -> bool {
    let Ok(envelope) = Envelope::read(input) else { return false };
    let source = &envelope.source;
    assert!(!envelope.data.is_empty() && envelope.data.len() <= input.len());
    assert!((1..=1_024).contains(&source.key_id.len()) && (1..=1_024).contains(&source.encrypted.len()));
    let sizes = source.annotations.iter().map(|(name, value)| name.len().saturating_add(value.len()));
    assert!(sizes.sum::<usize>() <= 32 << 10, "annotations are bounded");
    assert_eq!(Envelope::read(&envelope.clone().write(b"")), Ok(envelope), "what is written is read");
    true
}

pub(super) fn configuration(input: &[u8]) -> bool {
    let Ok(encryption) = read(input) else { return false };
    let mut count = 0_usize;
    for resources in encryption.resources() {
        count = count.saturating_add(1);
        let (group, resource) = match resources {
            Resources::One { group, resource } => (group.as_str(), resource.as_str()),
            Resources::Group(group) => (group.as_str(), "any"),
            Resources::All => ("any", "any"),
        };
        let providers = encryption.providers(group, resource);
        if encryption.plugins().next().is_some() {
            // A plug-in that is not called reads and writes nothing.
            continue;
        }
        let sealed = providers.seal("/key", b"{}").expect("a valid configuration writes");
        assert_eq!(providers.encrypt(), sealed.starts_with(PREFIX), "encrypted or not");
        let opened = providers.open("/key", &sealed).expect("and reads what it wrote");
        assert_eq!((&*opened.value, opened.is_stale), (&b"{}"[..], false));
    }
    assert!((1..=1_000).contains(&count), "{count} rules");
    true
}

/// The recorded configuration without aescbc, which does not notice damage.
static RECORDED: LazyLock<Encryption> = LazyLock::new(|| {
    let mut configuration = recorded::lines("etcd-registry/encryption.jsonl")
        .first()
        .and_then(|line| line.pointer("/configurations/0"))
        .cloned()
        .expect("a configuration");
    let providers = configuration.pointer_mut("/resources/0/providers").expect("providers");
    let providers = providers.as_array_mut().expect("a list");
    providers.retain(|provider| provider.get("aescbc").is_none());
    read(configuration.to_string().as_bytes()).expect("a valid configuration")
});

/// The values of the corpus that were written with its keys.
static WRITTEN: LazyLock<BTreeSet<Vec<u8>>> = LazyLock::new(|| {
    let folder = recorded::repository().join("fuzz/corpus/encrypted-value");
    let files = fs::read_dir(folder).expect("a corpus");
    files.map(|file| fs::read(file.expect("a file").path()).expect("a value")).collect()
});

pub(super) fn value(input: &[u8]) -> bool {
    let secrets = RECORDED.providers("", "secrets");
    let Ok(opened) = secrets.open("/registry/secrets/default/s-aesgcm", input) else { return false };
    let is_encrypted = input.starts_with(PREFIX);
    assert!(!is_encrypted || WRITTEN.contains(input), "a value that nobody has encrypted");
    assert!(is_encrypted || *opened.value == *input, "what is not encrypted is as it is");
    true
}
