//! The test vectors V1 to V45 of the Node authorizer (NA-111), over a cluster written as kubectl writes YAML.

use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::command::support::{text, with_input};

/// The cluster of the vectors. What they say about `p0` later is in the variants below.
const CLUSTER: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {namespace: ns, name: p0}
  spec:
    nodeName: n0
    serviceAccountName: sa0
    containers:
    - {name: main, image: registry.example.com/app}
    volumes:
    - {name: s, secret: {secretName: s0}}
    - {name: c, configMap: {name: c0}}
    - {name: v, persistentVolumeClaim: {claimName: v0}}
    - {name: e, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}
    resourceClaims:
    - {name: r, resourceClaimName: rc0}
    - {name: t, resourceClaimTemplateName: template}
  status:
    phase: Running
    resourceClaimStatuses:
    - {name: t, resourceClaimName: gen0}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: pv0}
  spec:
    claimRef: {kind: PersistentVolumeClaim, namespace: ns, name: v0}
    csi:
      driver: csi.example.com
      volumeHandle: pv0
      nodeStageSecretRef: {namespace: other, name: ps0}
      controllerPublishSecretRef: {namespace: other, name: cs0}
- apiVersion: storage.k8s.io/v1
  kind: VolumeAttachment
  metadata: {name: va0}
  spec: {attacher: csi.example.com, nodeName: n0, source: {persistentVolumeName: pv0}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: sl0}
  spec: {nodeName: n0, driver: dra.example.com, pool: {name: n0, generation: 1, resourceSliceCount: 1}}
";

/// Vector, decision (A or N), and the request: verb, `resource[.group][/subresource]`, `namespace/name`, and what
/// differs from a node n0 with the right group and without a selector.
const VECTORS: &str = "
V1   A  get secrets ns/s0
V2   A  list secrets ns/s0
V3   N  watch secrets ns/
V4   N  list secrets /s0
V5   N  get secrets/x ns/s0
V6   N  update secrets ns/s0
V7   A  get secrets other/ps0
V8   N  get secrets other/cs0
V9   N  get secrets ns/s0 as=n1
V10  A  get persistentvolumeclaims ns/v0
V10  A  get persistentvolumeclaims ns/p0-e
V11  N  list persistentvolumeclaims ns/v0
V12  A  patch persistentvolumeclaims/status ns/v0
V12  N  get persistentvolumeclaims/status ns/v0
V13  A  get persistentvolumes /pv0
V13  N  get persistentvolumes ns/pv0
V14  A  get resourceclaims.resource.k8s.io ns/rc0
V14  A  get resourceclaims.resource.k8s.io ns/gen0
V14  N  get resourceclaims.resource.k8s.io ns/t
V15  A  get volumeattachments.storage.k8s.io /va0
V15  N  list volumeattachments.storage.k8s.io /va0
V16  A  create serviceaccounts/token ns/sa0
V16  N  update serviceaccounts/token ns/sa0
V17  A  get serviceaccounts ns/sa0
V17  N  list serviceaccounts ns/sa0
V18  A  create leases.coordination.k8s.io kube-node-lease/n1
V18  N  get leases.coordination.k8s.io kube-node-lease/n1
V19  A  get leases.coordination.k8s.io/zz kube-node-lease/n0
V20  N  get leases.coordination.k8s.io default/n0
V21  A  create csinodes.storage.k8s.io /n1
V21  A  delete csinodes.storage.k8s.io /n0
V21  N  list csinodes.storage.k8s.io /n0
V22  N  get resourceslices.resource.k8s.io /sl0 as=n1
V22  A  create resourceslices.resource.k8s.io /any as=n1
V23  A  list resourceslices.resource.k8s.io / raw=spec.nodeName=n0
V23  N  list resourceslices.resource.k8s.io / raw=spec.nodeName!=n1
V23  N  list resourceslices.resource.k8s.io /
V24  N  deletecollection resourceslices.resource.k8s.io / in=n0,n1
V25  A  get nodes /n0
V25  N  get nodes /n1
V25  N  list nodes /
V26  N  list nodes / raw=metadata.name=n0
V27  A  update nodes /n1
V27  A  patch nodes/status /n1
V27  N  delete nodes /n0
V27  N  get nodes/status /n0
V28  A  list pods / raw=spec.nodeName==n0,status.phase=Running
V30  N  get pods ns/p0 as=n1
V30  A  create pods anyns/
V30  A  delete pods anyns/any
V31  N  get pods/status ns/p0
V31  N  update pods ns/p0
V31  N  create pods/binding ns/p0
V32  A  create events anyns/
V32  N  get events anyns/e
V33  A  get endpoints ns/x
V33  N  list endpoints ns/
V34  N  get clustertrustbundles.certificates.k8s.io /x
V35  N  create podcertificaterequests.certificates.k8s.io ns/
V36  N  get secrets ns/s0 as=
V36  N  create pods anyns/ as=
V36  N  get services ns/x as=
V37  N  get secrets ns/s0 groups=system:authenticated
V43  N  get secrets.foo ns/s0
V44  A  get services ns/x
V44  N  get services/status ns/x
V44  N  create tokenreviews.authentication.k8s.io/zz /
V45  A  list pods / raw=spec.nodeName=n0,,
V45  N  list pods / raw=spec.nodeName=n0,foo
V45  N  list pods / raw=spec.nodeName =n0
";

/// The rows as vector, allowed, and SubjectAccessReview.
fn reviews(rows: &str) -> Vec<(&str, bool, Value)> {
    rows.lines().filter(|row| !row.is_empty()).map(review).collect()
}

fn review(row: &str) -> (&str, bool, Value) {
    // Only the value of a selector may hold a blank, and it comes last.
    let (row, raw) = row.split_once(" raw=").map_or((row, None), |(row, raw)| (row, Some(raw)));
    let mut words = row.split_whitespace();
    let mut next = || words.next().unwrap_or_else(|| panic!("{row}"));
    let (vector, decision, verb, what, place) = (next(), next(), next(), next(), next());
    let (what, subresource) = what.split_once('/').unwrap_or((what, ""));
    let (resource, group) = what.split_once('.').unwrap_or((what, ""));
    let (namespace, name) = place.split_once('/').unwrap();
    let (mut node, mut groups, mut selector) = ("n0", "system:nodes", json!(null));
    if let Some(raw) = raw {
        selector = json!({"rawSelector": raw});
    }
    for option in words {
        match option.split_once('=').unwrap() {
            ("as", name) => node = name,
            ("groups", other) => groups = other,
            ("in", values) => {
                let values: Vec<&str> = values.split(',').collect();
                selector =
                    json!({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": values}]});
            }
            other => panic!("{other:?}"),
        }
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:node:{node}"),
            "groups": [groups],
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "namespace": namespace, "name": name, "fieldSelector": selector,
            },
        },
    });
    (vector, decision == "A", review)
}

/// Asks over a cluster; the answers in order.
fn ask(cluster: &str, flags: &[&str], questions: &[Value]) -> Vec<bool> {
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", cluster);
    let input: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let arguments = [&["review", "--authorization-mode", "Node", "--state", text(&state)], flags].concat();
    let answers = with_input(arguments, input.as_bytes()).json_lines();
    assert_eq!(answers.len(), questions.len());
    answers.iter().map(|answer| answer["status"]["allowed"].as_bool().unwrap()).collect()
}

#[track_caller]
fn assert_rows(cluster: &str, flags: &[&str], rows: &str) {
    let rows = reviews(rows);
    let questions: Vec<Value> = rows.iter().map(|(_, _, question)| question.clone()).collect();
    for ((vector, allowed, question), answered) in rows.iter().zip(ask(cluster, flags, &questions)) {
        assert_eq!(answered, *allowed, "{vector}: {question}");
    }
}

/// The cluster with one place changed.
fn with(from: &str, to: &str) -> String {
    assert_eq!(CLUSTER.matches(from).count(), 1);
    CLUSTER.replace(from, to)
}

#[test]
fn the_vectors_hold() {
    assert_rows(CLUSTER, &[], VECTORS);
}

#[test]
fn the_vectors_hold_as_recorded_answers_too() {
    let lines: String = reviews(VECTORS)
        .into_iter()
        .map(|(_, allowed, mut review)| {
            review["status"] = json!({"allowed": allowed});
            format!("{review}\n")
        })
        .collect();
    let scratch = Scratch::new();
    let state = scratch.write("cluster.yaml", CLUSTER);
    let arguments = ["review", "--authorization-mode", "Node", "--check", "--state", text(&state)];
    let run = with_input(arguments, lines.as_bytes());
    assert_eq!((run.code, run.last_line()), (0, &*format!("{} checked, 0 differ", lines.lines().count())));
}

#[test]
fn v26_a_name_in_a_selector_counts_over_http_only_na_17_na_23() {
    let line = r#"{"method":"GET","url":"/api/v1/nodes?fieldSelector=metadata.name%3Dn0"}"#;
    let run = with_input(["review", "--request-info"], line.as_bytes());
    let info = &run.json_lines()[0]["info"];
    assert_eq!(
        (&info["verb"], &info["resource"], &info["name"]),
        (&json!("list"), &json!("nodes"), &json!("n0"))
    );
    assert_rows(CLUSTER, &[], "V26 A list nodes /n0");
}

#[test]
fn v29_a_path_prefix_watch_has_no_selector_na_19() {
    let line = r#"{"method":"GET","url":"/api/v1/watch/pods?fieldSelector=spec.nodeName%3D%3Dn0"}"#;
    let run = with_input(["review", "--request-info"], line.as_bytes());
    let info = &run.json_lines()[0]["info"];
    assert_eq!(
        (&info["verb"], &info["fieldSelector"], &info["name"]),
        (&json!("watch"), &json!(""), &json!(""))
    );
    assert_rows(CLUSTER, &[], "V29 N watch pods /");
}

#[test]
fn v34_and_v35_hold_with_their_gates() {
    assert_rows(
        CLUSTER,
        &["--feature-gates", "ClusterTrustBundle=true"],
        "V34 A get clustertrustbundles.certificates.k8s.io /x",
    );
    assert_rows(
        CLUSTER,
        &["--feature-gates", "PodCertificateRequest=true"],
        "V35 A create podcertificaterequests.certificates.k8s.io ns/",
    );
}

#[test]
fn v38_a_pod_that_succeeded_still_grants_na_49() {
    assert_rows(&with("phase: Running", "phase: Succeeded"), &[], "V38 A get secrets ns/s0");
}

#[test]
fn v39_a_mirror_pod_grants_nothing_but_itself_na_57() {
    let mirror = with("name: p0}", "name: p0, annotations: {kubernetes.io/config.mirror: \"\"}}");
    assert_rows(&mirror, &[], "V39 N get secrets ns/s0\nV39 A get pods ns/p0");
}

#[test]
fn v40_an_ephemeral_container_grants_na_46() {
    let from = "    resourceClaims:\n";
    let added = format!(
        "    ephemeralContainers:\n    - {{name: x, envFrom: [{{secretRef: {{name: s9}}}}]}}\n{from}"
    );
    assert_rows(CLUSTER, &[], "V40 N get secrets ns/s9");
    assert_rows(&with(from, &added), &[], "V40 A get secrets ns/s9");
}

#[test]
fn v41_a_pod_that_is_gone_grants_nothing_na_48() {
    let other =
        with("name: p0}", "name: p1}").replace("nodeName: n0\n    service", "nodeName: n1\n    service");
    assert_rows(&other, &[], "V41 N get secrets ns/s0\nV41 N get persistentvolumes /pv0");
}

#[test]
fn v42_paths_are_allowed_to_no_node_na_73() {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:node:n0",
            "groups": ["system:nodes"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    });
    assert_eq!(ask(CLUSTER, &[], &[question]), [false]);
}
