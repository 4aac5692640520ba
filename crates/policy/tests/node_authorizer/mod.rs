//! The Node authorizer with feature gates that no recording covers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::sync::Arc;

use portcullis_apimachinery::selector::{FieldOperator, FieldRequirement};
use portcullis_policy::features::Feature;
use portcullis_policy::graph::Graph;
use portcullis_policy::node::NodeAuthorizer;
use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::{Attributes, Authorizer, FeatureGates, ResourceRequest, User};
use serde_json::{Value, json};

fn graph(objects: &[(Kind, Value)]) -> Arc<Graph> {
    let graph = Graph::new();
    for (kind, object) in objects {
        graph.apply(&Object::parse(*kind, &object.to_string()).unwrap()).unwrap();
    }
    graph.mark_complete();
    Arc::new(graph)
}

fn world() -> Arc<Graph> {
    graph(&[
        (
            Kind::Pod,
            json!({
                "metadata": {"namespace": "ns", "name": "p0"},
                "spec": {"nodeName": "n0", "serviceAccountName": "sa0", "volumes": [
                    {"name": "g", "glusterfs": {"endpoints": "gluster", "path": "/"}}]},
            }),
        ),
        (
            Kind::PodCertificateRequest,
            json!({"metadata": {"namespace": "ns", "name": "pcr"}, "spec": {"nodeName": "n0"}}),
        ),
    ])
}

struct Asked {
    authorizer: NodeAuthorizer,
    node: &'static str,
}

impl Asked {
    fn with(gates: &[(Feature, bool)]) -> Self {
        let gates =
            gates.iter().fold(FeatureGates::default(), |gates, (feature, on)| gates.with(*feature, *on));
        Self { authorizer: NodeAuthorizer::new(world(), gates), node: "n0" }
    }

    /// `VERB GROUP/RESOURCE[/SUBRESOURCE] NAMESPACE NAME`, `-` for nothing.
    fn allows_with(&self, question: &str, selector: &[FieldRequirement]) -> bool {
        let words: Vec<&str> = question.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
        let [verb, kind, namespace, name] = words[..] else { panic!("{question}") };
        let kind: Vec<&str> = kind.split('/').collect();
        let user = User::new(format!("system:node:{}", self.node), ["system:nodes"]);
        let resource = ResourceRequest {
            namespace,
            name,
            group: kind[0],
            resource: kind[1],
            subresource: kind.get(2).unwrap_or(&""),
            field_selector: selector,
            ..ResourceRequest::default()
        };
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(resource) };
        self.authorizer.authorize(&attributes).is_allow()
    }

    fn allows(&self, question: &str) -> bool {
        self.allows_with(question, &[])
    }
}

fn own_node() -> [FieldRequirement; 1] {
    [FieldRequirement {
        field: "spec.nodeName".to_owned(),
        operator: FieldOperator::Equals,
        value: "n0".to_owned(),
    }]
}

#[test]
fn trust_bundles_are_readable_only_with_their_gate_v34() {
    let question = "get certificates.k8s.io/clustertrustbundles - x";
    assert!(!Asked::with(&[]).allows(question));
    assert!(Asked::with(&[(Feature::ClusterTrustBundle, true)]).allows(question));
}

#[test]
fn pod_certificate_requests_need_their_gate_na_103a_na_103b_v35() {
    let off = Asked::with(&[]);
    let on = Asked::with(&[(Feature::PodCertificateRequest, true)]);
    let without_selectors =
        Asked::with(&[(Feature::PodCertificateRequest, true), (Feature::AuthorizeNodeWithSelectors, false)]);
    let base = "certificates.k8s.io/podcertificaterequests";
    for (question, expected) in [
        (format!("create {base} ns -"), true),
        (format!("get {base} ns pcr"), true),
        (format!("get {base} ns other"), false),
        (format!("get {base} ns -"), false),
        (format!("list {base} ns pcr"), false),
        (format!("update {base} ns pcr"), false),
        (format!("delete {base} ns pcr"), false),
        (format!("deletecollection {base} ns -"), false),
        (format!("create {base}/status ns pcr"), false),
    ] {
        assert_eq!(on.allows(&question), expected, "{question}");
        assert!(!off.allows(&question), "{question}");
        assert!(!without_selectors.allows(&question), "{question}");
    }
    assert!(on.allows_with(&format!("list {base} ns -"), &own_node()));
    assert!(on.allows_with(&format!("watch {base} - -"), &own_node()));
    assert!(!off.allows_with(&format!("list {base} ns -"), &own_node()));
    assert!(!Asked { node: "n1", ..on }.allows(&format!("get {base} ns pcr")));
}

#[test]
fn service_accounts_are_readable_while_either_gate_is_on_na_83_na_84() {
    let question = "get /serviceaccounts ns sa0";
    let credentials = Feature::KubeletServiceAccountTokenForCredentialProviders;
    assert!(Asked::with(&[]).allows(question));
    assert!(!Asked::with(&[(credentials, false)]).allows(question));
    assert!(Asked::with(&[(credentials, false), (Feature::PodCertificateRequest, true)]).allows(question));
    assert!(Asked::with(&[(credentials, false)]).allows("create /serviceaccounts/token ns sa0"));
}

#[test]
fn without_node_selectors_the_static_list_speaks_for_pods_and_nodes_na_106() {
    let on = Asked::with(&[]);
    let off = Asked::with(&[(Feature::AuthorizeNodeWithSelectors, false)]);
    for (question, with, without) in [
        ("list /pods - -", false, true),
        ("get /pods ns other", false, true),
        ("get /nodes - n1", false, true),
        ("list /nodes - -", false, true),
        ("create /nodes - n1", true, true),
        ("patch /nodes/status - n1", true, true),
        ("update /pods/status ns other", true, true),
        ("create /pods/eviction ns other", true, true),
        ("delete /nodes - n0", false, false),
        ("update /pods ns p0", false, false),
        ("create /pods/binding ns p0", false, false),
        ("list resource.k8s.io/resourceslices - -", false, true),
        ("deletecollection resource.k8s.io/resourceslices - -", false, true),
        ("list resource.k8s.io/resourceslices/x - -", false, false),
    ] {
        assert_eq!(on.allows(question), with, "gate on: {question}");
        assert_eq!(off.allows(question), without, "gate off: {question}");
    }
}

/// The design's "future work": every node may get all Endpoints (NA-104 row 14) unless our gate is on.
#[test]
fn endpoints_can_be_restricted_to_those_that_a_pod_mounts() {
    let feature = Feature::PortcullisNodeEndpointsRestriction;
    let (off, on) = (Asked::with(&[]), Asked::with(&[(feature, true)]));
    for (question, with, without) in [
        ("get /endpoints ns gluster", true, true),
        ("get /endpoints ns other", false, true),
        ("get /endpoints other gluster", false, true),
        ("list /endpoints ns -", false, false),
        ("get /endpoints/x ns gluster", false, false),
    ] {
        assert_eq!(on.allows(question), with, "gate on: {question}");
        assert_eq!(off.allows(question), without, "gate off: {question}");
    }
    assert!(!Asked { node: "n1", ..on }.allows("get /endpoints ns gluster"));
}

/// Verbs are literal (NA-74), and with the default gates the static list is these rows and no more (NA-105).
#[test]
fn the_static_list_is_what_is_written_and_verbs_are_literal_na_74_na_105() {
    let asked = Asked::with(&[]);
    for question in [
        "create authentication.k8s.io/tokenreviews - -",
        "create authorization.k8s.io/subjectaccessreviews - -",
        "create authorization.k8s.io/localsubjectaccessreviews ns -",
        "list /services - -",
        "patch /events ns e",
        "create events.k8s.io/events ns -",
        "get /endpoints ns e",
        "watch certificates.k8s.io/certificatesigningrequests - -",
        "list storage.k8s.io/csidrivers - -",
        "get node.k8s.io/runtimeclasses - r",
    ] {
        assert!(asked.allows(question), "{question}");
        let (_, rest) = question.split_once(' ').unwrap();
        assert!(!asked.allows(&format!("* {rest}")), "any verb: {rest}");
    }
    for question in [
        "list /endpoints ns -",
        "get discovery.k8s.io/endpointslices ns e",
        "get /namespaces ns ns",
        "get storage.k8s.io/storageclasses - s",
        "get storage.k8s.io/csistoragecapacities ns c",
        "create authorization.k8s.io/selfsubjectaccessreviews - -",
        "get /events ns e",
        "delete /events ns e",
        "update certificates.k8s.io/certificatesigningrequests/approval - c",
        "update certificates.k8s.io/certificatesigningrequests/status - c",
        "get /services/proxy ns s",
        "delete /nodes - n0",
    ] {
        assert!(!asked.allows(question), "{question}");
    }
}
