//! Replays recorded requests for the kinds of all groups but the core group through the functions of their rows, and
//! compares what comes out with the recorded answers: objects, causes, and rows of tables.

#![allow(clippy::disallowed_macros, reason = "prints what was compared")]
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::{BTreeMap, HashMap};

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_kinds::resource::{Requester, Resource};
use portcullis_kinds::resources::{ALL, certificates, rbac};
use portcullis_kinds::{Kinds, Map, decode};
use portcullis_testkit::recorded;
use proptest::prelude::*;
use proptest::{collection, sample};
use serde_json::{Value, json};

/// 2026-01-02T03:04:05Z.
const NOW: i64 = 1_767_323_045;
const CREATED: &str = "2026-01-02T03:03:59Z";

/// Fields that the comparison leaves out, because they differ from run to run.
const DROPPED: &[&str] = &[
    "certificate",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "message",
    "resourceVersion",
    "uid",
];

fn cleaned(value: &Value) -> Value {
    recorded::without(value, DROPPED)
}

/// What a path names: the kind, the namespace, and the name and the subresource if any.
struct Target {
    resource: &'static Resource,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

fn target(path: &str) -> Option<Target> {
    let path = path.split('?').next()?.strip_prefix("/apis/")?;
    let mut parts = path.split('/').map(|part| part.replace("%20", " "));
    let (group, version) = (parts.next()?, parts.next()?);
    let mut plural = parts.next()?;
    let mut namespace = None;
    if plural == "namespaces" {
        namespace = parts.next();
        plural = parts.next()?;
    }
    let resource =
        Kinds::built_in().find(&group, &version, &plural).filter(|row| row.version_of.is_none())?;
    Some(Target { resource, namespace, name: parts.next(), subresource: parts.next() })
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        let fields = target.as_object_mut().unwrap();
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn causes(errors: &[FieldError]) -> Vec<(String, String)> {
    let mut causes: Vec<_> =
        errors.iter().map(|error| (error.field.clone(), error.reason.as_str().to_owned())).collect();
    causes.sort();
    causes
}

/// The recorded causes of a 422 that are not about metadata, which has rules of its own.
fn recorded_causes(body: &Value) -> Vec<(String, String)> {
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let all = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let mut causes: Vec<_> = all.iter().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect();
    causes.retain(|(field, _)| !field.starts_with("metadata."));
    causes.sort();
    causes
}

fn is_about_metadata(body: &Value) -> bool {
    let causes = body["details"]["causes"].as_array();
    causes.is_some_and(|causes| {
        causes.iter().any(|c| c["field"].as_str().unwrap_or("").starts_with("metadata."))
    })
}

/// Decodes a document, and does what happens to each before admission.
fn decoded(target: &Target, document: Value) -> Option<Map> {
    let mut object = decode::value(document, target.resource.schema).ok()?.object;
    (target.resource.default)(&mut object);
    Some(object)
}

/// Whether the recorded answer found fault with the value of a field that another crate looks into.
fn finds_fault<'a>(answer: &Value, field: &str) -> Option<&'a str> {
    let wanted = (field.to_owned(), "FieldValueInvalid".to_owned());
    recorded_causes(answer).contains(&wanted).then_some("found by the parser")
}

fn created(target: &Target, document: Value, answer: &Value) -> Option<Result<Map, FieldErrors>> {
    let mut object = decoded(target, document)?;
    (target.resource.prepare_create)(&mut object);
    let errors = match target.resource.kind {
        "CertificateSigningRequest" => {
            certificates::validate_create(&object, finds_fault(answer, "spec.request"))
        }
        _ => (target.resource.validate_create)(&object),
    };
    Some(if errors.is_empty() { Ok(object) } else { Err(errors) })
}

fn updated(target: &Target, document: Value, old: &Map, answer: &Value) -> Option<Result<Map, FieldErrors>> {
    let resource = target.resource;
    let mut object = decoded(target, document)?;
    let errors = match target.subresource.as_deref() {
        None => {
            (resource.prepare_update)(&mut object, old);
            (resource.validate_update)(&object, old)
        }
        Some("status") => {
            (resource.prepare_status)(&mut object, old);
            if resource.kind == "CertificateSigningRequest" {
                certificates::stamp_conditions(&mut object, old, CREATED);
                let fault = finds_fault(answer, "status.certificate");
                certificates::validate_status(&object, old, fault)
            } else {
                (resource.validate_status)(&object, old)
            }
        }
        Some("approval") => {
            certificates::prepare_approval(&mut object, old);
            certificates::stamp_conditions(&mut object, old, CREATED);
            certificates::validate_approval(&object, old)
        }
        Some(_) => return None,
    };
    Some(if errors.is_empty() { Ok(object) } else { Err(errors) })
}

/// The objects by path, with the time that replay creates them at, as far as they are known.
#[derive(Default)]
struct Replay {
    objects: HashMap<String, Map>,
    checked: usize,
    differing: Vec<String>,
}

impl Replay {
    fn key(target: &Target, name: &str) -> String {
        format!("{}/{}/{}", target.resource.plural, target.namespace.as_deref().unwrap_or(""), name)
    }

    fn run(&mut self, file: &str) {
        self.objects.clear();
        for case in recorded::lines(&format!("http/{file}.jsonl")) {
            let Some(target) = target(case["path"].as_str().unwrap()) else { continue };
            let id = format!("{file} {}", case["id"].as_str().unwrap());
            let is_dry = case["path"].as_str().unwrap().contains("dryRun");
            let (code, body) = (case["expect"]["code"].as_u64().unwrap(), &case["expect"]["body"]);
            let is_table = case["headers"]["Accept"].as_str().unwrap_or("").contains("as=Table");
            match case["method"].as_str().unwrap() {
                "GET" if is_table && code == 200 => self.table(&id, &target, body),
                "GET" if target.name.is_some() && code == 200 && !is_table => self.adopt(&target, body),
                "DELETE" => {
                    let name = target.name.clone().unwrap_or_default();
                    self.objects.remove(&Self::key(&target, &name));
                }
                "POST" | "PUT" | "PATCH" if matches!(code, 200 | 201 | 422) => {
                    let Some((new, name)) = self.replayed(&case, &target) else {
                        self.follow(&target, body);
                        continue;
                    };
                    self.compare(&id, code, body, &new);
                    if let (Ok(mut object), false, 200 | 201) = (new, is_dry, code) {
                        object["metadata"]["creationTimestamp"] = json!(CREATED);
                        self.objects.insert(Self::key(&target, &name), object);
                    }
                }
                _ => {}
            }
        }
    }

    /// What the functions of the row make of a request; nothing when it cannot be replayed without a server.
    fn replayed(&self, case: &Value, target: &Target) -> Option<(Result<Map, FieldErrors>, String)> {
        let document = case["body"].as_object().map(|body| Value::Object(body.clone()))?;
        let answer = &case["expect"]["body"];
        let is_status = answer["kind"] == json!("Status");
        if is_status && answer["details"]["kind"] != json!(target.resource.kind) && !is_about_metadata(answer)
        {
            return None; // A fault of the query or of the patch.
        }
        let name = match &target.name {
            Some(name) => name.clone(),
            None => document["metadata"]["name"].as_str()?.to_owned(),
        };
        let old = self.objects.get(&Self::key(target, &name));
        let new = match (case["method"].as_str()?, old) {
            ("POST", _) if target.subresource.is_none() => created(target, document, answer)?,
            ("PUT", None) if target.resource.creates_on_update => created(target, document, answer)?,
            ("PUT", Some(old)) => updated(target, document, old, answer)?,
            ("PATCH", Some(old)) => {
                let kind = case["headers"]["Content-Type"].as_str().unwrap_or("");
                if !kind.contains("merge-patch") || document.to_string().contains("\"$") {
                    return None;
                }
                if kind.contains("strategic") && case["id"].as_str()?.contains("merge") {
                    return None; // Lists that merge by a key are for the patches' own tests.
                }
                let mut merged = Value::Object(old.clone());
                merge(&mut merged, &document);
                updated(target, merged, old, answer)?
            }
            _ => return None,
        };
        Some((new, name))
    }

    /// Takes over what a write did that is not replayed.
    fn follow(&mut self, target: &Target, body: &Value) {
        let Some(name) = body["metadata"]["name"].as_str() else { return };
        let key = Self::key(target, name);
        if target.resource.kind != "CertificateSigningRequest" {
            self.objects.remove(&key);
        } else if let Some(object) = self.objects.get_mut(&key) {
            for name in ["annotations", "labels"] {
                object["metadata"][name] = body["metadata"][name].clone();
            }
        }
        self.adopt(target, body);
    }

    fn adopt(&mut self, target: &Target, body: &Value) {
        let Some(name) = body["metadata"]["name"].as_str() else { return };
        let key = Self::key(target, name);
        if self.objects.contains_key(&key) {
            return; // Known better than from the recording, which leaves times and certificates out.
        }
        let Some(object) = decoded(target, body.clone()) else { return };
        self.objects.insert(key, object);
    }

    fn compare(&mut self, id: &str, code: u64, body: &Value, new: &Result<Map, FieldErrors>) {
        let (same, shown) = match new {
            Ok(object) if code == 422 => (is_about_metadata(body), format!("{object:?}")),
            Ok(_) if body.is_null() => (true, String::new()),
            Ok(object) => {
                let mut object = cleaned(&Value::Object(object.clone()));
                let mut body = cleaned(body);
                object["kind"] = body["kind"].clone();
                object["apiVersion"] = body["apiVersion"].clone();
                // The requester is set from the credential, which is tested elsewhere.
                for object in [&mut object, &mut body] {
                    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                        ["username", "groups", "extra"].iter().for_each(|name| drop(spec.remove(*name)));
                    }
                    let metadata = object["metadata"].as_object_mut().unwrap();
                    let ruled_elsewhere = ["finalizers", "generateName", "name", "namespace", "selfLink"];
                    ruled_elsewhere.iter().for_each(|name| drop(metadata.remove(*name)));
                }
                (object == body, object.to_string())
            }
            Err(errors) => (code == 422 && causes(errors) == recorded_causes(body), format!("{errors:?}")),
        };
        self.checked += 1;
        if !same {
            self.differing.push(format!("{id}: wanted {code} {body}\n    got {shown}"));
        }
    }

    fn table(&mut self, id: &str, target: &Target, body: &Value) {
        if let Some(wanted) = body["columnDefinitions"].as_array() {
            let columns: Vec<Value> = target
                .resource
                .columns
                .iter()
                .map(|c| json!({"format": c.format, "name": c.name, "priority": c.priority, "type": c.kind}))
                .collect();
            let mut wanted = wanted.clone();
            wanted.iter_mut().for_each(|column| drop(column.as_object_mut().unwrap().remove("description")));
            self.checked += 1;
            if columns != wanted {
                self.differing.push(format!("{id}: columns {columns:?}"));
            }
        }
        for row in body["rows"].as_array().into_iter().flatten() {
            let name = row["object"]["metadata"]["name"].as_str().unwrap();
            let Some(object) = self.objects.get(&Self::key(target, name)) else { continue };
            let cells = (target.resource.row)(object, NOW).cells;
            let age = target.resource.columns.iter().position(|column| column.name == "Age");
            let mut wanted = row["cells"].as_array().unwrap().clone();
            if let Some(age) = age {
                wanted[age] = json!("6s");
            }
            self.checked += 1;
            if cells != wanted {
                self.differing.push(format!("{id}: cells {cells:?}, wanted {wanted:?}"));
            }
        }
    }
}

fn replay(files: &[&str], at_least: usize) {
    let mut replay = Replay::default();
    files.iter().for_each(|file| replay.run(file));
    println!("{} checked", replay.checked);
    assert!(
        replay.differing.is_empty(),
        "{} differ:\n{}",
        replay.differing.len(),
        replay.differing.join("\n")
    );
    assert!(replay.checked >= at_least, "only {} checked", replay.checked);
}

#[test]
fn rb_70_to_rb_77_roles_and_bindings_are_made_and_refused_as_recorded() {
    replay(
        &[
            "rbac-objects",
            "rbac-aggregation",
            "rbac-enforcement",
            "rbac-escalation",
            "review-sar",
            "review-self",
            "impersonation",
            "bootstrap-tokens",
            "csr-admission",
            "csr-autoapprove",
        ],
        250,
    );
}

#[test]
fn ap_133_storage_kinds_are_made_and_refused_as_recorded() {
    replay(&["storage-objects"], 25);
}

#[test]
fn ap_135_devices_and_claims_are_made_and_refused_as_recorded() {
    replay(&["dra-objects", "node-authorizer", "noderestriction-misc"], 30);
}

#[test]
fn ap_130_leases_classes_and_slices_are_made_and_refused_as_recorded() {
    replay(&["leases-misc"], 18);
}

#[test]
fn ap_91_tables_have_the_recorded_columns_and_cells() {
    replay(&["tables", "csr-read-delete"], 25);
}

#[test]
fn cs_12_to_cs_34_signing_requests_are_updated_as_recorded() {
    let files = ["csr-update", "csr-status", "csr-status-certificate", "csr-approval", "csr-requesters"];
    replay(&files, 160);
}

#[test]
fn cs_12_to_cs_14_fields_of_signing_requests_are_refused_as_recorded() {
    replay(&["csr-create-fields", "csr-create-object", "csr-create-request"], 130);
}

#[test]
fn cs_1_the_requester_replaces_what_the_client_says() {
    let target = target("/apis/certificates.k8s.io/v1/certificatesigningrequests").unwrap();
    let document = json!({"metadata": {"name": "a"}, "spec": {"username": "x", "uid": "y", "groups": ["z"],
        "extra": {"k": ["v"]}, "signerName": "a.b/c", "usages": ["any"]}, "status": {"certificate": "YQ=="}});
    let mut object = created(&target, document, &Value::Null).unwrap().unwrap();
    let (groups, extra) = ([String::from("us")], BTreeMap::new());
    let requester = Requester { name: "me", uid: "", groups: &groups, extra: &extra };
    certificates::set_requester(&mut object, requester);
    assert_eq!(object["spec"]["username"], json!("me"));
    assert_eq!(object["spec"]["groups"], json!(["us"]));
    assert!(object["spec"].get("uid").is_none() && object["spec"].get("extra").is_none());
    assert_eq!(object["status"], json!({}));
}

#[test]
fn ap_40_ap_41_ap_50_ap_75_rows_answer_as_the_conventions_list_them() {
    let rows = |holds: fn(&Resource) -> bool| -> Vec<&str> {
        // The groups of which the conventions list every kind that is served.
        let listed = [
            "certificates.k8s.io",
            "coordination.k8s.io",
            "discovery.k8s.io",
            "node.k8s.io",
            "rbac.authorization.k8s.io",
            "resource.k8s.io",
            "storage.k8s.io",
        ];
        let others = ["csistoragecapacities", "volumeattributesclasses"];
        let is_listed = |resource: &Resource| {
            resource.version == "v1" && listed.contains(&resource.group) && !others.contains(&resource.plural)
        };
        let rows = ALL.iter().filter(|resource| is_listed(resource));
        rows.filter(|resource| holds(resource)).map(|resource| resource.plural).collect()
    };
    assert_eq!(
        rows(|r| !r.updates_unconditionally),
        ["leases", "runtimeclasses", "csidrivers", "csinodes", "volumeattachments"]
    );
    assert_eq!(
        rows(|r| r.creates_on_update),
        ["leases", "runtimeclasses", "clusterrolebindings", "clusterroles", "rolebindings", "roles"]
    );
    let with_object = [
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
        "csidrivers",
        "csinodes",
        "storageclasses",
        "volumeattachments",
    ];
    assert_eq!(rows(|r| r.deletes_to_object), with_object);
    assert_eq!(rows(|r| !r.selects_namespace), ["certificatesigningrequests", "resourceslices"]);
}

/// As `SetDefaults_StatefulSet` of `apps/v1` and `SetDefaults_NetworkPolicy` of `networking.k8s.io/v1` do it.
#[test]
fn what_a_strategy_or_a_policy_leaves_open_is_filled_in_by_what_it_says() {
    let filled = |group: &str, plural: &str, spec: Value| -> Value {
        let resource = Kinds::built_in().find(group, "v1", plural).unwrap();
        let mut object = Map::from_iter([("spec".to_owned(), spec)]);
        (resource.default)(&mut object);
        object["spec"].clone()
    };
    let rolling = json!({"partition": 0, "maxUnavailable": 1});
    for (given, strategy) in [
        (json!({}), json!({"type": "RollingUpdate", "rollingUpdate": rolling})),
        (json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate"})),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {}}),
            json!({"type": "RollingUpdate", "rollingUpdate": rolling}),
        ),
        (json!({"type": "OnDelete"}), json!({"type": "OnDelete"})),
    ] {
        let spec = filled("apps", "statefulsets", json!({"updateStrategy": given}));
        assert_eq!(spec["updateStrategy"], strategy, "{given}");
    }
    for (given, types) in [
        (json!({}), json!(["Ingress"])),
        (json!({"egress": []}), json!(["Ingress"])),
        (json!({"egress": [{}]}), json!(["Ingress", "Egress"])),
        (json!({"egress": [{}], "policyTypes": ["Egress"]}), json!(["Egress"])),
    ] {
        let spec = filled("networking.k8s.io", "networkpolicies", given.clone());
        assert_eq!(spec["policyTypes"], types, "{given}");
    }
}

#[test]
fn rows_are_in_order_and_named_once() {
    let names: Vec<_> = ALL.iter().map(|resource| (resource.group, resource.plural)).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
}

#[test]
fn nb_123_machines_keep_fields_that_nobody_here_knows() {
    let target = target("/apis/machine.openshift.io/v1beta1/namespaces/a/machines").unwrap();
    let spec = json!({"providerID": "p", "providerSpec": {"value": {"zone": "z", "tags": [1, null]}}});
    let document = json!({"metadata": {"name": "m"}, "spec": spec, "status": {"phase": "Running"}});
    let machine = created(&target, document, &Value::Null).unwrap().unwrap();
    assert_eq!(machine["spec"]["providerSpec"], spec["providerSpec"]);
    assert!(machine.get("status").is_none(), "a client cannot create a machine's status");
}

#[test]
fn rb_121_old_documents_become_what_they_mean_in_v1() {
    let document = json!({"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "*", "apiVersion": "x/v1"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    let version_of = rbac::old::V1ALPHA1[0].version_of.unwrap();
    let document = (version_of.to)(document.as_object().unwrap().clone());
    assert_eq!(document["apiVersion"], json!("rbac.authorization.k8s.io/v1"));
    let subject =
        json!({"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"});
    assert_eq!(document["subjects"], json!([subject]));
    assert!((rbac::CLUSTER_ROLE_BINDINGS.validate_create)(&document).is_empty());
    assert_eq!((version_of.to)(document.clone()), document, "a v1 document stays as it is");
}

/// Any object whose members have names and values that the kinds look at, often of the wrong type.
fn any_object() -> impl Strategy<Value = Map> {
    let name = sample::select(vec![
        "metadata",
        "spec",
        "status",
        "rules",
        "subjects",
        "roleRef",
        "drivers",
        "devices",
        "requests",
        "exactly",
        "firstAvailable",
        "endpoints",
        "addresses",
        "ports",
        "conditions",
        "type",
        "name",
        "usages",
        "pool",
        "allocation",
        "results",
        "reservedFor",
        "overhead",
        "podFixed",
        "hugepages-0",
        "capacity",
        "c",
        "requestPolicy",
        "validRange",
        "validValues",
        "default",
        "min",
        "max",
        "step",
        "value",
        "attributes",
        "version",
        "allowMultipleAllocations",
        "allowedTopologies",
        "matchLabelExpressions",
        "addressType",
    ]);
    let text =
        sample::select(vec!["", "IPv4", "é/", "1Gi", "0", "-1", "a/b/c", "Approved", "true", "1.2.3-"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::vec((name.clone(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    });
    value.prop_map(|value| value.as_object().cloned().unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_object_whatsoever_makes_a_row_panic(new in any_object(), old in any_object()) {
        for resource in ALL.iter().filter(|resource| !resource.group.is_empty()) {
            let mut object = new.clone();
            (resource.default)(&mut object);
            let defaulted = object.clone();
            (resource.default)(&mut object);
            prop_assert_eq!(&object, &defaulted, "defaults are there once they have been set");
            (resource.validate_create)(&object);
            (resource.validate_update)(&object, &old);
            (resource.validate_status)(&object, &old);
            let cells = (resource.row)(&object, NOW).cells;
            prop_assert_eq!(cells.len(), resource.columns.len());
            (resource.prepare_update)(&mut object, &old);
            (resource.prepare_status)(&mut object, &old);
            (resource.prepare_create)(&mut object);
        }
    }
}
