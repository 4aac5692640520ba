//! Encryption at rest reads what kube-apiserver wrote, with its configuration and no other (ET-50, ET-71).

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_kinds::{protobuf, schema};
use portcullis_server::encryption::{EncryptionError, read};
use portcullis_store::encryption::Encryption;
use portcullis_store::encryption::kms::Kms;
use portcullis_testkit::recorded;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

/// A value of the recording.
struct Recorded {
    /// Its key in etcd.
    key: String,
    /// The start of the value: `k8s:enc:PROVIDER:v1:KEY:`, or `k8s\0` for protobuf that is not encrypted.
    prefix: String,
    value: Vec<u8>,
    /// The object as GET showed it.
    shown: Value,
}

impl Recorded {
    /// The provider and the key that wrote it; none for the provider identity.
    fn written_with(&self) -> Option<(&str, &str)> {
        let mut parts = self.prefix.strip_prefix("k8s:enc:")?.split(':');
        Some((parts.next().unwrap(), parts.nth(1).unwrap()))
    }
}

/// The configurations of the recording, and its values.
fn recording() -> (Vec<Value>, Vec<Recorded>) {
    let mut lines = recorded::lines("etcd-registry/encryption.jsonl").into_iter();
    let configurations = lines.next().unwrap()["configurations"].as_array().unwrap().clone();
    let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let values = lines.map(|line| Recorded {
        key: text(&line, "key"),
        prefix: text(&line, "prefix"),
        value: BASE64_STANDARD.decode(text(&line, "value_b64")).unwrap(),
        shown: line["json"].clone(),
    });
    (configurations, values.collect())
}

fn of(configuration: &Value) -> Encryption {
    read(configuration.to_string().as_bytes()).unwrap()
}

/// Decrypts a value of a secret.
fn opened(encryption: &Encryption, key: &str, value: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let opened = encryption.providers("", "secrets").open(key, value);
    opened.map(|opened| (opened.value.into_owned(), opened.is_stale)).map_err(|error| error.to_string())
}

/// The providers of a configuration, each with its keys.
fn keys(configuration: &mut Value) -> Vec<(String, &mut Vec<Value>)> {
    let providers = configuration["resources"][0]["providers"].as_array_mut().unwrap();
    let members = providers.iter_mut().flat_map(|provider| provider.as_object_mut().unwrap().iter_mut());
    let keyed = members
        .filter_map(|(name, keys)| Some((name.clone(), keys.get_mut("keys").and_then(Value::as_array_mut)?)));
    keyed.collect()
}

#[test]
fn recorded_values_are_read_with_every_configuration_that_kube_apiserver_had() {
    let (configurations, values) = recording();
    assert!(configurations.len() >= 5 && values.len() >= 15, "the recording is read");
    for configuration in &configurations {
        let encryption = of(configuration);
        let first = &configuration["resources"][0]["providers"][0];
        for recorded in &values {
            let (plain, is_stale) = opened(&encryption, &recorded.key, &recorded.value).unwrap();
            let mut object = protobuf::decode(&plain, schema::find("v1", "Secret").unwrap()).unwrap();
            // The revision is not stored (ET-13).
            let mut shown = recorded.shown.clone();
            shown["metadata"].as_object_mut().unwrap().remove("resourceVersion").unwrap();
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            assert_eq!(Value::Object(object), shown, "{}", recorded.key);
            // What the first provider wrote with its first key is as it would be written now.
            let is_newest = match recorded.written_with() {
                Some((provider, key)) => first[provider]["keys"][0]["name"] == json!(key),
                None => !first["identity"].is_null(),
            };
            assert_eq!(is_stale, !is_newest, "{} {}", recorded.key, recorded.prefix);
        }
    }
}

#[test]
fn recorded_values_are_read_with_their_key_alone() {
    let (configurations, values) = recording();
    let mut without = 0;
    for recorded in &values {
        let Some((provider, key)) = recorded.written_with() else { continue };
        let mut configuration = configurations[0].clone();
        for (name, keys) in keys(&mut configuration) {
            for entry in keys.iter_mut().filter(|entry| name == provider && entry["name"] == json!(key)) {
                entry["name"] = json!("other");
            }
        }
        let error = opened(&of(&configuration), &recorded.key, &recorded.value).unwrap_err();
        for part in [&*recorded.key, provider, key, "--encryption-provider-config"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        without += 1;

        // Another secret under the same name.
        let mut configuration = configurations[0].clone();
        for (name, keys) in keys(&mut configuration) {
            for entry in keys.iter_mut().filter(|entry| name == provider && entry["name"] == json!(key)) {
                let mut secret = BASE64_STANDARD.decode(entry["secret"].as_str().unwrap()).unwrap();
                secret[0] ^= 1;
                entry["secret"] = json!(BASE64_STANDARD.encode(secret));
            }
        }
        let (plain, _) = opened(&of(&configurations[0]), &recorded.key, &recorded.value).unwrap();
        match opened(&of(&configuration), &recorded.key, &recorded.value) {
            Err(error) => assert!(error.contains("another key of the same name"), "{error}"),
            // CBC has no checksum: one wrong key in 256 gives text that ends as padding may.
            Ok((found, _)) => assert!(provider == "aescbc" && found != plain, "{}", recorded.prefix),
        }
    }
    assert!(without >= 10, "{without} values are encrypted");
}

#[test]
fn values_of_aesgcm_are_bound_to_their_place_and_no_others() {
    let (configurations, values) = recording();
    let encryption = of(&configurations[0]);
    let mut bound = 0;
    for recorded in &values {
        let elsewhere = format!("{}-moved", recorded.key);
        let is_read = opened(&encryption, &elsewhere, &recorded.value).is_ok();
        let is_bound = recorded.written_with().is_some_and(|(provider, _)| provider == "aesgcm");
        assert_eq!(is_read, !is_bound, "{}", recorded.prefix);
        bound += usize::from(is_bound);
    }
    assert!(bound > 0);
}

#[test]
fn changed_values_of_aesgcm_and_secretbox_are_noticed() {
    let (configurations, values) = recording();
    let encryption = of(&configurations[0]);
    let sealed = |provider: &str| {
        let found =
            values.iter().find(|value| value.written_with().is_some_and(|(name, _)| name == provider));
        found.unwrap()
    };
    for recorded in [sealed("aesgcm"), sealed("secretbox")] {
        for at in recorded.prefix.len()..recorded.value.len() {
            let mut changed = recorded.value.clone();
            changed[at] ^= 0x10;
            opened(&encryption, &recorded.key, &changed).unwrap_err();
        }
        for length in recorded.prefix.len()..recorded.value.len() {
            opened(&encryption, &recorded.key, &recorded.value[..length]).unwrap_err();
        }
    }
}

/// A configuration with one provider, for secrets.
fn with(provider: &str, keys: &Value) -> Value {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{provider: {"keys": keys}}]}]})
}

#[test]
fn openssl_reads_what_aescbc_writes_and_the_other_way_round() {
    const PREFIX: &[u8] = b"k8s:enc:aescbc:v1:k:";
    for (bits, secret) in [(128, vec![7_u8; 16]), (192, vec![8; 24]), (256, vec![9; 32])] {
        let keys = json!([{"name": "k", "secret": BASE64_STANDARD.encode(&secret)}]);
        let encryption = of(&with("aescbc", &keys));
        let secrets = encryption.providers("", "secrets");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for length in [0, 1, 15, 16, 17, 4_096] {
            let text = "secret ".chars().cycle().take(length).collect::<String>();
            let sealed = secrets.seal("/core/secrets/a/b", text.as_bytes()).unwrap();
            let (nonce, body) = sealed.strip_prefix(PREFIX).unwrap().split_at(16);
            let openssl = |direction: &str, input: &str| {
                let mut command = tool::command("openssl");
                command.args(["enc", direction, &format!("-aes-{bits}-cbc"), "-a", "-A"]);
                command.args(["-K", &hex(&secret), "-iv", &hex(nonce)]);
                Finished::with_input(&mut command, input.as_bytes()).ok()
            };
            assert_eq!(openssl("-d", &BASE64_STANDARD.encode(body)), text);
            let theirs = BASE64_STANDARD.decode(openssl("-e", &text).trim()).unwrap();
            let theirs = [PREFIX, nonce, &theirs].concat();
            assert_eq!(*secrets.open("/core/secrets/a/b", &theirs).unwrap().value, *text.as_bytes());
        }
    }
}

#[test]
fn what_is_written_is_read_again_and_never_written_the_same_way_twice() {
    for (provider, length) in [("aescbc", 16), ("aesgcm", 24), ("aesgcm", 32), ("secretbox", 32)] {
        let keys = json!([{"name": "k", "secret": BASE64_STANDARD.encode(vec![3; length])}]);
        let encryption = of(&with(provider, &keys));
        let secrets = encryption.providers("", "secrets");
        let text = br#"{"kind":"Secret"}"#;
        let [one, other] = [(); 2].map(|()| secrets.seal("/core/secrets/a/b", text).unwrap().into_owned());
        assert_ne!(one, other, "{provider}: a new nonce for each");
        for sealed in [&one, &other] {
            let opened = secrets.open("/core/secrets/a/b", sealed).unwrap();
            assert_eq!((&*opened.value, opened.is_stale), (&text[..], false));
        }
        // Without identity, nothing that is readable is taken for a secret.
        secrets.open("/core/secrets/a/b", text).unwrap_err();
        secrets.seal("/core/secrets/a/b", &one).unwrap_err();
    }
}

#[test]
fn the_narrowest_rule_applies() {
    let key =
        |name: &str| json!({"aescbc": {"keys": [{"name": name, "secret": BASE64_STANDARD.encode([1; 16])}]}});
    let rule = |resources: &[&str], name: &str| json!({"resources": resources, "providers": [key(name)]});
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
    "resources": [
        rule(&["secrets", "deployments.apps"], "one"),
        rule(&["*."], "core"),
        rule(&["*.apps"], "apps"),
        rule(&["*.*"], "all"),
    ]});
    let encryption = of(&configuration);
    for (group, resource, name) in [
        ("", "secrets", "one"),
        ("", "configmaps", "core"),
        ("apps", "deployments", "one"),
        ("apps", "daemonsets", "apps"),
        ("", "deployments", "core"),
        ("batch", "jobs", "all"),
    ] {
        let sealed = encryption.providers(group, resource).seal("/k", b"{}").unwrap();
        assert!(sealed.starts_with(format!("k8s:enc:aescbc:v1:{name}:").as_bytes()), "{group} {resource}");
    }
    let some = of(&json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [rule(&["secrets"], "one")]}));
    assert_eq!(&*some.providers("", "configmaps").seal("/k", b"{}").unwrap(), b"{}");
    assert!(some.providers("", "configmaps").open("/k", b"k8s:enc:aescbc:v1:one:x").is_err());
}

#[test]
fn invalid_configurations_are_refused_with_every_error_and_without_secrets() {
    let secret = BASE64_STANDARD.encode(b"never shown, sixteen");
    let [key, other] = [[1; 32], [2; 32]].map(|key| BASE64_STANDARD.encode(key));
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
    "resources": [
        {"resources": ["secrets", "secrets", "*", "Secrets", "secrets.*", "jobs.extensions", ""],
            "providers": [{"aescbc": {"keys": [
                {"name": "a", "secret": secret}, {"name": "a:b", "secret": "%%%"}, {"secret": ""}]}}]},
        {"resources": ["configmaps", "*."], "providers": [{}, {"kms": {"name": "k"}, "identity": {}}, {"secretbox": {"keys": []}},
            {"identity": {}, "aesgcm": {"keys": [{"name": "x", "secret": secret}, {"name": "x", "secret": key}]}}]},
        {"resources": ["*.*", "events.events.k8s.io", "serviceipallocations"]},
        {"resources": ["pods"], "providers": [{"identity": {}}]},
        {"resources": ["jobs.batch"], "providers": [
            {"aesgcm": {"keys": [{"name": "x", "secret": key}]}}, {"secretbox": {"keys": [{"name": "x", "secret": other}]}},
            {"aesgcm": {"keys": [{"name": "x", "secret": key}, {"name": "x", "secret": other}]}}]},
    ]});
    let Err(EncryptionError::Invalid(errors)) = read(configuration.to_string().as_bytes()) else { panic!() };
    let found: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    let due = [
        "resources[0].resources[1]",
        "resources[0].resources[2]",
        "resources[0].resources[3]",
        "resources[0].resources[4]",
        "resources[0].resources[5]",
        "resources[0].resources[6]",
        "resources[0].providers[0].aescbc.keys[0].secret",
        "resources[0].providers[0].aescbc.keys[1].name",
        "resources[0].providers[0].aescbc.keys[1].secret",
        "resources[0].providers[0].aescbc.keys[2].name",
        "resources[0].providers[0].aescbc.keys[2].secret",
        "resources[1].resources[1]",
        "resources[1].providers[0]",
        "resources[1].providers[1]",
        "resources[1].providers[1].kms.apiVersion",
        "resources[1].providers[1].kms.endpoint",
        "resources[1].providers[2].secretbox.keys",
        "resources[1].providers[3]",
        "resources[1].providers[3].aesgcm.keys[0].secret",
        "resources[1].providers[3].aesgcm.keys[1].name",
        "resources[2].providers",
        "resources[2].resources[1]",
        "resources[2].resources[2]",
        "resources[3].resources[0]",
        "resources[4].resources[0]",
        // Another provider may use the name, and the same key may be there twice.
        "resources[4].providers[2].aesgcm.keys[1].name",
    ];
    assert_eq!(found, due);
    let text = EncryptionError::Invalid(errors).to_string();
    assert!(!text.contains(&secret) && !text.contains("never shown"), "{text}");
}

#[test]
fn what_is_no_configuration_is_refused_without_showing_its_values() {
    let whole = |resources: &str| {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {resources}\n"
        )
    };
    for (text, part) in [
        (whole("[]"), "resources: Required value"),
        (whole("[{providers: hunter2}]"), "line 3"),
        (whole("[{resources: [a], providers: [{aescbc: {keys: [{name: a, secret: 77345}]}}]}]"), "line 3"),
        (whole("[{resource: [a]}]"), "unknown field `resource`"),
        ("kind: EncryptionConfig".to_owned(), "EncryptionConfiguration"),
        (String::new(), "must be one object"),
    ] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("77345"), "{error}");
    }
}

/// A configuration with a KMS plug-in, some of whose fields are different.
fn with_kms(changes: &Value) -> Value {
    let mut kms = json!({"apiVersion": "v2", "name": "cloud", "endpoint": "unix:///run/kms.sock"});
    kms.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    kms.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"kms": kms}]}]})
}

#[test]
fn a_kms_plugin_is_configured_as_in_kube_apiserver() {
    for (changes, socket, timeout) in [
        (json!({}), "/run/kms.sock", Duration::from_secs(3)),
        (json!({"endpoint": "unix:///a b", "timeout": "1.5s"}), "/a b", Duration::from_millis(1_500)),
    ] {
        let encryption = of(&with_kms(&changes));
        let plugins: Vec<_> = encryption.plugins().map(Kms::settings).collect();
        let [settings] = plugins[..] else { panic!("one plug-in") };
        assert_eq!((&*settings.name, &*settings.socket, settings.timeout), ("cloud", socket, timeout));
        assert!(encryption.providers("", "secrets").encrypt());
        // It is not called by reading a configuration.
        assert!(encryption.health().unwrap_err().contains("not used yet"));
    }
    let long = format!("unix:///{}", "s".repeat(107));
    for (changes, field, words) in [
        (json!({"apiVersion": null}), "apiVersion", "KMS v1 is not supported"),
        (json!({"apiVersion": "v1"}), "apiVersion", "KMS v1 is not supported"),
        (json!({"apiVersion": "v3"}), "apiVersion", "\"v2\""),
        (json!({"name": null}), "name", "Required value"),
        (json!({"name": "a:b"}), "name", "colon"),
        (json!({"endpoint": null}), "endpoint", "unix:///PATH"),
        (json!({"endpoint": "/run/kms.sock"}), "endpoint", "unix:///PATH"),
        (json!({"endpoint": "unix://run/kms.sock"}), "endpoint", "unix:///PATH"),
        (json!({"endpoint": "http://127.0.0.1:80"}), "endpoint", "unix:///PATH"),
        (json!({"endpoint": "unix:///@kms"}), "endpoint", "must have a file"),
        (json!({"endpoint": "unix:///a%20b"}), "endpoint", "%"),
        (json!({"endpoint": long}), "endpoint", "107 bytes"),
        (json!({"timeout": "0s"}), "timeout", "positive"),
        (json!({"timeout": "-3s"}), "timeout", "positive"),
        (json!({"timeout": "soon"}), "timeout", "positive"),
        (json!({"timeout": "2m"}), "timeout", "at most 1m"),
        (json!({"cachesize": 1000}), "cachesize", "v2 has no cachesize"),
    ] {
        let error = read(with_kms(&changes).to_string().as_bytes()).unwrap_err();
        let EncryptionError::Invalid(errors) = &error else { panic!("{error}") };
        let found: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(found, [format!("resources[0].providers[0].kms.{field}")], "{changes}");
        assert!(error.to_string().contains(words), "{changes}: {error}");
    }
    // A name is that of one plug-in, in all rules.
    let mut twice = with_kms(&json!({}));
    let mut rule = twice["resources"][0].clone();
    rule["resources"] = json!(["configmaps"]);
    twice["resources"].as_array_mut().unwrap().push(rule);
    let error = read(twice.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("resources[1].providers[0].kms.name: Duplicate value"), "{error}");
    assert!(
        read(
            br#"{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources":
        [{"resources": ["secrets"], "providers": [{"kms": {"cacheSize": 1}}]}]}"#
        )
        .is_err()
    );
}

#[test]
fn the_configurations_of_the_documentation_are_valid() {
    let page = std::fs::read_to_string(recorded::repository().join("docs/encryption.md")).unwrap();
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let secrets = read(example.as_bytes()).unwrap();
        assert!(secrets.providers("", "secrets").encrypt() && !secrets.providers("", "pods").encrypt());
    }
}
