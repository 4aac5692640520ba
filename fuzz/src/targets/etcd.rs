//! Values of etcd, which other servers and people write: one line with the path of the key, then the value.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use portcullis_apimachinery::json;
use portcullis_server::Kinds;
use portcullis_server::encryption::read;
use portcullis_server::registry::etcd_layout::EtcdLayout;
use portcullis_store::encryption::LiveEncryption;
use portcullis_store::etcd::Layout as _;
use portcullis_store::{Revision, Value};
use portcullis_testkit::recorded;

pub(super) const VALUE: &[&str] = &[
    "pods/team-a/app\n",
    "configmaps/kube-system/c\n",
    "minions/node-a\n",
    "services/specs/default/s\n",
    "events/default/e\n",
    "machine.openshift.io/machines/default/m\n",
    "stable.example.com/crontabs/default/c\n",
    "apiextensions.k8s.io/customresourcedefinitions/crontabs.stable.example.com\n",
    "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{",
    "\"name\":\"c\",\"namespace\":\"kube-system\"",
    "\"resourceVersion\":\"1\"",
    "\"kind\":\"Pod\"",
    "\"apiVersion\":\"events.k8s.io/v1\"",
    "\"apiVersion\":\"autoscaling/v1\"",
    "\"apiVersion\":\"apiextensions.k8s.io/v1beta1\"",
    "\"kind\":\"CronTab\",\"apiVersion\":\"stable.example.com/v1\"",
    "k8s\0\n",
    "k8s:enc:aesgcm:v1:",
    "{}",
];

/// The kinds of this program, with a recorded configuration for secrets.
static LAYOUT: LazyLock<EtcdLayout> = LazyLock::new(|| {
    let lines = recorded::lines("etcd-registry/encryption.jsonl");
    let configuration =
        lines.first().and_then(|line| line.pointer("/configurations/0")).expect("a configuration");
    let encryption = read(configuration.to_string().as_bytes()).expect("a valid configuration");
    EtcdLayout::new(&Kinds::built_in(), Arc::new(LiveEncryption::new(encryption)), Duration::from_secs(3_600))
        .expect("places for all kinds")
});

pub(super) fn value(input: &[u8]) -> bool {
    const REVISION: Revision = Revision(1_234);
    let Some(line) = input.iter().position(|byte| *byte == b'\n') else { return false };
    let (path, sealed) = input.split_at(line);
    let Ok(path) = std::str::from_utf8(path) else { return false };
    let Some(key) = LAYOUT.key(path) else { return false };
    assert_eq!(LAYOUT.path(&key).as_deref(), Some(path), "the reverse");
    let etcd_key = format!("/registry/{path}");
    let sealed = sealed.strip_prefix(b"\n").expect("the end of the line");
    let Ok(opened) = LAYOUT.open(&key, &etcd_key, sealed, REVISION) else { return false };
    let text = json::check_bytes(&opened.value).expect("one JSON value without ambiguity");
    if path.starts_with("portcullis/") || path.starts_with("masterleases/") {
        return true;
    }
    let object: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let metadata =
        |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(|value| value.as_str());
    let rest: Vec<&str> =
        metadata("namespace").into_iter().filter(|text| !text.is_empty()).chain(metadata("name")).collect();
    assert!(path.ends_with(&format!("/{}", rest.join("/"))), "{path}: another object: {text}");
    assert_eq!(metadata("resourceVersion"), Some("1234"));

    // What was read can be written, and is then read as the same bytes.
    let before = "\"resourceVersion\":\"";
    let digits = text.find(before).expect("the revision") + before.len();
    let bytes =
        [text.get(..digits).unwrap_or_default(), text.get(digits.saturating_add(4)..).unwrap_or_default()];
    let kept = Value { bytes: bytes.concat().into(), revision_at: Some(digits), relies_on: None };
    let sealed = LAYOUT.seal(&key, &etcd_key, &kept).expect("what is kept can be written");
    let again = LAYOUT.open(&key, &etcd_key, &sealed, REVISION).expect("and read");
    assert_eq!(again.value, opened.value, "{path}");
    assert!(!again.is_stale, "{path}: it was just written");
    true
}
