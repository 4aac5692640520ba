//! What mode Deny takes away in a webhook that follows a cluster (BC-30 to BC-33).

use std::path::PathBuf;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::webhook::support::{Webhook, ask};

/// Writes the file of rules at once, so that nobody reads half of it.
fn put(scratch: &Scratch, text: &str) -> PathBuf {
    let path = scratch.path().join("deny.yaml");
    std::fs::rename(scratch.write("deny.new", text), &path).unwrap();
    path
}

fn rules(scratch: &Scratch, resource: &str, more: &Value) -> PathBuf {
    let mut rule = json!({
        "name": "production", "subjects": [{"kind": "User", "name": "*"}], "verbs": ["get"], "apiGroups": [""],
        "resources": [resource],
    });
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let document = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [rule]});
    put(scratch, &document.to_string())
}

fn of_production() -> Value {
    json!({"namespaceSelector": {"matchLabels": {"stage": "production"}}})
}

fn review(user: &str, node: &str, attributes: &Value) -> Value {
    let mut review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
    });
    if !node.is_empty() {
        review["spec"]["extra"] = json!({"authentication.kubernetes.io/node-name": [node]});
    }
    review
}

fn is_denied(client: &mut Client, review: &Value) -> bool {
    let answer = ask(client, "/authorize", review);
    assert_eq!(answer["status"]["allowed"], false, "mode Deny allows nothing: {answer}");
    answer["status"]["denied"] == json!(true)
}

fn secrets(namespace: &str) -> Value {
    let attributes =
        json!({"verb": "get", "version": "v1", "resource": "secrets", "namespace": namespace, "name": "s"});
    review("jane", "", &attributes)
}

struct Cluster {
    served: Running,
    data: PathBuf,
    proxy: TcpProxy,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// A server, and a way to it that can be cut.
    fn start(scratch: &Scratch) -> Self {
        let data = scratch.path().join("data");
        let served = program!().serve(&data);
        let proxy = TcpProxy::start(served.address());
        let kubeconfig = std::fs::read_to_string(data.join("admin.kubeconfig")).unwrap();
        let by_proxy = kubeconfig.replace(&served.address().to_string(), &proxy.address().to_string());
        assert_ne!(kubeconfig, by_proxy);
        let kubeconfig = scratch.write("proxied.kubeconfig", by_proxy);
        Self { served, data, proxy, kubeconfig }
    }

    fn admin(&self) -> Client {
        Client::new(self.served.address(), &Identity::admin(&self.data))
    }
}

#[test]
fn labels_of_namespaces_decide_as_they_arrive_bc_30() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    let namespace = |name: &str, stage: &str| json!({"metadata": {"name": name, "labels": {"stage": stage}}});
    admin.must(201, "POST", "/api/v1/namespaces", Some(&namespace("live", "production")));
    admin.must(201, "POST", "/api/v1/namespaces", Some(&namespace("lab", "test")));
    let file = rules(&scratch, "secrets", &of_production());
    let flags = ["--authorization-mode=Deny", "--deny-file", file.to_str().unwrap(), "--max-staleness=6s"];
    let flags = [&flags[..], &["--wait-for-graph=20s"]].concat();
    let webhook = Webhook::following(&scratch, &cluster.kubeconfig, &flags);
    let mut client = webhook.client();
    assert!(is_denied(&mut client, &secrets("live")));
    assert!(!is_denied(&mut client, &secrets("lab")));
    // A new namespace is waited for: it is not denied because its labels have not arrived.
    for number in 0..20 {
        let name = format!("new-{number}");
        admin.must(201, "POST", "/api/v1/namespaces", Some(&namespace(&name, "test")));
        assert!(!is_denied(&mut client, &secrets(&name)), "{name}");
    }
    assert!(is_denied(&mut client, &secrets("none")));
    let known = webhook.metric(
        "portcullis_webhook_decisions_total{mode=\"Deny\",decision=\"deny\",reason=\"namespace-unknown\"",
    );
    assert!(known.ends_with(" 1"), "{known}");

    // Other rules take effect; a file that cannot be used changes nothing.
    rules(&scratch, "configmaps", &json!({"namespaces": ["live"]}));
    until("the new rules are in force", || !is_denied(&mut client, &secrets("live")));
    put(&scratch, "rules: [");
    let failures = "portcullis_deny_rules_automatic_reloads_total{status=\"failure\"";
    until("the file is refused", || webhook.metric(failures).ends_with(" 1"));
    assert!(!is_denied(&mut client, &secrets("live")));
    rules(&scratch, "secrets", &of_production());
    until("the first rules are in force", || is_denied(&mut client, &secrets("live")));

    // What is not heard of any more is not known, and denied.
    assert!(!is_denied(&mut client, &secrets("lab")));
    cluster.proxy.cut();
    until("nothing is known", || {
        client.ask("GET", "/readyz", None).unwrap().text().contains("nothing was heard of Namespace")
    });
    assert!(is_denied(&mut client, &secrets("lab")));
}

#[test]
fn rules_that_need_namespaces_are_refused_when_these_are_not_followed_bc_30() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let file = rules(&scratch, "secrets", &json!({"namespaces": ["live"]}));
    let flags = ["--authorization-mode=Deny", "--deny-file", file.to_str().unwrap()];
    let webhook = Webhook::following(&scratch, &cluster.kubeconfig, &flags);
    let mut client = webhook.client();
    assert!(is_denied(&mut client, &secrets("live")));
    rules(&scratch, "secrets", &of_production());
    let failures = "portcullis_deny_rules_automatic_reloads_total{status=\"failure\"";
    until("the file is refused", || webhook.metric(failures).ends_with(" 1"));
    assert!(is_denied(&mut client, &secrets("live")));
    assert!(!is_denied(&mut client, &secrets("lab")));
    let log = webhook.running.stop().stderr;
    assert!(log.contains("namespaces are not followed"), "{log}");
}

#[test]
fn an_account_reaches_the_objects_of_the_node_of_its_token_bc_32() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    until("the account default is there", || {
        admin.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default", None).unwrap().code == 200
    });
    let flags = ["--authorization-mode=Deny", "--node-scoped=system:agent", "--wait-for-graph=20s"];
    let flags = [&flags[..], &["--max-staleness=6s"]].concat();
    let webhook = Webhook::following(&scratch, &cluster.kubeconfig, &flags);
    let mut client = webhook.client();
    let agent = "system:serviceaccount:system:agent";
    let secret = |name: &str| json!({"verb": "get", "version": "v1", "resource": "secrets", "namespace": "default", "name": name});
    // A pod that has not arrived is waited for.
    for number in 0..20 {
        let name = format!("p-{number}");
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": "n1", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": name}}],
        }});
        admin.must(201, "POST", "/api/v1/namespaces/default/pods", Some(&pod));
        assert!(!is_denied(&mut client, &review(agent, "n1", &secret(&name))), "{name}");
    }
    assert!(is_denied(&mut client, &review(agent, "n2", &secret("p-0"))));
    assert!(is_denied(&mut client, &review(agent, "", &secret("p-0"))));
    assert!(!is_denied(&mut client, &review("system:serviceaccount:system:other", "", &secret("p-0"))));
    let pods = |value: &str| {
        let requirement = json!({"key": "spec.nodeName", "operator": "In", "values": [value]});
        json!({"verb": "list", "version": "v1", "resource": "pods", "fieldSelector": {"requirements": [requirement]}})
    };
    assert!(!is_denied(&mut client, &review(agent, "n1", &pods("n1"))));
    assert!(is_denied(&mut client, &review(agent, "n1", &pods("n2"))));
    cluster.proxy.cut();
    until("nothing is known", || {
        client.ask("GET", "/readyz", None).unwrap().text().contains("nothing was heard of Pod ")
    });
    assert!(is_denied(&mut client, &review(agent, "n1", &secret("p-0"))));
    // What needs no object is known all the same.
    assert!(!is_denied(&mut client, &review(agent, "n1", &pods("n1"))));
}

fn admission(user: &str, resource: &str, kind: &str, namespace: &str, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    object["kind"] = json!(kind);
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "namespace": namespace, "name": "r", "object": object,
            "resource": {"group": "rbac.authorization.k8s.io", "version": "v1", "resource": resource},
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
        },
    })
}

#[test]
fn who_is_denied_something_cannot_give_a_role_that_allows_it_bc_31() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    let document = json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [{
        "name": "no-secrets", "subjects": [{"kind": "User", "name": "alice"}], "verbs": ["get"], "apiGroups": [""],
        "resources": ["secrets"],
    }]});
    let file = put(&scratch, &document.to_string());
    let flags =
        ["--authorization-mode=Deny", "--deny-file", file.to_str().unwrap(), "--deny-escalation-check"];
    let flags = [&flags[..], &["--wait-for-graph=20s", "--max-staleness=6s"]].concat();
    let webhook = Webhook::following(&scratch, &cluster.kubeconfig, &flags);
    let mut client = webhook.client();
    let mut admit = |review: &Value| ask(&mut client, "/admit", review)["response"].clone();
    let role = |resource: &str| json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]});
    let refused = admit(&admission("alice", "roles", "Role", "lab", &role("secrets")));
    assert_eq!(refused["status"]["code"], 403, "{refused}");
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("user \"alice\" is denied by rule \"no-secrets\""), "{message}");
    for (user, resource, is_allowed) in [
        ("alice", "pods", true),
        ("alice", "*", false),
        ("bob", "secrets", true),
        ("system:node:n1", "*", true),
    ] {
        let answer = admit(&admission(user, "clusterroles", "ClusterRole", "", &role(resource)));
        assert_eq!(answer["allowed"], is_allowed, "{user} {resource}: {answer}");
    }
    let mut broken = admission("bob", "roles", "Role", "lab", &role("pods"));
    broken["request"]["object"]["rules"] = json!("all");
    assert_eq!(admit(&broken)["status"]["code"], 403);

    // A role that has just been made is waited for.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for number in 0..20 {
        let (name, resource) = (format!("r-{number}"), if number % 2 == 0 { "pods" } else { "secrets" });
        let mut role = role(resource);
        role["metadata"]["name"] = json!(name);
        admin.must(201, "POST", roles, Some(&role));
        let binding = json!({
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        });
        let answer = admit(&admission("alice", "rolebindings", "RoleBinding", "lab", &binding));
        assert_eq!(answer["allowed"], number % 2 == 0, "{name}: {answer}");
    }
    // What is not known is refused, and may be tried again.
    let pods = admission("alice", "roles", "Role", "lab", &role("pods"));
    assert_eq!(admit(&pods)["allowed"], true);
    cluster.proxy.cut();
    until("nothing is known", || {
        webhook.client().ask("GET", "/readyz", None).unwrap().text().contains("nothing was heard of Role ")
    });
    assert_eq!(admit(&pods)["status"]["code"], 503);
}

#[test]
fn the_printed_configuration_asks_for_roles_only_with_the_check_bc_31() {
    let scratch = Scratch::new();
    let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &[]);
    let file = rules(&scratch, "secrets", &json!({}));
    let print = |flags: &[&str]| {
        let authority = webhook.file("ca.pem");
        let mut command = program!().command(["webhook", "configure", "--certificate-authority"]);
        let folder = scratch.path().join("printed");
        command.arg(authority).args(flags).arg("--output-dir").arg(&folder);
        let finished = Finished::of(&mut command);
        assert_eq!(finished.code, 0, "{finished:#?}");
        let text = std::fs::read_to_string(folder.join("admission.yaml")).unwrap();
        let documents = text.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap());
        documents.collect::<Vec<Value>>()
    };
    let names = |document: &Value| -> Vec<String> {
        let webhooks = document["webhooks"].as_array().unwrap();
        webhooks.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
    };
    let node = "node-restriction.portcullis.dev";
    assert!(print(&[]).iter().all(|document| names(document) == [node]));
    let flags = ["--authorization-mode=Deny,Node,RBAC", "--deny-file", file.to_str().unwrap()];
    let printed = print(&[&flags[..], &["--deny-escalation-check"]].concat());
    assert_eq!(names(&printed[0]), [node], "nothing is changed");
    assert_eq!(names(&printed[1]), [node, "deny-escalation.portcullis.dev"]);
    // A server takes it.
    let cluster = Cluster::start(&scratch);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?fieldValidation=Strict";
    cluster.admin().must(201, "POST", path, Some(&printed[1]));
}

#[test]
fn a_node_that_asks_for_many_secrets_raises_an_alarm_bc_33() {
    let scratch = Scratch::new();
    let flags = ["--node-secret-alarm=3"];
    let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &flags);
    let mut client = webhook.client();
    let mut asks = |node: &str, number: usize| {
        let attributes = json!({
            "verb": "get", "version": "v1", "resource": "secrets", "namespace": "default", "name": format!("s{number}"),
        });
        let mut review = review(&format!("system:node:{node}"), "", &attributes);
        review["spec"]["groups"] = json!(["system:nodes"]);
        ask(&mut client, "/authorize", &review);
    };
    let alarms = || webhook.metric("portcullis_node_secret_alarms_total");
    for node in 0..20 {
        asks(&format!("n{node}"), node);
        asks("n0", 0);
    }
    assert!(alarms().ends_with(" 0"), "{}", alarms());
    // A minute may end in between.
    until("the alarm is raised", || {
        (0..4).for_each(|number| asks("n1", number));
        !alarms().ends_with(" 0")
    });
    assert!(webhook.running.stop().stderr.contains("than --node-secret-alarm"));
}

/// The resources that `webhook rbac` grants, by group.
fn rights(flags: &[&str]) -> Vec<(String, Vec<String>)> {
    let finished = Finished::of(program!().command(["webhook", "rbac"]).args(flags));
    assert_eq!(finished.code, 0, "{finished:#?}");
    let role = finished.stdout.split("---\n").find(|text| text.contains("kind: ClusterRole\n")).unwrap();
    let role: Value = serde_saphyr::from_str(role).unwrap();
    let words = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let of_rule = |rule: &Value| {
        assert_eq!(words(&rule["verbs"]), ["list", "watch"]);
        (words(&rule["apiGroups"]).concat(), words(&rule["resources"]))
    };
    role["rules"].as_array().unwrap().iter().map(of_rule).collect()
}

#[test]
fn the_printed_rights_follow_from_the_rules_bc_20_bc_30_bc_32() {
    let scratch = Scratch::new();
    let has = |rights: &[(String, Vec<String>)], resource: &str| {
        rights.iter().any(|(_, resources)| resources.iter().any(|own| own == resource))
    };
    let file = rules(&scratch, "secrets", &json!({"namespaces": ["live"]}));
    let by_name = rights(&["--authorization-mode=Deny", "--deny-file", file.to_str().unwrap()]);
    assert!(!has(&by_name, "namespaces") && !has(&by_name, "volumeattachments"), "{by_name:?}");
    let file = rules(&scratch, "secrets", &of_production());
    let by_label = rights(&["--authorization-mode=Deny", "--deny-file", file.to_str().unwrap()]);
    assert!(has(&by_label, "namespaces") && !has(&by_label, "volumeattachments"), "{by_label:?}");
    let scoped = rights(&["--authorization-mode=Deny", "--node-scoped=a:b"]);
    for resource in ["pods", "persistentvolumes", "volumeattachments", "resourceslices"] {
        assert!(has(&scoped, resource), "{resource}: {scoped:?}");
    }
    let file = file.to_str().unwrap();
    let checked = rights(&["--authorization-mode=Deny", "--deny-file", file, "--deny-escalation-check"]);
    assert!(has(&checked, "roles") && has(&checked, "clusterroles"), "{checked:?}");
    assert!(!has(&checked, "rolebindings") && !has(&checked, "clusterrolebindings"), "{checked:?}");
    assert!(!has(&scoped, "namespaces") && !has(&scoped, "roles"), "{scoped:?}");
    assert!(!has(&rights(&[]), "namespaces"));
}
