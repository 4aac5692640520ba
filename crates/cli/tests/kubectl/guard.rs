//! `portcullis guard` as `deploy/guard` installs it, and the commands of `docs/guard.md`, typed one after the other.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;

use portcullis_testkit::kubelet::{FakeKubelet, Options};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::recorded::{self, repository};
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait::until;
use serde_json::Value;

use crate::kubectl::support::{Served, Typed};

/// A kubelet whose certificates, and the guard's, lie in `kubelet` in the scratch folder.
fn kubelet(served: &Served) -> FakeKubelet {
    let kubelet = FakeKubelet::start(&served.scratch.path().join("kubelet"), Options::default());
    kubelet.client_certificate("guard", "portcullis-guard", &[]);
    kubelet
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn an_agent_loses_nodes_proxy_and_keeps_its_metrics_as_the_page_says() {
    let served = Served::start(&[]);
    let folder = served.scratch.path();
    symlink(served.data(), folder.join("portcullis-data")).unwrap();
    symlink(repository().join("examples"), folder.join("examples")).unwrap();
    let kubelet = kubelet(&served);
    let _guard = Typed(folder.join("guard.pid"));
    // The ports of the page may be taken: others stand for them.
    let (guard, metrics) = (free_address(), free_address());
    let first = format!(
        r#"portcullis() {{
             [ "$1" = guard ] || {{ command portcullis "$@"; return; }}
             echo $BASHPID > guard.pid
             local words=("${{@//127.0.0.1:10251/{}}}")
             exec portcullis "${{words[@]//127.0.0.1:9192/{metrics}}}" --port {port}
           }}
           curl() {{
             local words=("${{@//127.0.0.1:9192/{metrics}}}")
             command curl "${{words[@]//localhost:10250/localhost:{port}}}"
           }}"#,
        kubelet.address(),
        port = guard.port(),
    );
    served.types("docs/guard.md", &["kubectl", "portcullis", "curl", "openssl"], folder, &first);
    // Nothing that would run a command ever got there.
    assert!(kubelet.requests().iter().all(|seen| !seen.path.starts_with("/exec")));
    assert!(kubelet.requests().iter().any(|seen| seen.path == "/metrics/resource"));
}

/// Runs until this is dropped.
struct Guard(Running);

impl Guard {
    /// A guard that asks by the kubeconfig `account.kubeconfig`.
    fn start(served: &Served, kubelet: &FakeKubelet, flags: &[&str]) -> Self {
        let files = "guard --address 127.0.0.1 --port 0 --node-name node-1 --kubeconfig account.kubeconfig \
            --tls-cert-file kubelet/kubelet.pem --tls-private-key-file kubelet/kubelet-key.pem \
            --client-ca-file data/ca.crt --kubelet-certificate-authority kubelet/kubelet-ca.pem \
            --kubelet-client-certificate kubelet/guard.pem --kubelet-client-key kubelet/guard-key.pem";
        let mut command = program!().command(files.split(' '));
        command.args(["--kubelet-address", &kubelet.address().to_string()]).args(flags);
        command.current_dir(served.scratch.path());
        Self(Running::start(command))
    }

    /// What a caller with the token in a file is answered.
    fn code(&self, served: &Served, token: &str, path: &str) -> String {
        let folder = served.scratch.path();
        let token = fs::read_to_string(folder.join(token)).unwrap();
        let mut curl = tool::command("curl");
        curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert"])
            .arg("kubelet/kubelet-ca.pem")
            .args(["--oauth2-bearer", token.trim(), &format!("https://{}{path}", self.0.address())])
            .current_dir(folder);
        Finished::of(&mut curl).stdout
    }
}

/// What the API server says to each of these, all asked at once: user, verb, group, resource, subresource.
fn allowed(served: &Served, asked: &[[&str; 5]]) -> Vec<bool> {
    let mut reviews = String::new();
    for [user, verb, group, resource, subresource] in asked {
        write!(
            reviews,
            "apiVersion: authorization.k8s.io/v1\nkind: SubjectAccessReview\nspec:\n  user: {user}\n  \
             resourceAttributes: {{verb: '{verb}', group: '{group}', resource: {resource}, subresource: \
             '{subresource}', name: node-1}}\n---\n"
        )
        .unwrap();
    }
    let said = served.ok_with("create -f - -o 'jsonpath={.status.allowed}{\"\\n\"}'", &reviews);
    let answers: Vec<bool> = said.lines().map(|line| line.trim() == "true").collect();
    assert_eq!(answers.len(), asked.len(), "{said}");
    answers
}

#[test]
fn the_manifests_grant_a_guard_what_it_needs_and_nothing_else() {
    let served = Served::start(&[]);
    let kubelet = kubelet(&served);
    let deploy = repository().join("deploy/guard");
    served.ok("create namespace portcullis");
    served.ok(&format!("apply -f {}", deploy.join("rbac.yaml").display()));
    served.ok("create serviceaccount agent -n default");
    served.ok("create clusterrole metrics --verb get --resource nodes/metrics");
    served.ok("create clusterrolebinding metrics --clusterrole metrics --serviceaccount default:agent");
    for (namespace, account) in [("portcullis", "portcullis-guard"), ("default", "agent")] {
        served.ok(&format!("create token {account} -n {namespace} > {account}.token"));
    }
    let config = "config --kubeconfig account.kubeconfig";
    served.ok(&format!(
        "{config} set-cluster here --server {} --certificate-authority data/ca.crt --embed-certs",
        served.url
    ));
    served.ok(&format!("{config} set-credentials guard --token $(cat portcullis-guard.token)"));
    served.ok(&format!("{config} set-context here --cluster here --user guard"));
    served.ok(&format!("{config} use-context here"));

    // It does its work ...
    let guard = Guard::start(&served, &kubelet, &[]);
    assert_eq!(guard.code(&served, "agent.token", "/metrics"), "200");
    assert_eq!(guard.code(&served, "agent.token", "/pods"), "403");
    assert_eq!(guard.code(&served, "portcullis-guard.token", "/metrics"), "403");
    fs::write(served.scratch.path().join("wrong.token"), "wrong").unwrap();
    assert_eq!(guard.code(&served, "wrong.token", "/metrics"), "401");
    // The certificate for the kubelet is good for nothing at a guard, this one or another.
    let stolen = "--silent --output /dev/null --write-out %{http_code} --cacert kubelet/kubelet-ca.pem --cert \
        kubelet/guard.pem --key kubelet/guard-key.pem";
    let mut curl = tool::command("curl");
    curl.args(stolen.split_whitespace()).arg(format!("{}/metrics", guard.0.url()));
    assert_eq!(Finished::of(curl.current_dir(served.scratch.path())).stdout, "401");
    let seen = kubelet.requests();
    assert_eq!((seen.len(), seen[0].certificate.as_deref()), (1, Some("portcullis-guard")));

    // ... and can do nothing else.
    for words in [
        "get secrets -A",
        "get nodes",
        "get pods -A",
        "get clusterroles",
        "get --raw /api/v1/nodes/node-1/proxy/metrics",
        "create token agent -n default",
        "delete clusterrole portcullis-guard",
    ] {
        let said = served.fails(&format!("--kubeconfig account.kubeconfig {words}"));
        assert!(said.contains("Forbidden") || said.contains("forbidden"), "{words}: {said}");
    }

    // Mode RBAC needs the other manifest.
    let metrics = free_address();
    let following = ["--authorization-mode", "RBAC", "--metrics-bind-address", &metrics.to_string()];
    let guard = Guard::start(&served, &kubelet, &following);
    assert_eq!(guard.code(&served, "agent.token", "/metrics"), "500");
    served.ok(&format!("apply -f {}", deploy.join("rbac-mode.yaml").display()));
    until("roles are known", || guard.code(&served, "agent.token", "/metrics") == "200");
    assert_eq!(guard.code(&served, "agent.token", "/pods"), "403");
}

/// KA-25 to KA-39a: every question that a recorded kubelet asked, asked about the guard.
#[test]
fn a_kubelet_that_asks_about_the_guard_is_told_yes_and_about_other_things_no() {
    let served = Served::start(&[]);
    served.ok("create namespace portcullis");
    served.ok(&format!("apply -f {}", repository().join("deploy/guard/rbac.yaml").display()));
    let lines = recorded::lines("kubelet-request-attributes.jsonl");
    let questions: BTreeSet<(String, String)> = lines
        .iter()
        .flat_map(|line: &Value| line["attributes"].as_array().unwrap())
        .map(|asked| {
            assert_eq!((&asked["resource"], &asked["group"]), (&"nodes".into(), &"".into()));
            let text = |field: &str| asked[field].as_str().unwrap().to_owned();
            (text("verb"), text("subresource"))
        })
        .collect();
    assert!(questions.len() > 30, "{questions:?}");
    let about_guard: Vec<[&str; 5]> = questions
        .iter()
        .map(|(verb, subresource)| ["portcullis-guard", verb, "", "nodes", subresource])
        .collect();
    assert_eq!(allowed(&served, &about_guard), vec![true; about_guard.len()], "{about_guard:?}");
    let others = [
        ["portcullis-guard", "get", "", "nodes", ""],
        ["portcullis-guard", "patch", "", "nodes", "status"],
        ["portcullis-guard", "get", "", "secrets", ""],
        ["portcullis-guard", "create", "", "pods", "exec"],
        ["portcullis-guard", "create", "authentication.k8s.io", "tokenreviews", ""],
        ["system:serviceaccount:portcullis:portcullis-guard", "get", "", "nodes", "proxy"],
        ["system:serviceaccount:portcullis:portcullis-guard", "get", "", "nodes", "metrics"],
    ];
    assert_eq!(allowed(&served, &others), [false; 7]);
    // The service of systemd asks as the node.
    for review in ["tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"] {
        let node = "--as system:node:node-1 --as-group system:nodes";
        assert_eq!(served.ok(&format!("auth can-i create {review} {node}")), "yes");
    }
}

#[test]
fn the_daemonset_starts_a_guard_with_flags_that_there_are() {
    let text = fs::read_to_string(repository().join("deploy/guard/daemonset.yaml")).unwrap();
    let arguments = text.split("args:").nth(1).unwrap().split("env:").next().unwrap();
    // What is filled in on the node.
    let words = arguments.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let words: Vec<String> = words.map(|word| word.replace("$(NODE_IP)", "127.0.0.1")).collect();
    assert!(words.len() > 9 && words[0] == "guard", "{words:?}");
    let Finished { code, stderr, .. } = program!().run(&words);
    // All that is wrong is that this is no node.
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("/var/lib/kubelet/pki/kubelet-server-current.pem"), "{stderr}");
}
