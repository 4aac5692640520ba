//! The file of an encrypted store: no secret can be read in it, and nothing is lost when keys change (ET-51).
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use portcullis_store::conformance::{self, put, remove};
use portcullis_store::encryption::{Encryption, Key, Provider, Resources};
use portcullis_store::{
    Embedded, Entry, Expect, List, Options, Revision, Store, StoreError, Transformer, Watch,
};
use portcullis_testkit::scratch::Scratch;

/// A text that must not occur in an encrypted file.
const SECRET: &str = "the-password-that-nobody-may-read";

fn key(name: &str, byte: u8) -> Key {
    Key::aes_gcm(name, &[byte; 32]).unwrap()
}

/// Secrets are encrypted by these providers; nothing else is encrypted.
fn secrets(providers: impl IntoIterator<Item = Provider>) -> Arc<Encryption> {
    let mut encryption = Encryption::none();
    let resources = Resources::One { group: String::new(), resource: "secrets".to_owned() };
    encryption.add(resources, providers.into_iter().map(Arc::new));
    Arc::new(encryption)
}

fn open(path: &Path, encryption: &Arc<Encryption>) -> Result<Embedded, StoreError> {
    Options::file(path).transformer(Arc::clone(encryption) as Arc<dyn Transformer>).open()
}

fn refusal(path: &Path, encryption: &Arc<Encryption>) -> String {
    match open(path, encryption) {
        Err(StoreError::Broken(message)) => message,
        other => panic!("a refusal is due: {other:?}"),
    }
}

async fn all(store: &Embedded) -> Vec<Arc<Entry>> {
    store.list(&List::default()).await.unwrap().entries
}

fn holds(path: &Path, text: &str) -> bool {
    fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn an_encrypted_file_shows_nothing_and_reads_the_same() {
    let folder = Scratch::new();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let encryption = secrets([Provider::AesGcm(vec![key("a", 1)])]);
    let store = open(&path, &encryption).unwrap();
    store.commit(vec![put("/core/secrets/default/web", Expect::Anything, SECRET)]).await.unwrap();
    store.commit(vec![put("/core/configmaps/default/web", Expect::Anything, "readable-map")]).await.unwrap();
    // A replaced value stays in the history, which is written when the store is closed.
    store.commit(vec![put("/core/secrets/default/web", Expect::Anything, &SECRET.repeat(3))]).await.unwrap();
    let (entries, revision) = (all(&store).await, store.revision());
    store.backup(&copy).unwrap();
    drop(store);
    for file in [&path, &copy] {
        assert!(!holds(file, SECRET) && holds(file, "readable-map"));
        let store = open(file, &encryption).unwrap();
        assert_eq!((all(&store).await, store.revision()), (entries.clone(), revision));
    }
    let store = open(&path, &encryption).unwrap();
    let mut watch = store.watch("/core/secrets/", Revision(1)).await.unwrap();
    let first = watch.next().await.unwrap();
    assert_eq!(first.first().unwrap().entry.as_ref().unwrap().value, SECRET);
}

#[tokio::test]
async fn a_file_is_written_anew_when_its_configuration_changes() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let plain = Arc::new(Encryption::none());
    let store = open(&path, &plain).unwrap();
    store.commit(vec![put("/core/secrets/default/web", Expect::Anything, SECRET)]).await.unwrap();
    // One that is gone may still be in an unused page.
    store
        .commit(vec![put("/core/secrets/default/gone", Expect::Anything, &format!("gone-{SECRET}"))])
        .await
        .unwrap();
    store.commit(vec![remove("/core/secrets/default/gone", Expect::Anything)]).await.unwrap();
    let (entries, revision) = (all(&store).await, store.revision());
    drop(store);
    assert!(holds(&path, SECRET));

    let (a, b) = (|| key("a", 1), || Key::secret_box("b", &[2; 32]).unwrap());
    let steps = [
        // Encrypted, then with another provider, then without the first, then readable again.
        (vec![Provider::AesGcm(vec![a()]), Provider::Identity], Some("k8s:enc:aesgcm:v1:a:")),
        (vec![Provider::SecretBox(vec![b()]), Provider::AesGcm(vec![a()])], Some("k8s:enc:secretbox:v1:b:")),
        (vec![Provider::SecretBox(vec![b()])], Some("k8s:enc:secretbox:v1:b:")),
        (vec![Provider::Identity, Provider::SecretBox(vec![b()])], None),
    ];
    for (providers, prefix) in steps {
        let encryption = secrets(providers);
        let store = open(&path, &encryption).unwrap();
        assert_eq!((all(&store).await, store.revision()), (entries.clone(), revision));
        assert_eq!(holds(&path, SECRET), prefix.is_none(), "{prefix:?}");
        for other in ["k8s:enc:aesgcm:v1:a:", "k8s:enc:secretbox:v1:b:"] {
            assert_eq!(holds(&path, other), prefix == Some(other), "{other} {prefix:?}");
        }
        drop(store);
    }
    assert_eq!(all(&open(&path, &plain).unwrap()).await, entries);
}

#[tokio::test]
async fn a_file_without_its_key_is_refused_and_stays() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let right = secrets([Provider::AesGcm(vec![key("a", 1)])]);
    let store = open(&path, &right).unwrap();
    store.commit(vec![put("/core/secrets/default/web", Expect::Anything, SECRET)]).await.unwrap();
    let entries = all(&store).await;
    drop(store);
    for (wrong, words) in [
        (Arc::new(Encryption::none()), "--encryption-provider-config"),
        (secrets([Provider::Identity]), "aesgcm"),
        (secrets([Provider::AesGcm(vec![key("b", 1)])]), "the key \"a\""),
        (secrets([Provider::AesGcm(vec![key("a", 2)])]), "cannot be decrypted"),
        (secrets([Provider::SecretBox(vec![Key::secret_box("a", &[1; 32]).unwrap()])]), "aesgcm"),
    ] {
        let problem = refusal(&path, &wrong);
        for part in [path.to_str().unwrap(), "/core/secrets/default/web", words] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
    assert_eq!(all(&open(&path, &right).unwrap()).await, entries);

    // A readable file is not taken for one that was encrypted.
    let path = folder.path().join("plain");
    let store = open(&path, &Arc::new(Encryption::none())).unwrap();
    store.commit(vec![put("/core/secrets/default/web", Expect::Anything, SECRET)]).await.unwrap();
    drop(store);
    assert!(refusal(&path, &right).contains("identity"));
}

#[tokio::test]
async fn a_history_whose_key_is_gone_is_left_out() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let old = secrets([Provider::AesGcm(vec![key("a", 1)])]);
    let store = open(&path, &old).unwrap();
    store.commit(vec![put("/core/secrets/default/web", Expect::Anything, SECRET)]).await.unwrap();
    store.commit(vec![remove("/core/secrets/default/web", Expect::Anything)]).await.unwrap();
    let revision = store.revision();
    drop(store);
    assert!(holds(&path, "k8s:enc:aesgcm:v1:a:"));
    let new = secrets([Provider::AesGcm(vec![key("b", 2)])]);
    let store = open(&path, &new).unwrap();
    assert_eq!((all(&store).await.len(), store.revision()), (0, revision));
    assert!(matches!(store.watch("/core/", Revision(1)).await, Err(StoreError::Compacted { .. })));
    assert!(!holds(&path, "k8s:enc:aesgcm:v1:a:"));
}

/// Runs a check of the conformance suite over an encrypted file, and reads the file again afterwards.
macro_rules! holds_encrypted {
    ($($name:ident: $check:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let folder = Scratch::new();
            let path = folder.path().join("store");
            let mut encryption = Encryption::none();
            encryption.add(Resources::All, [Arc::new(Provider::SecretBox(vec![Key::secret_box("k", &[5; 32]).unwrap()]))]);
            let encryption = Arc::new(encryption);
            let store = Arc::new(open(&path, &encryption).unwrap());
            conformance::$check(&store).await;
            let entries = all(&store).await;
            drop(Arc::into_inner(store));
            assert_eq!(all(&open(&path, &encryption).unwrap()).await, entries);
        }
    )*};
}

holds_encrypted! {
    expectations_hold_in_an_encrypted_file: expectations,
    revisions_are_written_into_encrypted_values: revision_in_value,
    no_writer_overwrites_another_in_an_encrypted_file: concurrent_writers,
    watches_of_an_encrypted_file_miss_and_repeat_nothing: watches_resume_under_writers,
}
