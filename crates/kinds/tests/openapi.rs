//! kubectl explains, validates and merges by the OpenAPI documents.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "runs kubectl against a socket")]
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use portcullis_kinds::Kinds;
use portcullis_kinds::discovery::Discovery;
use portcullis_kinds::openapi::{Documents, Swagger};
use portcullis_kinds::resources;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

/// A pod that kubectl applied before.
fn pod() -> Value {
    let spec = json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]});
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {}, "name": "p", "namespace": "default"},
        "spec": spec,
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": format!("{applied}\n")},
        },
        "spec": spec,
    })
}

/// A server of the documents, of the little discovery that kubectl needs, and of one pod.
struct Server {
    address: String,
    /// The requests: method, path, body.
    asked: Arc<Mutex<Vec<(String, String, String)>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (documents, seen) =
            (Arc::new(Documents::of(&Kinds::of(resources::ALL.iter().copied()))), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (documents, seen) = (Arc::clone(&documents), Arc::clone(&seen));
                std::thread::spawn(
                    move || while answer(stream.as_ref().unwrap(), &documents, &seen).is_some() {},
                );
            }
        });
        Self { address, asked }
    }

    /// What kubectl prints, on both outputs.
    fn kubectl(&self, arguments: &[&str], input: &str) -> (String, String) {
        let home = Scratch::new();
        let mut kubectl = tool::command("kubectl");
        kubectl.args(["--server", &self.address, "--cache-dir"]).arg(home.path()).args(arguments);
        kubectl.env("HOME", home.path()).env_remove("KUBECONFIG");
        let finished = Finished::with_input(&mut kubectl, input.as_bytes());
        assert_eq!(finished.code, 0, "{arguments:?}: {finished:#?}");
        (finished.stdout, finished.stderr)
    }
}

fn answer(
    stream: &TcpStream,
    documents: &Documents,
    seen: &Mutex<Vec<(String, String, String)>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (method, rest) = line.split_once(' ')?;
    let path = rest.split(' ').next()?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if header.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    seen.lock().unwrap().push((method.to_owned(), path.clone(), String::from_utf8(body).unwrap()));

    let resource = |name: &str, kind: &str| {
        json!({"name": name, "singularName": "", "namespaced": name != "nodes", "kind": kind,
               "verbs": ["get", "list", "create", "patch", "update"]})
    };
    let plain = path.split('?').next()?;
    let body = match plain {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}).to_string(),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}).to_string(),
        "/api/v1" => json!({
            "kind": "APIResourceList", "groupVersion": "v1",
            "resources": [resource("pods", "Pod"), resource("nodes", "Node")],
        })
        .to_string(),
        "/api/v1/namespaces/default/pods/p" => pod().to_string(),
        "/openapi/v3" => documents.index([]),
        path => match path.strip_prefix("/openapi/v3/").and_then(|root| documents.document(root)) {
            Some(document) => document.to_owned(),
            None => String::new(),
        },
    };
    let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    (&*stream).write_all(format!("{head}{body}").as_bytes()).ok()
}

#[test]
fn kubectl_explains_fields() {
    let server = Server::start();
    let (text, _) = server.kubectl(&["explain", "pods.spec.containers"], "");
    for line in ["KIND:       Pod", "FIELD: containers <[]Container>", "  name\t<string> -required-"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (text, _) = server.kubectl(&["explain", "nodes", "--recursive"], "");
    for line in ["  spec\t<NodeSpec>", "    taints\t<[]Taint>", "      effect\t<string> -required-"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// kubectl says so where a description is missing.
#[test]
fn kubectl_explains_what_fields_mean() {
    let server = Server::start();
    for field in ["pods", "pods.metadata", "pods.spec", "pods.spec.containers.livenessProbe", "nodes.status"]
    {
        let (text, _) = server.kubectl(&["explain", field], "");
        assert!(text.contains("DESCRIPTION:\n    "), "{field}: {text}");
        assert!(!text.contains("<empty>") && !text.contains("<no description>"), "{field}: {text}");
    }
}

/// The values are those of the constants in `types.go` of `k8s.io/api`, sorted.
#[test]
fn kubectl_explains_which_values_a_field_can_have() {
    let server = Server::start();
    for (field, values) in [
        ("pods.spec.restartPolicy", &["Always", "Never", "OnFailure"][..]),
        ("pods.spec.dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
        ("pods.spec.containers.imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
        ("pods.spec.containers.ports.protocol", &["SCTP", "TCP", "UDP"]),
        ("pods.spec.tolerations.operator", &["Equal", "Exists", "Gt", "Lt"]),
        ("pods.status.phase", &["Failed", "Pending", "Running", "Succeeded", "Unknown"]),
        ("nodes.spec.taints.effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    ] {
        let (text, _) = server.kubectl(&["explain", field], "");
        let named = text.split_once("ENUM:\n").unwrap_or_else(|| panic!("{field}: {text}")).1;
        let named: Vec<&str> = named.lines().map_while(|line| line.strip_prefix("    ")).collect();
        assert_eq!(named, values, "{field}");
    }
}

/// As above, in the documents of other groups, and for lists and maps of texts.
#[test]
fn values_are_limited_where_they_are_texts() {
    let documents = Documents::of(&Kinds::of(resources::ALL.iter().copied()));
    let core = "io.k8s.api.core.v1";
    let modes = json!(["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]);
    let resizes = json!([
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ]);
    for (root, pointer, values) in [
        (
            "api/v1",
            format!("{core}.ServiceSpec/properties/type"),
            json!(["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
        ),
        (
            "api/v1",
            format!("{core}.PersistentVolumeSpec/properties/persistentVolumeReclaimPolicy"),
            json!(["Delete", "Recycle", "Retain"]),
        ),
        ("api/v1", format!("{core}.PersistentVolumeClaimSpec/properties/accessModes/items"), modes),
        (
            "api/v1",
            format!(
                "{core}.PersistentVolumeClaimStatus/properties/allocatedResourceStatuses/additionalProperties"
            ),
            resizes,
        ),
        (
            "apis/apps/v1",
            "io.k8s.api.apps.v1.DeploymentStrategy/properties/type".to_owned(),
            json!(["Recreate", "RollingUpdate"]),
        ),
        (
            "apis/batch/v1",
            "io.k8s.api.batch.v1.CronJobSpec/properties/concurrencyPolicy".to_owned(),
            json!(["Allow", "Forbid", "Replace"]),
        ),
        (
            "apis/networking.k8s.io/v1",
            "io.k8s.api.networking.v1.HTTPIngressPath/properties/pathType".to_owned(),
            json!(["Exact", "ImplementationSpecific", "Prefix"]),
        ),
    ] {
        let document: Value = serde_json::from_str(documents.document(root).unwrap()).unwrap();
        let schema = document.pointer(&format!("/components/schemas/{pointer}")).unwrap();
        assert_eq!((&schema["type"], &schema["enum"]), (&json!("string"), &values), "{pointer}");
    }
}

#[test]
fn kubectl_apply_merges_by_the_keys_of_the_documents() {
    let server = Server::start();
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]},
    });
    let (_, warnings) = server.kubectl(&["apply", "-f", "-"], &manifest.to_string());
    assert_eq!(warnings, "");
    let asked = server.asked.lock().unwrap();
    let (_, path, patch) = asked.iter().find(|(method, _, _)| method == "PATCH").unwrap();
    assert!(path.contains("fieldValidation=Strict"), "validation is left to the server: {path}");
    let patch: Value = serde_json::from_str(patch).unwrap();
    let expected = json!({
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "b", "image": "b:2"}],
    });
    assert_eq!(patch["spec"], expected);
    let paths: Vec<&str> = asked.iter().map(|(_, path, _)| path.as_str()).collect();
    assert!(paths.iter().any(|path| path.starts_with("/openapi/v3/api/v1")), "{paths:?}");
    assert!(paths.iter().all(|path| !path.starts_with("/openapi/v2")), "{paths:?}");
}

/// Every reference in a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| references(value, found));
        }
        _ => {}
    }
}

#[test]
fn every_document_is_complete_in_itself() {
    let documents = Documents::of(&Kinds::of(resources::ALL.iter().copied()));
    let index: Value = serde_json::from_str(&documents.index([])).unwrap();
    let roots: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
    assert!(roots.iter().any(|root| *root == "api/v1"), "{roots:?}");
    assert!(roots.iter().any(|root| *root == "apis/rbac.authorization.k8s.io/v1"), "{roots:?}");
    for root in roots {
        let url = index["paths"][root]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{root}?hash=")), "{url}");
        let document: Value = serde_json::from_str(documents.document(root).unwrap()).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let schema = document.pointer(reference.strip_prefix('#').unwrap());
            assert!(schema.is_some_and(Value::is_object), "{root}: {reference}");
        }
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(path.starts_with(&format!("/{root}/")), "{path}");
        }
    }
    assert!(documents.document("api/v2").is_none());
}

#[test]
fn every_kind_has_its_paths_and_its_schema() {
    let documents = Documents::of(&Kinds::of(resources::ALL.iter().copied()));
    for resource in resources::ALL {
        let prefix = if resource.group.is_empty() { "api" } else { "apis" };
        let root = format!("{prefix}/{}", resource.api_version());
        let document: Value = serde_json::from_str(documents.document(&root).unwrap()).unwrap();
        let namespaces = if resource.is_namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{root}{namespaces}/{}/{{name}}", resource.plural);
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let patch = &document["paths"][&path]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind, "{path}");
        let mut schemas = document["components"]["schemas"].as_object().unwrap().values();
        let is_of_kind = |schema: &Value| schema["x-kubernetes-group-version-kind"] == json!([kind]);
        assert_eq!(schemas.by_ref().filter(|schema| is_of_kind(schema)).count(), 1, "{kind}");
    }
}

#[test]
fn every_resource_of_discovery_has_a_path_in_the_document_of_its_group_and_version() {
    let kinds = Kinds::of(resources::ALL.iter().copied());
    let documents = Documents::of(&kinds);
    let index: Value = serde_json::from_str(&documents.index([])).unwrap();
    for (path, list) in Discovery::of(&kinds, false, |_| [0; 32]).documents() {
        if list["kind"] != "APIResourceList" {
            continue;
        }
        let root = path.trim_start_matches('/');
        let named = list["resources"].as_array().unwrap().iter();
        for name in named.map(|resource| resource["name"].as_str().unwrap()) {
            assert!(index["paths"][root].is_object(), "{root} is in the index");
            let document: Value = serde_json::from_str(documents.document(root).unwrap()).unwrap();
            let plural = name.split('/').next().unwrap();
            let paths = document["paths"].as_object().unwrap();
            let is_there = |path: &String| path.ends_with(&format!("/{plural}"));
            // What is only posted to a parent of its own, such as a binding, is no path of its own.
            assert!(paths.keys().any(is_there) || plural == "bindings", "{root}: {name}");
        }
    }
}

/// The list types of Kubernetes' own documents. The patch keys of ports and spread constraints are others.
#[test]
fn documents_say_how_lists_are_applied() {
    let documents = Documents::of(&Kinds::of(resources::ALL.iter().copied()));
    let document: Value = serde_json::from_str(documents.document("api/v1").unwrap()).unwrap();
    for (field, kind, keys) in [
        ("Container/properties/ports", "map", json!(["containerPort", "protocol"])),
        ("Container/properties/env", "map", json!(["name"])),
        ("Container/properties/args", "atomic", json!(null)),
        ("ServiceSpec/properties/ports", "map", json!(["port", "protocol"])),
        ("PodSpec/properties/topologySpreadConstraints", "map", json!(["topologyKey", "whenUnsatisfiable"])),
        ("PodSpec/properties/tolerations", "atomic", json!(null)),
        ("NodeSpec/properties/podCIDRs", "set", json!(null)),
        ("PodStatus/properties/conditions", "map", json!(["type"])),
        ("PodStatus/properties/hostIPs", "atomic", json!(null)),
    ] {
        let schema = document.pointer(&format!("/components/schemas/io.k8s.api.core.v1.{field}"));
        let schema = schema.unwrap_or_else(|| panic!("{field}"));
        assert_eq!(schema["x-kubernetes-list-type"], kind, "{field}");
        assert_eq!(schema["x-kubernetes-list-map-keys"], keys, "{field}");
    }
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["io.k8s.api.core.v1.NodeSelector"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(
        schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["selector"]["x-kubernetes-map-type"],
        "atomic"
    );
    assert_eq!(schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["default"], "TCP");
}

/// The document of `/openapi/v2`.
fn swagger() -> Value {
    let kinds = Kinds::of(resources::ALL.iter().copied());
    serde_json::from_slice(&Swagger::of(&kinds, Vec::new(), "v1.36.0").json).unwrap()
}

/// The methods that a path has in Swagger.
fn operations(item: &Value) -> impl Iterator<Item = (&String, &Value)> {
    item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters")
}

/// Checks an object by the specification of Swagger 2.0: no member that it does not name, but those with `x-`.
fn has_only(value: &Value, names: &[&str], place: &str) {
    for name in value.as_object().unwrap_or_else(|| panic!("{place}: {value}")).keys() {
        assert!(name.starts_with("x-") || names.contains(&name.as_str()), "{place}: {name}");
    }
}

/// The members of a schema that are used.
const SCHEMA: &[&str] = &[
    "$ref",
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "properties",
    "required",
    "type",
];

fn check_schema(schema: &Value, place: &str) {
    has_only(schema, SCHEMA, place);
    assert!(schema["type"] != "array" || schema["items"].is_object(), "{place}: a list has items");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_schema(property, &format!("{place}.{name}"));
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            check_schema(&schema[inner], &format!("{place}.{inner}"));
        }
    }
}

#[test]
fn the_swagger_document_keeps_to_its_specification() {
    let document = swagger();
    has_only(
        &document,
        &["swagger", "info", "paths", "definitions", "securityDefinitions", "security"],
        "document",
    );
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in found {
        let schema = document.pointer(reference.strip_prefix('#').unwrap());
        assert!(schema.is_some_and(Value::is_object), "{reference}");
        assert!(reference.starts_with("#/definitions/"), "{reference}");
    }
    for (name, definition) in document["definitions"].as_object().unwrap() {
        check_schema(definition, name);
    }
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        has_only(item, &["get", "put", "post", "delete", "patch", "parameters"], path);
        for (method, operation) in operations(item) {
            let place = format!("{method} {path}");
            let members = ["operationId", "tags", "consumes", "produces", "parameters", "responses"];
            has_only(operation, &members, &place);
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{place}: is not the only one");
            assert!(operation["x-kubernetes-action"].is_string(), "{place}");
            let shared = item["parameters"].as_array().into_iter().flatten();
            let parameters: Vec<&Value> = shared.chain(operation["parameters"].as_array().unwrap()).collect();
            let mut in_path = BTreeSet::new();
            for parameter in parameters {
                let name = parameter["name"].as_str().unwrap();
                match parameter["in"].as_str().unwrap() {
                    "body" => check_schema(&parameter["schema"], &place),
                    "path" => {
                        assert_eq!(
                            (&parameter["required"], &parameter["type"]),
                            (&json!(true), &json!("string"))
                        );
                        in_path.insert(name);
                    }
                    "query" => assert!(parameter["type"].is_string(), "{place}: {name}"),
                    other => panic!("{place}: {other}"),
                }
            }
            let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
            assert_eq!(in_path, named.collect(), "{place}: the parameters of the path");
            for (code, response) in operation["responses"].as_object().unwrap() {
                has_only(response, &["description", "schema"], &format!("{place}: {code}"));
                assert!(response["description"].is_string(), "{place}");
                check_schema(&response["schema"], &place);
            }
        }
    }
}

/// The names that generated clients for Kubernetes have, such as the one for Python.
#[test]
fn operations_have_the_names_of_kubernetes() {
    let document = swagger();
    for (method, path, name, tag) in [
        ("get", "/api/v1/nodes", "listCoreV1Node", "core_v1"),
        ("delete", "/api/v1/nodes", "deleteCoreV1CollectionNode", "core_v1"),
        ("get", "/api/v1/pods", "listCoreV1PodForAllNamespaces", "core_v1"),
        ("get", "/api/v1/namespaces/{namespace}/pods", "listCoreV1NamespacedPod", "core_v1"),
        ("post", "/api/v1/namespaces/{namespace}/pods", "createCoreV1NamespacedPod", "core_v1"),
        ("delete", "/api/v1/namespaces/{namespace}/pods", "deleteCoreV1CollectionNamespacedPod", "core_v1"),
        ("get", "/api/v1/namespaces/{namespace}/pods/{name}", "readCoreV1NamespacedPod", "core_v1"),
        ("put", "/api/v1/namespaces/{namespace}/pods/{name}", "replaceCoreV1NamespacedPod", "core_v1"),
        ("patch", "/api/v1/namespaces/{namespace}/pods/{name}", "patchCoreV1NamespacedPod", "core_v1"),
        ("delete", "/api/v1/namespaces/{namespace}/pods/{name}", "deleteCoreV1NamespacedPod", "core_v1"),
        (
            "put",
            "/api/v1/namespaces/{namespace}/pods/{name}/ephemeralcontainers",
            "replaceCoreV1NamespacedPodEphemeralcontainers",
            "core_v1",
        ),
        (
            "post",
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "createCoreV1NamespacedPodEviction",
            "core_v1",
        ),
        ("get", "/api/v1/namespaces/{namespace}/pods/{name}/log", "readCoreV1NamespacedPodLog", "core_v1"),
        (
            "post",
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "connectCoreV1PostNamespacedPodExec",
            "core_v1",
        ),
        (
            "get",
            "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}",
            "connectCoreV1GetNamespacedPodProxyWithPath",
            "core_v1",
        ),
        ("get", "/api/v1/nodes/{name}/proxy", "connectCoreV1GetNodeProxy", "core_v1"),
        ("get", "/api/v1/namespaces/{name}", "readCoreV1Namespace", "core_v1"),
        ("put", "/api/v1/namespaces/{name}/finalize", "replaceCoreV1NamespaceFinalize", "core_v1"),
        (
            "post",
            "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            "createCoreV1NamespacedServiceAccountToken",
            "core_v1",
        ),
        (
            "get",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "readAppsV1NamespacedDeploymentScale",
            "apps_v1",
        ),
        (
            "put",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval",
            "replaceCertificatesV1CertificateSigningRequestApproval",
            "certificates_v1",
        ),
        (
            "get",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}",
            "readRbacAuthorizationV1ClusterRole",
            "rbacAuthorization_v1",
        ),
        (
            "post",
            "/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews",
            "createAuthorizationV1NamespacedLocalSubjectAccessReview",
            "authorization_v1",
        ),
        (
            "post",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "createAuthenticationV1TokenReview",
            "authentication_v1",
        ),
    ] {
        let operation = &document["paths"][path][method];
        assert_eq!(operation["operationId"], name, "{method} {path}");
        assert_eq!(operation["tags"], json!([tag]), "{method} {path}");
    }
}

/// The fields that objects must have, as Kubernetes' own document of version 2 lists them, without those that the tables
/// do not have: a type on each line.
const REQUIRED: &str = include_str!("required.txt");

#[test]
fn objects_must_have_the_fields_that_they_must_have_in_kubernetes() {
    let definitions = &swagger()["definitions"];
    let definitions = definitions.as_object().unwrap();
    let mut listed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in REQUIRED.lines() {
        let (ty, fields) = line.split_once(": ").unwrap();
        let (package, name) = ty.split_once(' ').unwrap();
        listed.insert(format!("{}.{name}", package.replace('/', ".")), fields.split(' ').collect());
    }
    let mut compared = 0;
    for (name, definition) in definitions {
        // These are not in that document, or as lists are made there.
        if ["io.x-k8s.", "io.openshift.", "io.k8s.api.authorization.v1beta1."]
            .iter()
            .any(|p| name.starts_with(p))
            || name.ends_with("List")
            // Plain values.
            || definition["properties"].is_null()
        {
            continue;
        }
        let short = ["io.k8s.apimachinery.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis.", "io.k8s.api."]
            .iter()
            .find_map(|start| name.strip_prefix(start))
            .map(str::to_owned)
            .or_else(|| {
                let rest = name.strip_prefix("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.")?;
                Some(format!("apiextensions.k8s.io.{rest}"))
            })
            .unwrap_or_else(|| panic!("{name}"));
        let required = definition["required"].as_array().into_iter().flatten();
        let mut required: Vec<&str> = required.map(|field| field.as_str().unwrap()).collect();
        required.sort_unstable();
        assert_eq!(required, listed.get(&short).cloned().unwrap_or_default(), "{name}");
        compared += 1;
    }
    assert!(compared > 300, "{compared}");
}

/// As in Kubernetes' own document of version 2.
#[test]
fn the_swagger_document_describes_kinds_and_how_they_are_patched() {
    let definitions = &swagger()["definitions"];
    let core = |name: &str| &definitions[format!("io.k8s.api.core.v1.{name}")];
    assert_eq!(
        core("Pod")["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "Pod"}])
    );
    let containers = &core("PodSpec")["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["items"]["$ref"], "#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(core("PodSpec")["required"], json!(["containers"]));
    let metadata = &core("Pod")["properties"]["metadata"];
    assert_eq!(metadata["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let quantity = &definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!((&quantity["type"], &quantity["format"]), (&json!("string"), &Value::Null));
    let port = &definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!((&port["type"], &port["format"]), (&json!("string"), &json!("int-or-string")));
}
