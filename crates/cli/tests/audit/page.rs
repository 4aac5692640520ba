//! The page, in a browser (AU-136 to AU-139, AU-166): `page/check.py` drives Debian's Chromium and says what is wrong.

use std::path::{Path, PathBuf};

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{program, recorded, tool};
use serde_json::{Value, json};

/// Names that try to leave their place.
const HOSTILE: [&str; 12] = [
    "</script><script>hacked=1</script>",
    "\"><img src=x onerror=hacked=1>",
    "a\u{202e}txt.exe\u{202c}",
    "'`onfocus=hacked=1 autofocus x='",
    "javascript:hacked=1",
    "tab\there\nline",
    "\u{5d0}\u{5d1}-\u{627}\u{644}",
    "\u{200b}empty\u{feff}",
    "<!--",
    "&lt;b&gt;",
    "%2F..%2f#?=&;",
    "__proto__",
];

/// Writes the page of a state, with these flags of `audit`.
fn page(scratch: &Scratch, state: &Path, flags: &[&str]) -> PathBuf {
    let file = scratch.path().join("page.html");
    let output = format!("html={}", file.display());
    let fixed = ["audit", "--fail-on", "none", "-o", &output, "--state", state.to_str().unwrap()];
    let run = program!().run(fixed.iter().chain(flags));
    assert_eq!((run.code, &*run.stdout), (0, ""), "{}", run.stderr);
    file
}

/// What `reach` answers about a state, with every path.
fn reach(scratch: &Scratch, state: &Path) -> PathBuf {
    let fixed = ["reach", "-o", "json", "--paths", "100000", "--state", state.to_str().unwrap()];
    let run = program!().run(fixed);
    assert_eq!(run.code, 0, "{}", run.stderr);
    scratch.write("reach.json", run.stdout)
}

/// Runs a check in the browser; returns what it printed.
fn check(name: &str, page: &Path, answer: Option<&Path>) -> String {
    tool::require("chromium");
    let script = recorded::repository().join("crates/cli/tests/audit/page/check.py");
    let mut command = tool::command("python3");
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(name).arg(page).args(answer);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}:\n{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

fn example() -> PathBuf {
    recorded::repository().join("examples/cluster")
}

/// A state whose only node leads to admin, and a finding whose fix ends that.
fn full(scratch: &Scratch) -> PathBuf {
    super::reach::unpacked(scratch, "audit/findings/full/state")
}

/// A cluster of which every name is hostile.
fn hostile_state() -> Value {
    let mut items = vec![
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": HOSTILE[0]},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    ];
    let long = "x".repeat(253);
    for (place, name) in HOSTILE.iter().copied().chain([long.as_str()]).enumerate() {
        items.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        for node in [name, "worker"] {
            items.push(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": name, "name": format!("{name} on {node}"), "uid": "u",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": name, "name": name, "uid": "o", "controller": true}]},
                "spec": {"nodeName": node, "serviceAccountName": name, "containers": [{"name": name, "image": "i",
                    "securityContext": {"privileged": true}, "envFrom": [{"secretRef": {"name": name}}]}]}}));
        }
        items.push(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": HOSTILE[place % 2 * 3]},
            "subjects": [{"kind": "ServiceAccount", "namespace": name, "name": name}]}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// 30,000 pods of 4,000 workloads on 1,000 nodes; of every workload one account in five may run commands in its namespace, and one
/// of all reads every secret of the cluster.
fn large_state() -> String {
    let node = |number: usize| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")}});
    let pod = |number: usize| {
        let (namespace, app) = (number % 200, format!("app-{}", number / 200 % 20));
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": format!("team-{namespace}"), "name": format!("{app}-6d4cf56db6-{number}"),
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": "r", "controller": true}]},
            "spec": {"nodeName": format!("node-{}", number % 1000), "serviceAccountName": app,
                "containers": [{"name": "main", "image": "i", "envFrom": [{"secretRef": {"name": app}}]}],
                "volumes": [{"name": "config", "configMap": {"name": app}}]}})
    };
    let role = |name: &str, resources: &[&str]| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get", "list", "create"]}]})
    };
    let binding = |number: usize| {
        let (namespace, name) = (format!("team-{}", number % 200), format!("binding-{number}"));
        let role = if number.is_multiple_of(5) { "executor" } else { "viewer" };
        let (kind, role, metadata) = match number {
            0 => ("ClusterRoleBinding", "reader", json!({"name": name})),
            _ => ("RoleBinding", role, json!({"name": name, "namespace": namespace})),
        };
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": format!("app-{}", number / 200 % 20)}]})
    };
    let roles =
        [role("viewer", &["services"]), role("executor", &["pods/exec"]), role("reader", &["secrets"])];
    let items = (0..1000).map(node).chain((0..30_000).map(pod)).chain(roles).chain((0..5000).map(binding));
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(","))
}

#[test]
fn a_page_of_thirty_thousand_pods_is_below_5_mb_and_answers_au_151() {
    let scratch = Scratch::new();
    let state = scratch.write("state.json", large_state());
    let page = page(&scratch, &state, &[]);
    let bytes = page.metadata().unwrap().len();
    assert!(bytes < 5_000_000, "{bytes} bytes");
    println!("{bytes} bytes; {}", check("large", &page, None).trim());
}

#[test]
fn the_page_is_whole_without_scripts_and_says_what_reach_says_au_136() {
    let (scratch, state) = (Scratch::new(), Scratch::new());
    for state in [example(), full(&state)] {
        let answer = reach(&scratch, &state);
        check("without_scripts", &page(&scratch, &state, &[]), Some(&answer));
    }
}

#[test]
fn every_view_can_be_read_and_asks_nobody_au_138() {
    check("views", &page(&Scratch::new(), &example(), &[]), None);
}

#[test]
fn keys_alone_are_enough_au_138() {
    check("keyboard", &page(&Scratch::new(), &example(), &[]), None);
}

#[test]
fn paper_shows_everything_au_138() {
    let (scratch, state) = (Scratch::new(), Scratch::new());
    check("printing", &page(&scratch, &full(&state), &[]), None);
}

#[test]
fn hostile_names_stay_text_au_166() {
    let scratch = Scratch::new();
    let state = scratch.write("state.json", hostile_state().to_string());
    let page = page(&scratch, &state, &[]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("</script>").count(), 3, "the scripts of the page");
    check("hostile", &page, None);
    check("printing", &page, None);
    check("without_scripts", &page, Some(&reach(&scratch, &state)));
}

#[test]
fn the_page_finds_the_paths_that_reach_finds_au_137() {
    let names = recorded::names();
    let closures = names.iter().filter_map(|name| name.strip_suffix("/expected.json"));
    let closures: Vec<&str> = closures.filter(|name| name.starts_with("audit/closure/")).collect();
    assert!(closures.len() > 5, "{closures:?}");
    let scratch = Scratch::new();
    let mut states = vec![example()];
    for case in closures {
        let folder = scratch.path().join(case);
        let state = folder.join("state");
        for name in names.iter().filter_map(|name| name.strip_prefix(&format!("{case}/state/"))) {
            let file = state.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, recorded::text(&format!("{case}/state/{name}"))).unwrap();
        }
        if state.is_dir() {
            states.push(state);
        }
    }
    for state in &states {
        let work = Scratch::new();
        check("search", &page(&work, state, &[]), Some(&reach(&work, state)));
    }
}

#[test]
fn the_same_state_gives_the_same_bytes_au_131() {
    let scratch = Scratch::new();
    let list = hostile_state();
    let mut turned = list.clone();
    turned["items"].as_array_mut().unwrap().reverse();
    let bytes = |list: &Value| {
        let state = scratch.write("state.json", list.to_string());
        std::fs::read(page(&scratch, &state, &[])).unwrap()
    };
    assert!(bytes(&list) == bytes(&turned), "the order of objects changes the page");
}

#[test]
fn rules_that_were_not_asked_for_are_not_called_clean() {
    let scratch = Scratch::new();
    let html = std::fs::read_to_string(page(&scratch, &example(), &["--rule", "PC101"])).unwrap();
    assert_eq!(html.matches("<td>not asked for</td>").count(), 36);
}

#[test]
fn the_page_of_reach_says_that_it_looked_for_no_findings() {
    let state = example();
    let fixed = ["reach", "-o", "html", "--state", state.to_str().unwrap()];
    let run = program!().run(fixed);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("This page shows reach alone."));
    assert!(!run.stdout.contains("nothing found"), "no rule was checked");
    let scratch = Scratch::new();
    let page = scratch.write("page.html", &run.stdout);
    check("without_scripts", &page, Some(&reach(&scratch, &state)));
    for flags in [["--node", "node-1"], ["--direct", "--wide"]] {
        let run = program!().run(fixed.iter().chain(&flags));
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
    }
}
