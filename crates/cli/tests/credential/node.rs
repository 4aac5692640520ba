//! A node that joins: its files, and kubectl with them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use portcullis_testkit::metrics::{assert_documented, value};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::tool::certificate_end;
use portcullis_testkit::wait::until;
use serde_json::Value;

use crate::credential::support::*;

#[test]
fn a_node_gets_a_certificate_that_openssl_and_kubectl_accept() {
    let cluster = Cluster::start();
    let signer = Signer::start(&cluster);
    let ended = cluster.once().must(0, &[]);
    assert_eq!(ended.stdout, "");
    let requests = cluster.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let name = request["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("node-csr-"));
    assert!(ended.stderr.contains(&format!("asked for a certificate: {name}")), "{ended:?}");
    assert_eq!(request["spec"]["username"], BOOTSTRAPPER);
    assert_eq!(request["spec"]["usages"], serde_json::json!(["digital signature", "client auth"]));

    // The files of a kubelet (CS-110, CS-131).
    let current = cluster.path("pki/kubelet-client-current.pem");
    openssl_accepts(&cluster, &current);
    let [pair] = &cluster.pairs()[..] else { panic!() };
    assert_eq!(fs::read_link(&current).unwrap(), *pair);
    assert!(pair.is_absolute());
    assert_eq!((mode(pair), mode(&cluster.path("node.kubeconfig"))), (0o600, 0o600));
    assert!(!cluster.path("pki/kubelet-client.key.tmp").exists());
    let kubeconfig = cluster.path("node.kubeconfig");
    let kubectl = |arguments: &[&str]| {
        let file = kubeconfig.to_str().unwrap();
        tool("kubectl", [&["--kubeconfig", file], arguments].concat())
    };
    let config: Value = serde_json::from_str(&kubectl(&["config", "view", "-o", "json"])).unwrap();
    assert_eq!(config["current-context"], "default-context");
    assert_eq!(config["contexts"][0]["context"]["namespace"], "default");
    assert_eq!(config["users"][0]["name"], "default-auth");
    for field in ["client-certificate", "client-key"] {
        assert_eq!(config["users"][0]["user"][field], current.to_str().unwrap());
    }
    let who: Value = serde_json::from_str(&kubectl(&["auth", "whoami", "-o", "json"])).unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], "system:node:node-1");
    assert_eq!(
        who["status"]["userInfo"]["groups"],
        serde_json::json!(["system:nodes", "system:authenticated"])
    );

    // The key went nowhere else.
    let key = tool("openssl", ["pkey", "-in", current.to_str().unwrap(), "-outform", "PEM"]);
    let secret: String = key.lines().nth(1).unwrap().to_owned();
    assert!(!requests.iter().any(|request| request.to_string().contains(&secret)));
    assert!(!fs::read_to_string(kubeconfig.as_path()).unwrap().contains(&secret));

    // Whoever has a certificate asks nobody (NB-41).
    drop(signer);
    cluster.once().must(0, &[]);
    assert_eq!((cluster.requests().len(), cluster.pairs().len()), (1, 1));
    // A kubeconfig that was lost is written again, and no request is made for that.
    fs::remove_file(&kubeconfig).unwrap();
    cluster.once().must(0, &[]);
    kubectl(&["auth", "whoami"]);
    assert_eq!((cluster.requests().len(), cluster.pairs().len()), (1, 1));
    assert!(cluster.path("bootstrap.kubeconfig").exists());
}

#[test]
fn kubectl_takes_it_as_a_credential_plugin_in_both_versions() {
    let cluster = Cluster::start();
    let _signer = Signer::start(&cluster);
    for version in ["v1", "v1beta1"] {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: \
             data/ca.crt}}}}]\nusers:\n- name: u\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/{version}\n      \
             interactiveMode: Never\n      command: {}\n      args: [credential, --node-name, node-1, \
             --bootstrap-kubeconfig, {}, --cert-dir, {}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\n",
            cluster.address,
            program!().path().display(),
            cluster.path("bootstrap.kubeconfig").display(),
            cluster.path("pki").display(),
        );
        let kubeconfig = cluster.scratch.write("plugin.kubeconfig", text);
        let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "auth", "whoami", "-o", "json"];
        let who: Value = serde_json::from_str(&tool("kubectl", arguments)).unwrap();
        assert_eq!(who["status"]["userInfo"]["username"], "system:node:node-1");
    }
    assert_eq!(cluster.requests().len(), 1);

    let plugin = |info: &str| {
        let mut command: Command = cluster.credential(&[]);
        Finished::of(command.env("KUBERNETES_EXEC_INFO", info))
    };
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    let printed: Value = serde_json::from_str(&plugin(info).must(0, &[]).stdout).unwrap();
    assert_eq!(printed["apiVersion"], "client.authentication.k8s.io/v1");
    let pair = cluster.path("pki/kubelet-client-current.pem");
    assert_eq!(printed["status"]["expirationTimestamp"], certificate_end(&pair).as_str());
    for bad in
        ["{", "{}", "[]", &info.replace("io/v1", "io/v1alpha1"), &info.replace("ExecCredential", "Pod")]
    {
        let ended = plugin(bad).must(2, &["KUBERNETES_EXEC_INFO"]);
        assert_eq!(ended.stdout, "", "{bad}");
    }
}

#[test]
fn a_request_that_is_denied_ends_it_and_says_why() {
    let cluster = Cluster::start();
    cluster.run("", &["--once", "--wait", "0"]).must(3, &["still waiting for approval", "node-csr-"]);
    let request = cluster.requests().remove(0);
    let path = format!("{REQUESTS}/{}", request["metadata"]["name"].as_str().unwrap());
    condition(&mut cluster.admin(), &path, "Denied");
    cluster.once().must(1, &["Denied", "Tested: so it is", "delete it to ask again"]);
    assert_eq!(cluster.requests().len(), 1, "a no is not answered with another question");
    // Whoever denied it changes his mind.
    cluster.admin().must(200, "DELETE", &path, None);
    let _signer = Signer::start(&cluster);
    cluster.once().must(0, &[]);
    assert_eq!(cluster.requests()[0]["metadata"]["name"], request["metadata"]["name"], "the key is the same");
}

#[test]
fn who_may_not_ask_is_told_so_at_once() {
    let cluster = Cluster::start();
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/bootstrap";
    cluster.admin().must(200, "DELETE", binding, None);
    cluster.once().must(1, &["does not let us ask", BOOTSTRAPPER, "(403)"]);
    let text = fs::read_to_string(cluster.path("bootstrap.kubeconfig")).unwrap();
    cluster.scratch.write("bootstrap.kubeconfig", text.replace("sesame", "open"));
    cluster.once().must(1, &["does not let us ask", "(401)"]);
    cluster.scratch.write("bootstrap.kubeconfig", text.replace(&cluster.address.to_string(), "127.0.0.1:1"));
    cluster.run("", &["--once", "--wait", "0"]).must(3, &["cannot reach https://127.0.0.1:1"]);
    fs::remove_file(cluster.path("bootstrap.kubeconfig")).unwrap();
    cluster.once().must(2, &["bootstrap.kubeconfig"]);
}

#[test]
fn one_that_stays_has_the_kubeconfig_at_once_and_ends_when_told_to() {
    let cluster = Cluster::start();
    let process = Running::spawn(cluster.credential(&[]));
    // CS-135: before anybody has approved.
    until("the request and the kubeconfig", || {
        cluster.path("node.kubeconfig").exists() && cluster.requests().len() == 1
    });
    assert!(!cluster.path("pki/kubelet-client-current.pem").exists());
    let _signer = Signer::start(&cluster);
    until("the certificate", || cluster.path("pki/kubelet-client-current.pem").exists());
    until("the end of the temporary key", || !cluster.path("pki/kubelet-client.key.tmp").exists());
    openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
    assert_eq!(process.stop().code, 0);
}

#[test]
fn an_administrator_approves_and_the_server_signs_and_renews_by_itself() {
    let cluster = Cluster::that_signs();
    cluster
        .run("", &["--once", "--wait", "0", "--expiration-seconds", "600"])
        .must(3, &["still waiting for approval"]);
    let admin = cluster.path("data/admin.kubeconfig");
    let kubectl = |arguments: &[&str]| {
        tool("kubectl", [&["--kubeconfig", admin.to_str().unwrap()], arguments].concat())
    };
    let name = cluster.requests()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    kubectl(&["certificate", "approve", &name]);
    cluster.run("", &["--once", "--expiration-seconds", "600"]).must(0, &[]);
    let current = cluster.path("pki/kubelet-client-current.pem");
    openssl_accepts(&cluster, &current);
    // Ten minutes of life, five of them before it was made: it is renewed with itself when it is due, which nobody but
    // the server needs to know of.
    kubectl(&[
        "create",
        "clusterrolebinding",
        "renew",
        "--group=system:nodes",
        "--clusterrole=system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
    ]);
    let first = fs::read_link(&current).unwrap();
    let dated = first.with_file_name("kubelet-client-2001-01-01-00-00-00.pem");
    fs::rename(&first, &dated).unwrap();
    fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink(&dated, &current).unwrap();
    let clock = crate::clock::MovedClock::at(std::time::SystemTime::now() + Duration::from_secs(540));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(
            crate::credential::time::agent(&cluster, &clock, crate::credential::time::silent())
                .once(Duration::from_secs(5)),
        )
        .unwrap();
    let requests = cluster.requests();
    assert_eq!(requests.len(), 2);
    let renewal = requests.iter().find(|request| request["metadata"]["name"] != *name).unwrap();
    assert_eq!(renewal["spec"]["username"], "system:node:node-1");
    assert_eq!(renewal["status"]["conditions"][0]["type"], "Approved");
    assert_ne!(fs::read_link(&current).unwrap(), dated);
    openssl_accepts(&cluster, &current);
}

#[test]
fn cs_141_health_and_metrics_are_served_on_request() {
    let cluster = Cluster::start();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let _running = Running::spawn(cluster.credential(&["--metrics-bind-address", &address]));
    let get = |path: &str| {
        let url = format!("http://{address}{path}");
        Finished::of(portcullis_testkit::tool::command("curl").args(["-sS", "-w", "%{http_code}", &url]))
            .stdout
    };
    until("it listens", || get("/healthz") == "ok200");
    assert_eq!(get("/readyz"), "there is no valid client certificate503");
    let _signer = Signer::start(&cluster);
    until("it has a certificate", || get("/readyz") == "ok200");
    let metrics = get("/metrics");
    let text = metrics.strip_suffix("200").unwrap();
    assert_documented(&["credential"], text);
    let name = "kubelet_certificate_manager_client_ttl_seconds";
    assert!(metrics.contains(&format!("\n# TYPE {name} gauge\n{name} ")), "{metrics}");
    let ttl = value(&metrics, name);
    let current = cluster.path("pki/kubelet-client-current.pem");
    let left = crate::credential::time::seconds_left(&current, std::time::SystemTime::now());
    assert!((left - ttl).abs() < 60.0, "openssl: {left}, told: {ttl}");
    for name in ["certificate_manager_client_expiration_renew_errors", "server_expiration_renew_errors"] {
        let line = format!("\n# TYPE kubelet_{name} counter\nkubelet_{name} 0\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}
