//! `portcullis serve` with encryption at rest whose keys change while it serves, and with a KMS plug-in that fails (ET-50,
//! ET-51).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kms::{Behaviour, KmsPlugin};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PASSWORD: &str = "cGFzc3dvcmQgb2YgdGhlIGRhdGFiYXNl";
const CHECK: &str = "/healthz/kms-providers";

/// A data directory and a configuration of encryption at rest.
struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("kms.sock")
    }

    /// Puts another configuration in place, as editors and kubelets do: by a rename.
    fn configure(&self, text: &str) {
        let new = self.scratch.write("encryption.new", text);
        fs::rename(new, self.scratch.path().join("encryption.json")).unwrap();
    }

    /// Secrets are encrypted by these providers.
    fn providers(&self, providers: &Value) {
        let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}]});
        self.configure(&configuration.to_string());
    }

    fn command(&self) -> Command {
        let mut command = program!().serve_command(&self.data());
        command.arg("--encryption-provider-config").arg(self.scratch.path().join("encryption.json"));
        command
    }

    fn reloading(&self) -> Command {
        let mut command = self.command();
        command.arg("--encryption-provider-config-automatic-reload");
        command
    }

    fn client(&self, served: &Running) -> Client {
        Client::new(served.address(), &Identity::admin(&self.data()))
    }

    fn store_holds(&self, text: &str) -> bool {
        holds(&self.data().join("objects.redb"), text)
    }
}

fn holds(path: &Path, text: &str) -> bool {
    contains(&fs::read(path).unwrap(), text)
}

/// Writes a secret.
fn write(client: &mut Client, name: &str) {
    let secret = json!({"metadata": {"name": name}, "data": {"password": PASSWORD}});
    client.must(201, "POST", SECRETS, Some(&secret));
}

fn kms(plugin: &KmsPlugin) -> Value {
    json!({"kms": {"apiVersion": "v2", "name": "cloud", "endpoint": plugin.endpoint(), "timeout": "5s"}})
}

fn local(name: &str, byte: char) -> Value {
    let secret = format!("{}=", byte.to_string().repeat(43));
    json!({"aesgcm": {"keys": [{"name": name, "secret": secret}]}})
}

/// The code and the body of a GET.
fn answer(client: &mut Client, path: &str) -> (u16, String) {
    let answer = client.ask("GET", path, None).unwrap();
    (answer.code, answer.text())
}

#[test]
fn a_kms_plugin_encrypts_secrets_and_its_failure_is_shown_while_readers_go_on() {
    let place = Place::new();
    let mut plugin = KmsPlugin::started(place.socket());
    place.providers(&json!([kms(&plugin)]));
    let served = Running::start(place.command());
    let mut client = place.client(&served);
    write(&mut client, "database");
    let written = client.must(200, "GET", &format!("{SECRETS}/database"), None);
    assert!(place.store_holds("k8s:enc:kms:v2:cloud:") && !place.store_holds(PASSWORD));
    assert_eq!(answer(&mut client, CHECK), (200, "ok".to_owned()));
    for path in ["/livez", "/readyz", "/healthz"] {
        let (code, text) = answer(&mut client, &format!("{path}?verbose"));
        assert!(code == 200 && text.contains("[+]kms-providers ok\n"), "{text}");
    }

    plugin.stop();
    until("the check fails", || answer(&mut client, CHECK).0 == 500);
    let (_, text) = answer(&mut client, CHECK);
    assert!(text.contains("\"cloud\"") && text.contains("cannot be reached"), "{text}");
    for path in ["/livez", "/readyz", "/healthz"] {
        let (code, text) = answer(&mut client, path);
        assert!(code == 500 && text.contains("[-]kms-providers failed: reason withheld\n"), "{text}");
        assert_eq!(answer(&mut client, &format!("{path}?exclude=kms-providers")).0, 200);
    }
    // What is in memory is read, and what does not need the plug-in is written. The seed of this process goes on for a while.
    assert_eq!(client.must(200, "GET", &format!("{SECRETS}/database"), None), written);
    client.must(201, "POST", MAPS, Some(&json!({"metadata": {"name": "map"}})));
    plugin.start();
    until("the check is passed", || answer(&mut client, CHECK).0 == 200);
    let Finished { code, stderr: log, .. } = served.stop();
    assert!(code == 0 && log.contains("the KMS plug-in fails") && log.contains("is healthy"), "{log}");

    let served = Running::start(place.command());
    assert_eq!(place.client(&served).must(200, "GET", &format!("{SECRETS}/database"), None), written);
    assert_eq!(served.stop().code, 0);

    // Nothing is served without the plug-in, and nothing is lost.
    plugin.behaves(Behaviour::Refuses);
    let refused = Finished::of(&mut place.command());
    assert_eq!(refused.code, 3, "{refused:?}");
    for part in ["--encryption-provider-config", "\"cloud\"", "the key is locked away"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    // The plug-in may start after the server.
    plugin.behaves(Behaviour::Answers);
    plugin.stop();
    let late = Running::spawn(place.command());
    until("it waits for the plug-in", || late.log().contains("the KMS plug-in fails"));
    plugin.start();
    until("it serves", || late.log().contains("ready"));
    assert_eq!(late.stop().code, 0);
}

#[test]
fn a_changed_configuration_is_used_without_a_restart_and_an_invalid_one_is_not() {
    const RELOADS: &str = "apiserver_encryption_config_controller_automatic_reload";
    let place = Place::new();
    let mut plugin = KmsPlugin::new(place.socket());
    let (old, new) = (local("old", 'A'), local("new", 'E'));
    place.providers(&json!([old]));
    let served = Running::start(place.reloading());
    let mut client = place.client(&served);
    // As in kube-apiserver, the check is there even without a plug-in.
    assert_eq!(answer(&mut client, CHECK), (200, "ok".to_owned()));
    write(&mut client, "first");
    assert!(place.store_holds("k8s:enc:aesgcm:v1:old:"));
    let reloads = |client: &mut Client, status: &str| -> u64 {
        let metrics = answer(client, "/metrics").1;
        assert_documented(&["serve"], &metrics);
        let line = metrics.lines().find(|line| {
            line.starts_with(&format!("{RELOADS}s_total{{")) && line.contains(&format!("\"{status}\""))
        });
        assert!(
            line.is_none()
                || metrics.contains(&format!("{RELOADS}_last_timestamp_seconds{{status=\"{status}\""))
        );
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    assert_eq!((reloads(&mut client, "success"), reloads(&mut client, "failure")), (0, 0));

    place.configure("kind: EncryptionConfiguration, secret: hunter2");
    until("the failure is counted", || reloads(&mut client, "failure") > 0);
    until("and logged", || served.log().contains("the one in force stays"));
    write(&mut client, "second");
    assert!(!place.store_holds(PASSWORD));

    // The old key is not even needed any more: the file is written anew.
    place.providers(&json!([new]));
    until("the new key is used", || reloads(&mut client, "success") == 1);
    until("the file is written anew", || !place.store_holds("k8s:enc:aesgcm:v1:old:"));
    write(&mut client, "third");
    assert!(place.store_holds("k8s:enc:aesgcm:v1:new:") && !place.store_holds(PASSWORD));

    // A plug-in that is not there changes nothing, until it is.
    let before = reloads(&mut client, "failure");
    place.providers(&json!([kms(&plugin), {"identity": {}}]));
    until("the plug-in is missed", || reloads(&mut client, "failure") > before);
    assert_eq!(answer(&mut client, CHECK), (200, "ok".to_owned()));
    write(&mut client, "fourth");
    plugin.start();
    until("the plug-in is used", || reloads(&mut client, "success") == 2);
    until("the file is written anew", || !place.store_holds("k8s:enc:aesgcm:v1:new:"));
    write(&mut client, "fifth");
    assert!(place.store_holds("k8s:enc:kms:v2:cloud:") && !place.store_holds(PASSWORD));
    let secrets = client.must(200, "GET", SECRETS, None);
    assert_eq!(secrets["items"].as_array().unwrap().len(), 5);
    let Finished { code, stderr: log, .. } = served.stop();
    assert!(code == 0 && !log.contains("hunter2"), "{log}");

    let served = Running::start(place.command());
    assert_eq!(place.client(&served).must(200, "GET", SECRETS, None)["items"], secrets["items"]);
    assert_eq!(served.stop().code, 0);
}

/// The value of a secret in etcd.
fn in_etcd(etcd: &Etcd, name: &str) -> Vec<u8> {
    etcd.value(&format!("/registry/secrets/default/{name}")).unwrap()
}

fn contains(value: &[u8], text: &str) -> bool {
    value.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn with_etcd_too_a_kms_plugin_encrypts_secrets_and_an_equal_write_takes_its_new_key() {
    let place = Place::new();
    let etcd = Etcd::start();
    let plugin = KmsPlugin::started(place.socket());
    place.providers(&json!([{"identity": {}}]));
    let command = || {
        let mut command = place.command();
        command.args(["--etcd-servers", &etcd.endpoint()]);
        command
    };
    let served = Running::start(command());
    let mut client = place.client(&served);
    write(&mut client, "database");
    assert!(contains(&in_etcd(&etcd, "database"), PASSWORD));
    assert_eq!(served.stop().code, 0);

    place.providers(&json!([kms(&plugin), {"identity": {}}]));
    let served = Running::start(command());
    let mut client = place.client(&served);
    write(&mut client, "queue");
    let path = format!("{SECRETS}/database");
    let replace = |client: &mut Client| {
        let old = client.must(200, "GET", &path, None);
        let new = client.must(200, "PUT", &path, Some(&old));
        assert_eq!(old["data"], new["data"]);
        old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]
    };
    assert!(replace(&mut client), "it was not encrypted, and is now");
    assert!(!replace(&mut client), "there is nothing more to write");
    let before = in_etcd(&etcd, "database");
    for name in ["database", "queue"] {
        let value = in_etcd(&etcd, name);
        assert!(value.starts_with(b"k8s:enc:kms:v2:cloud:") && !contains(&value, PASSWORD), "{name}");
    }

    let key_id = plugin.rotate();
    until("the new key of the plug-in is used", || replace(&mut client));
    assert!(contains(&in_etcd(&etcd, "database"), &key_id) && !contains(&before, &key_id));
    let written = client.must(200, "GET", &path, None);
    assert_eq!(served.stop().code, 0);
    let served = Running::start(command());
    assert_eq!(place.client(&served).must(200, "GET", &path, None), written);
    assert_eq!(served.stop().code, 0);
}

#[test]
fn a_reload_of_no_file_is_refused() {
    let refused = program!().run(["serve", "--encryption-provider-config-automatic-reload"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("needs --encryption-provider-config"), "{refused:?}");
}
