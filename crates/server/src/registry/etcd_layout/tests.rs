//! Compares the layout with the recorded etcd of kube-apiserver 1.36, and checks that nothing changes on the way there and
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kinds::resource::Resource;
use kinds::resources::autoscalers;
use kinds::resources::core::events::EVENTS;
use kinds::{Map, decode, protobuf};
use portcullis_store::encryption::{Key, Provider, Resources};
use portcullis_testkit::recorded;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::encryption;

const TTL: Duration = Duration::from_secs(3_600);

/// The recorded resources that are not served here, with the reason.
const NOT_SERVED: [(&str, &str); 1] = [("ranges", "no API object: the node ports in use")];

fn layout() -> EtcdLayout {
    with(Encryption::none())
}

fn with(encryption: Encryption) -> EtcdLayout {
    EtcdLayout::new(&Kinds::built_in(), Arc::new(LiveEncryption::new(encryption)), TTL).unwrap()
}

/// The row of a key of the store.
fn row(layout: &EtcdLayout, key: &str) -> &'static Resource {
    match layout.places.of_key(key).unwrap() {
        Found::In(place, _) => place.forms.as_ref().unwrap().row(),
        Found::Custom(custom) => {
            let kinds = Kinds::built_in();
            let mut rows = kinds.stored();
            rows.find(|row| row.group == custom.group && row.plural == custom.plural).unwrap()
        }
    }
}

/// One recorded value.
#[derive(Clone, Debug)]
struct Recorded {
    etcd_key: String,
    value: Vec<u8>,
    revision: Revision,
    is_leased: bool,
    /// The object as GET showed it.
    shown: Json,
}

impl Recorded {
    /// The path below the prefix.
    fn path(&self) -> &str {
        self.etcd_key.strip_prefix("/registry/").unwrap()
    }

    /// The object that was shown, in the form in which this server would have decoded it from a request.
    fn object(&self, row: &'static Resource) -> Map {
        let mut object = decode::value(self.shown.clone(), row.schema).unwrap().object;
        (row.default)(&mut object);
        object
    }
}

/// All values of a recording that are served here, by their keys in the store.
fn served(name: &str) -> Vec<(Box<str>, Recorded)> {
    let layout = layout();
    let mut not_served = BTreeSet::new();
    let mut addresses = 0;
    let mut served = Vec::new();
    for line in recorded::lines(name) {
        let recorded = Recorded {
            etcd_key: line["key"].as_str().unwrap().to_owned(),
            value: BASE64_STANDARD.decode(line["value_b64"].as_str().unwrap()).unwrap(),
            revision: Revision(line["mod_revision"].as_u64().unwrap()),
            is_leased: line["lease"].as_bool().unwrap(),
            shown: line["json"].clone(),
        };
        match layout.key(recorded.path()) {
            // The addresses of API servers are no API objects.
            Some(key) if key.starts_with("/portcullis/masterleases/") => {
                assert!(recorded.shown.is_null() && recorded.is_leased);
                layout.open(&key, &recorded.etcd_key, &recorded.value, recorded.revision).unwrap();
                assert_eq!(layout.path(&key).as_deref(), Some(recorded.path()));
                assert_eq!(layout.lifetime(&key), Some(Duration::from_secs(15)), "the recorded one");
                addresses += 1;
            }
            Some(key) => {
                assert!(!recorded.shown.is_null(), "{} is served and no API shows it", recorded.etcd_key);
                served.push((key, recorded));
            }
            None => {
                let reason = NOT_SERVED.iter().find(|(start, _)| recorded.path().starts_with(start));
                not_served.insert(reason.unwrap_or_else(|| panic!("{} is not served", recorded.path())).0);
            }
        }
    }
    assert_eq!(not_served, NOT_SERVED.iter().map(|(start, _)| *start).collect(), "all of them occur");
    assert!(served.len() > 200, "the recording is read");
    assert_eq!(addresses, 1, "the recorded kube-apiserver has one address");
    served
}

fn json_values() -> &'static [(Box<str>, Recorded)] {
    static VALUES: LazyLock<Vec<(Box<str>, Recorded)>> =
        LazyLock::new(|| served("etcd-registry/registry-json.jsonl"));
    &VALUES
}

fn protobuf_values() -> &'static [(Box<str>, Recorded)] {
    static VALUES: LazyLock<Vec<(Box<str>, Recorded)>> =
        LazyLock::new(|| served("etcd-registry/registry-protobuf.jsonl"));
    &VALUES
}

/// A recorded JSON value with this start of its path.
fn example(start: &str) -> &'static (Box<str>, Recorded) {
    json_values().iter().find(|(_, recorded)| recorded.path().starts_with(start)).unwrap()
}

/// ET-10.
#[test]
fn recorded_objects_lie_under_the_recorded_keys() {
    let layout = layout();
    for (key, recorded) in json_values().iter().chain(protobuf_values()) {
        let resource = row(&layout, key);
        assert_eq!(resource.kind, recorded.shown["kind"], "{key}");
        let text = |field: &str| recorded.shown["metadata"][field].as_str().unwrap_or_default();
        assert_eq!(*key, storage::key(resource, text("namespace"), text("name")));
        assert_eq!(layout.path(key).as_deref(), Some(recorded.path()));
    }
}

/// ET-11, ET-13: without any exception.
#[test]
fn recorded_values_are_shown_as_kube_apiserver_showed_them() {
    let layout = layout();
    for (key, recorded) in json_values().iter().chain(protobuf_values()) {
        let opened = layout.open(key, &recorded.etcd_key, &recorded.value, recorded.revision).unwrap();
        assert_eq!(serde_json::from_slice::<Json>(&opened.value).unwrap(), recorded.shown, "{key}");
        // As written here: in JSON, and in the stored version.
        let written = serde_json::from_slice::<Json>(&recorded.value);
        let is_as_here = written.is_ok_and(|value| value["apiVersion"] == *row(&layout, key).api_version());
        assert_eq!(opened.is_stale, !is_as_here, "{key}");
        let head = format!("{}{}\"", storage::head(row(&layout, key)), recorded.revision.0);
        assert!(opened.value.starts_with(head.as_bytes()), "{key}: {opened:?}");
    }
}

/// ET-11, ET-13.
#[test]
fn recorded_objects_are_written_as_kube_apiserver_wrote_them() {
    let layout = layout();
    let mut different = Vec::new();
    for (key, recorded) in json_values() {
        let resource = row(&layout, key);
        let value = storage::encode(resource, &recorded.object(resource)).unwrap();
        let sealed = layout.seal(key, &recorded.etcd_key, &value).unwrap();
        assert!(sealed.ends_with(b"}\n") && recorded.value.ends_with(b"}\n"), "{key}");
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).unwrap();
        if parsed(&sealed) != parsed(&recorded.value) {
            different.push((key, parsed(&sealed), parsed(&recorded.value)));
        }
    }
    // kube-apiserver stores definitions in an older version.
    let before = different.len();
    different.retain(|(key, _, _)| !key.starts_with("/apiextensions.k8s.io/"));
    assert_eq!(before - different.len(), 2);
    // kube-apiserver clears the status of a new claim, stores the claim, and shows it with the default of the phase.
    let [(key, ours, theirs)] = &mut *different else { panic!("{different:#?}") };
    assert_eq!(&***key, "/core/persistentvolumeclaims/team-a/data");
    assert_eq!(theirs["status"], json!({}));
    theirs["status"]["phase"] = json!("Pending");
    assert_eq!(ours, theirs);
}

/// ET-14.
#[test]
fn events_alone_have_a_lifetime() {
    let layout = layout();
    for (key, recorded) in json_values().iter().chain(protobuf_values()) {
        assert_eq!(layout.lifetime(key), recorded.is_leased.then_some(TTL), "{key}");
    }
    assert_eq!(layout.lifetime("/core/events/default/web"), Some(TTL));
    assert_eq!(layout.lifetime("/core/events/default"), None);
}

/// ET-10: `ExpectedEtcdPath` in test/integration/etcd/data.go of Kubernetes, for all kinds that are served here; for
/// machines, as for its custom resources.
#[test]
fn all_kinds_lie_where_the_tests_of_kubernetes_expect_them() {
    const NAMESPACED: &str = "
        configmaps controllers endpointslices events ingress leases limitranges networkpolicies persistentvolumeclaims
        pods podtemplates resourcequotas secrets serviceaccounts services/endpoints services/specs controllerrevisions
        daemonsets deployments replicasets statefulsets horizontalpodautoscalers cronjobs jobs podcertificaterequests
        poddisruptionbudgets rolebindings roles resourceclaims resourceclaimtemplates csistoragecapacities
        cluster.x-k8s.io/machines machine.openshift.io/machines
    ";
    const CLUSTERED: &str = "
        apiregistration.k8s.io/apiservices certificatesigningrequests clusterrolebindings clusterroles
        clustertrustbundles csidrivers csinodes deviceclasses flowschemas ingressclasses ipaddresses minions
        mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations namespaces
        persistentvolumes priorityclasses prioritylevelconfigurations resourceslices runtimeclasses servicecidrs
        storageclasses validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations
        volumeattachments volumeattributesclasses apiextensions.k8s.io/customresourcedefinitions
    ";
    let layout = layout();
    let namespaced = NAMESPACED.split_ascii_whitespace().map(|path| format!("{path}/ns/name"));
    let due: BTreeSet<_> =
        namespaced.chain(CLUSTERED.split_ascii_whitespace().map(|path| format!("{path}/name"))).collect();
    let kinds = Kinds::built_in();
    let found: BTreeSet<_> = kinds
        .stored()
        .map(|row| {
            layout.path(&storage::key(row, if row.is_namespaced { "ns" } else { "" }, "name")).unwrap()
        })
        .collect();
    assert_eq!(found, due);
}

/// ET-12.
#[test]
fn what_is_not_served_has_no_key() {
    let layout = layout();
    for path in [
        "",
        "/",
        "pods",
        "pods/",
        "pods/default",
        "pods/default/",
        "pods//web",
        "pods/default/web/",
        "pods/default/web/log",
        "/pods/default/web",
        "core/pods/default/web",
        "namespaces/default/extra",
        "namespaces/",
        "nodes/node-a",
        "services/default/web",
        "services/specs/default",
        "services/endpoints/default/web/more",
        "replicationcontrollers/default/web",
        "ingresses/default/web",
        "apiservices/v1.apps",
        "machines/default/m",
        "customresourcedefinitions/a.b.c",
        "apiextensions.k8s.io/customresourcedefinitions/a/b",
        "rbac.authorization.k8s.io/roles/default/admin",
        "rbac.authorization.k8s.io/clusterroles/admin",
        "certificates.k8s.io/certificatesigningrequests/a",
        "stable.example.com/crontabs",
        "stable.example.com/crontabs/",
        "stable.example.com/crontabs//a",
        "stable.example.com/crontabs/default/",
        "stable.example.com/crontabs/default/a/b",
        "stable.example.com/Crontabs/default/a",
        "stable..com/crontabs/default/a",
        "stable/crontabs/default/a",
        "peerserverleases/a",
        "ranges/serviceips",
        "ranges/servicenodeports",
        "portcullis/aggregated",
        "portcullis/other/admin",
    ] {
        assert_eq!(layout.key(path), None, "{path}");
    }
    for key in [
        "",
        "pods/default/web",
        "/core/pods/web",
        "/core/pods/a/b/c",
        "/core/pods//web",
        "/core//a/b",
        "/apps/pods/a/b",
    ] {
        assert_eq!(layout.path(key), None, "{key}");
        let value = Value { bytes: Bytes::from_static(b"{}"), revision_at: None, relies_on: None };
        layout.seal(key, "/registry/x", &value).unwrap_err();
        layout.open(key, "/registry/x", b"{}", Revision(7)).unwrap_err();
    }
    let few = EtcdLayout::new(&Kinds::of([&EVENTS]), Arc::default(), TTL).unwrap();
    assert_eq!(few.key("pods/default/web"), None);
    assert_eq!(few.key("events/default/web").as_deref(), Some("/core/events/default/web"));
}

static GADGETS: Resource = Resource { group: "pods", kind: "Gadget", plural: "gadgets", ..Resource::USUAL };
static PODS: Resource = Resource { group: "batch", kind: "Pod", plural: "pods", ..Resource::USUAL };
static WIDGETS: Resource =
    Resource { group: "example.com", kind: "Widget", plural: "widgets", ..Resource::USUAL };

#[test]
fn two_kinds_never_share_a_place() {
    for row in [&GADGETS, &PODS] {
        let error =
            EtcdLayout::new(&Kinds::built_in().with(row), Arc::default(), TTL).unwrap_err().to_string();
        assert!(error.contains("core/pods") && error.contains(row.group), "{error}");
    }
    let layout = EtcdLayout::new(&Kinds::built_in().with(&WIDGETS), Arc::default(), TTL).unwrap();
    assert_eq!(layout.path("/example.com/widgets/a/b").as_deref(), Some("example.com/widgets/a/b"));
}

/// The records of aggregated roles, which no API shows.
#[test]
fn records_are_kept_as_they_are() {
    let layout = layout();
    let (key, etcd_key) = ("/portcullis/aggregated/admin", "/registry/portcullis/aggregated/admin");
    assert_eq!(layout.path(key).as_deref(), etcd_key.strip_prefix("/registry/"));
    assert_eq!(layout.key("portcullis/aggregated/admin").as_deref(), Some(key));
    let value =
        Value { bytes: Bytes::from_static(br#"[{"verbs":["get"]}]"#), revision_at: None, relies_on: None };
    let sealed = layout.seal(key, etcd_key, &value).unwrap();
    assert_eq!(layout.open(key, etcd_key, &sealed, Revision(7)).unwrap().value, value.bytes);
    layout.open(key, etcd_key, b"[", Revision(7)).unwrap_err();
    assert_eq!(layout.lifetime(key), None);
}

fn error(layout: &EtcdLayout, key: &str, value: &[u8]) -> String {
    let etcd_key = format!("/registry/{}", layout.path(key).unwrap());
    let error = layout.open(key, &etcd_key, value, Revision(7)).unwrap_err();
    assert_eq!(*error.key, *etcd_key);
    error.to_string()
}

/// ET-12.
#[test]
fn values_that_are_not_the_object_of_their_key_are_refused() {
    let layout = layout();
    let (key, map) = ("/core/configmaps/team-a/web", json!({"name": "web", "namespace": "team-a"}));
    let text = |value: Json| value.to_string().into_bytes();
    let object = |kind: &str, version: &str, metadata: &Json| {
        text(json!({"kind": kind, "apiVersion": version, "metadata": metadata}))
    };
    layout
        .open(key, "/registry/configmaps/team-a/web", &object("ConfigMap", "v1", &map), Revision(7))
        .unwrap();
    for (value, part) in [
        (Vec::new(), "is empty, not a ConfigMap of v1"),
        (b"{}".to_vec(), r#"has the kind "", not ConfigMap"#),
        (b"null".to_vec(), "is not a ConfigMap of v1 in JSON"),
        (b"[]".to_vec(), "is not a ConfigMap of v1 in JSON"),
        (br#"["ConfigMap","v1"]"#.to_vec(), "is not a ConfigMap of v1 in JSON"),
        (b"kind: ConfigMap\napiVersion: v1\n".to_vec(), "is not a ConfigMap of v1 in JSON"),
        (b"garbage".to_vec(), "is not a ConfigMap of v1 in JSON"),
        (vec![0xff; 100], "is not a ConfigMap of v1 in JSON"),
        (object("Secret", "v1", &map), r#"has the kind "Secret", not ConfigMap"#),
        (object("ConfigMap", "", &map), r#"has the apiVersion "", in which"#),
        (
            object("ConfigMap", "v2", &map),
            r#"has the apiVersion "v2", in which this server cannot read a ConfigMap"#,
        ),
        (object("ConfigMap", "apps/v1", &map), "in one of v1"),
        (
            object("ConfigMap", "v1", &json!({"name": "web"})),
            r#"metadata.namespace "", but its key says "team-a""#,
        ),
        (object("ConfigMap", "v1", &json!({"name": "a", "namespace": "team-a"})), r#"metadata.name "a""#),
        (object("ConfigMap", "v1", &json!({"name": 5, "namespace": "team-a"})), "metadata.name"),
        (text(json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": map, "data": 5})), "data"),
        (b"{\"kind\":\"ConfigMap\",\"kind\":\"ConfigMap\"}".to_vec(), "duplicate field"),
        (b"k8s\0".to_vec(), r#"has the kind "", not ConfigMap"#),
        (b"k8s\0\x0a\xff".to_vec(), "is not a ConfigMap of v1 in protobuf"),
        (b"k8s:enc:aesgcm:v1:k:x".to_vec(), "--encryption-provider-config"),
        (vec![b' '; MAX_VALUE + 1], "at most 10485760"),
    ] {
        let error = error(&layout, key, &value);
        assert!(
            error.starts_with("the value of /registry/configmaps/team-a/web ") && error.contains(part),
            "{error}"
        );
    }
    let mut with_more = object("ConfigMap", "v1", &map);
    with_more.extend_from_slice(b"{}");
    error(&layout, key, &with_more);
    for cut in 0..with_more.len() - 2 {
        error(&layout, key, &with_more[..cut]);
    }
    // A namespace inside of a cluster-scoped object.
    let value = object("Namespace", "v1", &json!({"name": "a", "namespace": "b"}));
    assert!(error(&layout, "/core/namespaces/a", &value).contains("metadata.namespace"));
    // Kubernetes has no protobuf form of custom resources.
    let machine = b"k8s\0\x0a\x27\x0a\x1cmachine.openshift.io/v1beta1\x12\x07Machine";
    assert!(error(&layout, "/machine.openshift.io/machines/a/b", machine).contains("no protobuf form"));
}

/// ET-12.
#[test]
fn protobuf_that_breaks_off_or_lies_under_another_key_is_refused() {
    let layout = layout();
    let (key, recorded) =
        protobuf_values().iter().find(|(_, recorded)| recorded.path().starts_with("pods/")).unwrap();
    // The last four bytes are two fields of the envelope that are not set.
    let end = recorded.value.strip_suffix(b"\x1a\x00\x22\x00").unwrap().len();
    for cut in 0..end {
        error(&layout, key, &recorded.value[..cut]);
    }
    for (other, _) in protobuf_values() {
        if other != key {
            error(&layout, other, &recorded.value);
        }
    }
}

/// ET-11, ET-13.
#[test]
fn values_put_there_by_hand_are_read_where_kube_apiserver_reads_them() {
    let layout = layout();
    let open = |key: &str, value: &[u8]| {
        let opened = layout.open(key, "/registry/x", value, Revision(7));
        serde_json::from_slice::<Json>(&opened.unwrap().value).unwrap()
    };
    // White space, another order, a revision, unknown and duplicate fields of which the last counts, no uid.
    let value = br#"
        {"data": {"a": "1"}, "metadata": {"name": "web", "resourceVersion": "5", "namespace": "default"},
         "apiVersion": "v1", "more": 1, "kind": "ConfigMap", "data": {"a": "2"}}
    "#;
    let due = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "2"},
        "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}});
    let mut found = open("/core/configmaps/default/web", value);
    found["metadata"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    assert_eq!(found, due);

    // Other versions of the same kind.
    let (key, lease) = example("leases/");
    let mut old: Json = serde_json::from_slice(&lease.value).unwrap();
    old["apiVersion"] = json!("coordination.k8s.io/v1beta1");
    let mut due = lease.shown.clone();
    due["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(open(key, old.to_string().as_bytes()), due);

    let (key, event) = example("events/");
    let mut due = event.shown.clone();
    due["metadata"]["resourceVersion"] = json!("7");
    let new = (EVENTS.stored_as.unwrap().from)(due.as_object().unwrap().clone(), &EVENTS);
    assert_eq!(new["apiVersion"], "events.k8s.io/v1");
    assert_eq!(open(key, Json::Object(new).to_string().as_bytes()), due);

    let old = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let found = open("/autoscaling/horizontalpodautoscalers/default/web", old.to_string().as_bytes());
    assert_eq!(found["apiVersion"], json!(autoscalers::HORIZONTAL_POD_AUTOSCALERS.api_version()));
    assert_eq!(found["spec"]["maxReplicas"], 3);
}

/// ET-50: with its key alone, and with aesgcm under its own key of etcd alone.
#[test]
fn recorded_encrypted_values_are_read_and_stay_in_their_place() {
    let mut lines = recorded::lines("etcd-registry/encryption.jsonl").into_iter();
    let configurations = lines.next().unwrap()["configurations"].as_array().unwrap().clone();
    let layouts: Vec<_> = configurations
        .iter()
        .map(|configuration| with(encryption::read(configuration.to_string().as_bytes()).unwrap()))
        .collect();
    let mut providers: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        let (etcd_key, shown) = (line["key"].as_str().unwrap(), &line["json"]);
        let value = BASE64_STANDARD.decode(line["value_b64"].as_str().unwrap()).unwrap();
        let revision = Revision(shown["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
        let provider = line["prefix"].as_str().unwrap().split(':').nth(2).unwrap_or("identity");
        for layout in &layouts {
            let key = layout.key(etcd_key.strip_prefix("/registry/").unwrap()).unwrap();
            let opened = layout.open(&key, etcd_key, &value, revision).unwrap();
            assert_eq!(serde_json::from_slice::<Json>(&opened.value).unwrap(), *shown);
            // Another prefix is another place, and the same secret.
            let elsewhere = etcd_key.replace("/registry/", "/other/");
            assert_eq!(layout.open(&key, &elsewhere, &value, revision).is_err(), provider == "aesgcm");
        }
        let key = layout().key(etcd_key.strip_prefix("/registry/").unwrap()).unwrap();
        assert_eq!(layout().open(&key, etcd_key, &value, revision).is_ok(), provider == "identity");
        *providers.entry(provider.to_owned()).or_default() += 1;
    }
    assert_eq!(providers.keys().collect::<Vec<_>>(), ["aescbc", "aesgcm", "identity", "secretbox"]);
}

/// A layout that encrypts all events of the core group, and all secrets.
fn encrypted() -> EtcdLayout {
    let mut encryption = Encryption::none();
    for resource in ["events", "secrets"] {
        let one = Resources::One { group: String::new(), resource: resource.to_owned() };
        let key = Key::aes_gcm("k", &[1; 32]).unwrap();
        encryption.add(one, [Arc::new(Provider::AesGcm(vec![key])), Arc::new(Provider::Identity)]);
    }
    with(encryption)
}

/// The value of an object with its revision, as a store keeps it.
fn kept(value: &Value, revision: Revision) -> Vec<u8> {
    let (start, rest) = value.bytes.split_at(value.revision_at.unwrap());
    [start, revision.0.to_string().as_bytes(), rest].concat()
}

/// ET-11, ET-13, ET-50.
#[test]
fn every_recorded_object_is_read_back_byte_by_byte() {
    let (plain, encrypted) = (layout(), encrypted());
    for (key, recorded) in json_values() {
        let resource = row(&plain, key);
        let value = storage::encode(resource, &recorded.object(resource)).unwrap();
        for layout in [&plain, &encrypted] {
            let sealed = layout.seal(key, &recorded.etcd_key, &value).unwrap();
            let is_encrypted = sealed.starts_with(b"k8s:enc:aesgcm:v1:k:");
            let is_to_be =
                std::ptr::eq(layout, &encrypted) && matches!(resource.plural, "events" | "secrets");
            assert_eq!(is_encrypted, is_to_be, "{key}");
            let opened = layout.open(key, &recorded.etcd_key, &sealed, recorded.revision).unwrap();
            assert_eq!(opened.value, kept(&value, recorded.revision), "{key}");
            assert!(!opened.is_stale, "{key} was just written");
        }
    }
}

/// ET-11: the same bytes in memory, whether they were just written or are read after a restart.
#[test]
fn an_object_of_every_kind_is_read_back_byte_by_byte() {
    let layout = layout();
    for resource in Kinds::built_in().stored() {
        let metadata = json!({"name": "n", "namespace": if resource.is_namespaced { "ns" } else { "" }});
        let mut object = decode::value(json!({"metadata": metadata}), resource.schema).unwrap().object;
        (resource.default)(&mut object);
        let value = storage::encode(resource, &object).unwrap();
        let key = storage::key(resource, if resource.is_namespaced { "ns" } else { "" }, "n");
        let etcd_key = format!("/registry/{}", layout.path(&key).unwrap());
        let sealed = layout.seal(&key, &etcd_key, &value).unwrap();
        assert_eq!(
            layout.open(&key, &etcd_key, &sealed, Revision(7)).unwrap().value,
            kept(&value, Revision(7)),
            "{key}"
        );
    }
}

#[test]
fn a_value_without_its_revision_in_place_is_not_written() {
    let layout = layout();
    for (bytes, at) in [("{}", 1), ("{}", 9), (r#"{"resourceVersion":"#, 19), (r#"{"resourceVersion":""#, 20)]
    {
        let value = Value { bytes: bytes.into(), revision_at: Some(at), relies_on: None };
        layout.seal("/core/pods/a/b", "/registry/pods/a/b", &value).unwrap_err();
    }
    let value = Value { bytes: vec![b' '; MAX_VALUE + 1].into(), revision_at: None, relies_on: None };
    layout.seal("/core/pods/a/b", "/registry/pods/a/b", &value).unwrap_err();
}

/// Any part of a key: also what no API would accept, and what is special elsewhere.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9.:-]{1,12}",
        "[^/]{1,8}",
        Just("specs".to_owned()),
        Just("endpoints".to_owned()),
        Just("..".to_owned())
    ]
}

proptest! {
    /// ET-10.
    #[test]
    fn keys_and_paths_are_each_others_reverse(
        index in 0..Kinds::built_in().stored().count(), namespace in part(), name in part(),
    ) {
        let layout = layout();
        let resource = Kinds::built_in().stored().nth(index).unwrap();
        let key = storage::key(resource, if resource.is_namespaced { &namespace } else { "" }, &name);
        let path = layout.path(&key).unwrap();
        prop_assert_eq!(layout.key(&path), Some(key));
    }

    /// ET-10: also for what is no key and no path.
    #[test]
    fn no_two_keys_have_one_path(
        start in prop_oneof![
            Just("pods"), Just("services"), Just("minions"), Just("events"), Just("machine.openshift.io"), Just("core"),
        ],
        rest in proptest::collection::vec(prop_oneof![Just("specs".to_owned()), Just("machines".to_owned()), "[a-z]{0,2}"], 0..5),
    ) {
        let layout = layout();
        let text = [&[start.to_owned()], &*rest].concat().join("/");
        if let Some(key) = layout.key(&text) {
            prop_assert_eq!(layout.path(&key), Some(text.clone()));
        }
        let text = format!("/{text}");
        if let Some(path) = layout.path(&text) {
            let key = layout.key(&path);
            prop_assert_eq!(key.as_deref(), Some(&*text));
        }
    }

    /// ET-11, ET-13.
    #[test]
    fn what_is_written_is_read_back_with_its_revision(
        index in 0..1_000_usize,
        annotations in proptest::collection::btree_map(".{0,6}", ".{0,20}", 0..4),
        revision in 1..u64::MAX,
    ) {
        let (key, recorded) = &json_values()[index % json_values().len()];
        let layout = encrypted();
        let resource = row(&layout, key);
        let mut object = recorded.object(resource);
        object["metadata"]["annotations"] = json!(annotations);
        let object = decode::value(object.into(), resource.schema).unwrap().object;
        let value = storage::encode(resource, &object).unwrap();
        let sealed = layout.seal(key, &recorded.etcd_key, &value).unwrap();
        let opened = layout.open(key, &recorded.etcd_key, &sealed, Revision(revision)).unwrap();
        prop_assert_eq!(opened.value.to_vec(), kept(&value, Revision(revision)));
        // The same object in protobuf, as kube-apiserver would write it.
        if resource.schema.has_protobuf() {
            let document = protobuf::encode(&object, resource.schema).unwrap();
            let opened = layout.open(key, &recorded.etcd_key, &document, Revision(revision)).unwrap();
            let parsed = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).unwrap();
            prop_assert_eq!(parsed(&opened.value), parsed(&kept(&value, Revision(revision))));
        }
    }
}
