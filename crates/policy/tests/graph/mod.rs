//! The reachability index against a naive model, and against a rebuilt index.
#![allow(clippy::disallowed_methods, reason = "a reader beside the writer is a thread")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod histories;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use model::{Key, World};
use portcullis_policy::graph::{Graph, NodeChanges, VertexError, VertexKind};
use portcullis_policy::objects::{Kind, Object};
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMESPACES: [&str; 2] = ["a", "b"];
const NODES: [&str; 2] = ["n0", "n1"];
const NAMES: [&str; 2] = ["x", "y"];

const KINDS: [(&str, VertexKind); 10] = [
    ("configmaps", VertexKind::ConfigMap),
    ("persistentvolumeclaims", VertexKind::PersistentVolumeClaim),
    ("persistentvolumes", VertexKind::PersistentVolume),
    ("podcertificaterequests", VertexKind::PodCertificateRequest),
    ("pods", VertexKind::Pod),
    ("resourceclaims", VertexKind::ResourceClaim),
    ("resourceslices", VertexKind::ResourceSlice),
    ("secrets", VertexKind::Secret),
    ("serviceaccounts", VertexKind::ServiceAccount),
    ("volumeattachments", VertexKind::VolumeAttachment),
];

const SOURCES: [(&str, Kind); 5] = [
    ("persistentvolumes", Kind::PersistentVolume),
    ("podcertificaterequests", Kind::PodCertificateRequest),
    ("pods", Kind::Pod),
    ("resourceslices", Kind::ResourceSlice),
    ("volumeattachments", Kind::VolumeAttachment),
];

fn kind_of(resource: &str) -> Kind {
    SOURCES.iter().find(|(name, _)| *name == resource).unwrap().1
}

fn apply(graph: &Graph, key: &Key, object: &Value) {
    let json = object.to_string();
    graph.apply(&Object::parse(kind_of(key.0), &json).unwrap()).unwrap();
}

fn rebuilt(world: &World) -> Graph {
    let graph = Graph::new();
    // The other way round than they were made, so that the order is shown to play no part.
    world.0.iter().rev().for_each(|(key, object)| apply(&graph, key, object));
    graph.mark_complete();
    graph
}

/// Every question that can be asked about the small universe.
fn questions() -> impl Iterator<Item = (&'static str, VertexKind, &'static str, &'static str, &'static str)> {
    KINDS.into_iter().flat_map(|(resource, kind)| {
        ["", "a", "b"].into_iter().flat_map(move |namespace| {
            ["", "x", "y", "x-x", "y-x", "x-y"].into_iter().flat_map(move |name| {
                ["n0", "n1", "n2", ""].into_iter().map(move |node| (resource, kind, namespace, name, node))
            })
        })
    })
}

fn assert_equal(graph: &Graph, world: &World) {
    let again = rebuilt(world);
    for (resource, kind, namespace, name, node) in questions() {
        let expected = world.related(resource, namespace, name, node);
        let question = format!("{resource} {namespace:?}/{name:?} for {node:?} in {world:#?}");
        assert_eq!(graph.related(kind, namespace, name, node), expected, "kept: {question}");
        assert_eq!(again.related(kind, namespace, name, node), expected, "rebuilt: {question}");
        let path = graph.path(kind, namespace, name, node);
        assert_eq!(graph.paths(kind, namespace, name).remove(node), path, "of all nodes: {question}");
        assert_eq!(path.is_some(), expected, "explained: {question}");
    }
    assert_eq!(graph.size(), again.size(), "nothing is left behind in {world:#?}");
    for node in NODES {
        let pods = world.0.iter().filter(|(key, pod)| key.0 == "pods" && pod["spec"]["nodeName"] == node);
        let pods: Vec<(&str, &str)> = pods.map(|((_, namespace, name), _)| (&**namespace, &**name)).collect();
        for kind in THROUGH_PODS {
            let found = graph.referred(kind, pods.iter().copied());
            for (namespace, name) in &found {
                assert!(
                    graph.related(kind, namespace, name, node),
                    "{kind:?} {namespace}/{name}: {world:#?}"
                );
            }
            let due = questions()
                .filter(|(_, of, _, _, by)| (*of, *by) == (kind, node))
                .filter(|(resource, _, namespace, name, _)| world.related(resource, namespace, name, node));
            for (_, _, namespace, name, _) in due {
                let object = (namespace.to_owned(), name.to_owned());
                assert!(found.contains(&object), "{kind:?} {object:?} of {node}: {world:#?}");
            }
        }
    }
}

/// The kinds of objects that a node reaches through its pods alone.
const THROUGH_PODS: [VertexKind; 7] = [
    VertexKind::ConfigMap,
    VertexKind::PersistentVolume,
    VertexKind::PersistentVolumeClaim,
    VertexKind::Pod,
    VertexKind::ResourceClaim,
    VertexKind::Secret,
    VertexKind::ServiceAccount,
];

/// The nodes of which it was told.
#[derive(Debug, Default)]
struct Told(Mutex<BTreeSet<String>>);

impl NodeChanges for Told {
    fn changing(&self, node: &str) {
        self.0.lock().unwrap().insert(node.to_owned());
    }
}

/// What each node reaches.
fn reached(world: &World) -> BTreeMap<&'static str, BTreeSet<(&'static str, &'static str, &'static str)>> {
    let mut reached = BTreeMap::new();
    for (resource, _, namespace, name, node) in questions() {
        let objects: &mut BTreeSet<_> = reached.entry(node).or_default();
        if world.related(resource, namespace, name, node) {
            objects.insert((resource, namespace, name));
        }
    }
    reached
}

/// Draws choices from a list of numbers; zero when they are used up, so that shrinking makes things plain.
struct Choices<'c>(std::slice::Iter<'c, u8>);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn pod(choices: &mut Choices<'_>, namespace: &str, name: &str) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"name": "c", "env": [], "envFrom": []}], "volumes": []},
        "status": {},
    });
    if choices.below(8) != 1 {
        pod["spec"]["nodeName"] = json!(choices.one(&NODES));
    }
    if choices.below(12) == 1 {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
    }
    let sources = ["volumes", "initContainers", "containers", "ephemeralContainers"];
    for at in 0..choices.below(5) {
        let to = choices.one(&NAMES);
        let container = sources[1 + choices.below(3)];
        let volume = |source: Value| {
            let mut volume = source;
            volume["name"] = json!(NAMES[at % 2]);
            volume
        };
        let secret_ref = json!({"secretRef": {"name": to}});
        let (list, entry) = match choices.below(26) {
            0 => {
                pod["spec"]["serviceAccountName"] = json!(to);
                continue;
            }
            1 => ("imagePullSecrets", json!({"name": to})),
            2 => (container, json!({"envFrom": [{"secretRef": {"name": to}}]})),
            3 => (container, json!({"env": [{"valueFrom": {"secretKeyRef": {"name": to, "key": "k"}}}]})),
            4 => (container, json!({"envFrom": [{"configMapRef": {"name": to}}]})),
            5 => (container, json!({"env": [{"valueFrom": {"configMapKeyRef": {"name": to, "key": "k"}}}]})),
            6 => ("volumes", volume(json!({"azureFile": {"secretName": to, "shareName": "s"}}))),
            7 => ("volumes", volume(json!({"cephfs": secret_ref}))),
            8 => ("volumes", volume(json!({"cinder": secret_ref}))),
            9 => ("volumes", volume(json!({"flexVolume": secret_ref}))),
            10 => ("volumes", volume(json!({"projected": {"sources": [{"secret": {"name": to}}]}}))),
            11 => ("volumes", volume(json!({"projected": {"sources": [{"configMap": {"name": to}}]}}))),
            12 => ("volumes", volume(json!({"rbd": secret_ref}))),
            13 => ("volumes", volume(json!({"secret": {"secretName": to}}))),
            14 => ("volumes", volume(json!({"scaleIO": secret_ref}))),
            15 => ("volumes", volume(json!({"iscsi": secret_ref}))),
            16 => ("volumes", volume(json!({"storageos": secret_ref}))),
            17 => ("volumes", volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": to}}}))),
            18 => ("volumes", volume(json!({"configMap": {"name": to}}))),
            19 | 20 => ("volumes", volume(json!({"persistentVolumeClaim": {"claimName": to}}))),
            21 => ("volumes", volume(json!({"ephemeral": {"volumeClaimTemplate": {}}}))),
            22 => ("resourceClaims", json!({"name": "c", "resourceClaimName": to})),
            23 => {
                pod["status"]["resourceClaimStatuses"] = json!([{"name": "t", "resourceClaimName": to}]);
                ("resourceClaims", json!({"name": "t", "resourceClaimTemplateName": "any"}))
            }
            24 => {
                pod["status"]["extendedResourceClaimStatus"] = json!({"resourceClaimName": to});
                continue;
            }
            _ => ("volumes", volume(json!({"secret": {"secretName": ""}}))),
        };
        match pod["spec"].get_mut(list).and_then(Value::as_array_mut) {
            Some(entries) => entries.push(entry),
            None => pod["spec"][list] = json!([entry]),
        }
    }
    pod
}

fn volume(choices: &mut Choices<'_>, name: &str) -> Value {
    let mut volume = json!({"metadata": {"name": name}, "spec": {}});
    if choices.below(8) != 1 {
        volume["spec"]["claimRef"] = json!({
            "namespace": choices.one(&NAMESPACES),
            "name": choices.one(&["x", "y", "x-x", "y-x"]),
        });
    }
    let mut secret = json!({"name": choices.one(&["x", "y", ""])});
    if choices.below(2) == 1 {
        secret["namespace"] = json!(choices.one(&NAMESPACES));
    }
    let source = choices.one(&[
        "",
        "cephfs",
        "cinder",
        "flexVolume",
        "rbd",
        "scaleIO",
        "iscsi",
        "storageos",
        "csi",
        "azureFile",
    ]);
    volume["spec"][source] = match source {
        "csi" => {
            let field = choices.one(&[
                "nodePublishSecretRef",
                "nodeStageSecretRef",
                "nodeExpandSecretRef",
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
            ]);
            json!({"driver": "d", field: secret, "nodeStageSecretRef": {"namespace": "b", "name": "x"}})
        }
        "azureFile" => {
            json!({"secretName": secret["name"], "secretNamespace": secret.get("namespace"), "shareName": "s"})
        }
        _ => json!({"secretRef": secret}),
    };
    volume
}

/// An object of a kind, by choices.
fn object(choices: &mut Choices<'_>, (resource, kind): (&'static str, Kind)) -> (Key, Value) {
    let namespace = if kind.is_namespaced() { choices.one(&NAMESPACES) } else { "" };
    let name = choices.one(&NAMES);
    let value = match kind {
        Kind::Pod => pod(choices, namespace, name),
        Kind::PersistentVolume => volume(choices, name),
        _ => json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"nodeName": choices.one(&["n0", "n1", ""])},
        }),
    };
    ((resource, namespace.to_owned(), name.to_owned()), value)
}

fn source(choices: &mut Choices<'_>) -> (&'static str, Kind) {
    // Pods and volumes more often than the rest.
    SOURCES[choices.one(&[2_usize, 2, 2, 2, 0, 0, 0, 1, 3, 4])]
}

fn step(graph: &Graph, world: &mut World, choices: &mut Choices<'_>) {
    let kind = source(choices);
    match choices.below(10) {
        0..=6 => {
            let (key, value) = object(choices, kind);
            apply(graph, &key, &value);
            world.0.insert(key, value);
        }
        7 | 8 => {
            let ((resource, namespace, name), _) = object(choices, kind);
            graph.delete(kind.1, &namespace, &name);
            world.0.remove(&(resource, namespace, name));
        }
        _ => {
            // A listing of all objects of one kind: those that it lacks are deleted at its end.
            let before: Vec<Key> = world.0.keys().filter(|key| key.0 == kind.0).cloned().collect();
            world.0.retain(|key, _| key.0 != kind.0);
            for _ in 0..choices.below(4) {
                let (key, value) = object(choices, kind);
                apply(graph, &key, &value);
                world.0.insert(key, value);
            }
            for (_, namespace, name) in before.iter().filter(|key| !world.0.contains_key(key)) {
                graph.delete(kind.1, namespace, name);
            }
        }
    }
}

/// How many random histories are tried: 1,000, or as many as `GRAPH_HISTORIES` says.
fn histories() -> u32 {
    std::env::var("GRAPH_HISTORIES").map_or(1000, |count| count.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(), ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_rebuilt_equals_naive(numbers in prop::collection::vec(any::<u8>(), 0..400)) {
        let (graph, mut world) = (Graph::new(), World::default());
        graph.mark_complete();
        let mut choices = Choices(numbers.iter());
        while !choices.0.as_slice().is_empty() {
            step(&graph, &mut world, &mut choices);
        }
        assert_equal(&graph, &world);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories() / 5, ..ProptestConfig::default() })]

    /// BC-41
    #[test]
    fn a_node_that_reaches_other_objects_was_told_of(numbers in prop::collection::vec(any::<u8>(), 0..200)) {
        let (graph, mut world, told) = (Graph::new(), World::default(), Arc::new(Told::default()));
        let listener: Arc<dyn NodeChanges> = Arc::<Told>::clone(&told);
        graph.tell_changes(listener);
        graph.mark_complete();
        let mut choices = Choices(numbers.iter());
        let mut before = reached(&world);
        while !choices.0.as_slice().is_empty() {
            step(&graph, &mut world, &mut choices);
            let after = reached(&world);
            let told = std::mem::take(&mut *told.0.lock().unwrap());
            for (node, objects) in &after {
                prop_assert!(objects == &before[node] || told.contains(*node), "{} in {:#?}", node, world);
            }
            before = after;
        }
    }
}

/// The forms that one pod of the small worlds takes: absent, unbound, or on a node with one set of references.
fn small_pods() -> Vec<Option<Value>> {
    let references = [
        json!({}),
        json!({"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}),
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]}),
        json!({"volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "w", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "s", "secret": {"secretName": "x"}}],
            "imagePullSecrets": [{"name": "x"}]}),
    ];
    let mut pods = vec![None, Some(json!({}))];
    for node in NODES {
        for reference in &references {
            let mut spec = reference.clone();
            spec["nodeName"] = json!(node);
            pods.push(Some(spec));
        }
    }
    pods
}

/// The forms of the one volume: absent, unclaimed, or claimed with one of three sources.
fn small_volumes() -> Vec<Option<Value>> {
    let secret =
        |namespace: &str| json!({"driver": "d", "nodeStageSecretRef": {"namespace": namespace, "name": "x"}});
    let claim = |name: &str| json!({"namespace": "a", "name": name});
    vec![
        None,
        Some(json!({})),
        Some(json!({"claimRef": claim("x")})),
        Some(json!({"claimRef": claim("x"), "csi": secret("a")})),
        Some(json!({"claimRef": claim("x"), "csi": secret("b")})),
        Some(json!({"claimRef": claim("y"), "csi": secret("b")})),
    ]
}

#[test]
fn every_step_between_all_small_worlds_is_right() {
    let (pods, volumes) = (small_pods(), small_volumes());
    let with_name =
        |key: &Key, spec: &Value| json!({"metadata": {"namespace": key.1, "name": key.2}, "spec": spec});
    let keys: [Key; 3] = [
        ("pods", "a".to_owned(), "x".to_owned()),
        ("pods", "a".to_owned(), "y".to_owned()),
        ("persistentvolumes", String::new(), "x".to_owned()),
    ];
    let asked = [
        ("secrets", VertexKind::Secret, "a", "x"),
        ("secrets", VertexKind::Secret, "b", "x"),
        ("persistentvolumeclaims", VertexKind::PersistentVolumeClaim, "a", "x"),
        ("persistentvolumes", VertexKind::PersistentVolume, "", "x"),
        ("pods", VertexKind::Pod, "a", "x"),
        ("pods", VertexKind::Pod, "a", "y"),
    ];
    let set = |graph: &Graph, world: &mut World, key: &Key, spec: &Option<Value>| match spec {
        Some(spec) => {
            let object = with_name(key, spec);
            apply(graph, key, &object);
            world.0.insert(key.clone(), object);
        }
        None => {
            graph.delete(kind_of(key.0), &key.1, &key.2);
            world.0.remove(key);
        }
    };
    let mut steps = 0_u64;
    let worlds = pods.len() * pods.len() * volumes.len();
    for from in 0..worlds {
        // From every world, every change of one object: all orders of all changes follow from these.
        let forms = [from % pods.len(), from / pods.len() % pods.len(), from / pods.len() / pods.len()];
        let of = |at: usize, form: usize| if at == 2 { &volumes[form] } else { &pods[form] };
        for changed in 0..3 {
            for form in 0..(if changed == 2 { volumes.len() } else { pods.len() }) {
                let (graph, mut world) = (Graph::new(), World::default());
                graph.mark_complete();
                for (at, now) in forms.iter().enumerate() {
                    set(&graph, &mut world, &keys[at], of(at, *now));
                }
                set(&graph, &mut world, &keys[changed], of(changed, form));
                for (resource, kind, namespace, name) in asked {
                    for node in NODES {
                        let expected = world.related(resource, namespace, name, node);
                        let got = graph.related(kind, namespace, name, node);
                        assert_eq!(got, expected, "{resource} {namespace}/{name} for {node} in {world:#?}");
                    }
                }
                // And back, and away: nothing may be left.
                for (at, now) in forms.iter().enumerate() {
                    set(&graph, &mut world, &keys[at], of(at, *now));
                    set(&graph, &mut world, &keys[at], &None);
                }
                let size = graph.size();
                assert_eq!(
                    (size.nodes, size.vertices),
                    (0, 0),
                    "left behind from {forms:?} by {changed} {form}"
                );
                steps += 1;
            }
        }
    }
    assert_eq!(steps, 600 * 26);
}

fn pod_with_secret(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "env": [{"valueFrom": {"secretKeyRef": {"name": "shared", "key": "k"}}}]}],
            "volumes": [{"name": "v", "secret": {"secretName": "shared"}}],
        },
    })
}

fn pod_key(name: &str) -> Key {
    ("pods", "a".to_owned(), name.to_owned())
}

/// NA-107: in Kubernetes 1.36 a double reference outlives its pod once an object has 200 edges, and then belongs to
/// whichever node gets the recycled number.
#[test]
fn no_access_outlives_its_references_na_107() {
    let graph = Graph::new();
    graph.mark_complete();
    let related = |node: &str| graph.related(VertexKind::Secret, "a", "shared", node);
    for at in 0..300 {
        let (name, node) = (format!("p{at}"), format!("n{at}"));
        apply(&graph, &pod_key(&name), &pod_with_secret(&name, &node));
    }
    for at in 0..300 {
        assert!(related(&format!("n{at}")));
    }
    // Deleting in every order that matters: first, last and from the middle, across all thresholds.
    for at in (0..150).chain((150..300).rev()) {
        graph.delete(Kind::Pod, "a", &format!("p{at}"));
        assert!(!related(&format!("n{at}")), "n{at} is still allowed after its only pod has gone");
        let (name, node) = (format!("new{at}"), format!("new{at}"));
        let mut other = pod_with_secret(&name, &node);
        other["spec"] = json!({"nodeName": node, "containers": []});
        apply(&graph, &pod_key(&name), &other);
        assert!(!related(&node), "the new node {node} got what belonged to n{at}");
    }
    assert!(graph.reached_by(VertexKind::Secret, "a", "shared").is_empty());
}

/// NA-69: Kubernetes changes its method at 200 edges; ours has no such place, and this shows it.
#[test]
fn decisions_are_the_same_on_both_sides_of_200_edges_na_69() {
    let graph = Graph::new();
    graph.mark_complete();
    let related = |node: &str| graph.related(VertexKind::Secret, "a", "shared", node);
    for at in 0..205 {
        let name = format!("p{at}");
        apply(&graph, &pod_key(&name), &pod_with_secret(&name, &format!("n{}", at % 103)));
        for other in 0..206 {
            assert_eq!(related(&format!("n{other}")), other <= at && other < 103, "{at} pods, node {other}");
        }
    }
}

/// NA-13: before everything has been listed once nothing is related.
#[test]
fn nothing_is_related_before_every_source_has_been_listed_na_13() {
    let graph = Graph::new();
    apply(&graph, &pod_key("p"), &pod_with_secret("p", "n0"));
    assert!(!graph.related(VertexKind::Secret, "a", "shared", "n0"));
    assert_eq!(graph.path(VertexKind::Secret, "a", "shared", "n0"), None);
    graph.mark_complete();
    assert!(graph.related(VertexKind::Secret, "a", "shared", "n0"));
}

/// NA-41: while a pod changes from one set of references to another, what is in both stays in reach.
#[test]
fn readers_never_see_the_gap_between_old_and_new_na_41() {
    let graph = Arc::new(Graph::new());
    graph.mark_complete();
    let pods: Vec<Value> = ["one", "two"]
        .map(|extra| {
            let mut pod = pod_with_secret("p", "n0");
            pod["spec"]["imagePullSecrets"] = json!([{"name": extra}]);
            pod
        })
        .into();
    apply(&graph, &pod_key("p"), &pods[0]);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (graph, stop) = (Arc::clone(&graph), Arc::clone(&stop));
        move || {
            let mut asked = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                assert!(
                    graph.related(VertexKind::Secret, "a", "shared", "n0"),
                    "lost after {asked} questions"
                );
                asked += 1;
            }
            asked
        }
    });
    for round in 0..20_000 {
        apply(&graph, &pod_key("p"), &pods[round % 2]);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
}

/// While the table grows by thousands of vertices, shrinks again and shared sets come and go,
/// what stays is there at every look, and what no pod gives never is.
#[test]
fn readers_beside_a_busy_writer_see_what_stays_and_nothing_else() {
    let graph = Graph::new();
    graph.mark_complete();
    let kept: Vec<String> = (0..50).map(|n| format!("kept-{n}")).collect();
    for name in &kept {
        apply(&graph, &pod_key(name), &pod_with_secret(name, "n0"));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut looks = 0_u32;
                while !stop.load(Ordering::Relaxed) || looks < 1000 {
                    for name in &kept {
                        assert!(graph.related(VertexKind::Pod, "a", name, "n0"));
                        assert!(!graph.related(VertexKind::Pod, "a", name, "n1"));
                    }
                    assert!(graph.related(VertexKind::Secret, "a", "shared", "n0"));
                    assert!(!graph.related(VertexKind::Secret, "a", "shared", "n9"));
                    assert!(!graph.related(VertexKind::Secret, "b", "shared", "n0"));
                    looks += 1;
                }
            });
        }
        for round in 0..4 {
            let names: Vec<String> = (0..3000).map(|n| format!("pod-{round}-{n}")).collect();
            for (n, name) in names.iter().enumerate() {
                apply(&graph, &pod_key(name), &pod_with_secret(name, &format!("n{}", 1 + n % 7)));
            }
            for name in &names {
                graph.delete(Kind::Pod, "a", name);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(graph.size().nodes, 1);
    assert!(!graph.related(VertexKind::Secret, "a", "shared", "n1"));
}

/// NA-107: numbers of nodes and namespaces, and the space of vertices, are reused at once. A reader never takes one for the other.
#[test]
fn readers_never_mistake_a_reused_number_for_what_it_meant_before() {
    let graph = Graph::new();
    graph.mark_complete();
    let pod = |namespace: &str, node: &str| {
        let mut pod = pod_with_secret("p", node);
        pod["metadata"]["namespace"] = json!(namespace);
        pod
    };
    let objects = [("pods", "ns-x", "node-x"), ("pods", "ns-y", "node-y")].map(|(kind, namespace, node)| {
        ((kind, namespace.to_owned(), "p".to_owned()), pod(namespace, node).to_string())
    });
    let objects = objects.each_ref().map(|(key, json)| (key, Object::parse(Kind::Pod, json).unwrap()));
    let stop = AtomicBool::new(false);
    let seen = [const { AtomicBool::new(false) }; 2];
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for kind in [VertexKind::Secret, VertexKind::Pod] {
                    let name = if kind == VertexKind::Pod { "p" } else { "shared" };
                    assert!(!graph.related(kind, "ns-x", name, "node-y"));
                    assert!(!graph.related(kind, "ns-y", name, "node-x"));
                    for (seen, which) in seen.iter().zip(["x", "y"]) {
                        if graph.related(kind, &format!("ns-{which}"), name, &format!("node-{which}")) {
                            seen.store(true, Ordering::Relaxed);
                        }
                    }
                }
            }
        });
        let mut rounds = 0;
        // The reader must have seen both, unless it has failed.
        let has_seen = |seen: &AtomicBool| seen.load(Ordering::Relaxed);
        while !reader.is_finished() && (rounds < 20_000 || !seen.iter().all(has_seen)) {
            rounds += 1;
            for (key, object) in &objects {
                graph.apply(object).unwrap();
                graph.delete(Kind::Pod, &key.1, &key.2);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!((graph.size().nodes, graph.size().vertices), (0, 0));
}

/// NA-43, NA-45, NA-48, NA-109: a pod that is no longer bound, or was replaced by an unbound one, grants nothing.
#[test]
fn an_unbound_pod_grants_nothing_na_109() {
    let graph = Graph::new();
    graph.mark_complete();
    apply(&graph, &pod_key("p"), &pod_with_secret("p", "n0"));
    assert!(graph.related(VertexKind::Secret, "a", "shared", "n0"));
    let mut unbound = pod_with_secret("p", "");
    unbound["spec"]["nodeName"] = Value::Null;
    apply(&graph, &pod_key("p"), &unbound);
    assert!(!graph.related(VertexKind::Secret, "a", "shared", "n0"));
    assert_eq!(graph.size().vertices, 0);
}

/// A name that no Kubernetes object can have is refused, and with it whatever the object granted before.
#[test]
fn an_object_with_an_impossible_name_is_refused_and_grants_nothing() {
    let graph = Graph::new();
    graph.mark_complete();
    apply(&graph, &pod_key("p"), &pod_with_secret("p", "n0"));
    let mut long = pod_with_secret("p", "n0");
    long["spec"]["serviceAccountName"] = json!("s".repeat(70_000));
    let json = long.to_string();
    let refused = graph.apply(&Object::parse(Kind::Pod, &json).unwrap());
    assert_eq!(refused, Err(VertexError::NameTooLong));
    let mut far = pod_with_secret("p", &"n".repeat(70_000));
    far["spec"]["volumes"] = json!([]);
    let json = far.to_string();
    let refused = graph.apply(&Object::parse(Kind::Pod, &json).unwrap());
    assert_eq!(refused, Err(VertexError::NameTooLong), "the node's name");
    assert!(!graph.related(VertexKind::Secret, "a", "shared", "n0"));
    assert_eq!(graph.size().vertices, 0);
    assert_eq!(graph.size().nodes, 0);
}

/// When an object is refused because of its second name, the vertex of its first is removed, unless other objects refer to it.
#[test]
fn an_object_that_is_refused_halfway_leaves_nothing_behind() {
    let graph = Graph::new();
    graph.mark_complete();
    let mut half = pod_with_secret("p", "n0");
    half["spec"]["imagePullSecrets"] = json!([{"name": "made"}, {"name": "s".repeat(70_000)}]);
    let half = half.to_string();
    let source = |secret: &str| json!({"namespace": "a", "name": secret});
    let volume = |secret: &str, other: &str| {
        json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": "a", "name": "c"}, "csi": {
            "driver": "d", "nodeStageSecretRef": source(secret), "nodePublishSecretRef": source(other)}}})
    };
    let bad_volume = volume("made", &"s".repeat(70_000)).to_string();
    for others in 0..3 {
        apply(&graph, &pod_key("p"), &pod_with_secret("p", "n0"));
        apply(&graph, &("persistentvolumes", String::new(), "v".to_owned()), &volume("made", "kept"));
        for at in 0..others {
            apply(&graph, &pod_key(&format!("other{at}")), &pod_with_secret(&format!("other{at}"), "n1"));
        }
        let refused = graph.apply(&Object::parse(Kind::Pod, &half).unwrap());
        assert_eq!(refused, Err(VertexError::NameTooLong));
        let refused = graph.apply(&Object::parse(Kind::PersistentVolume, &bad_volume).unwrap());
        assert_eq!(refused, Err(VertexError::NameTooLong));
        assert!(!graph.related(VertexKind::Secret, "a", "made", "n0"));
        assert!(!graph.related(VertexKind::Secret, "a", "shared", "n0"));
        assert_eq!(graph.related(VertexKind::Secret, "a", "shared", "n1"), others > 0);
        // The space of what was made is used again, once.
        for at in 0..40 {
            apply(
                &graph,
                &pod_key(&format!("new{at}")),
                &pod_with_secret(&format!("new{at}"), &format!("m{at}")),
            );
        }
        for at in 0..40 {
            let related = |node: &str| graph.related(VertexKind::Pod, "a", &format!("new{at}"), node);
            assert!(related(&format!("m{at}")) && !related(&format!("m{}", at + 1)));
            graph.delete(Kind::Pod, "a", &format!("new{at}"));
        }
        (0..others).for_each(|at| graph.delete(Kind::Pod, "a", &format!("other{at}")));
        assert_eq!((graph.size().nodes, graph.size().vertices), (0, 0));
    }
}

/// NA-63: a glusterfs volume brings the Endpoints it names, directly or through a claim; only a gate of ours asks.
#[test]
fn endpoints_are_reached_through_the_volumes_that_name_them() {
    let graph = Graph::new();
    graph.mark_complete();
    let direct = json!({
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {"nodeName": "n0", "volumes": [
            {"name": "v", "glusterfs": {"endpoints": "direct", "path": "/"}},
            {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]},
    });
    apply(&graph, &pod_key("p"), &direct);
    let volume = json!({
        "metadata": {"name": "v"},
        "spec": {
            "claimRef": {"namespace": "a", "name": "c"},
            "glusterfs": {"endpoints": "claimed", "endpointsNamespace": "b", "path": "/"},
        },
    });
    apply(&graph, &("persistentvolumes", String::new(), "v".to_owned()), &volume);
    assert!(graph.related(VertexKind::Endpoints, "a", "direct", "n0"));
    assert!(graph.related(VertexKind::Endpoints, "b", "claimed", "n0"));
    assert!(!graph.related(VertexKind::Endpoints, "a", "claimed", "n0"));
    assert!(!graph.related(VertexKind::Endpoints, "a", "direct", "n1"));
}
