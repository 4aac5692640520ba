//! Envelope encryption with a KMS plug-in (ET-50): the format, the keys of the plug-in, and what happens when it fails.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use portcullis_store::conformance::put;
use portcullis_store::encryption::kms::{Envelope, EnvelopeError, Kms, Pace, Settings};
use portcullis_store::encryption::{Encryption, Key, LiveEncryption, Provider, Resources};
use portcullis_store::{Embedded, Entry, Expect, List, Options, Store, StoreError, Transformer};
use portcullis_testkit::kms::{
    ANNOTATION, ANNOTATION_VALUE, Behaviour, Calls, KmsPlugin, bytes_field, fields, number_field,
};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait::until_async;
use tokio::task::JoinSet;

const SECRET: &str = "the-password-that-nobody-may-read";
const KEY: &str = "/core/secrets/default/web";
const PREFIX: &[u8] = b"k8s:enc:kms:v2:cloud:";

/// A plug-in is asked often, so that tests see its changes soon. Writes never end for its silence.
const PACE: Pace = Pace {
    healthy: Duration::from_millis(20),
    failing: Duration::from_millis(20),
    writes: Duration::from_secs(3_600),
    start: Duration::from_secs(60),
};

fn settings(plugin: &KmsPlugin) -> Settings {
    Settings {
        name: "cloud".to_owned(),
        socket: plugin.socket().to_str().unwrap().to_owned(),
        timeout: Duration::from_secs(30),
        pace: PACE,
    }
}

/// Secrets are encrypted by these providers; nothing else is encrypted.
fn secrets(providers: impl IntoIterator<Item = Provider>) -> Encryption {
    let mut encryption = Encryption::none();
    let resources = Resources::One { group: String::new(), resource: "secrets".to_owned() };
    encryption.add(resources, providers.into_iter().map(Arc::new));
    encryption
}

/// A new process, so to speak: it knows no seed.
async fn fresh(plugin: &KmsPlugin) -> Encryption {
    let encryption = secrets([Provider::Kms(Kms::new(settings(plugin)))]);
    encryption.start().await.unwrap();
    encryption
}

fn open(path: &Path, transformer: impl Transformer + 'static) -> Result<Embedded, StoreError> {
    Options::file(path).transformer(Arc::new(transformer)).open()
}

async fn all(store: &Embedded) -> Vec<Arc<Entry>> {
    store.list(&List::default()).await.unwrap().entries
}

fn holds(path: &Path, text: &[u8]) -> bool {
    fs::read(path).unwrap().windows(text.len()).any(|window| window == text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The fields of a stored envelope: the data, the key ID, the encrypted seed, the annotation, the type.
fn parts(sealed: &[u8]) -> [Vec<u8>; 5] {
    let fields = fields(sealed.strip_prefix(PREFIX).unwrap());
    let numbers: Vec<u64> = fields.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    fields.into_iter().map(|(_, value)| value).collect::<Vec<_>>().try_into().unwrap()
}

/// HKDF-Expand with SHA-256, by openssl.
fn expanded(seed: &[u8], info: &[u8]) -> Vec<u8> {
    let mut command = tool::command("openssl");
    command.args(["kdf", "-keylen", "32", "-kdfopt", "digest:SHA2-256", "-kdfopt", "mode:EXPAND_ONLY"]);
    command.args(["-kdfopt", &format!("hexkey:{}", hex(seed)), "-kdfopt", &format!("hexinfo:{}", hex(info))]);
    unhex(&Finished::of(command.arg("HKDF")).ok())
}

/// An envelope, with fields as Kubernetes' `.proto` file numbers them.
fn envelope(data: &[u8], key_id: &str, seed: &[u8], kind: u64) -> Vec<u8> {
    let entry = [bytes_field(1, ANNOTATION.as_bytes()), bytes_field(2, ANNOTATION_VALUE)].concat();
    let parts = [
        PREFIX.to_vec(),
        bytes_field(1, data),
        bytes_field(2, key_id.as_bytes()),
        bytes_field(3, seed),
        bytes_field(4, &entry),
        if kind == 0 { Vec::new() } else { number_field(5, kind) },
    ];
    parts.concat()
}

#[tokio::test]
async fn openssl_decrypts_what_is_written() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let encryption = fresh(&plugin).await;
    let sealed = encryption.seal(KEY, SECRET.as_bytes()).unwrap();
    let [data, key_id, encrypted, annotation, kind] = parts(&sealed);
    assert_eq!((key_id.as_slice(), kind.as_slice()), (&b"key-1"[..], &[1][..]));
    assert_eq!(fields(&annotation), [(1, ANNOTATION.as_bytes().to_vec()), (2, ANNOTATION_VALUE.to_vec())]);
    let seed = plugin.decrypted("key-1", &encrypted).unwrap();
    assert_eq!(seed.len(), 32);
    let (info, rest) = data.split_at(32);
    let (nonce, rest) = rest.split_at(12);
    let (text, tag) = rest.split_at(rest.len() - 16);
    let key = expanded(&seed, info);

    // The text of AES-GCM is that of AES in counter mode, with the counter at 2.
    let mut command = tool::command("openssl");
    command.args(["enc", "-d", "-aes-256-ctr", "-K", &hex(&key), "-iv", &format!("{}00000002", hex(nonce))]);
    let file = folder.write("text", text);
    assert_eq!(Finished::of(command.arg("-in").arg(file)).ok(), SECRET);

    // openssl's command does not check the tag, so the cipher does: the key in the store is authenticated.
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
    let open = |storage_key: &str| {
        let mut sealed = [text, tag].concat();
        let nonce = Nonce::try_assume_unique_for_key(nonce).unwrap();
        cipher.open_in_place(nonce, Aad::from(storage_key), &mut sealed).map(|text| text.to_vec())
    };
    assert_eq!(open(KEY).unwrap(), SECRET.as_bytes());
    assert!(open("/core/secrets/default/other").is_err());
}

#[tokio::test]
async fn values_of_both_kinds_of_seeds_are_read() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let encryption = fresh(&plugin).await;
    let encrypt = |key: &[u8]| {
        let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap());
        let mut text = SECRET.as_bytes().to_vec();
        let nonce = Nonce::assume_unique_for_key([9; 12]);
        cipher.seal_in_place_append_tag(nonce, Aad::from(KEY), &mut text).unwrap();
        [&[9; 12], text.as_slice()].concat()
    };
    let secret = [5; 32];
    let (key_id, encrypted) = plugin.encrypted(&secret);
    let info = [6; 32];
    let with_seed = [&info[..], &encrypt(&expanded(&secret, &info))].concat();
    for (data, kind, is_stale) in [(with_seed, 1, false), (encrypt(&secret), 0, true)] {
        let sealed = envelope(&data, &key_id, &encrypted, kind);
        let opened = encryption.open(KEY, &sealed).unwrap();
        assert_eq!((&*opened.value, opened.is_stale), (SECRET.as_bytes(), is_stale), "{kind}");
        // Moved to another key of the store.
        encryption.open("/core/secrets/default/other", &sealed).unwrap_err();
    }
    // What the plug-in decrypts to something of another length is no key.
    let (key_id, short) = plugin.encrypted(b"short");
    for kind in [0, 1] {
        let error = encryption.open(KEY, &envelope(&[0; 99], &key_id, &short, kind)).unwrap_err().to_string();
        assert!(error.contains("no key") && error.contains("5 bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_fresh_process_reads_the_file_and_asks_once_for_each_seed() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let store = open(&path, fresh(&plugin).await).unwrap();
    for number in 0..50 {
        let key = format!("/core/secrets/default/s-{number}");
        store.commit(vec![put(&key, Expect::Anything, SECRET)]).await.unwrap();
    }
    store.commit(vec![put("/core/configmaps/default/web", Expect::Anything, "readable-map")]).await.unwrap();
    let entries = all(&store).await;
    drop(store);
    assert!(holds(&path, PREFIX) && holds(&path, b"readable-map") && !holds(&path, SECRET.as_bytes()));
    let Calls { encrypt, decrypt, .. } = plugin.calls();
    assert_eq!((encrypt, decrypt), (1, 0));

    let store = open(&path, fresh(&plugin).await).unwrap();
    assert_eq!(all(&store).await, entries);
    drop(store);
    let Calls { encrypt, decrypt, .. } = plugin.calls();
    // The values of the first process are not stale, so they were not written again.
    assert_eq!((encrypt, decrypt), (2, 1));
}

#[tokio::test]
async fn a_new_key_of_the_plugin_encrypts_new_values_and_makes_old_ones_stale() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let encryption = Arc::new(fresh(&plugin).await);
    let store = Options::file(&path).transformer(Arc::clone(&encryption) as Arc<dyn Transformer>);
    let store = store.open().unwrap();
    store.commit(vec![put(KEY, Expect::Anything, SECRET)]).await.unwrap();
    let old = encryption.seal(KEY, b"old").unwrap().into_owned();
    assert!(!encryption.open(KEY, &old).unwrap().is_stale);
    plugin.rotate();
    until_async("the new key is used", || {
        let sealed = encryption.seal(KEY, b"new").unwrap();
        let [_, key_id, ..] = parts(&sealed);
        key_id == b"key-2"
    })
    .await;
    let opened = encryption.open(KEY, &old).unwrap();
    assert_eq!((&*opened.value, opened.is_stale), (&b"old"[..], true));
    let entries = all(&store).await;
    drop((store, encryption));

    // The next start writes the file anew, so that the plug-in can forget the old key.
    assert!(holds(&path, b"key-1"));
    let store = open(&path, fresh(&plugin).await).unwrap();
    assert!(!holds(&path, b"key-1") && holds(&path, b"key-2"));
    drop(store);
    plugin.forget("key-1");
    assert_eq!(all(&open(&path, fresh(&plugin).await).unwrap()).await, entries);
}

#[tokio::test]
async fn without_its_plugin_known_seeds_work_and_unknown_ones_are_an_error() {
    let folder = Scratch::new();
    let mut plugin = KmsPlugin::started(folder.path().join("kms"));
    let other = fresh(&plugin).await.seal(KEY, b"of another process").unwrap().into_owned();
    let encryption = fresh(&plugin).await;
    let own = encryption.seal(KEY, b"own").unwrap().into_owned();
    plugin.stop();
    until_async("it is not healthy", || encryption.health().is_err()).await;
    assert_eq!(&*encryption.open(KEY, &own).unwrap().value, b"own");
    assert_eq!(&*encryption.open(KEY, &encryption.seal(KEY, b"new").unwrap()).unwrap().value, b"new");
    let error = encryption.open(KEY, &other).unwrap_err().to_string();
    for part in [KEY, "\"cloud\"", &plugin.endpoint(), "cannot be reached", "Start the plug-in"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(encryption.health().unwrap_err().contains("cannot be reached"));
    plugin.start();
    until_async("it is healthy again", || encryption.health().is_ok()).await;
    assert_eq!(&*encryption.open(KEY, &other).unwrap().value, b"of another process");
    plugin.stop();
    assert_eq!(&*encryption.open(KEY, &other).unwrap().value, b"of another process");
}

#[tokio::test]
async fn a_plugin_that_is_silent_for_too_long_stops_writes_of_its_values_alone() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let pace = Pace { writes: Duration::from_millis(500), ..PACE };
    let kms = Kms::new(Settings { pace, ..settings(&plugin) });
    let encryption = Arc::new(secrets([Provider::Kms(kms)]));
    encryption.start().await.unwrap();
    let path = folder.path().join("store");
    let store = Options::file(&path).transformer(Arc::clone(&encryption) as Arc<dyn Transformer>);
    let store = Arc::new(store.open().unwrap());
    let mut own = Vec::new();
    until_async("it writes", || {
        encryption.seal(KEY, b"own").is_ok_and(|sealed| {
            own = sealed.into_owned();
            true
        })
    })
    .await;
    plugin.behaves(Behaviour::Refuses);
    until_async("it may not write", || encryption.check(KEY).is_err()).await;
    let error = encryption.seal(KEY, b"new").unwrap_err().to_string();
    for part in [KEY, "500ms", "has refused Status", "the key is locked away"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // Commits that share a batch do not share the failure.
    let mut commits = JoinSet::new();
    for number in 0..100 {
        let (store, is_secret) = (Arc::clone(&store), number % 2 == 0);
        let resource = if is_secret { "secrets" } else { "configmaps" };
        let write = put(&format!("/core/{resource}/default/n-{number}"), Expect::Anything, SECRET);
        commits.spawn(async move { (is_secret, store.commit(vec![write]).await) });
    }
    for (is_secret, outcome) in commits.join_all().await {
        match outcome {
            Err(StoreError::Broken(why)) => assert!(is_secret && why.contains("cloud"), "{why}"),
            outcome => assert!(!is_secret && outcome.is_ok(), "{outcome:?}"),
        }
    }
    assert_eq!(all(&store).await.len(), 50);
    assert_eq!(&*encryption.open(KEY, &own).unwrap().value, b"own");
    plugin.behaves(Behaviour::Answers);
    while store.commit(vec![put(KEY, Expect::Absent, SECRET)]).await.is_err() {
        tokio::time::sleep(PACE.failing).await;
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_holds_nobody_for_longer_than_its_timeout() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let other = fresh(&plugin).await.seal(KEY, b"of another process").unwrap().into_owned();
    let timeout = Duration::from_millis(200);
    let start = Duration::from_millis(1);
    let pace = Pace { start, ..PACE };
    let encryption = secrets([Provider::Kms(Kms::new(Settings { timeout, pace, ..settings(&plugin) }))]);
    plugin.behaves(Behaviour::Hangs);
    let error = encryption.start().await.unwrap_err().to_string();
    assert!(error.contains("has not"), "{error}");
    let error = encryption.open(KEY, &other).unwrap_err().to_string();
    assert!(error.contains("has not answered Decrypt within 200ms"), "{error}");
    let error = encryption.seal(KEY, b"new").unwrap_err().to_string();
    assert!(error.contains("has not"), "{error}");
}

#[tokio::test]
async fn a_plugin_that_is_not_as_it_must_be_is_not_healthy() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let is_refused = async |change: &dyn Fn(), words: &str| {
        change();
        let encryption = secrets([Provider::Kms(Kms::new(settings(&plugin)))]);
        encryption.plugins().for_each(|kms| kms.start().unwrap());
        until_async(words, || encryption.health().is_err_and(|error| error.contains(words))).await;
        encryption
    };
    // As in kube-apiserver, the plug-in's own opinion of its health does not stop writes.
    let encryption = is_refused(&|| plugin.says("the HSM burns"), "\"the HSM burns\"").await;
    encryption.seal(KEY, b"new").unwrap();
    plugin.says("ok");
    is_refused(&|| plugin.has_version("v1"), "version \"v1\"").await;
    plugin.has_version("v2");
    let encryption = is_refused(&|| plugin.encrypts_as(Some("key-9")), "different ones").await;
    encryption.seal(KEY, b"new").unwrap_err();
    plugin.encrypts_as(Some(&"k".repeat(1_025)));
    until_async("too large", || encryption.health().unwrap_err().contains("larger than 1024 bytes")).await;
    plugin.encrypts_as(None);
    until_async("it is healthy", || encryption.health().is_ok()).await;
    encryption.seal(KEY, b"new").unwrap();
}

#[tokio::test]
async fn a_value_of_another_plugin_is_not_sent_to_this_one() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let sealed = fresh(&plugin).await.seal(KEY, SECRET.as_bytes()).unwrap().into_owned();
    let other = Kms::new(Settings { name: "clou".to_owned(), ..settings(&plugin) });
    let encryption = secrets([Provider::Kms(other)]);
    encryption.start().await.unwrap();
    let before = plugin.calls().decrypt;
    let error = encryption.open(KEY, &sealed).unwrap_err().to_string();
    for part in [KEY, "\"kms\" (v2)", "\"cloud\"", "--encryption-provider-config"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(plugin.calls().decrypt, before);
    // A plug-in that is not used yet.
    let unused = secrets([Provider::Kms(Kms::new(settings(&plugin)))]);
    assert!(unused.open(KEY, &sealed).unwrap_err().to_string().contains("is not used yet"));
    unused.seal(KEY, b"new").unwrap_err();
    unused.health().unwrap_err();
}

#[tokio::test]
async fn a_damaged_envelope_is_never_another_value() {
    let folder = Scratch::new();
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let encryption = fresh(&plugin).await;
    let sealed = encryption.seal(KEY, SECRET.as_bytes()).unwrap().into_owned();
    for at in PREFIX.len()..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[at] ^= 0x11;
        encryption.open(KEY, &damaged).unwrap_err();
    }
    for length in PREFIX.len()..sealed.len() {
        encryption.open(KEY, &sealed[..length]).unwrap_err();
    }
    // Unknown fields are skipped, as protobuf wants it.
    let longer = [&sealed[..], &bytes_field(19, b"later")].concat();
    assert_eq!(&*encryption.open(KEY, &longer).unwrap().value, SECRET.as_bytes());
}

#[test]
fn envelopes_are_within_the_bounds_of_kubernetes() {
    let message = |data: &[u8], key_id: &str, seed: &[u8], annotations: &[(&str, usize)], kind: u64| {
        let mut parts = vec![bytes_field(1, data), bytes_field(2, key_id.as_bytes()), bytes_field(3, seed)];
        for (name, length) in annotations {
            let entry = [bytes_field(1, name.as_bytes()), bytes_field(2, &vec![7; *length])].concat();
            parts.push(bytes_field(4, &entry));
        }
        parts.push(number_field(5, kind));
        Envelope::read(&parts.concat())
    };
    let long = "k".repeat(1_024);
    for names in [&[][..], &[("a.b", 32_765)], &[("a.b", 1), ("a-1.example.org.", 1)]] {
        message(b"x", &long, long.as_bytes(), names, 1).unwrap();
    }
    let wrong = |found: Result<Envelope, EnvelopeError>| found.unwrap_err().to_string();
    for (error, words) in [
        (wrong(message(b"", "k", b"s", &[], 1)), "encrypted data is empty"),
        (wrong(message(b"x", "", b"s", &[], 1)), "key ID is empty"),
        (wrong(message(b"x", "k", b"", &[], 1)), "DEK source is empty"),
        (wrong(message(b"x", &format!("{long}k"), b"s", &[], 1)), "key ID is larger than 1024"),
        (wrong(message(b"x", "k", format!("{long}k").as_bytes(), &[], 1)), "DEK source is larger than 1024"),
        (wrong(message(b"x", "k", b"s", &[("a.b", 32_766)], 1)), "larger than 32768"),
        (wrong(message(b"x", "k", b"s", &[], 2)), "type 2"),
        (wrong(Envelope::read(b"\x0f")), "not a message"),
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    for name in ["", "a", "A.b", "a..b", "-a.b", "a.b-", "a_b.c", ".a.b", "a.b.."] {
        assert_eq!(message(b"x", "k", b"s", &[(name, 1)], 1), Err(EnvelopeError::Annotation), "{name}");
    }
}

#[tokio::test]
async fn replaced_rules_apply_to_new_values_and_a_rewritten_file_has_no_others() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let plugin = KmsPlugin::started(folder.path().join("kms"));
    let local = || Provider::AesGcm(vec![Key::aes_gcm("local", &[1; 32]).unwrap()]);
    let live = Arc::new(LiveEncryption::new(secrets([local()])));
    let store = Options::file(&path).transformer(Arc::clone(&live) as Arc<dyn Transformer>).open().unwrap();
    store.commit(vec![put(KEY, Expect::Absent, SECRET)]).await.unwrap();
    live.replace(fresh(&plugin).await);
    store.commit(vec![put("/core/secrets/default/new", Expect::Absent, SECRET)]).await.unwrap();
    let old: &[u8] = b"k8s:enc:aesgcm:v1:local:";
    assert!(holds(&path, old) && holds(&path, PREFIX));
    store.rewrite().await.unwrap();
    assert!(!holds(&path, old) && holds(&path, PREFIX));
    // It goes on as before.
    store.commit(vec![put("/core/secrets/default/newer", Expect::Absent, SECRET)]).await.unwrap();
    let (entries, revision) = (all(&store).await, store.revision());
    drop(store);
    let store = open(&path, fresh(&plugin).await).unwrap();
    assert_eq!((all(&store).await, store.revision()), (entries, revision));
    assert!(!holds(&path, SECRET.as_bytes()));
}

#[tokio::test]
async fn a_file_that_cannot_be_rewritten_stays_in_use() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let plugin = KmsPlugin::new(folder.path().join("kms"));
    let live = Arc::new(LiveEncryption::new(Encryption::none()));
    let store = Options::file(&path).transformer(Arc::clone(&live) as Arc<dyn Transformer>).open().unwrap();
    store.commit(vec![put(KEY, Expect::Absent, SECRET)]).await.unwrap();
    live.replace(secrets([Provider::Kms(Kms::new(settings(&plugin))), Provider::Identity]));
    assert!(store.rewrite().await.unwrap_err().to_string().contains("cloud"));
    store.commit(vec![put("/core/configmaps/default/new", Expect::Absent, "map")]).await.unwrap();
    let entries = all(&store).await;
    assert_eq!(entries.len(), 2);
    drop(store);
    assert_eq!(all(&open(&path, Encryption::none()).unwrap()).await, entries);
}
