//! `--kubelets`: each kubelet is asked itself, and gets the credential only if its certificate verifies (AU-19).

use std::path::PathBuf;
use std::sync::OnceLock;

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::{Value, json};

use crate::audit::archives::{collect, manifest};
use crate::audit::fake_cluster::{body, list, refusal, target, text};

const TOKEN: &str = "the-token-of-the-audit";

/// A node whose kubelet listens at this port of the loopback interface; none for a node without an address.
fn node(name: &str, port: Option<u16>) -> Value {
    let status = port.map(|port| {
        json!({
            "addresses": [{"type": "Hostname", "address": "not.there.invalid"}, {"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        })
    });
    json!({"metadata": {"name": name}, "status": status})
}

/// A cluster whose API server answers for the kubelets at its own port too.
struct Cluster {
    service: WebhookService,
    _scratch: Scratch,
}

impl Cluster {
    /// `nodes` makes the nodes from the port of the service, `configz` the answer of its kubelet.
    fn start(
        nodes: impl Fn(u16) -> Vec<Value> + Send + Sync + 'static,
        configz: impl Fn() -> Reply + Send + Sync + 'static,
    ) -> Self {
        let scratch = Scratch::new();
        let port = std::sync::Arc::new(OnceLock::new());
        let known = std::sync::Arc::clone(&port);
        let service = WebhookService::start(scratch.path(), move |asked, _| match target(asked).0.as_str() {
            "/version" => body(json!({"gitVersion": "v1.36.0"})),
            "/configz" => configz(),
            "/api/v1/nodes" => list(&nodes(*known.wait()), ""),
            path if path.ends_with("/kubelet-config") => refusal(404),
            _ => list(&[], ""),
        });
        port.set(service.address().port()).unwrap();
        Self { service, _scratch: scratch }
    }

    /// A kubeconfig with a token.
    fn kubeconfig(&self) -> PathBuf {
        let path = self.service.file("token.kubeconfig");
        let config = json!({
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}", self.service.address()), "certificate-authority": "ca.pem",
            }}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

fn open() -> Reply {
    body(json!({"kubeletconfig": {
        "readOnlyPort": 10255, "staticPodPath": "/etc/manifests", "clusterDNS": ["10.0.0.10"],
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
        "authorization": {"mode": "Webhook"},
    }}))
}

fn audit(cluster: &Cluster, flags: &[&str]) -> (Finished, Value) {
    let kubeconfig = cluster.kubeconfig();
    let fixed = ["audit", "--kubeconfig", text(&kubeconfig), "-o", "json", "--rule", "PC104"];
    let run = program!().run(fixed.iter().chain(flags));
    let answer = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:#?}"));
    (run, answer)
}

/// Why the configuration of kubelets is missing in an answer, and the words.
fn lack(answer: &Value) -> Option<(String, String)> {
    let mut all = answer["incomplete"].as_array().unwrap().iter();
    let lack = all.find(|lack| lack["input"] == "kubelet-configuration")?;
    Some((lack["why"].as_str().unwrap().to_owned(), lack["detail"].as_str().unwrap().to_owned()))
}

#[test]
fn a_kubelet_tells_its_configuration_to_audits_and_archives_au_19_au_20() {
    let cluster = Cluster::start(|port| vec![node("n1", Some(port))], open);
    let (run, answer) = audit(&cluster, &["--kubelets"]);
    assert_eq!((run.code, &answer["findings"][0]["subject"]), (1, &json!("node/n1")), "{run:#?}");
    assert_eq!(lack(&answer), None);
    assert!(run.stderr.contains("shows the token of this credential to every kubelet"), "{}", run.stderr);
    let asked = cluster.service.asked();
    let of_kubelet: Vec<_> = asked.iter().filter(|asked| target(asked).0 == "/configz").collect();
    assert_eq!(of_kubelet.len(), 1);
    assert!(of_kubelet[0].line.starts_with("GET "), "{}", of_kubelet[0].line);
    // An archive has the same, and no address.
    let scratch = Scratch::new();
    let (folder, tar) = (scratch.path().join("archive"), scratch.path().join("archive.tar.gz"));
    for output in [&folder, &tar] {
        let run = collect(&cluster.kubeconfig(), output, &["--kubelets"]);
        assert_eq!(run.code, 0, "{run:#?}");
        let of_archive = program!().run(["audit", "--state", text(output), "-o", "json", "--rule", "PC104"]);
        let of_archive: Value = serde_json::from_str(&of_archive.stdout).unwrap();
        assert_eq!(of_archive["findings"][0]["subject"], "node/n1", "{of_archive:#}");
    }
    let kept = std::fs::read_to_string(folder.join("kubelets/n1.json")).unwrap();
    assert!(kept.contains("10255") && !kept.contains("10.0.0.10"), "{kept}");
    let named = json!({"resource": "nodes/configz", "namespace": "", "name": "n1", "outcome": "listed"});
    assert!(manifest(&folder)["objects"].as_array().unwrap().contains(&named), "{:#}", manifest(&folder));
    // Without the flag no kubelet is asked.
    let (_, answer) = audit(&cluster, &[]);
    assert_eq!(lack(&answer).unwrap().0, "not-given");
}

#[test]
fn a_kubelet_whose_certificate_does_not_verify_gets_no_token_au_19() {
    let scratch = Scratch::new();
    // It has a certificate of an authority of its own.
    let other = WebhookService::start(scratch.path(), |_, _| open());
    let port = other.address().port();
    let cluster = Cluster::start(move |_| vec![node("n1", Some(port)), node("n2", None)], open);
    let (run, answer) = audit(&cluster, &["--kubelets"]);
    assert_eq!((run.code, &answer["findings"]), (1, &json!([])), "{run:#?}");
    assert_eq!(lack(&answer).unwrap().0, "failed", "{answer:#}");
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    for words in
        ["kubelet-configuration: node n1: ", "kubelet-configuration: node n2: the node has no address"]
    {
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    let (run, _) = audit(&cluster, &["--kubelets", "--allow-incomplete"]);
    assert_eq!(run.code, 0, "{run:#?}");
    // Until it is named.
    let authority = other.file("ca.pem");
    let (_, answer) = audit(&cluster, &["--kubelets", "--kubelet-certificate-authority", text(&authority)]);
    assert_eq!(answer["findings"][0]["subject"], "node/n1", "{answer:#}");
    let head = &other.asked()[0].head;
    assert!(head.contains(&format!("authorization: bearer {TOKEN}")), "{head:?}");
}

#[test]
fn what_a_kubelet_answers_is_hostile_input() {
    let page = |text: String| Reply::Body(200, "application/json", text);
    for (answer, why) in [
        (page("{".to_owned()), "failed"),
        (page("[]".to_owned()), "failed"),
        (page(r#"{"kubeletconfig":1}"#.to_owned()), "failed"),
        (page(r#"{"kubeletconfig":{"readOnlyPort":"MARKER"}}"#.to_owned()), "failed"),
        (
            page(format!(r#"{{"kubeletconfig":{{"readOnlyPort":10255,"x":"{}"}}}}"#, "x".repeat(2 << 20))),
            "failed",
        ),
        (Reply::Close, "failed"),
        (Reply::Body(500, "text/plain", "MARKER".to_owned()), "failed"),
        (Reply::Body(403, "text/plain", "MARKER".to_owned()), "refused"),
        (Reply::Head(302, "location: https://127.0.0.1:1/configz".to_owned()), "failed"),
    ] {
        let told = answer.clone();
        let cluster = Cluster::start(|port| vec![node("n1", Some(port))], move || told.clone());
        let (run, document) = audit(&cluster, &["--kubelets"]);
        assert_eq!((run.code, &document["findings"]), (1, &json!([])), "{run:#?}");
        assert_eq!(lack(&document).unwrap().0, why, "{document:#}");
        assert!(!run.stderr.contains("MARKER") && !run.stdout.contains("MARKER"), "{run:#?}");
    }
}

#[test]
fn kubelets_are_those_of_a_cluster() {
    let scratch = Scratch::new();
    let state =
        scratch.write("state.json", json!({"apiVersion": "v1", "kind": "List", "items": []}).to_string());
    let run = program!().run(["audit", "--state", text(&state), "--kubelets"]);
    run.must(2, &["--kubelets is for clusters"]);
    let run = program!().run(["audit", "--kubelet-certificate-authority", "x"]);
    assert_eq!(run.code, 2, "{run:#?}");
    // An authority that is none is told before anybody is asked.
    let cluster = Cluster::start(|port| vec![node("n1", Some(port))], open);
    let kubeconfig = cluster.kubeconfig();
    for authority in [scratch.path().join("missing.pem"), scratch.write("empty.pem", "")] {
        let flags = [
            "--kubeconfig",
            text(&kubeconfig),
            "--kubelets",
            "--kubelet-certificate-authority",
            text(&authority),
        ];
        let run = program!().run(["audit"].iter().chain(&flags));
        run.must(2, &["--kubelet-certificate-authority", text(&authority)]);
    }
    assert!(cluster.service.asked().is_empty(), "{:?}", cluster.service.asked());
}
