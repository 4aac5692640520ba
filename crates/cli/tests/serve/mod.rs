//! `portcullis serve` on the command line, with curl as the client.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use portcullis_testkit::etcd::{ClientTls, Etcd, Options};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::ports::ReservedPort;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::request::Request;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait;
use serde_json::{Value, json};

/// The flags that kubeadm writes into the manifest of a kube-apiserver, without those that name files which exist here too.
const KUBEADM: &[&str] = &[
    "--advertise-address=192.0.2.1",
    "--allow-privileged=true",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--enable-bootstrap-token-auth=true",
    "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
    "--proxy-client-cert-file=/etc/kubernetes/pki/front-proxy-client.crt",
    "--proxy-client-key-file=/etc/kubernetes/pki/front-proxy-client.key",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    "--service-cluster-ip-range=10.96.0.0/12",
];

const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  nodeName: n0
  containers:
  - {name: web, image: web, envFrom: [{secretRef: {name: web-key}}]}
";

fn binding(user: &str) -> String {
    format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: readers, namespace: shop}}
subjects: [{{kind: User, apiGroup: rbac.authorization.k8s.io, name: {user}}}]
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
"
    )
}

struct Served {
    process: Running,
    data: PathBuf,
    _state: Scratch,
}

impl Served {
    fn start(flags: &[&str]) -> Self {
        let state = Scratch::new();
        state.write("state/role.yaml", ROLE);
        state.write("state/binding.yaml", binding("jane"));
        let data = state.path().join("data");
        let mut command = program!().serve_command(&data);
        command.arg("--state").arg(state.path().join("state")).args(flags);
        Self { process: Running::start(command), data, _state: state }
    }

    fn curl(&self, path: &str, body: Option<&str>) -> (u16, String) {
        let file = |name: &str| self.data.join(name);
        let mut curl = tool::command("curl");
        curl.args(["--silent", "--max-time", "20", "--write-out", "\n%{http_code}"]);
        curl.arg("--cacert").arg(file("ca.crt"));
        curl.arg("--cert").arg(file("admin.crt")).arg("--key").arg(file("admin.key"));
        if let Some(body) = body {
            curl.args(["--header", "Content-Type: application/json", "--data", body]);
        }
        let text = Finished::of(curl.arg(format!("{}{path}", self.process.url()))).stdout;
        let (body, code) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{text:?}"));
        (code.parse().unwrap(), body.to_owned())
    }

    fn review(&self, spec: &str) -> Value {
        let body = format!(
            r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{spec}}}"#
        );
        let (code, text) = self.curl("/apis/authorization.k8s.io/v1/subjectaccessreviews", Some(&body));
        assert_eq!(code, 201, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn may(&self, user: &str) -> bool {
        let spec = format!(
            r#"{{"user":"{user}","resourceAttributes":{{"verb":"get","resource":"pods","namespace":"shop","name":"web"}}}}"#
        );
        self.review(&spec)["status"]["allowed"].as_bool().unwrap()
    }

    fn stop(self) -> i32 {
        self.process.stop().code
    }
}

#[test]
fn the_command_lines_of_kubernetes_start_and_what_has_no_effect_is_told_once() {
    let more = [
        "--feature-gates=WatchList=true",
        "--feature-gates=kube:ClusterTrustBundle=true",
        "--runtime-config=api/all=true,storage.k8s.io/v1beta1=true",
        "--disable-admission-plugins=ServiceAccount,ResourceQuota",
        "--profiling=false",
        "--emulated-version=1.31",
    ];
    let folder = Scratch::new();
    let tls = ClientTls::make(folder.path());
    let etcd = Etcd::with(&Options { client_tls: Some(tls.clone()), ..Options::default() });
    let files = [
        format!("--etcd-cafile={}", tls.ca.display()),
        format!("--etcd-certfile={}", tls.certificate.display()),
        format!("--etcd-keyfile={}", tls.key.display()),
        format!("--etcd-servers={}", etcd.endpoint()),
        format!("--kubelet-client-certificate={}", tls.certificate.display()),
        format!("--kubelet-client-key={}", tls.key.display()),
    ];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let served = Served::start(&[KUBEADM, &more, &files].concat());
    assert!(etcd.keys("/registry/").contains(&"/registry/namespaces/kube-system".to_owned()));
    let log = served.process.stop().stderr;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("without effect")).collect();
    let [told] = told.as_slice() else { panic!("{log}") };
    for name in ["--allow-privileged", "--profiling", "WatchList", "storage.k8s.io/v1beta1"] {
        assert!(told.contains(name), "{name}: {told}");
    }
    for name in ["ClusterTrustBundle", "api/all", "NodeRestriction", "--etcd-servers"] {
        assert!(!told.contains(name), "{name}: {told}");
    }
}

#[test]
fn files_for_kubelets_that_cannot_be_used_are_told_at_start() {
    let folder = Scratch::new();
    let (none, data) = (folder.path().join("none.pem"), folder.path().join("data"));
    let none = none.display();
    for flags in [
        vec![format!("--kubelet-certificate-authority={none}")],
        vec![format!("--kubelet-client-certificate={none}"), format!("--kubelet-client-key={none}")],
    ] {
        let done = program!().serve_command(&data).args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("none.pem") && said.contains("--kubelet-certificate-authority"), "{said}");
    }
}

/// A server whose etcd does not run.
struct Waiting {
    process: Running,
    address: SocketAddr,
    data: PathBuf,
    _port: ReservedPort,
    _folder: Scratch,
}

impl Waiting {
    fn start(etcd: &Etcd) -> Self {
        etcd.kill();
        let folder = Scratch::new();
        let data = folder.path().join("data");
        let port = ReservedPort::new();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let mut command = program!().serve_command_at(&data, port.number());
        command.arg("--etcd-servers").arg(etcd.endpoint());
        let process = Running::spawn(command);
        wait::until("the port is open", || TcpStream::connect(address).is_ok());
        Self { process, address, data, _port: port, _folder: folder }
    }
}

#[test]
fn without_etcd_the_server_says_that_it_waits_and_serves_nothing_until_etcd_is_there_et_5() {
    let etcd = Etcd::start();
    let waiting = Waiting::start(&etcd);
    let mut admin = Client::new(waiting.address, &Identity::admin(&waiting.data));
    let ca = waiting.data.join("ca.crt");
    let mut nobody = Client::new(waiting.address, &Identity::anonymous(&ca));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    for client in [&mut admin, &mut nobody] {
        let mut get = |path: &str| {
            let answer = client.ask("GET", path, None).unwrap();
            (answer.code, answer.text())
        };
        // As kube-apiserver, which words it so.
        assert_eq!(get("/livez"), (200, "ok".to_owned()));
        assert_eq!(get("/livez?verbose"), (200, "[+]ping ok\nlivez check passed\n".to_owned()));
        for probe in ["readyz", "healthz"] {
            let (code, text) = get(&format!("/{probe}"));
            assert_eq!(code, 500, "{text}");
            assert!(text.starts_with("[+]ping ok\n[-]etcd failed: reason withheld\n"), "{text}");
            assert!(text.ends_with(&format!("{probe} check failed\n")), "{text}");
        }
        let why = "internal server error: etcd client connection not yet established\n";
        assert_eq!(get("/readyz/etcd"), (500, why.to_owned()));
        for (method, path, body) in [
            ("GET", "/api", None),
            ("GET", "/version", None),
            ("GET", "/metrics", None),
            ("GET", "/readyzzz", None),
            ("GET", "/no/such/path", None),
            ("GET", "/api/v1/namespaces", None),
            ("GET", "/api/v1/pods?watch=true", None),
            ("POST", "/api/v1/namespaces", Some(&namespace)),
        ] {
            let answer = client.ask(method, path, body).unwrap();
            let status = answer.assert_status(503, "ServiceUnavailable");
            assert_eq!(status["details"]["retryAfterSeconds"], 1, "{path}: {status}");
            let message = status["message"].as_str().unwrap();
            assert!(message.contains("waits for etcd") && !message.contains("http"), "{path}: {message}");
        }
    }
    let url = format!("https://{}/api", waiting.address);
    assert_eq!(Request::new("GET", url, ca.clone()).send().header("retry-after"), "1");
    wait::until("it says what it waits for", || {
        let log = waiting.process.log();
        log.contains("waiting for etcd") && log.contains(&etcd.endpoint())
    });

    etcd.restart();
    wait::until("it is ready", || {
        // Each connection is answered, also when all becomes ready meanwhile.
        let first = Client::new(waiting.address, &Identity::anonymous(&ca)).ask("GET", "/livez", None);
        assert_eq!(first.unwrap().code, 200);
        admin.ask("GET", "/readyz", None).unwrap().code == 200
    });
    admin.must(201, "POST", "/api/v1/namespaces", Some(&namespace));
    assert_eq!(nobody.ask("GET", "/api/v1/namespaces", None).unwrap().code, 403);
    for client in [&admin, &nobody] {
        assert_eq!(client.connections(), 1, "a connection goes on when the server is ready");
    }
    assert_eq!(waiting.process.stop().code, 0);
}

#[test]
fn certificates_for_etcd_are_taken_up_without_a_restart_when_their_files_change() {
    let folder = Scratch::new();
    let tls = ClientTls::make(folder.path());
    let etcd = Etcd::with(&Options { client_tls: Some(tls.clone()), ..Options::default() });
    let served = Served::start(&[
        &format!("--etcd-servers={}", etcd.endpoint()),
        &format!("--etcd-cafile={}", tls.ca.display()),
        &format!("--etcd-certfile={}", tls.certificate.display()),
        &format!("--etcd-keyfile={}", tls.key.display()),
    ]);
    etcd.kill();
    // What can connect to etcd from now on has the certificates of another authority.
    ClientTls::make(folder.path());
    etcd.restart();
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"new"}}"#;
    wait::until("the server writes", || served.curl("/api/v1/namespaces", Some(namespace)).0 == 201);
    let log = served.process.stop().stderr;
    assert!(log.contains("the certificates for etcd were reloaded"), "{log}");
}

#[test]
fn a_server_that_waits_for_etcd_stops_when_it_is_told_to() {
    let etcd = Etcd::start();
    assert_eq!(Waiting::start(&etcd).process.stop().code, 0);
}

#[test]
fn the_cluster_is_told_where_the_server_is_and_how_it_authenticates() {
    let scratch = Scratch::new();
    let authority = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for name in ["clients", "proxies"] {
        let files = format!("-subj /CN={name} -keyout {name}.key -out {name}.pem");
        tool::openssl(scratch.path(), &format!("{authority} {files}"));
    }
    let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let served = Served::start(&[
        "--advertise-address=192.0.2.1",
        "--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112",
        "--client-ca-file",
        &file("clients.pem"),
        "--requestheader-client-ca-file",
        &file("proxies.pem"),
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group,X-Other",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]);
    let get = |path: &str| -> Value {
        let (code, text) = served.curl(path, None);
        assert_eq!(code, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    let data =
        get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")["data"].clone();
    let pem = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap();
    assert!(data["client-ca-file"].as_str().unwrap().contains(pem("clients.pem").trim()), "{data}");
    assert_eq!(data["requestheader-client-ca-file"].as_str().unwrap().trim(), pem("proxies.pem").trim());
    for (key, value) in [
        ("allowed-names", r#"["front-proxy-client"]"#),
        ("username-headers", r#"["X-Remote-User"]"#),
        ("uid-headers", "[]"),
        ("group-headers", r#"["X-Remote-Group","X-Other"]"#),
        ("extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ] {
        assert_eq!(data[format!("requestheader-{key}")], value, "{key}");
    }
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let tracking = get(&format!("/api/v1/namespaces/kube-system/configmaps/{tracking}"));
    let since = tracking["data"]["since"].as_str().unwrap();
    assert!(tracking["metadata"]["creationTimestamp"].as_str().unwrap().starts_with(since), "{tracking}");

    let port: u64 = served.process.url().rsplit(':').next().unwrap().parse().unwrap();
    let service = get("/api/v1/namespaces/default/services/kubernetes")["spec"].clone();
    assert_eq!(service["clusterIP"], "10.96.0.1");
    let range = get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes");
    assert_eq!(range["spec"]["cidrs"], serde_json::json!(["10.96.0.0/12", "fd00:10:96::/112"]));
    assert_eq!(service["ports"][0]["port"], 443);
    assert_eq!(service["ports"][0]["targetPort"], port);
    let subset = get("/api/v1/namespaces/default/endpoints/kubernetes")["subsets"][0].clone();
    assert_eq!(
        (&subset["addresses"][0]["ip"], &subset["ports"][0]["port"]),
        (&"192.0.2.1".into(), &port.into())
    );
    let slice = get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes");
    assert_eq!(slice["endpoints"][0]["addresses"][0], "192.0.2.1");
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");
    // Addresses of both families for a service that wants them.
    let both =
        r#"{"metadata":{"name":"both"},"spec":{"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80}]}}"#;
    let (code, made) = served.curl("/api/v1/namespaces/default/services", Some(both));
    assert_eq!(code, 201, "{made}");
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["spec"]["clusterIPs"], serde_json::json!(["10.96.1.1", "fd00:10:96::101"]));
    // Without an address that others reach, no endpoints are told.
    drop(served);
    let served = Served::start(&[]);
    assert_eq!(served.curl("/api/v1/namespaces/default/services/kubernetes", None).0, 200);
    assert_eq!(served.curl("/api/v1/namespaces/default/endpoints/kubernetes", None).0, 404);
}

#[test]
fn flags_that_promise_what_is_not_there_are_refused_by_name() {
    for (flag, part) in [
        ("--encryption-provider-config=/etc/a.yaml", "--encryption-provider-config"),
        ("--oidc-issuer-url=https://a.example", "--oidc-issuer-url"),
        ("--allow-privileged=false", "--allow-privileged"),
        ("--enable-admission-plugins=AlwaysPullImages", "AlwaysPullImages"),
        ("--feature-gates=ConstrainedImpersonation=false", "ConstrainedImpersonation"),
        ("--runtime-config=api/all=false", "api/all"),
    ] {
        let Finished { code, stderr, .. } = program!().run(["serve", flag]);
        assert!(code == 2 && stderr.contains(part), "{flag}: {stderr}");
    }
}

/// ET-1, ET-2: nothing is started, and nothing is written to a store.
#[test]
fn flags_of_the_store_that_contradict_each_other_or_cannot_be_used_end_with_2() {
    const SERVERS: &str = "--etcd-servers=http://127.0.0.1:2379";
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    for (flags, part) in [
        (&[SERVERS, "--storage-backend=embedded"][..], "two stores"),
        (&["--storage-backend=etcd3"], "--etcd-servers"),
        (&["--etcd-servers=127.0.0.1:2379"], "https://HOST:PORT"),
        (&[SERVERS, "--etcd-prefix=/"], "--etcd-prefix"),
        (&[SERVERS, "--etcd-cafile=/nonexistent/ca.crt"], "/nonexistent/ca.crt"),
        (&[SERVERS, "--etcd-certfile=/nonexistent/a.crt"], "--etcd-keyfile"),
        (&[SERVERS, "--storage-media-type=application/vnd.kubernetes.protobuf"], "--storage-media-type"),
    ] {
        let mut arguments = vec!["serve", "--data-dir", data.to_str().unwrap()];
        arguments.extend(flags);
        let Finished { code, stderr, .. } = program!().run(&arguments);
        assert!(code == 2 && stderr.contains(part), "{flags:?}: {stderr}");
        assert!(!data.exists(), "{flags:?}");
    }
}

#[test]
fn reviews_are_answered_over_the_state() {
    let served = Served::start(&[]);
    let node = |name: &str, secret: &str| {
        let spec = format!(
            r#"{{"user":"system:node:{name}","groups":["system:nodes","system:authenticated"],"resourceAttributes":{{"verb":"get","resource":"secrets","namespace":"shop","name":"{secret}"}}}}"#
        );
        served.review(&spec)["status"]["allowed"].as_bool().unwrap()
    };
    assert!(node("n0", "web-key"));
    assert!(!node("n1", "web-key"));
    assert!(!node("n0", "other"));
    assert!(served.may("jane"));
    assert!(!served.may("john"));
    assert_eq!(served.curl("/readyz", None), (200, "ok".to_owned()));
    assert_eq!(served.stop(), 0);
}

#[test]
fn an_empty_store_begins_with_what_was_saved_of_a_cluster() {
    let saved = "
apiVersion: v1
kind: Node
metadata: {name: n0, uid: 7d3c9a52-0b1f-4d51-9d7e-5a54a3a4c111, creationTimestamp: '2024-05-06T07:08:09Z', resourceVersion: '812'}
status: {nodeInfo: {kubeletVersion: v1.36.0}, phase: ''}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: web, namespace: shop}
";
    let state = Scratch::new();
    let file = state.write("saved.yaml", saved);
    let served = Served::start(&["--state", file.to_str().unwrap()]);
    let (code, text) = served.curl("/api/v1/nodes/n0", None);
    assert_eq!(code, 200, "{text}");
    let node: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(node["metadata"]["uid"], "7d3c9a52-0b1f-4d51-9d7e-5a54a3a4c111");
    assert_eq!(node["metadata"]["creationTimestamp"], "2024-05-06T07:08:09Z");
    assert_ne!(node["metadata"]["resourceVersion"], "812", "revisions are the store's own");
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0");
    // The other files say nothing of the namespace that their objects are in.
    assert_eq!(served.curl("/api/v1/namespaces/shop", None).0, 200);
    assert_eq!(served.curl("/api/v1/namespaces/kube-system", None).0, 200);
    assert_eq!(served.stop(), 0);
}

#[test]
fn old_review_versions_are_there_only_when_switched_on() {
    let path = "/apis/authorization.k8s.io/v1beta1/subjectaccessreviews";
    let body = r#"{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","spec":{"group":["system:masters"],"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;
    let off = Served::start(&[]);
    assert_eq!(off.curl(path, Some(body)).0, 404);
    let on = Served::start(&["--runtime-config", "authorization.k8s.io/v1beta1=true"]);
    let (code, text) = on.curl(path, Some(body));
    assert_eq!(code, 201, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(answer["spec"]["group"][0], "system:masters");
}

#[test]
fn mistakes_end_with_exit_2_and_what_cannot_be_had_with_3() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let serve = |flags: &[&str]| {
        let finished = Finished::of(program!().serve_command(&data).args(flags));
        (finished.code, finished.stderr)
    };
    let broken = scratch.write("broken.json", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"");
    let (code, error) = serve(&["--state", broken.to_str().unwrap()]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("broken.json"), "{error}");
    // An object that a client could not write cannot seed a store either, and leaves nothing behind.
    let invalid = scratch.write(
        "invalid.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: shop}\n---\napiVersion: v1\nkind: Pod\n\
         metadata: {name: web, namespace: shop}\nspec: {containers: []}\n",
    );
    for _ in 0..2 {
        let (code, error) = serve(&["--state", invalid.to_str().unwrap()]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("invalid.yaml") && error.contains("spec.containers"), "{error}");
    }
    let twice = format!("{}---{}", ROLE, ROLE.split("---").next().unwrap());
    let twice = scratch.write("twice.yaml", twice);
    let (code, error) = serve(&["--state", twice.to_str().unwrap()]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("Role reader is given twice"), "{error}");
    let tokens = scratch.write("tokens.csv", "token,jane\n");
    let (code, error) = serve(&["--token-auth-file", tokens.to_str().unwrap()]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("tokens.csv") && error.contains("line 1"), "{error}");
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
    let configuration =
        scratch.write("admission.yaml", format!("{head}plugins: [{{name: EventRateLimit, path: e}}]\n"));
    let (code, error) = serve(&["--admission-control-config-file", configuration.to_str().unwrap()]);
    assert_eq!(code, 2, "{error}");
    let told = "admission.yaml: plugins[0].name: EventRateLimit is not implemented here";
    assert!(error.contains("--admission-control-config-file") && error.contains(told), "{error}");
    assert_eq!(serve(&["--authorization-mode", "Nod"]).0, 2);
    assert_eq!(serve(&["--runtime-config", "batch/v2alpha1=true"]).0, 2);
    let (code, error) = serve(&["--bind-address", "192.0.2.1"]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("192.0.2.1"), "{error}");
}

#[test]
fn flags_about_certificates_that_cannot_be_used_end_with_2_and_say_why_cs_71() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let authority = scratch.write("ca.crt", "");
    let authority = authority.to_str().unwrap();
    for (flags, said) in [
        (vec!["--cluster-signing-cert-file", authority], "--cluster-signing-key-file is missing"),
        (
            vec!["--cluster-signing-kubelet-client-key-file", authority],
            "--cluster-signing-kubelet-client-cert-file is missing",
        ),
        (
            vec![
                "--cluster-signing-cert-file",
                authority,
                "--cluster-signing-key-file",
                authority,
                "--cluster-signing-kubelet-serving-cert-file",
                authority,
                "--cluster-signing-kubelet-serving-key-file",
                authority,
            ],
            "are mutually exclusive",
        ),
        (
            vec!["--cluster-signing-cert-file", authority, "--cluster-signing-key-file", authority],
            "no certificate in PEM form",
        ),
        (vec!["--cluster-signing-duration", "0s"], "must be at least 10m"),
        (vec!["--controllers", "*,-attachdetach"], "there is no controller \"attachdetach\""),
        (vec!["--node-monitor-grace-period", "0s"], "must be longer than nothing"),
        (
            vec!["--etcd-servers", "http://127.0.0.1:1", "--etcd-readycheck-timeout", "0s"],
            "--etcd-readycheck-timeout must be longer than nothing",
        ),
        (vec!["--event-ttl", "never"], "event-ttl"),
        (vec!["--approver-config", authority], "is for --approver machine"),
        (vec!["--approver", "machine", "--approver-config", authority], "the document is empty"),
    ] {
        let Finished { code, stderr: error, .. } = Finished::of(program!().serve_command(&data).args(&flags));
        assert_eq!(code, 2, "{flags:?}: {error}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}

/// Servers that share an etcd are found under `default/kubernetes`, as several kube-apiservers are.
#[test]
fn the_endpoints_of_the_cluster_are_the_servers_that_there_are() {
    let etcd = Etcd::start();
    let folder = Scratch::new();
    let start = |number: u8| {
        let mut command = program!().serve_command(&folder.path().join(number.to_string()));
        command.args(["--etcd-servers", &etcd.endpoint()]);
        command.arg(format!("--advertise-address=192.0.2.{number}"));
        Running::start(command)
    };
    let [one, two, three] = [1, 2, 3].map(start);
    let mut admin = Client::new(one.address(), &Identity::admin(&folder.path().join("1")));
    let mut until_these = |numbers: &[u8]| {
        let wanted: Vec<String> = numbers.iter().map(|number| format!("192.0.2.{number}")).collect();
        wait::until(&format!("the endpoints are {wanted:?}"), || {
            let of_service = admin.must(200, "GET", "/api/v1/namespaces/default/endpoints/kubernetes", None);
            let slice = admin.must(200, "GET", SLICE, None);
            let ips = of_service["subsets"][0]["addresses"].as_array().unwrap().iter();
            let ips: Vec<&str> = ips.map(|address| address["ip"].as_str().unwrap()).collect();
            let endpoints = slice["endpoints"].as_array().unwrap().iter();
            let sliced: Vec<&str> =
                endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap()).collect();
            ips == wanted && sliced == wanted
        });
    };
    until_these(&[1, 2, 3]);
    let keys = etcd.keys("/registry/masterleases/");
    assert_eq!(keys, [1, 2, 3].map(|number| format!("/registry/masterleases/192.0.2.{number}")));
    assert_eq!(three.stop().code, 0);
    assert_eq!(etcd.keys("/registry/masterleases/").len(), 2, "it has removed its own");
    until_these(&[1, 2]);
    two.kill();
    until_these(&[1]);
    assert_eq!(one.stop().code, 0);
}
