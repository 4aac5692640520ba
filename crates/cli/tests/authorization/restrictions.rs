//! Mode Deny in a running server: rules that select namespaces by label, reload of the file, node-scoped accounts, and the
//! escalation check (BC-30 to BC-33).

use std::path::{Path, PathBuf};

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::{until, until_some};
use serde_json::{Value, json};

use crate::authorization::support::text;

/// A server with its administrator, and alice, bob and root as users of a token file.
struct Server {
    served: program::Running,
    data: PathBuf,
}

const TOKENS: &str = "\
alice-token,alice,1\n\
bob-token,bob,2\n\
root-token,root,6,\"system:masters\"\n";

impl Server {
    fn start(scratch: &Scratch, flags: &[&str]) -> Self {
        let data = scratch.path().join("data");
        let tokens = scratch.write("tokens.csv", TOKENS);
        let mut command = program!().serve_command(&data);
        command.arg("--token-auth-file").arg(tokens).args(flags);
        Self { served: program::Running::start(command), data }
    }

    fn admin(&self) -> Client {
        Client::new(self.served.address(), &Identity::admin(&self.data))
    }

    fn with_token(&self, token: &str) -> Client {
        Client::new(self.served.address(), &Identity::with_token(&self.data.join("ca.crt"), token))
    }

    /// The value of the counter of reloads with this status.
    fn reloads(&self, status: &str) -> u32 {
        let answer = self.admin().ask("GET", "/metrics", None).unwrap();
        let text = answer.text();
        assert_documented(&["serve"], &text);
        let begins = format!("portcullis_deny_rules_automatic_reloads_total{{status=\"{status}\"");
        let line = text.lines().find(|line| line.starts_with(&begins));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }
}

/// Writes the file of rules at once, so that nobody reads half of it.
fn put(scratch: &Scratch, text: &str) -> PathBuf {
    let path = scratch.path().join("deny.yaml");
    std::fs::rename(scratch.write("deny.new", text), &path).unwrap();
    path
}

fn rules(scratch: &Scratch, resource: &str) -> PathBuf {
    let document = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [{
        "name": "production", "subjects": [{"kind": "User", "name": "*"}], "except": [{"kind": "User", "name": "bob"}],
        "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": [resource],
        "namespaceSelector": {"matchLabels": {"stage": "production"}},
    }]});
    put(scratch, &document.to_string())
}

fn namespace(admin: &mut Client, name: &str, stage: &str) {
    let body = json!({"metadata": {"name": name, "labels": {"stage": stage}}});
    admin.must(201, "POST", "/api/v1/namespaces", Some(&body));
}

/// Waits until a watch ends by itself.
fn ends(mut events: impl Iterator<Item = std::io::Result<Value>>) {
    while events.next().is_some_and(|event| event.is_ok()) {}
}

#[test]
fn labels_of_namespaces_decide_and_a_changed_file_takes_effect_bc_30() {
    let scratch = Scratch::new();
    let file = rules(&scratch, "secrets");
    let flags = ["--authorization-mode=Deny,AlwaysAllow", "--deny-file", text(&file)];
    let server = Server::start(&scratch, &flags);
    let mut admin = server.admin();
    namespace(&mut admin, "live", "production");
    namespace(&mut admin, "lab", "test");
    let mut alice = server.with_token("alice-token");
    let mut code = |path: &str| alice.ask("GET", path, None).unwrap().code;
    let secrets = |namespace: &str| format!("/api/v1/namespaces/{namespace}/secrets");
    assert_eq!(code(&secrets("live")), 403);
    assert_eq!(code(&secrets("lab")), 200);
    // A list of all namespaces would hold the same objects.
    assert_eq!(code("/api/v1/secrets"), 403);
    // Nothing is known of a namespace that is not there.
    let unknown = server.with_token("alice-token").must(403, "GET", &secrets("none"), None);
    let unknown = unknown["message"].as_str().unwrap();
    assert!(
        unknown.ends_with("the labels of the namespace are not known, so the rule applies)"),
        "{unknown}"
    );
    for other in ["bob-token", "root-token"] {
        server.with_token(other).must(200, "GET", &secrets("live"), None);
    }

    // The administrator changes the labels: what is open ends as well.
    let watch = server.with_token("alice-token").watch(&format!("{}?watch=true", secrets("lab"))).unwrap();
    let label = |stage: &str| json!({"metadata": {"labels": {"stage": stage}}});
    admin.must(200, "PATCH", "/api/v1/namespaces/lab", Some(&label("production")));
    assert_eq!(code(&secrets("lab")), 403);
    ends(watch);
    admin.must(200, "PATCH", "/api/v1/namespaces/lab", Some(&label("test")));
    admin.must(200, "PATCH", "/api/v1/namespaces/live", Some(&label("test")));
    assert_eq!(code(&secrets("lab")), 200);
    assert_eq!(code(&secrets("live")), 200);

    // A file that cannot be used changes nothing.
    admin.must(200, "PATCH", "/api/v1/namespaces/live", Some(&label("production")));
    assert_eq!((server.reloads("success"), server.reloads("failure")), (0, 0));
    put(&scratch, "{apiVersion: portcullis.dev/v1, kind: DenyRules, rule: []}");
    until("the file is refused", || server.reloads("failure") == 1);
    assert_eq!(code(&secrets("live")), 403);
    // Other rules end a watch that they deny.
    let config_maps = "/api/v1/namespaces/live/configmaps";
    let watch = server.with_token("alice-token").watch(&format!("{config_maps}?watch=true")).unwrap();
    rules(&scratch, "configmaps");
    ends(watch);
    assert_eq!(code(config_maps), 403);
    assert_eq!(code(&secrets("live")), 200);
    assert_eq!((server.reloads("success"), server.reloads("failure")), (1, 1));
    let log = server.served.stop().stderr;
    assert!(log.contains("the deny rules cannot be used; those in force stay"), "{log}");
    assert!(log.contains("unknown field `rule`"), "{log}");
}

fn pod(name: &str, node: &str, secret: &str, account: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": secret}}],
        },
    })
}

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Objects for two nodes: on each an agent, and a pod with a secret. The account of the agents may do everything.
fn two_nodes(admin: &mut Client) {
    until("the account default is there", || {
        admin.ask("GET", &format!("{ACCOUNTS}/default"), None).unwrap().code == 200
    });
    for account in ["agent", "other"] {
        admin.must(201, "POST", ACCOUNTS, Some(&json!({"metadata": {"name": account}})));
        let binding = json!({
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": account}],
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        admin.must(201, "POST", bindings, Some(&binding));
    }
    for number in ["1", "2"] {
        let node = format!("n{number}");
        admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": node}})));
        let secret = format!("s{number}");
        admin.must(201, "POST", SECRETS, Some(&json!({"metadata": {"name": secret}})));
        let agent = pod(&format!("agent-{number}"), &node, "none", "agent");
        let web = pod(&format!("web-{number}"), &node, &secret, "default");
        let other = pod(&format!("other-{number}"), &node, "none", "other");
        for pod in [agent, web, other] {
            admin.must(201, "POST", PODS, Some(&pod));
        }
    }
}

fn token(admin: &mut Client, account: &str, pod: Option<&str>) -> String {
    let mut spec = json!({"expirationSeconds": 3600});
    if let Some(pod) = pod {
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    }
    let body = json!({ "spec": spec });
    let answer = admin.must(201, "POST", &format!("{ACCOUNTS}/{account}/token"), Some(&body));
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn an_account_reaches_the_objects_of_the_node_of_its_token_bc_32() {
    let scratch = Scratch::new();
    let flags = ["--authorization-mode=Deny,Node,RBAC", "--node-scoped", "default:agen*"];
    let server = Server::start(&scratch, &flags);
    let mut admin = server.admin();
    two_nodes(&mut admin);
    let bound = token(&mut admin, "agent", Some("agent-1"));
    let mut agent = server.with_token(&bound);
    for (code, path) in [
        (200, format!("{SECRETS}/s1")),
        (403, format!("{SECRETS}/s2")),
        (403, SECRETS.to_owned()),
        (200, format!("{PODS}/web-1")),
        (403, format!("{PODS}/web-2")),
        (403, PODS.to_owned()),
        (200, format!("{PODS}?fieldSelector=spec.nodeName%3Dn1")),
        (200, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned()),
        (403, format!("{PODS}?fieldSelector=spec.nodeName%3Dn2")),
        (403, format!("{PODS}?fieldSelector=spec.nodeName%21%3Dn2")),
        (200, "/api/v1/nodes/n1".to_owned()),
        (403, "/api/v1/nodes/n2".to_owned()),
        (200, "/api/v1/nodes?fieldSelector=metadata.name%3Dn1".to_owned()),
        (403, "/api/v1/nodes".to_owned()),
        // Not in scope.
        (200, "/api/v1/services".to_owned()),
    ] {
        let answer = agent.ask("GET", &path, None).unwrap();
        assert_eq!(answer.code, code, "{path}: {}", answer.text());
        assert!(code == 200 || answer.text().contains("node-scoped: "), "{path}: {}", answer.text());
        // Without a pod the token is of no node.
        let scoped = if path == "/api/v1/services" { 200 } else { 403 };
        let free = token(&mut admin, "agent", None);
        assert_eq!(server.with_token(&free).ask("GET", &path, None).unwrap().code, scoped, "{path}");
        // Another account is not narrowed, nor is the group of masters.
        let other = token(&mut admin, "other", Some("other-1"));
        assert_eq!(server.with_token(&other).ask("GET", &path, None).unwrap().code, 200, "{path}");
        admin.must(200, "GET", &path, None);
    }
    let write = json!({"metadata": {"labels": {"a": "b"}}});
    agent.must(200, "PATCH", &format!("{PODS}/web-1"), Some(&write));
    agent.must(403, "PATCH", &format!("{PODS}/web-2"), Some(&write));
    agent.must(200, "PATCH", "/api/v1/nodes/n1", Some(&write));
    agent.must(403, "PATCH", "/api/v1/nodes/n2", Some(&write));
    agent.must(403, "POST", PODS, Some(&pod("new", "n1", "s2", "default")));

    // Who acts as the account is judged as it is.
    let as_agent = |node: &str| {
        let client = server.admin().header("Impersonate-User: system:serviceaccount:default:agent");
        match node {
            "" => client,
            node => {
                client.header(&format!("Impersonate-Extra-authentication.kubernetes.io%2fnode-name: {node}"))
            }
        }
    };
    for (node, code) in [("n1", 200), ("n2", 403), ("", 403)] {
        as_agent(node).must(code, "GET", &format!("{SECRETS}/s1"), None);
    }

    // When the pod leaves, the right ends, and with it what is open.
    let watched = format!("{SECRETS}?watch=true&fieldSelector=metadata.name%3Ds1");
    let watch = server.with_token(&bound).watch(&watched).unwrap();
    admin.must(200, "DELETE", &format!("{PODS}/web-1?gracePeriodSeconds=0"), None);
    agent.must(403, "GET", &format!("{SECRETS}/s1"), None);
    ends(watch);
}

#[test]
fn flags_of_mode_deny_say_what_is_missing_bc_32() {
    let scratch = Scratch::new();
    let refused = |flags: &[&str]| crate::authorization::support::refused(&scratch, flags);
    let without_mode = refused(&["--node-scoped", "a:b"]);
    assert!(without_mode.contains("--node-scoped without mode Deny"), "{without_mode}");
    let no_account = refused(&["--authorization-mode=Deny,RBAC", "--node-scoped", "agent"]);
    assert!(no_account.contains("write namespace:name"), "{no_account}");
    let unknown =
        refused(&["--authorization-mode=Deny,RBAC", "--node-scoped=a:b", "--node-scoped-resources=events"]);
    assert!(unknown.contains("volumeattachments.storage.k8s.io"), "{unknown}");
}

/// The snapshot of a cluster in a file.
fn snapshot(path: &Path) -> PathBuf {
    let file = path.join("state.json");
    let state = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "live", "labels": {"stage": "production"}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "lab"}, "spec": {
            "nodeName": "n1", "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}},
    ]});
    std::fs::write(&file, state.to_string()).unwrap();
    file
}

#[test]
fn can_i_knows_labels_and_nodes_bc_30_bc_32() {
    let scratch = Scratch::new();
    let state = snapshot(scratch.path());
    let file = rules(&scratch, "secrets");
    let can = |user: &str, namespace: &str, more: &[&str]| {
        let mut command = program!().command(["can-i", "get", "secrets/s", "--as", user, "-n", namespace]);
        command.args(["--explain", "--state", text(&state), "--deny-file", text(&file)]);
        command.args(["--authorization-mode=Deny,AlwaysAllow", "--node-scoped=lab:agent"]).args(more);
        let finished = portcullis_testkit::tool::Finished::of(&mut command);
        (finished.code, finished.stdout)
    };
    assert_eq!(can("alice", "live", &[]).0, 1);
    assert_eq!(can("alice", "lab", &[]).0, 0);
    let (code, said) = can("alice", "none", &[]);
    assert_eq!(code, 1);
    assert!(said.contains("not known"), "{said}");
    let agent = "system:serviceaccount:lab:agent";
    let on = |node: &str| format!("--as-user-extra=authentication.kubernetes.io/node-name={node}");
    assert_eq!(can(agent, "lab", &[&on("n1")]).0, 0);
    let (code, said) = can(agent, "lab", &[&on("n2")]);
    assert_eq!(code, 1);
    assert!(said.contains("no relationship found between node 'n2' and this object"), "{said}");
    assert_eq!(can(agent, "lab", &[]).0, 1);
}

#[test]
fn who_is_denied_something_cannot_give_a_role_that_allows_it_bc_31() {
    let scratch = Scratch::new();
    let document = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [{
        "name": "no-secrets", "message": "ask the owner", "subjects": [{"kind": "User", "name": "alice"}],
        "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
        "namespaceSelector": {"matchLabels": {"stage": "production"}},
    }]});
    let file = put(&scratch, &document.to_string());
    // Whom AlwaysAllow allows `escalate` and `bind` too.
    let flags = ["--authorization-mode=Deny,AlwaysAllow", "--deny-file", text(&file)];
    let checked = [&flags[..], &["--deny-escalation-check"]].concat();
    let server = Server::start(&scratch, &checked);
    let mut admin = server.admin();
    namespace(&mut admin, "live", "production");
    namespace(&mut admin, "lab", "test");
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let role = |name: &str, resources: &[&str]| json!({"metadata": {"name": name}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": resources}]});
    let roles = |namespace: &str| format!("{group}/namespaces/{namespace}/roles");
    let mut alice = server.with_token("alice-token");
    let refused = alice.must(403, "POST", &roles("live"), Some(&role("r", &["secrets"])));
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("roles.rbac.authorization.k8s.io \"r\" is forbidden: "), "{message}");
    assert!(message.ends_with("user \"alice\" is denied by rule \"no-secrets\": ask the owner"), "{message}");
    alice.must(403, "POST", &roles("live"), Some(&role("r", &["*"])));
    alice.must(403, "POST", &format!("{group}/clusterroles"), Some(&role("r", &["pods", "secrets"])));
    alice.must(201, "POST", &roles("lab"), Some(&role("r", &["secrets"])));
    alice.must(201, "POST", &roles("live"), Some(&role("r", &["pods"])));
    // Neither by a change.
    let change = json!({"rules": role("r", &["secrets"])["rules"]});
    alice.must(403, "PATCH", &format!("{}/r", roles("live")), Some(&change));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    alice.must(200, "PATCH", &format!("{}/r", roles("live")), Some(&labels));
    // Nor by aggregation.
    let aggregated = json!({
        "metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    });
    alice.must(403, "POST", &format!("{group}/clusterroles"), Some(&aggregated));

    // Nor by binding a role that somebody else has made.
    admin.must(201, "POST", &format!("{group}/clusterroles"), Some(&role("reads", &["secrets"])));
    let binding = |name: &str, role: &str| {
        json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
        })
    };
    let bindings = |namespace: &str| format!("{group}/namespaces/{namespace}/rolebindings");
    alice.must(403, "POST", &bindings("live"), Some(&binding("b", "reads")));
    alice.must(403, "POST", &format!("{group}/clusterrolebindings"), Some(&binding("b", "reads")));
    alice.must(201, "POST", &bindings("lab"), Some(&binding("b", "reads")));
    // The role that is not there yet may allow anything.
    alice.must(403, "POST", &bindings("lab"), Some(&binding("c", "none")));
    // Others are not bound by the rule; who acts as alice is.
    server.with_token("bob-token").must(201, "POST", &bindings("live"), Some(&binding("b", "reads")));
    admin.must(201, "POST", &bindings("live"), Some(&binding("c", "reads")));
    let mut as_alice = server.admin().header("Impersonate-User: alice");
    as_alice.must(403, "POST", &bindings("live"), Some(&binding("d", "reads")));
    server.served.stop();

    // Without the flag only the rule itself holds.
    let server = Server::start(&scratch, &flags);
    server.with_token("alice-token").must(201, "POST", &bindings("live"), Some(&binding("d", "reads")));
    let without = crate::authorization::support::refused(&scratch, &["--deny-escalation-check"]);
    assert!(without.contains("--deny-file"), "{without}");
}

#[test]
fn a_node_that_asks_for_many_secrets_raises_an_alarm_and_is_not_refused_bc_33() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch, &["--node-secret-alarm=3"]);
    let mut admin = server.admin();
    until("the account default is there", || {
        admin.ask("GET", &format!("{ACCOUNTS}/default"), None).unwrap().code == 200
    });
    for node in ["n1", "n2"] {
        admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": node}})));
    }
    for number in 0..5 {
        let name = format!("s{number}");
        admin.must(201, "POST", SECRETS, Some(&json!({"metadata": {"name": name}})));
        admin.must(201, "POST", PODS, Some(&pod(&name, "n1", &name, "default")));
    }
    let node = |name: &str| {
        let user = format!("Impersonate-User: system:node:{name}");
        server.admin().header(&user).header("Impersonate-Group: system:nodes")
    };
    let alarms = || {
        let answer = server.admin().ask("GET", "/metrics", None).unwrap();
        let text = answer.text();
        let line = text.lines().find(|line| line.starts_with("portcullis_node_secret_alarms_total"));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<u32>().unwrap()
    };
    let (mut first, mut second) = (node("n1"), node("n2"));
    // The same one again and again, and those of others, are not many.
    for _ in 0..10 {
        first.must(200, "GET", &format!("{SECRETS}/s0"), None);
        second.must(403, "GET", &format!("{SECRETS}/s0"), None);
        admin.must(200, "GET", &format!("{SECRETS}/s4"), None);
    }
    assert_eq!(alarms(), 0);
    // A minute may end in between: five within one are too many, whenever it began.
    until("the alarm is raised", || {
        for number in 0..5 {
            first.must(200, "GET", &format!("{SECRETS}/s{number}"), None);
        }
        alarms() > 0
    });
    let events = until_events(&mut admin);
    assert_eq!(events["involvedObject"]["name"], "n1", "{events}");
    assert_eq!(events["type"], "Warning");
    assert_eq!(events["message"], "the node asked for more than 3 distinct secrets in a minute");
    let log = server.served.stop().stderr;
    assert!(log.contains("than --node-secret-alarm") && log.contains("n1"), "{log}");
    let wrong = crate::authorization::support::refused(&scratch, &["--node-secret-alarm=0"]);
    assert!(wrong.contains("from 1 to 10000"), "{wrong}");
}

/// The event of the alarm, when it is there.
fn until_events(admin: &mut Client) -> Value {
    until_some("the event is there", || {
        let events = admin.must(200, "GET", "/api/v1/namespaces/default/events", None);
        let items = events["items"].as_array().unwrap();
        items.iter().find(|event| event["reason"] == "ManySecrets").cloned()
    })
}
