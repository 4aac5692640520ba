//! What the tests of `portcullis store` share: etcd filled with the recorded values of kube-apiserver, and exports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::{program, recorded};
use serde_json::{Value, json};

/// Runs `portcullis store`.
#[track_caller]
pub(crate) fn store(arguments: &[&str]) -> Finished {
    program!().run(["store"].iter().chain(arguments))
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A recorded value: its bytes, and the object as kube-apiserver showed it, if it did.
pub(crate) struct Recorded {
    pub(crate) value: Vec<u8>,
    pub(crate) shown: Value,
}

/// The last recorded value of each key in etcd.
pub(crate) fn recording(name: &str) -> BTreeMap<String, Recorded> {
    let lines = recorded::lines(name).into_iter().filter(|line| line["key"].is_string());
    lines
        .map(|line| {
            let value = BASE64_STANDARD.decode(line["value_b64"].as_str().unwrap()).unwrap();
            (line["key"].as_str().unwrap().to_owned(), Recorded { value, shown: line["json"].clone() })
        })
        .collect()
}

/// Puts recorded values into etcd, byte for byte.
pub(crate) fn fill(etcd: &Etcd, recording: &BTreeMap<String, Recorded>) {
    for (key, recorded) in recording {
        etcd.put(key, &recorded.value);
    }
}

/// An object without what a move changes.
pub(crate) fn moved(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object
}

/// What names an object.
pub(crate) fn identity(object: &Value) -> String {
    let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let fields = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"];
    fields.map(text).join(" ")
}

/// The recorded objects: not what no API shows.
pub(crate) fn served(recording: &BTreeMap<String, Recorded>) -> BTreeMap<String, Value> {
    let shown = recording.iter().filter(|(_, recorded)| !recorded.shown.is_null());
    shown.map(|(_, recorded)| (identity(&recorded.shown), moved(&recorded.shown))).collect()
}

/// All files of an export but the manifest, by their paths.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = text(path.strip_prefix(root).unwrap()).to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found.remove("manifest.yaml");
    found
}

/// The objects of an export, read by a YAML library.
pub(crate) fn objects(root: &Path) -> BTreeMap<String, Value> {
    let parse = |text: &String| serde_saphyr::from_str::<Value>(text).unwrap();
    files(root).values().map(parse).map(|object| (identity(&object), object)).collect()
}

pub(crate) fn manifest(root: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(root.join("manifest.yaml")).unwrap()).unwrap()
}

/// Writes an export by hand. `objects` are the start of the path, and the objects.
pub(crate) fn write_export<'o>(
    scratch: &Scratch,
    name: &str,
    objects: impl IntoIterator<Item = (&'o str, Value)>,
) -> PathBuf {
    let mut resources: BTreeMap<String, u64> = BTreeMap::new();
    for (resource, object) in objects {
        let place = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{resource}/{namespace}"),
            None => resource.to_owned(),
        };
        let file = object["metadata"]["name"].as_str().unwrap().replace(':', "%3A");
        scratch.write(&format!("{name}/{place}/{file}.yaml"), object.to_string());
        *resources.entry(resource.to_owned()).or_default() += 1;
    }
    let manifest = json!({"apiVersion": "portcullis.dev/v1", "kind": "StoreExport", "source": "etcd", "revision": 7,
        "resources": resources});
    scratch.write(&format!("{name}/manifest.yaml"), manifest.to_string());
    scratch.path().join(name)
}

/// A ConfigMap with so many bytes.
pub(crate) fn config_map(name: &str, bytes: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default",
        "uid": format!("uid-of-{name}"), "creationTimestamp": "2026-01-02T03:04:05Z"}, "data": {"a": "x".repeat(bytes)}})
}

/// The revision of an etcd.
pub(crate) fn revision(etcd: &Etcd) -> u64 {
    let status = etcd.etcdctl(["endpoint", "status", "--write-out", "json"]).ok();
    let status: Value = serde_json::from_str(&status).unwrap();
    status[0]["Status"]["header"]["revision"].as_u64().unwrap()
}

/// A key of an etcd with everything that etcd says of it; null if it is not there.
pub(crate) fn kept(etcd: &Etcd, key: &str) -> Value {
    let found = etcd.etcdctl(["get", key, "--write-out", "json"]).ok();
    serde_json::from_str::<Value>(&found).unwrap()["kvs"][0].clone()
}

/// The bytes of a key in an etcd.
pub(crate) fn stored(etcd: &Etcd, key: &str) -> Vec<u8> {
    BASE64_STANDARD
        .decode(kept(etcd, key)["value"].as_str().unwrap_or_else(|| panic!("{key} is not there")))
        .unwrap()
}

/// A file of encryption at rest: secrets, by these providers.
pub(crate) fn encryption(scratch: &Scratch, name: &str, providers: &Value) -> PathBuf {
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}]});
    scratch.write(name, configuration.to_string())
}

/// A provider with one key.
pub(crate) fn provider(name: &str, letter: char) -> Value {
    let secret = format!("{}=", letter.to_string().repeat(43));
    json!({"secretbox": {"keys": [{"name": name, "secret": secret}]}})
}
