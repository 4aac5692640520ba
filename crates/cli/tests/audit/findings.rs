//! `portcullis audit`: the recorded findings (AU-160), forms of the answer, baselines, exclusions, fixes and exit codes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::{program, recorded};
use serde_json::{Value, json};

use super::fake_cluster::FakeCluster;

fn audit(state: &Path, flags: &[&str]) -> Finished {
    let fixed = ["audit", "--state", state.to_str().unwrap()];
    program!().run(fixed.iter().chain(flags))
}

fn document(run: &Finished) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

/// Unpacks the state of a recorded case.
fn state_of(scratch: &Scratch, case: &str) -> PathBuf {
    super::reach::unpacked(scratch, &format!("audit/findings/{case}/state"))
}

#[test]
fn every_recorded_case_has_exactly_its_findings_au_72() {
    let names = recorded::names();
    let cases: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix("audit/findings/")?.strip_suffix("/expected.json"))
        .collect();
    assert_eq!(cases.len(), 36, "all cases are there");
    for case in cases {
        let scratch = Scratch::new();
        let state = state_of(&scratch, case);
        let expected: Value =
            serde_json::from_str(&recorded::text(&format!("audit/findings/{case}/expected.json"))).unwrap();
        let log = format!("audit/findings/{case}/audit.jsonl");
        let logs = Scratch::new();
        let log = names.contains(&log).then(|| recorded::unpacked(&logs, &log));
        let mut flags = vec!["-o", "json"];
        if let Some(log) = &log {
            flags.extend(["--audit-log", log.to_str().unwrap()]);
        }
        if let Some(now) = expected["now"].as_str() {
            flags.extend(["--now", now]);
        }
        let answer = document(&audit(&state, &flags));
        let keys = |list: &Value| -> BTreeSet<(String, String)> {
            let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
            list.as_array().unwrap().iter().map(|f| (text(f, "id"), text(f, "subject"))).collect()
        };
        assert_eq!(keys(&answer["findings"]), keys(&expected["findings"]), "{case}: {}", expected["why"]);
        for input in expected["incomplete"].as_array().into_iter().flatten() {
            let mut incomplete = answer["incomplete"].as_array().unwrap().iter();
            assert!(incomplete.any(|missing| missing["input"] == *input), "{case}: {input}");
        }
    }
}

#[test]
fn every_form_says_the_same_and_the_exit_code_is_that_of_the_worst_finding_au_130() {
    let scratch = Scratch::new();
    let state = state_of(&scratch, "daemonset-proxy");
    let table = audit(&state, &[]);
    assert_eq!(table.code, 1, "{}", table.stderr);
    let first: Vec<&str> = table.stdout.lines().nth(1).unwrap().split_whitespace().take(3).collect();
    assert_eq!(first, ["critical", "PC101", "serviceaccount/monitoring/agent"]);
    assert!(table.stdout.ends_with("3 findings: 2 critical, 1 high\n"), "{}", table.stdout);
    let names = audit(&state, &["-o", "name"]);
    assert_eq!(names.stdout, "daemonset/monitoring/agent\nserviceaccount/monitoring/agent\n");
    let wide = audit(&state, &["-o", "wide"]);
    assert!(wide.stdout.contains("  -> clusterrole/a /rules/0: get nodes/proxy,nodes/metrics (core) ("));
    let json = document(&audit(&state, &["-o", "json"]));
    let files = Scratch::new();
    let yaml = files.write("answer.yaml", audit(&state, &["-o", "yaml"]).stdout);
    let read =
        program!().run(["audit", "--state", state.to_str().unwrap(), "--baseline", yaml.to_str().unwrap()]);
    assert_eq!(read.code, 2, "a baseline is JSON");
    assert_eq!(json["findings"].as_array().unwrap().len(), 3);
    for (flags, code) in [
        (&["--fail-on", "none"][..], 0),
        (&["--rule", "PC127", "--fail-on", "critical"], 0),
        (&["--rule", "PC127", "--fail-on", "high"], 1),
        (&["--rule", "PC111"], 0),
        (&["--rule", "PC999"], 2),
        (&["-o", "json", "-o", "sarif"], 2),
        (&["-o", "junit"], 2),
    ] {
        assert_eq!(audit(&state, flags).code, code, "{flags:?}");
    }
}

/// The fingerprint is the digest of a text that AU-113 describes, made here with OpenSSL.
#[test]
fn a_fingerprint_is_the_digest_of_rule_subject_and_places_au_113() {
    let scratch = Scratch::new();
    let state = state_of(&scratch, "proxy-get");
    let finding = document(&audit(&state, &["-o", "json"]))["findings"][0].clone();
    let text = scratch.write("text", "portcullis/1\nPC101\nserviceaccount/monitoring/agent\ncluster\n");
    let run = Command::new("openssl").args(["dgst", "-sha256", "-r"]).arg(text).output().unwrap();
    let digest = String::from_utf8(run.stdout).unwrap();
    assert_eq!(finding["fingerprint"].as_str().unwrap(), digest.get(..32).unwrap());
}

#[test]
fn a_baseline_hides_what_it_knows_and_names_what_is_fixed_au_133() {
    let scratch = Scratch::new();
    let state = state_of(&scratch, "daemonset-proxy");
    let files = Scratch::new();
    let baseline = files.path().join("baseline.json");
    let written = audit(&state, &["--write-baseline", baseline.to_str().unwrap()]);
    assert_eq!(written.code, 1);
    let sarif = files.write("baseline.sarif", audit(&state, &["-o", "sarif"]).stdout);
    let whole = files.write("whole.json", audit(&state, &["-o", "json"]).stdout);
    for baseline in [&baseline, &sarif, &whole] {
        let run = audit(&state, &["-o", "json", "--baseline", baseline.to_str().unwrap()]);
        let answer = document(&run);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(answer["findings"], json!([]));
        assert_eq!(answer["suppressed"].as_array().unwrap().len(), 3);
    }
    let quiet = Scratch::new();
    let quiet_state = state_of(&quiet, "missing-role");
    let run = audit(&quiet_state, &["-o", "json", "--baseline", baseline.to_str().unwrap()]);
    let fixed: Vec<Value> =
        document(&run)["fixed"].as_array().unwrap().iter().map(|fixed| fixed["id"].clone()).collect();
    assert_eq!(fixed, ["PC101", "PC102", "PC127"]);
}

#[test]
fn an_exclusion_needs_a_reason_and_a_date_and_ends_au_134() {
    let scratch = Scratch::new();
    let state = state_of(&scratch, "daemonset-proxy");
    let files = Scratch::new();
    let run = |text: &str| {
        let file = files.write("exclude.yaml", text);
        audit(&state, &["-o", "json", "--now", "2026-11-26", "--exclude", file.to_str().unwrap()])
    };
    let all = "- {id: 'PC1*', subject: '*/monitoring/agent', reason: known, expires: 2026-11-26}\n";
    let excluded = run(all);
    assert_eq!(excluded.code, 0, "{}", excluded.stderr);
    assert_eq!(document(&excluded)["suppressed"][0]["reason"], "known");
    let expired = run(&all.replace("2026-11-26", "2026-11-25"));
    assert_eq!(expired.code, 1);
    assert!(expired.stderr.contains("expired on 2026-11-25"), "{}", expired.stderr);
    let unused = run("- {id: PC111, subject: '*', reason: known, expires: 2030-01-01}\n");
    assert!(unused.stderr.contains("matches no finding"), "{}", unused.stderr);
    for text in [
        "- {id: PC101, subject: '*', expires: 2030-01-01}\n",
        "- {id: PC101, subject: '*', reason: ' ', expires: 2030-01-01}\n",
        "- {id: PC101, subject: '*', reason: known}\n",
        "- {id: PC101, subject: '*', reason: known, expires: never}\n",
    ] {
        assert_eq!(run(text).code, 2, "{text}");
    }
}

#[test]
fn sarif_is_valid_against_its_schema_au_135() {
    let schema = recorded::repository().join("tests/sarif/sarif-schema-2.1.0.json.gz");
    let script = "import gzip, json, sys, jsonschema\n\
                  schema = json.load(gzip.open(sys.argv[1]))\n\
                  jsonschema.Draft7Validator(schema).validate(json.load(open(sys.argv[2])))\n";
    let mut results = 0;
    for case in ["full", "kubelet-open", "hostpath", "missing-role", "read-everything-1.36"] {
        let scratch = Scratch::new();
        let state = state_of(&scratch, case);
        let run = audit(&state, &["-o", "sarif"]);
        let document = document(&run);
        for result in document["runs"][0]["results"].as_array().unwrap() {
            let rule = &document["runs"][0]["tool"]["driver"]["rules"]
                [result["ruleIndex"].as_u64().unwrap() as usize];
            assert_eq!(rule["id"], result["ruleId"]);
            results += 1;
        }
        let files = Scratch::new();
        let file = files.write("answer.sarif", &run.stdout);
        let checked =
            Command::new("/usr/bin/python3").args(["-c", script]).arg(&schema).arg(file).output().unwrap();
        assert!(checked.status.success(), "{case}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    assert!(results >= 10, "{results} results");
}

/// The place is that of the rule, of the field, or of the object: counted here in the text of the file.
#[test]
fn sarif_and_evidence_show_file_and_line_au_71() {
    let scratch = Scratch::new();
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\nspec:\n  nodeName: n1\n  \
                serviceAccountName: x\n  containers:\n  - name: main\n    securityContext:\n      privileged: true\n\
                ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\nrules:\n\
                - {apiGroups: [\"\"], resources: [pods], verbs: [list]}\n\
                - {apiGroups: [\"\"], resources: [secrets], verbs: [list]}\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\n\
                roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}\n\
                subjects: [{kind: ServiceAccount, name: x, namespace: a}]\n";
    let state = scratch.write("my state.yaml", text);
    let line_of = |words: &str| 1 + text.lines().position(|line| line.contains(words)).unwrap();
    let sarif = document(&audit(&state, &["-o", "sarif"]));
    let places: Vec<(String, u64, bool)> = sarif["runs"][0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            let line = place["region"]["startLine"].as_u64().unwrap();
            (result["ruleId"].as_str().unwrap().to_owned(), line, uri.ends_with("/my%20state.yaml"))
        })
        .collect();
    let expected = [("PC111", line_of("resources: [secrets]")), ("PC121", line_of("privileged: true"))];
    assert_eq!(places, expected.map(|(rule, line)| (rule.to_owned(), line as u64, true)));
    let json = document(&audit(&state, &["-o", "json", "--rule", "PC111"]));
    let last = json["findings"][0]["evidence"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["line"], line_of("resources: [secrets]"));
}

/// `kubectl` and the files of `--fix-output` are tried against a server elsewhere; here the files are those of the answer.
#[test]
fn fixes_are_written_for_kubectl_au_84() {
    let scratch = Scratch::new();
    let state = state_of(&scratch, "daemonset-proxy");
    let files = Scratch::new();
    let folder = files.path().join("fixes");
    let run = audit(&state, &["-o", "json", "--fix-output", folder.to_str().unwrap()]);
    let fix = &document(&run)["findings"][0]["fix"];
    assert_eq!((&fix["kind"], &fix["target"]["name"]), (&json!("patch"), &json!("a")));
    let patch: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("001-PC101-1.json")).unwrap()).unwrap();
    assert_eq!(patch, fix["patch"]);
    let commands = std::fs::read_to_string(folder.join("commands.sh")).unwrap();
    assert!(
        commands.contains("kubectl patch 'ClusterRole' 'a' --type=json --patch-file 001-PC101-1.json\n"),
        "{commands}"
    );
}

/// An API server in a static pod, with these flags.
fn api_server(version: &str, flags: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "kube-system", "name": "kube-apiserver-n"},
        "spec": {"nodeName": "n", "containers": [{
            "name": "kube-apiserver", "image": format!("registry.k8s.io/kube-apiserver:{version}"),
            "command": ([&["kube-apiserver"], flags].concat()),
        }]},
    })
}

/// A patch of an API server's flags ends its finding, applied by kubectl to the file of the static pod.
#[test]
fn kubectl_patches_the_file_of_an_api_server_au_83() {
    let rules = ["-o", "json", "--rule", "PC106,PC108,PC125"];
    for (version, flags, id) in [
        ("v1.36.0", &["--authorization-mode=RBAC", "--enable-admission-plugins=PodSecurity"][..], "PC106"),
        ("v1.36.0", &["--profiling=false"], "PC106"),
        (
            "v1.33.1",
            &[
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--feature-gates=A=true,AuthorizeNodeWithSelectors=false",
            ],
            "PC108",
        ),
        (
            "v1.32.0",
            &["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"],
            "PC125",
        ),
    ] {
        let files = Scratch::new();
        let pod = files.write("kube-apiserver.yaml", api_server(version, flags).to_string());
        let folder = files.path().join("fixes");
        let run = audit(&pod, &[&rules[..], &["--fix-output", folder.to_str().unwrap()]].concat());
        let finding = &document(&run)["findings"][0];
        let fix = &finding["fix"];
        assert_eq!(finding["id"], id, "{finding:#}");
        assert_eq!((&fix["kind"], &fix["selfCheck"]), (&json!("config"), &json!("passed")), "{finding:#}");
        let commands = std::fs::read_to_string(folder.join("commands.sh")).unwrap();
        let words = "kubectl patch --local -f kube-apiserver.yaml --type=json --patch-file ";
        let file = commands.split_once(words).unwrap().1.split(' ').next().unwrap();
        let mut kubectl = tool::command("kubectl");
        kubectl.args(words.split_whitespace().skip(1)).arg(folder.join(file)).args(["-o", "json"]);
        let patched = Finished::of(kubectl.current_dir(files.path())).ok();
        let after = Scratch::new();
        let left = document(&audit(&after.write("pod.json", patched), &rules));
        assert_eq!(left["findings"], json!([]), "{left:#}");
    }
    // No flag of this release ends it: a newer one is needed.
    let files = Scratch::new();
    let flags = ["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"];
    let pod = files.write("pod.json", api_server("v1.31.4", &flags).to_string());
    let findings = document(&audit(&pod, &rules))["findings"].clone();
    let fixes: Vec<_> = findings.as_array().unwrap().iter().map(|finding| &finding["fix"]).collect();
    assert_eq!(fixes.len(), 2, "{findings:#}");
    for fix in fixes {
        assert_eq!((&fix["kind"], &fix["selfCheck"]), (&json!("manual"), &json!("failed")), "{fix:#}");
    }
}

/// An archive has a part of the command line: a patch of it would not fit the file, so the flags are named.
#[test]
fn from_a_cluster_flags_of_an_api_server_are_text_au_20_au_83() {
    let mut pod =
        api_server("v1.36.0", &["--authorization-mode=RBAC", "--etcd-servers=https://10.0.0.1:2379"]);
    pod["metadata"]["uid"] = json!("u");
    let cluster = FakeCluster::start(&[pod], |_, _, _| None);
    let (kubeconfig, scratch) = (cluster.kubeconfig(), Scratch::new());
    let folder = scratch.path().join("archive");
    assert_eq!(super::archives::collect(&kubeconfig, &folder, &[]).code, 0);
    for source in [["--state", folder.to_str().unwrap()], ["--kubeconfig", kubeconfig.to_str().unwrap()]] {
        let run = program!().run(["audit", "-o", "json", "--rule", "PC106"].iter().chain(&source));
        let fix = &document(&run)["findings"][0]["fix"];
        assert_eq!((&fix["kind"], &fix["patch"]), (&json!("manual"), &Value::Null), "{fix:#}");
        let text = fix["text"].as_str().unwrap();
        for words in [
            "remove --authorization-mode=RBAC",
            "add --authorization-mode=Node,RBAC",
            "add --enable-admission-plugins=NodeRestriction",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!run.stdout.contains("10.0.0.1"), "{}", run.stdout);
    }
}

/// The modes of an API server that has them from a file are those of the AuthorizationConfiguration in the state.
#[test]
fn modes_of_a_file_are_read_from_the_state_au_12() {
    let flags = ["--authorization-config=/etc/authz.yaml", "--enable-admission-plugins=NodeRestriction"];
    let pod = api_server("v1.36.0", &flags);
    let configuration = |authorizers: Value| json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers});
    let of = |name: &str| json!({"type": name, "name": name.to_lowercase()});
    for (files, findings, is_known) in [
        (vec![], 0, false),
        (vec![configuration(json!([of("Node"), of("RBAC")]))], 0, true),
        (vec![configuration(json!([of("RBAC")]))], 1, true),
        (vec![configuration(json!([]))], 0, false),
        (vec![configuration(json!([{"type": "Webhook", "name": "w", "webhook": {}}, of("Node")]))], 0, true),
    ] {
        let scratch = Scratch::new();
        scratch.write("pod.json", pod.to_string());
        files.iter().for_each(|file| drop(scratch.write("authz.json", file.to_string())));
        let run = audit(scratch.path(), &["-o", "json", "--rule", "PC106"]);
        let answer = document(&run);
        assert_eq!(answer["findings"].as_array().unwrap().len(), findings, "{files:?}: {answer:#}");
        let mut incomplete = answer["incomplete"].as_array().unwrap().iter();
        assert_eq!(
            !incomplete.any(|lack| lack["input"] == "authorization-configuration"),
            is_known,
            "{answer:#}"
        );
    }
    // The file is no object, and is given once.
    let scratch = Scratch::new();
    for name in ["a.json", "b.json"] {
        scratch.write(name, configuration(json!([of("Node")])).to_string());
    }
    let run = audit(scratch.path(), &[]);
    assert_eq!(run.code, 2, "{run:#?}");
}

/// Everything that a recorded kube-apiserver 1.36 had in its etcd, as a new user would dump it: of the default policy nothing is
/// found, and of its pods only the selector by a label that kubelets may set. One command more makes the page.
#[test]
fn the_dump_of_a_recorded_cluster_is_audited_au_167() {
    let scratch = Scratch::new();
    let objects = recorded::lines("etcd-registry/registry-protobuf.jsonl");
    let items: Vec<Value> =
        objects.into_iter().map(|line| line["json"].clone()).filter(|json| !json.is_null()).collect();
    assert!(items.len() > 200, "{} objects", items.len());
    let selects = |item: &&Value| item["kind"] == "Pod" && !item["spec"]["nodeSelector"].is_null();
    let by_label: Vec<&Value> = items.iter().filter(selects).collect();
    let expected: BTreeSet<_> = by_label
        .iter()
        .map(|pod| {
            format!(
                "pod/{}/{}",
                pod["metadata"]["namespace"].as_str().unwrap(),
                pod["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect();
    let state =
        scratch.write("dump.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    let page = scratch.path().join("page.html");
    let run = audit(&state, &["-o", "json", "-o", &format!("html={}", page.display())]);
    let findings = document(&run)["findings"].clone();
    let found: BTreeSet<_> = findings
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            assert_eq!(finding["id"], "PC124", "{finding:#}");
            finding["subject"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(found, expected);
    let page = std::fs::read_to_string(page).unwrap();
    for node in ["node-a", "node-b.example"] {
        assert!(page.contains(node), "{node} is on the page");
    }
}

/// AU-165: no form shows what a Secret, a ConfigMap or a variable holds.
#[test]
fn no_form_shows_a_value_au_165() {
    const MARKER: &str = "hunter2-marker";
    // The marker as it is, in base64 (three alignments) and in hexadecimal.
    let encoded =
        ["aHVudGVyMi1tYXJrZXI", "h1bnRlcjItbWFya2Vy", "odW50ZXIyLW1hcmtlc", "68756e746572322d6d61726b6572"];
    let scratch = Scratch::new();
    let state = scratch.write(
        "state.yaml",
        format!(
            r#"
apiVersion: v1
kind: Secret
metadata: {{name: db, namespace: kube-system, annotations: {{kubernetes.io/service-account.name: x}}}}
stringData: {{a: {MARKER}}}
data: {{b: aHVudGVyMi1tYXJrZXI=}}
---
apiVersion: v1
kind: Secret
metadata: {{name: bootstrap-token-abcdef, namespace: kube-system}}
type: bootstrap.kubernetes.io/token
data: {{token-secret: aHVudGVyMi1tYXJrZXI=}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: m, namespace: a}}
data: {{kubelet: {MARKER}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: kube-system}}
spec:
  nodeName: n1
  containers:
  - name: main
    env: [{{name: PASSWORD, value: {MARKER}}}]
    envFrom: [{{secretRef: {{name: db}}}}]
    securityContext: {{privileged: true}}
"#
        ),
    );
    let files = Scratch::new();
    let fixes = files.path().join("fixes");
    for form in ["table", "wide", "json", "yaml", "name", "sarif"] {
        let run = audit(&state, &["--default-policy", "-o", form, "--fix-output", fixes.to_str().unwrap()]);
        assert_eq!(run.code, 1, "{}", run.stderr);
        for text in [&run.stdout, &run.stderr] {
            assert!(!text.contains(MARKER), "{form}");
            assert!(!encoded.iter().any(|encoded| text.contains(encoded)), "{form}");
        }
        assert!(form != "json" || run.stdout.contains("PC126"), "the secret was seen: {}", run.stdout);
    }
}

/// AU-22: what a log does not show is not called clean.
#[test]
fn what_a_log_does_not_show_is_incomplete_au_22() {
    let scratch = Scratch::new();
    let state = state_of(&scratch, "evidence");
    let whole = recorded::text("audit/findings/evidence/audit.jsonl");
    let without_bodies: String = whole
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            event.as_object_mut().unwrap().remove("requestObject");
            format!("{event}\n")
        })
        .collect();
    let damaged = format!("{whole}\n{{\"kind\": \"Event\"\n");
    let short = format!("{}\n", whole.lines().next().unwrap());
    let files = Scratch::new();
    let missing = |text: &str| -> BTreeSet<(String, String)> {
        let log = files.write("audit.log", text);
        let run = audit(&state, &["-o", "json", "--fail-on", "none", "--audit-log", log.to_str().unwrap()]);
        let answer = document(&run);
        let of_log =
            answer["incomplete"].as_array().unwrap().iter().filter(|missing| missing["input"] == "audit-log");
        of_log
            .flat_map(|missing| {
                let rules = missing["rules"].as_array().unwrap().iter();
                rules.map(|rule| {
                    (missing["why"].as_str().unwrap().to_owned(), rule.as_str().unwrap().to_owned())
                })
            })
            .collect()
    };
    let entry = |why: &str, rule: &str| (why.to_owned(), rule.to_owned());
    // No event of this log says with which credential a node made its request.
    assert_eq!(missing(&whole), BTreeSet::from([entry("unresolved", "PC107")]));
    assert!(missing(&without_bodies).contains(&entry("unresolved", "PC132")));
    assert!(missing(&short).contains(&entry("unresolved", "PC134")));
    let all = ["PC107", "PC132", "PC133", "PC134"].map(|rule| entry("undecodable", rule));
    assert!(missing(&damaged).is_superset(&BTreeSet::from(all)));
}

/// A fix of PC122 changes the mount that writes static pods, and no other.
#[test]
fn only_the_mount_of_static_pods_becomes_read_only_au_83() {
    let scratch = Scratch::new();
    let state = scratch.write(
        "state.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\nspec:\n  containers:\n  - name: main\n    volumeMounts:\n    \
         - {name: logs, mountPath: /logs}\n    - {name: pods, mountPath: /pods}\n  volumes:\n  \
         - {name: logs, hostPath: {path: /var/log}}\n  - {name: pods, hostPath: {path: /srv/pods}}\n",
    );
    let config = scratch.path().join("config");
    std::fs::create_dir(&config).unwrap();
    let config = config.join("n1.yaml");
    std::fs::write(&config, "kind: KubeletConfiguration\nstaticPodPath: /srv/pods\n").unwrap();
    let pod = std::fs::read_to_string(&state).unwrap().replace("spec:", "spec:\n  nodeName: n1");
    std::fs::write(&state, pod).unwrap();
    let flag = format!("n1={}", config.display());
    let answer = document(&audit(&state, &["-o", "json", "--kubelet-config", &flag]));
    let findings = answer["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0]["id"], "PC122");
    let patch = json!([{"op": "add", "path": "/spec/containers/0/volumeMounts/1/readOnly", "value": true}]);
    assert_eq!(findings[0]["fix"]["patch"], patch);
}

/// AU-13: the error of a ConfigMap that is none does not quote it.
#[test]
fn the_error_of_a_damaged_config_map_does_not_quote_it_au_13() {
    let scratch = Scratch::new();
    let state = scratch.write(
        "state.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: a}\ndata: hunter2\n",
    );
    let run = audit(&state, &[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("data") && !run.stderr.contains("hunter2"), "{}", run.stderr);
}

/// AU-167
#[test]
fn the_default_policy_and_nothing_have_no_finding() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n");
    for flags in [
        &["-o", "json", "--fail-on", "info"][..],
        &["-o", "json", "--fail-on", "info", "--default-policy", "--all-subjects"],
    ] {
        let run = audit(&state, flags);
        assert_eq!((run.code, document(&run)["findings"].clone()), (0, json!([])), "{}", run.stderr);
    }
    let built_in = document(&audit(&state, &["-o", "json", "--default-policy", "--include-built-in"]));
    let severities: BTreeSet<String> =
        built_in["findings"].as_array().unwrap().iter().map(|f| f["severity"].to_string()).collect();
    assert_eq!(severities, BTreeSet::from(["\"info\"".to_owned()]));
    // What Kubernetes needs is not to be taken away.
    let kinds = built_in["findings"].as_array().unwrap().iter().map(|finding| finding["fix"]["kind"].clone());
    assert!(kinds.clone().count() > 10 && kinds.into_iter().all(|kind| kind == "manual"));
}
