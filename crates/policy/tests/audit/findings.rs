//! Findings over random states: every fix is applied to the documents, and the whole is audited again from nothing (AU-85, AU-163).

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::audit::findings::{self, FixKind, Kubelets, Report, Severity, Wanted};
use portcullis_policy::audit::reach::{self, Asked, ClusterAdmin, NodeReach};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{state, states};

/// Not the digest of the program: here it only has to tell texts apart.
fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0_u8; 32];
    for (place, byte) in bytes.iter().enumerate() {
        digest[place % 32] = digest[place % 32].wrapping_mul(31).wrapping_add(*byte);
    }
    digest
}

fn audit(documents: &[Value]) -> Report {
    let wanted = Wanted {
        kubelets: &Kubelets::default(),
        usage: None,
        secret_nodes: 1,
        unused_after: 0,
        all_subjects: false,
        include_built_in: false,
        asked: Asked { is_expired: &|_| false },
        digest: &digest,
    };
    findings::report(&state(documents), &wanted)
}

fn keys(report: &Report) -> BTreeSet<(&'static str, String)> {
    report.findings.iter().map(|finding| (finding.rule.id, finding.subject.clone())).collect()
}

/// Applies a patch (RFC 6902) of the operations that fixes use.
fn patch(object: &mut Value, operations: &Value) {
    for operation in operations.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        let (parent, last) = path.rsplit_once('/').unwrap();
        match operation["op"].as_str().unwrap() {
            "test" => assert_eq!(object.pointer(path), Some(&operation["value"]), "{path}"),
            "replace" => *object.pointer_mut(path).unwrap() = operation["value"].clone(),
            "remove" => match object.pointer_mut(parent).unwrap() {
                Value::Array(list) => drop(list.remove(last.parse().unwrap())),
                Value::Object(fields) => drop(fields.remove(last).unwrap()),
                _ => panic!("{path}"),
            },
            "add" => match object.pointer_mut(parent).unwrap() {
                Value::Array(list) if last == "-" => list.push(operation["value"].clone()),
                Value::Array(list) => list.insert(last.parse().unwrap(), operation["value"].clone()),
                Value::Object(fields) => drop(fields.insert(last.to_owned(), operation["value"].clone())),
                _ => panic!("{path}"),
            },
            other => panic!("{other}"),
        }
    }
}

fn is(document: &Value, target: &Value) -> bool {
    let of = |field: &str| document["metadata"][field].as_str().unwrap_or_default().to_owned();
    document["kind"] == target["kind"]
        && target["name"] == json!(of("name"))
        && target["namespace"].as_str().unwrap_or_default() == of("namespace")
}

fn closures(documents: &[Value]) -> BTreeMap<String, NodeReach> {
    let asked = Asked { is_expired: &|_| false };
    let report = reach::report(&state(documents), &reach::Wanted::default(), &asked);
    report.nodes.into_iter().map(|node| (node.node.clone(), node)).collect()
}

/// Whether a node reaches no more than before.
fn is_within(after: &NodeReach, before: &NodeReach) -> bool {
    let (Some(after), Some(before)) = (&after.closure, &before.closure) else { return false };
    if before.cluster_admin == ClusterAdmin::Yes {
        return true;
    }
    let is_subset = |some: &[String], all: &[String]| some.iter().all(|name| all.contains(name));
    after.cluster_admin >= before.cluster_admin
        && is_subset(&after.nodes, &before.nodes)
        && is_subset(&after.serviceaccounts, &before.serviceaccounts)
        && after.counts.secrets.count <= before.counts.secrets.count
        && after.counts.configmaps.count <= before.counts.configmaps.count
        && after.counts.pods.count <= before.counts.pods.count
}

/// A random state with one more API server, whose flags are split between `command` and `args` somewhere.
fn documents() -> impl Strategy<Value = Vec<Value>> {
    let flags = [
        "--authorization-mode=RBAC",
        "--authorization-mode=AlwaysAllow",
        "--authorization-mode=Node,RBAC",
        "--authorization-mode ABAC",
        "--authorization-config=/etc/authz.yaml",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-admission-plugins PodSecurity",
        "--disable-admission-plugins=NodeRestriction,Other",
        "--feature-gates=AuthorizeNodeWithSelectors=false,Other=true",
        "--feature-gates=ServiceAccountNodeAudienceRestriction=false",
        "--profiling",
    ];
    let flags = prop::sample::subsequence(flags.to_vec(), 0..flags.len()).prop_shuffle();
    let version = prop::sample::select(vec!["v1.31.9", "v1.32.1", "v1.33.0", "v1.36.2"]);
    (states::documents(), flags, version, 0_usize..12).prop_map(|(mut documents, flags, version, split)| {
        let words: Vec<&str> = flags.into_iter().flat_map(|flag| flag.split(' ')).collect();
        let (command, args) = words.split_at(split.min(words.len()));
        documents.push(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "kube-system", "name": "p8", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": [{
                "name": "main", "image": format!("registry.k8s.io/kube-apiserver:{version}"),
                "command": ([&["kube-apiserver"], command].concat()), "args": args,
            }]},
        }));
        documents
    })
}

/// Applies each fix of the findings of a state, and audits the whole again from nothing.
fn check_fixes(documents: &[Value]) -> Result<(), TestCaseError> {
    let report = audit(documents);
    let before = keys(&report);
    let reach_before = closures(documents);
    for finding in report.findings.iter().filter(|finding| finding.fix.is_applicable()) {
        let mut fixed = documents.to_vec();
        for part in &finding.fix.parts {
            match part.kind {
                FixKind::Patch | FixKind::Config => {
                    let target = part.target.as_ref().unwrap();
                    let object = fixed.iter_mut().find(|document| is(document, target)).unwrap();
                    patch(object, part.patch.as_ref().unwrap());
                }
                FixKind::Manifest => fixed.push(part.manifest.clone().unwrap()),
                FixKind::Manual => panic!("{part:?}"),
            }
        }
        let key = (finding.rule.id, finding.subject.clone());
        let after = keys(&audit(&fixed));
        prop_assert!(!after.contains(&key), "{:?} is still there after {:?}", key, finding.fix);
        let new: Vec<_> = after.difference(&before).collect();
        prop_assert!(new.is_empty(), "the fix of {:?} adds {:?}: {:?}", key, new, finding.fix);
        let reach_after = closures(&fixed);
        for (node, after) in &reach_after {
            prop_assert!(is_within(after, &reach_before[node]), "the fix of {:?} widens {}", key, node);
        }
        if let Some(reach) = &finding.reach
            && let Some(after) = &reach.after
        {
            let closure = reach_after[&reach.node].closure.as_ref().unwrap();
            prop_assert_eq!(closure.cluster_admin, after.cluster_admin);
            prop_assert_eq!(&closure.counts, &after.counts);
        }
    }
    Ok(())
}

/// Only the binding that the fix changes names the account. After the fix nothing names it, so no node reaches it.
#[test]
fn what_only_a_removed_binding_named_is_not_counted_after_the_fix_au_61() {
    let documents = [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r0"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "resourceNames": ["x"], "verbs": ["*"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b0"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r0"},
            "subjects": [
                {"kind": "User", "name": "system:node:n1"},
                {"kind": "User", "name": "system:serviceaccount:b:y"},
            ],
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "p", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web"}]},
        }),
    ];
    let report = audit(&documents);
    let is_it = |finding: &&findings::Finding| finding.subject == "serviceaccount/b/y";
    let reach = report.findings.iter().find(is_it).unwrap().reach.as_ref().unwrap();
    let after = reach.after.as_ref().unwrap();
    // The account of the pod is left.
    assert_eq!((reach.before.counts.serviceaccounts, after.counts.serviceaccounts), (2, 1));
    check_fixes(&documents).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_fix_ends_its_finding_adds_none_and_widens_nobodys_reach_au_163(documents in documents()) {
        check_fixes(&documents)?;
    }

    #[test]
    fn the_order_of_the_documents_changes_no_byte_au_131(documents in states::documents(), turn in 0_usize..20) {
        let mut turned = documents.clone();
        let middle = turn.min(turned.len());
        turned.rotate_left(middle);
        turned.reverse();
        let bytes = |documents: &[Value]| serde_json::to_string(&audit(documents)).unwrap();
        prop_assert_eq!(bytes(&documents), bytes(&turned));
    }
}

/// The property above says something about each rule only if its findings occur, and are fixed by patches.
#[test]
fn findings_of_many_rules_occur_and_most_have_patches() {
    let mut runner = TestRunner::deterministic();
    let strategy = documents();
    let (mut found, mut patched) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2_000 {
        let documents = strategy.new_tree(&mut runner).unwrap().current();
        for finding in audit(&documents).findings {
            if finding.fix.is_applicable() {
                patched.insert(finding.rule.id);
            }
            found.insert(finding.rule.id);
            assert!(finding.severity >= Severity::Info && !finding.instances.is_empty(), "{finding:?}");
        }
    }
    let expected = [
        "PC101", "PC102", "PC105", "PC106", "PC108", "PC109", "PC110", "PC111", "PC112", "PC113", "PC114",
        "PC116", "PC117", "PC118", "PC119", "PC120", "PC121", "PC123", "PC124", "PC125", "PC126", "PC127",
        "PC129", "PC130", "PC131", "PC136", "PC137",
    ];
    let missing: Vec<_> = expected.iter().filter(|id| !found.contains(*id)).collect();
    assert!(missing.is_empty(), "no finding of {missing:?}");
    for id in [
        "PC101", "PC105", "PC106", "PC108", "PC109", "PC110", "PC111", "PC112", "PC114", "PC116", "PC118",
        "PC119", "PC125", "PC129", "PC136", "PC137",
    ] {
        assert!(patched.contains(id), "no fix of {id} is a patch: {patched:?}");
    }
}
