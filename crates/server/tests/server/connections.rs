//! Logs, exec, attach, port forwarding and proxies, through the running server to a fake kubelet.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portcullis_server::KubeletSettings;
use portcullis_server::http::limits::Limits;
use portcullis_server::proxy::addresses::{Resolve, Resolving};
use portcullis_testkit::https::{self, Answer};
use portcullis_testkit::kubelet::{FakeKubelet, Fault, Options, Pod, pattern};
use portcullis_testkit::request::Identity;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::upgrade::{self, ByteStream, Protocol, Response};
use portcullis_testkit::wait::{until, until_ok};
use serde_json::{Value, json};

use crate::common::{Setup, Started, start_with};

pub(crate) const PODS: &str = "/api/v1/namespaces/ns/pods";
pub(crate) const NODE: &str = "/api/v1/nodes/node-1";
pub(crate) const SPDY: Protocol<'static> = Protocol::Spdy(&["v4.channel.k8s.io"]);
/// The counterpart of [`SPDY`] for port forwarding.
const PORTS: Protocol<'static> = Protocol::Spdy(&["portforward.k8s.io"]);
const CHANNELS: Protocol<'static> = Protocol::WebSocket(&["v4.channel.k8s.io"]);
const AUDIT_ALL: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";

/// A server that knows a node with a kubelet, and a pod `ns/p` on it.
pub(crate) struct Connected {
    pub(crate) kubelet: FakeKubelet,
    pub(crate) server: Started,
    scratch: Scratch,
}

impl Connected {
    pub(crate) fn start(options: Options) -> Self {
        Self::start_with(options, Setup::default(), |_, _| {})
    }

    pub(crate) fn start_with(
        options: Options,
        setup: Setup,
        change: impl FnOnce(&mut KubeletSettings, &Path),
    ) -> Self {
        let scratch = Scratch::new();
        let kubelet = FakeKubelet::start(scratch.path(), options);
        let mut kubelets = KubeletSettings {
            client: Some(kubelet.client_certificate("apiserver", "kube-apiserver-kubelet-client", &[])),
            authority: Some(kubelet.authority()),
            allowed: vec!["127.0.0.0/8".parse().unwrap()],
            ..KubeletSettings::default()
        };
        change(&mut kubelets, scratch.path());
        let server = start_with(Setup { is_cluster: true, kubelets, ..setup });
        let connected = Self { kubelet, server, scratch };
        connected.must(201, "POST", "/api/v1/nodes", &json!({"metadata": {"name": "node-1"}}));
        connected.says("InternalIP", "127.0.0.1");
        connected.must(201, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}));
        connected.pod("p", "node-1");
        connected
    }

    /// A pod with a container `c`, on a node unless its name is empty.
    fn pod(&self, name: &str, node: &str) {
        let mut spec =
            json!({"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]});
        if !node.is_empty() {
            spec["nodeName"] = node.into();
        }
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        // Its account may still have to be made.
        until_ok("a pod is made", || {
            let answer = self.ask("POST", PODS, &pod);
            if answer.code == 201 { Ok(()) } else { Err(answer.text()) }
        });
    }

    pub(crate) fn admin(&self) -> https::Identity {
        self.identity(&self.server.admin())
    }

    fn identity(&self, of: &Identity) -> https::Identity {
        https::Identity::read(&self.server.dir.join("ca.crt"), &of.certificate, &of.key)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let mut client = self.server.client(&self.server.admin());
        client.ask(method, path, Some(body).filter(|body| !body.is_null())).unwrap()
    }

    #[track_caller]
    pub(crate) fn must(&self, code: u16, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
        answer.json()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null)
    }

    /// The node says that its kubelet has this address.
    fn says(&self, kind: &str, address: &str) {
        let status = json!({"status": {"addresses": [{"type": kind, "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.address().port()}}}});
        self.must(200, "PATCH", &format!("{NODE}/status"), &status);
    }

    pub(crate) fn open(&self, method: &str, path: &str, protocol: Protocol<'_>) -> (Response, ByteStream) {
        upgrade::open(self.server.address, &self.admin(), method, path, &[], protocol).unwrap()
    }

    /// Asks for something of every kind. Returns the codes.
    fn every_kind(&self) -> Vec<(String, u16)> {
        let port = self.kubelet.address().port();
        let plain = [
            format!("{PODS}/p/log"),
            format!("{NODE}/proxy/healthz"),
            format!("{NODE}:{port}/proxy/healthz"),
            format!("/api/v1/nodes/https:node-1:{port}/proxy/healthz"),
            format!("{NODE}:{}/proxy/healthz", self.server.address.port()),
        ];
        let upgrades = [
            format!("{PODS}/p/exec?command=id&stdout=1"),
            format!("{PODS}/p/attach?stdout=1"),
            format!("{PODS}/p/portforward"),
            format!("{NODE}/proxy/exec/ns/p/c?command=id&output=1"),
        ];
        let mut codes = Vec::new();
        for path in plain {
            codes.push((path.clone(), self.get(&path).code));
        }
        for path in upgrades {
            for (method, protocol) in [("POST", SPDY), ("GET", CHANNELS)] {
                let (response, _) = self.open(method, &path, protocol);
                codes.push((path.clone(), response.code));
            }
        }
        codes
    }

    #[track_caller]
    fn nothing_is_sent(&self) {
        assert_eq!((self.kubelet.requests().len(), self.kubelet.open_streams()), (0, 0));
    }
}

/// The protocol in which the subresource in a path is asked for.
fn for_path<'a>(protocol: Protocol<'a>, path: &str) -> Protocol<'a> {
    match protocol {
        Protocol::Spdy(_) if path.contains("portforward") => PORTS,
        other => other,
    }
}

/// Resolves every name to these addresses, one list after the other; the last one stays.
struct Names {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = |addresses: &&[&str]| addresses.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parsed).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[test]
fn a_log_is_passed_on_with_its_options_and_as_the_server() {
    let connected = Connected::start(Options::default());
    let path = format!("{PODS}/p/log?tailLines=3&timestamps=true&command=id");
    let answer = connected.get(&path);
    assert_eq!((answer.code, answer.text().as_str()), (200, "line 1\nline 2\nline 3\n"));
    assert_eq!(answer.media_type.as_str(), "text/plain");
    let seen = connected.kubelet.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].path, "/containerLogs/ns/p/c?tailLines=3&timestamps=true");
    assert_eq!(seen[0].certificate.as_deref(), Some("kube-apiserver-kubelet-client"));
    assert_eq!(seen[0].header("authorization"), None);

    connected.get(&format!("{PODS}/p/log?tailLines=-1")).assert_status(422, "Invalid");
    connected.get(&format!("{PODS}/p/log?tailLines=x")).assert_status(400, "BadRequest");
    connected.get(&format!("{PODS}/none/log")).assert_status(404, "NotFound");
    let refusal = connected.get(&format!("{PODS}/p/log?container=x")).assert_status(400, "BadRequest");
    assert_eq!(refusal["message"], "container x is not valid for pod p");
    assert_eq!(connected.kubelet.requests().len(), 1);
    assert!(matches!(connected.ask("POST", &format!("{PODS}/p/log"), &Value::Null).code, 403 | 405));
}

#[test]
fn what_a_kubelet_refuses_and_a_pod_without_a_node_have_the_answers_of_kubernetes() {
    let connected = Connected::start(Options::default());
    connected.pod("elsewhere", "node-1");
    let refusal = connected.get(&format!("{PODS}/elsewhere/log")).assert_status(404, "NotFound");
    assert_eq!(refusal["message"], "the server could not find the requested resource ( pods/log elsewhere)");
    let (response, stream) =
        connected.open("POST", &format!("{PODS}/elsewhere/exec?command=id&stdout=1"), SPDY);
    assert_eq!(response.code, 404);
    assert_eq!(stream.body(&response).unwrap(), b"pod ns/elsewhere does not exist here\n");

    connected.pod("waits", "");
    assert_eq!(connected.get(&format!("{PODS}/waits/log")).code, 204);
    let refusal = connected.get(&format!("{PODS}/waits/exec?command=id")).assert_status(400, "BadRequest");
    assert_eq!(refusal["message"], "pod waits does not have a host assigned");
    connected.pod("lost", "no-node");
    let refusal = connected.get(&format!("{PODS}/lost/log")).assert_status(404, "NotFound");
    assert_eq!(refusal["message"], "nodes \"no-node\" not found");
    let refusal = connected.get(&format!("{PODS}/p/exec?command=id")).assert_status(400, "BadRequest");
    assert_eq!(refusal["message"], "Upgrade request required");
}

#[test]
fn a_followed_log_goes_on_until_its_reader_has_gone() {
    let connected =
        Connected::start(Options { follow_every: Duration::from_millis(5), ..Options::default() });
    let follow = || {
        let path = format!("{PODS}/p/log?follow=true");
        let (response, stream) = connected.open("GET", &path, Protocol::Plain);
        assert_eq!(response.code, 200);
        let mut bytes = [0; 200];
        (&stream).read_exact(&mut bytes).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("line 1\n"), "{bytes:?}");
        stream
    };
    let (one, another) = (follow(), follow());
    assert_eq!(connected.kubelet.open_streams(), 2);
    connected.server.wait_for_metric(
        "apiserver_longrunning_requests{verb=\"CONNECT\",group=\"\",version=\"v1\",resource=\"pods\",subresource=\"log\",scope=\"resource\",component=\"apiserver\"} 2",
    );
    one.cut();
    until("its stream ends", || connected.kubelet.open_streams() == 1);
    drop((one, another));
    until("both streams end", || connected.kubelet.open_streams() == 0);
}

#[test]
fn streams_carry_bytes_both_ways_and_close_one_way_at_a_time() {
    let options = Options { trailer: b"bye".to_vec(), ..Options::default() };
    let connected =
        Connected::start_with(options, Setup { audit: Some(AUDIT_ALL), ..Setup::default() }, |_, _| {});
    for (method, protocol) in [("POST", SPDY), ("GET", SPDY), ("GET", CHANNELS), ("POST", CHANNELS)] {
        for (path, of_kubelet) in [
            ("exec?command=echo&stdin=1&stdout=1", "/exec/ns/p/c?command=echo&input=1&output=1"),
            ("attach?stdin=true&tty=true", "/attach/ns/p/c?input=1&tty=1"),
            ("portforward", "/portForward/ns/p"),
        ] {
            connected.kubelet.forget();
            let protocol = for_path(protocol, path);
            let (response, stream) = connected.open(method, &format!("{PODS}/p/{path}"), protocol);
            assert_eq!(response.code, 101, "{method} {path}");
            let seen = connected.kubelet.requests();
            assert_eq!((seen.len(), seen[0].path.as_str(), seen[0].method.as_str()), (1, of_kubelet, method));
            (&stream).write_all(b"hello").unwrap();
            let mut echo = [0; 5];
            (&stream).read_exact(&mut echo).unwrap();
            assert_eq!(&echo, b"hello");
            stream.close_write().unwrap();
            let mut rest = Vec::new();
            (&stream).read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b"bye");
        }
    }
    until("all streams end", || connected.kubelet.open_streams() == 0);
    let stages = || {
        let events = connected.server.audited();
        let of_exec = events.iter().filter(|event| {
            event["objectRef"]["subresource"] == "exec" && event["responseStatus"]["code"] == 101
        });
        of_exec.map(|event| event["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("the ends are logged", || {
        stages().iter().filter(|stage| *stage == "ResponseComplete").count() == 4
    });
    assert_eq!(stages().iter().filter(|stage| *stage == "ResponseStarted").count(), 4);
    let metrics = connected.server.app.metrics().render().unwrap();
    let line = "apiserver_request_total{verb=\"CONNECT\",group=\"\",version=\"v1\",resource=\"pods\",subresource=\"exec\",scope=\"resource\",component=\"apiserver\",code=\"101\",dry_run=\"\"} 4";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
}

#[test]
fn subprotocols_that_the_kubelet_does_not_know_are_refused_so_that_kubectl_takes_spdy_ka_84() {
    let connected = Connected::start(Options::default());
    let path = format!("{PODS}/p/exec?command=id&stdout=1");
    let of = |offered: &[&str]| {
        let (response, _stream) = connected.open("GET", &path, Protocol::WebSocket(offered));
        (response.code, response.header("sec-websocket-protocol").map(str::to_owned))
    };
    let (v4, v5) = ("v4.channel.k8s.io", "v5.channel.k8s.io");
    assert_eq!(of(&[v5]), (400, None));
    assert_eq!(of(&["SPDY/3.1+portforward.k8s.io"]), (400, None));
    connected.nothing_is_sent();
    assert_eq!(of(&[v5, v4]), (101, Some(v4.to_owned())));
    let features = json!({"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}});
    connected.must(200, "PATCH", &format!("{NODE}/status"), &features);
    assert_eq!(of(&[v5]), (101, Some(v5.to_owned())));
}

#[test]
fn a_token_among_the_subprotocols_opens_a_websocket_and_is_not_passed_on_an_53() {
    let tokens = Some("secret,boss,1,system:masters");
    let connected =
        Connected::start_with(Options::default(), Setup { tokens, ..Setup::default() }, |_, _| {});
    let nobody = https::Identity::anonymous(&connected.server.dir.join("ca.crt"));
    let token = format!("base64url.bearer.authorization.k8s.io.{}", BASE64_URL_SAFE_NO_PAD.encode("secret"));
    let offered = Protocol::WebSocket(&[&token, "v4.channel.k8s.io"]);
    let path = format!("{PODS}/p/attach?stdin=1");
    let (response, stream) =
        upgrade::open(connected.server.address, &nobody, "GET", &path, &[], offered).unwrap();
    assert_eq!((response.code, response.header("sec-websocket-protocol")), (101, Some("v4.channel.k8s.io")));
    assert_eq!(connected.kubelet.requests()[0].header("sec-websocket-protocol"), Some("v4.channel.k8s.io"));
    // It is authenticated again while it is open.
    for _ in 0..3 {
        (&stream).write_all(b"hello").unwrap();
        let mut echo = [0; 5];
        (&stream).read_exact(&mut echo).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn nc_6_an_address_is_checked_before_anything_is_sent() {
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.allowed.clear();
    });
    for address in ["127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.1"] {
        connected.says("InternalIP", address);
        for (path, code) in connected.every_kind() {
            assert_eq!(code, 400, "{address}: {path}");
        }
        let refusal = connected.get(&format!("{NODE}/proxy/healthz")).assert_status(400, "BadRequest");
        assert_eq!(refusal["message"], "address not allowed");
    }
    connected.nothing_is_sent();
    assert_eq!(connected.kubelet.connections(), 0);
}

#[test]
fn nc_6_a_name_that_stands_for_a_loopback_address_is_refused() {
    let names = Names::new(&[&["192.0.2.1", "127.0.0.1"]]);
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.allowed.clear();
        kubelets.resolver = names;
    });
    connected.says("Hostname", "node-1");
    for (path, code) in connected.every_kind() {
        assert_eq!(code, 400, "{path}");
    }
    assert_eq!(connected.kubelet.connections(), 0);
}

#[test]
fn nc_7_the_address_that_was_checked_is_the_one_that_is_connected_to() {
    // Where nobody listens, and then the kubelet: a second look would find it.
    let names = Names::new(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let asked = Arc::clone(&names);
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.resolver = names;
    });
    connected.says("Hostname", "node-1");
    assert_eq!(connected.get(&format!("{PODS}/p/log")).code, 500);
    assert_eq!((asked.asked.load(Ordering::Relaxed), connected.kubelet.connections()), (1, 0));
    // The next request looks again, once.
    assert_eq!(connected.get(&format!("{PODS}/p/log")).code, 200);
    assert_eq!((asked.asked.load(Ordering::Relaxed), connected.kubelet.connections()), (2, 1));
}

#[test]
fn a_kubelet_with_the_certificate_of_another_gets_nothing() {
    let names = Names::new(&[&["127.0.0.1"]]);
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.resolver = names;
    });
    connected.says("Hostname", "node-2");
    let refusal = connected.get(&format!("{PODS}/p/log"));
    assert!(refusal.code == 500 && refusal.text().contains("serverTLSBootstrap"), "{}", refusal.text());
    for (path, code) in connected.every_kind() {
        // The last plain one is not the kubelet's port: nothing is shown to it, and it is the server itself.
        let is_other_port = path.contains(&format!(":{}/", connected.server.address.port()));
        assert!(is_other_port || matches!(code, 500 | 503), "{path}: {code}");
    }
    connected.nothing_is_sent();
    connected.says("Hostname", "node-1");
    assert_eq!(connected.get(&format!("{PODS}/p/log")).code, 200);
}

#[test]
fn a_kubelet_of_another_authority_gets_nothing_unless_that_is_asked_for() {
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, folder| {
        kubelets.authority = Some(folder.join("client-ca.pem"));
    });
    assert_eq!(connected.get(&format!("{PODS}/p/log")).code, 500);
    assert_eq!(connected.get(&format!("{NODE}/proxy/healthz")).code, 503);
    connected.nothing_is_sent();
    let path = format!("{PODS}/p/log?insecureSkipTLSVerifyBackend=true");
    assert_eq!(connected.get(&path).code, 200);

    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.authority = None;
    });
    assert_eq!(
        connected.get(&format!("{PODS}/p/log")).code,
        500,
        "the server's own authority signed another"
    );
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.authority = None;
        kubelets.is_insecure = true;
    });
    assert_eq!(connected.get(&format!("{PODS}/p/log")).code, 200);
}

#[test]
fn certificates_for_kubelets_are_taken_up_when_their_files_change() {
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, folder| {
        // At first the authority is that of clients, which signed no kubelet.
        let authority = folder.join("kubelets.pem");
        fs::copy(folder.join("client-ca.pem"), &authority).unwrap();
        kubelets.authority = Some(authority);
        let (certificate, key) = kubelets.client.clone().unwrap();
        let (mine, my_key) = (folder.join("mine.pem"), folder.join("mine.key"));
        fs::copy(certificate, &mine).unwrap();
        fs::copy(key, &my_key).unwrap();
        kubelets.client = Some((mine, my_key));
    });
    let file = |name: &str| connected.scratch.path().join(name);
    let log = format!("{PODS}/p/log");
    assert_eq!(connected.get(&log).code, 500);

    fs::copy(connected.kubelet.authority(), file("kubelets.pem")).unwrap();
    until("the authority is taken up", || connected.get(&log).code == 200);
    let asked_by = || connected.kubelet.requests().pop().and_then(|request| request.certificate).unwrap();
    assert_eq!(asked_by(), "kube-apiserver-kubelet-client");

    let (certificate, key) = connected.kubelet.client_certificate("renewed", "renewed-apiserver", &[]);
    fs::copy(key, file("mine.key")).unwrap();
    fs::copy(certificate, file("mine.pem")).unwrap();
    until("the certificate is taken up", || {
        connected.get(&log);
        asked_by() == "renewed-apiserver"
    });
}

#[test]
fn nc_12_nc_13_nc_15_no_redirect_of_a_kubelet_is_followed() {
    let away = "HTTP/1.1 302 Found\r\nLocation: https://other.example/\r\nContent-Length: 0\r\n\r\n";
    let connected = Connected::start(Options { fault: Some(Fault::cut_after(away)), ..Options::default() });
    let log = connected.get(&format!("{PODS}/p/log"));
    assert_eq!((log.code, log.json()["message"].as_str().unwrap()), (500, "redirects forbidden"));
    let proxied = connected.get(&format!("{NODE}/proxy/healthz"));
    assert_eq!((proxied.code, proxied.location.as_deref()), (502, None));
    for (method, protocol) in [("POST", SPDY), ("GET", CHANNELS)] {
        let (response, stream) =
            connected.open(method, &format!("{PODS}/p/exec?command=id&stdout=1"), protocol);
        let body = String::from_utf8(stream.body(&response).unwrap()).unwrap();
        assert!(response.code == 500 && body.contains("invalid upgrade response: status code 302"), "{body}");
        assert_eq!(response.header("location"), None);
    }
    let within = "HTTP/1.1 301 Moved\r\nLocation: /logs/\r\nContent-Length: 0\r\n\r\n";
    let connected = Connected::start(Options { fault: Some(Fault::cut_after(within)), ..Options::default() });
    let moved = connected.get(&format!("{NODE}/proxy/logs"));
    assert_eq!((moved.code, moved.location.as_deref()), (301, Some("/api/v1/nodes/node-1/proxy/logs/")));
}

#[test]
fn nc_13_a_kubelet_that_refuses_an_upgrade_gets_nothing_more_on_that_connection() {
    for fault in
        [Fault::refused_upgrade(403, ""), Fault::refused_upgrade(200, ""), Fault::unasked_upgrade("h2c")]
    {
        let connected = Connected::start(Options { fault: Some(fault), ..Options::default() });
        let (response, stream) = connected.open("POST", &format!("{PODS}/p/exec?command=id&stdout=1"), SPDY);
        assert_ne!(response.code, 101);
        // The connection may be closed already.
        let _ = (&stream).write_all(b"GET /pods HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(connected.kubelet.strays().iter().all(Vec::is_empty));
    }
}

#[test]
fn a_broken_answer_of_a_kubelet_breaks_nothing_else() {
    for fault in [
        Fault::half_head(),
        Fault::huge_head(1 << 20),
        Fault::broken_body(),
        Fault::broken_chunk(),
        Fault::unasked_upgrade("websocket"),
    ] {
        let connected = Connected::start(Options { fault: Some(fault), ..Options::default() });
        for path in [format!("{PODS}/p/log"), format!("{NODE}/proxy/healthz")] {
            let answer = connected.server.client(&connected.server.admin()).ask("GET", &path, None);
            assert!(answer.is_err() || answer.is_ok_and(|answer| answer.code >= 500), "{path}");
        }
        assert_eq!(connected.get("/readyz").code, 200);
    }
}

#[test]
fn a_proxy_passes_on_what_is_asked_and_not_who_asks() {
    let connected = Connected::start(Options::default());
    let sent = connected
        .server
        .request("POST", &format!("{NODE}/proxy/stats/summary?a=%2F&b"))
        .by(&connected.server.admin())
        .word("--http1.1")
        .header("X-Remote-User: eve")
        .header("X-Forwarded-For: 192.0.2.7")
        .header("Cookie: a=b")
        .header("Accept: text/x")
        .header("Connection: X-Mine")
        .header("X-Mine: 1")
        .body("body")
        .send();
    assert_eq!(sent.code, 200, "{}", sent.text());
    let seen = connected.kubelet.requests();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("POST", "/stats/summary?a=%2F&b"));
    assert_eq!(seen[0].header("accept"), Some("text/x"));
    for claim in ["x-remote-user", "x-forwarded-for", "cookie", "authorization", "x-mine"] {
        assert_eq!(seen[0].header(claim), None, "{claim}");
    }
    let get = |path: &str| connected.get(&format!("{NODE}{path}"));
    assert_eq!(get("/proxy/healthz").text(), "ok");
    let root = get("/proxy");
    assert_eq!((root.code, root.location.as_deref()), (301, Some("/api/v1/nodes/node-1/proxy/")));
    let port = connected.kubelet.address().port();
    assert_eq!(get(&format!(":{port}/proxy/healthz")).text(), "ok");
    let refusal = connected.get("/api/v1/nodes/a:b:c:d/proxy/healthz").assert_status(400, "BadRequest");
    assert_eq!(refusal["message"], "invalid node request \"a:b:c:d\"");
    connected.get("/api/v1/nodes/none/proxy/healthz").assert_status(404, "NotFound");
    // What the kubelet says is passed on.
    assert_eq!(
        (get("/proxy/nosuch").code, get("/proxy/logs/syslog").text().as_str()),
        (404, "node-1 kubelet: started\n")
    );
    let before = connected.kubelet.requests().len();
    let elsewhere = format!("/api/v1/nodes/https:node-1:{}/proxy/readyz", connected.server.address.port());
    // Another port is asked without the credentials of the server.
    assert_eq!(connected.get(&elsewhere).text(), "ok");
    assert_eq!(connected.kubelet.requests().len(), before);
}

/// A server without TLS that says what it was asked.
fn plain_server() -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let first = text.lines().next().unwrap_or_default();
            let has_credentials = text.to_lowercase().contains("authorization:");
            let body = format!("{first} {has_credentials}");
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn pods_and_services_are_proxied_to_their_own_addresses_only() {
    let connected = Connected::start(Options::default());
    let port = plain_server().port();
    let status = |ip: &str| json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
    connected.must(200, "PATCH", &format!("{PODS}/p/status"), &status("127.0.0.1"));
    let answer = connected.get(&format!("{PODS}/p:{port}/proxy/a/b?c=d"));
    assert_eq!((answer.code, answer.text().as_str()), (200, "GET /a/b?c=d HTTP/1.1 false"));

    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80, "targetPort": port}]}});
    connected.must(201, "POST", "/api/v1/namespaces/ns/services", &service);
    let of_service = |id: &str| connected.get(&format!("/api/v1/namespaces/ns/services/{id}/proxy/x"));
    of_service("s:web").assert_status(503, "ServiceUnavailable");
    of_service("s:81").assert_status(503, "ServiceUnavailable");
    let endpoints = |name: &str, ip: &str| {
        json!({"metadata": {"name": name}, "subsets": [{"ports": [{"name": "web", "port": port}],
            "addresses": [{"ip": ip, "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p"}}]}]})
    };
    // A pod cannot have a loopback address in endpoints: this one is found by its slice.
    let slice = json!({"metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "web", "port": port}],
        "endpoints": [{"addresses": ["192.0.2.5"], "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p"}}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices";
    connected.must(201, "POST", slices, &slice);
    // The address is not the pod's.
    of_service("s:web").assert_status(503, "ServiceUnavailable");
    connected.must(201, "POST", "/api/v1/namespaces/ns/endpoints", &endpoints("s", "192.0.2.6"));
    of_service("s:80").assert_status(503, "ServiceUnavailable");
}

#[test]
fn nc_6_a_pod_with_a_loopback_address_is_not_proxied_to() {
    let connected = Connected::start_with(Options::default(), Setup::default(), |kubelets, _| {
        kubelets.allowed.clear();
    });
    let port = plain_server().port();
    for ip in ["127.0.0.1", "169.254.169.254"] {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
        connected.must(200, "PATCH", &format!("{PODS}/p/status"), &status);
        for path in [
            format!("{PODS}/p:{port}/proxy/"),
            format!("{PODS}/https:p:{port}/proxy/x"),
            format!("{PODS}/p/proxy/"),
        ] {
            let refusal = connected.get(&path).assert_status(400, "BadRequest");
            assert_eq!(refusal["message"], "address not allowed");
        }
    }
}

#[test]
fn nc_16_whoever_may_only_get_runs_nothing_and_neither_over_a_proxy() {
    let connected = Connected::start(Options::default());
    let grant = |user: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "verbs": verbs,
            "resources": ["pods/exec", "pods/attach", "pods/portforward", "nodes/proxy"]}]);
        let role = json!({"metadata": {"name": user}, "rules": rules});
        connected.must(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
        let binding = json!({"metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
        connected.must(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
        connected.identity(&connected.server.user(user, &[]))
    };
    let (reader, runner) = (grant("reader", &["get"]), grant("runner", &["get", "create"]));
    let paths = [
        format!("{PODS}/p/exec?command=id&stdout=1"),
        format!("{PODS}/p/attach?stdout=1"),
        format!("{PODS}/p/portforward"),
        format!("{NODE}/proxy/exec/ns/p/c?command=id&output=1"),
    ];
    for path in &paths {
        for protocol in [SPDY, CHANNELS] {
            let open = |who, method| {
                upgrade::open(connected.server.address, who, method, path, &[], for_path(protocol, path))
                    .unwrap()
            };
            assert_eq!((open(&reader, "GET").0.code, open(&reader, "POST").0.code), (403, 403), "{path}");
            connected.nothing_is_sent();
            assert_eq!(open(&runner, "GET").0.code, 101, "{path}");
            connected.kubelet.forget();
            until("it has ended", || connected.kubelet.open_streams() == 0);
        }
    }
    // A right that ends, ends what is open.
    let path = &paths[0];
    let (response, stream) =
        upgrade::open(connected.server.address, &runner, "GET", path, &[], SPDY).unwrap();
    assert_eq!(response.code, 101);
    let only_get = json!({"rules": [{"apiGroups": [""], "verbs": ["get"], "resources": ["pods/exec"]}]});
    connected.must(200, "PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/runner", &only_get);
    let mut rest = Vec::new();
    // It is cut, or it ends.
    let _ = (&stream).read_to_end(&mut rest);
    until("the kubelet sees the end", || connected.kubelet.open_streams() == 0);
}

#[test]
fn a_user_has_a_bounded_number_of_connections_and_all_have_one_together() {
    let limits =
        Limits { opened: 3, opened_by_all: 4, shutdown: Duration::from_secs(1), ..Limits::default() };
    let options = Options { follow_every: Duration::from_millis(5), ..Options::default() };
    let connected = Connected::start_with(options, Setup { limits, ..Setup::default() }, |_, _| {});
    let path = format!("{PODS}/p/log?follow=true");
    let by = |who: &https::Identity| {
        let (response, stream) =
            upgrade::open(connected.server.address, who, "GET", &path, &[], Protocol::Plain).unwrap();
        (response.code, stream)
    };
    let (admin, other) =
        (connected.admin(), connected.identity(&connected.server.user("other", &["system:masters"])));
    let mut open: Vec<_> = (0..3).map(|_| by(&admin)).collect();
    assert!(open.iter().all(|(code, _)| *code == 200));
    assert_eq!((by(&admin).0, connected.get("/readyz").code), (429, 200));
    open.push(by(&other));
    assert_eq!((open[3].0, by(&other).0), (200, 429));
    open.clear();
    until("places are given back", || by(&other).0 == 200);
}

#[test]
fn a_slow_reader_holds_little_and_nobody_else_waits() {
    const BYTES: u64 = 64 << 20;
    let connected = Connected::start(Options { log: false, ..Options::default() });
    let path = format!("{NODE}/proxy/containerLogs/ns/p/c?bytes={BYTES}&announced=true");
    let (response, stream) = connected.open("GET", &path, Protocol::Plain);
    assert_eq!(response.code, 200);
    let sinks: Vec<_> =
        (0..200).map(|_| connected.open("POST", &format!("{PODS}/p/exec?stdin=1"), SPDY)).collect();
    assert!(sinks.iter().all(|(response, _)| response.code == 101));
    for name in 0..20 {
        let body = json!({"metadata": {"name": format!("m{name}")}});
        connected.must(201, "POST", "/api/v1/namespaces/ns/configmaps", &body);
    }
    let (mut offset, mut buffer) = (0, vec![0; 64 * 1024]);
    while offset < BYTES {
        let length = (&stream).read(&mut buffer).unwrap();
        assert!(length > 0, "it broke off at {offset}");
        // The first and the last byte of each piece: comparing all takes long without optimization.
        assert_eq!(buffer[0], pattern(offset));
        offset += length as u64;
        assert_eq!(buffer[length - 1], pattern(offset - 1));
    }
    assert_eq!(offset, BYTES);
}

#[test]
fn connections_end_when_the_server_stops() {
    let mut connected = Connected::start(Options::default());
    let (response, stream) = connected.open("POST", &format!("{PODS}/p/exec?command=id&stdin=1"), SPDY);
    assert_eq!(response.code, 101);
    connected.server.stop();
    // It is cut, or it ends.
    let _ = (&stream).read_to_end(&mut Vec::new());
    until("the kubelet sees the end", || connected.kubelet.open_streams() == 0);
}

#[test]
fn a_pod_with_several_containers_has_one_that_is_named() {
    let pods = ["a", "b"].map(str::to_owned).to_vec();
    let pods = vec![Pod { namespace: "ns".to_owned(), name: "two".to_owned(), containers: pods }];
    let connected = Connected::start(Options { pods, ..Options::default() });
    let pod = json!({"metadata": {"name": "two"}, "spec": {"nodeName": "node-1", "automountServiceAccountToken": false,
        "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}});
    connected.must(201, "POST", PODS, &pod);
    let refusal = connected.get(&format!("{PODS}/two/log")).assert_status(400, "BadRequest");
    assert_eq!(refusal["message"], "a container name must be specified for pod two, choose one of: [a b]");
    assert_eq!(connected.get(&format!("{PODS}/two/log?container=b")).code, 200);
}
