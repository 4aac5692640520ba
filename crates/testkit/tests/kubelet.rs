//! The fake kubelet behaves like a real one on the wire: plain answers with curl, protocol upgrades, and faults on
//! demand.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use portcullis_testkit::https::Identity;
use portcullis_testkit::kubelet::{FakeKubelet, Fault, Options, Pod, pattern};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use portcullis_testkit::upgrade::{ByteStream, Protocol, Response, open};
use portcullis_testkit::wait;
use portcullis_testkit::websocket;
use serde_json::Value;

struct Started {
    kubelet: FakeKubelet,
    guard: Identity,
    scratch: Scratch,
}

fn start(options: Options) -> Started {
    let scratch = Scratch::new();
    let kubelet = FakeKubelet::start(scratch.path(), options);
    let (certificate, key) = kubelet.client_certificate("guard", "guard", &["a", "b"]);
    let guard = Identity::read(&kubelet.authority(), &certificate, &key);
    Started { kubelet, guard, scratch }
}

impl Started {
    fn open(&self, method: &str, path: &str, protocol: Protocol<'_>) -> (Response, ByteStream) {
        open(self.kubelet.address(), &self.guard, method, path, &[], protocol).unwrap()
    }

    /// Runs curl with the certificate of this name: the code, the version of HTTP, and the body.
    fn curl(&self, certificate: &str, more: &[&str], path: &str) -> (String, String) {
        let file = |name: &str| self.scratch.path().join(name).display().to_string();
        let (ca, pem, key) = (
            file("kubelet-ca.pem"),
            file(&format!("{certificate}.pem")),
            file(&format!("{certificate}-key.pem")),
        );
        let port = self.kubelet.address().port();
        let (resolve, url) = (format!("node-1:{port}:127.0.0.1"), format!("https://node-1:{port}{path}"));
        let mut command = tool::command("curl");
        command.args(["-s", "--path-as-is", "--noproxy", "*", "--resolve", &resolve, "--cacert", &ca]);
        if !certificate.is_empty() {
            command.args(["--cert", &pem, "--key", &key]);
        }
        let output =
            command.args(["-w", "\n%{http_version} %{http_code}"]).args(more).arg(&url).output().unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    }
}

fn is_pattern(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(offset, byte)| *byte == pattern(offset as u64))
}

#[test]
fn curl_reads_every_plain_endpoint() {
    let started = start(Options::default());
    for version in ["--http1.1", "--http2"] {
        let protocol = if version == "--http2" { "2" } else { "1.1" };
        for (method, path, code, contains) in [
            ("GET", "/healthz", 200, "ok"),
            ("GET", "/healthz/ping", 200, "ok"),
            ("GET", "/healthz/device-plugin", 200, "ok"),
            (
                "GET",
                "/metrics",
                200,
                "kubernetes_feature_enabled{name=\"KubeletFineGrainedAuthz\",stage=\"\"} 1",
            ),
            ("DELETE", "/metrics/slis", 200, ""),
            ("GET", "/pods", 200, "\"kind\":\"PodList\""),
            ("GET", "/runningpods/", 200, "\"kind\":\"PodList\""),
            ("POST", "/stats/summary", 200, "node-1"),
            ("GET", "/configz", 200, "kubeletconfig"),
            ("GET", "/flagz", 200, "flags"),
            ("GET", "/statusz", 200, "statusz"),
            ("GET", "/logs/", 200, "syslog"),
            ("GET", "/logs/syslog", 200, "kubelet"),
            ("GET", "/logs/none", 404, ""),
            ("GET", "/debug/pprof/cmdline", 200, "kubelet"),
            ("POST", "/checkpoint/ns/p/c", 200, "checkpoint-p_ns-c"),
            ("POST", "/checkpoint/ns/none/c", 404, "ns/none"),
            ("POST", "/run/ns/p/c?cmd=id", 200, "ran \"id\""),
            ("POST", "/run/ns/p/uid/c?cmd=id", 200, "ran \"id\""),
            ("GET", "/run/ns/p/c", 405, ""),
            ("GET", "/containerLogs/ns/p/c", 200, "line 1\nline 2\n"),
            ("GET", "/containerLogs/ns/p/none", 404, ""),
            ("GET", "/exec/ns/p/c", 400, ""),
            ("GET", "/exec/ns/none/c?output=1", 404, ""),
            ("GET", "/exec/ns/p/c?output=1", 400, "upgrade"),
            ("GET", "/portForward/ns/p", 400, "upgrade"),
            ("GET", "/portForward/ns/none", 404, ""),
            ("GET", "/nosuch", 404, ""),
            ("GET", "//pods", 307, ""),
        ] {
            let (status, body) = started.curl("guard", &[version, "-X", method], path);
            assert_eq!(status, format!("{protocol} {code}"), "{method} {path}: {body}");
            assert!(body.contains(contains), "{method} {path}: {body}");
        }
        let (status, body) = started.curl("guard", &[version, "-X", "PUT", "-d", "4"], "/debug/flags/v");
        assert_eq!((status, body.ends_with(" 4")), (format!("{protocol} 200"), true), "{body}");
        let (_, body) = started.curl("guard", &[version, "-d", "abcde"], "/run/ns/p/c");
        assert!(body.ends_with("read 5 bytes\n"), "{body}");
    }
    let (_, body) = started.curl("guard", &[], "/pods");
    let list: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "p");
    let (status, _) = started.curl("guard", &["-L", "--http1.1"], "/logs");
    assert_eq!(status, "1.1 200", "the redirect leads to the listing");
}

#[test]
fn without_a_certificate_of_its_clients_a_kubelet_answers_401() {
    let started = start(Options::default());
    started.kubelet.stranger_certificate("stranger", "guard", &[]);
    for (certificate, code) in [("guard", "1.1 200"), ("stranger", "1.1 401"), ("", "1.1 401")] {
        let (status, body) = started.curl(certificate, &["--http1.1"], "/pods?x=%20&y");
        assert_eq!(status, code, "{certificate}: {body}");
        assert_eq!(started.curl(certificate, &["--http1.1"], "/logs").0, "1.1 307", "nobody is asked (KA-8)");
    }
    let requests = started.kubelet.requests();
    let shown: Vec<Option<&str>> = requests.iter().map(|seen| seen.certificate.as_deref()).collect();
    let guard = Some("guard");
    assert_eq!(shown, [guard, guard, guard, guard, None, None]);
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("GET", "/pods?x=%20&y"));
    assert!(requests[0].header("user-agent").unwrap().starts_with("curl/"));
    started.kubelet.log(false);
    started.curl("guard", &[], "/pods");
    assert_eq!(started.kubelet.requests().len(), requests.len(), "the log is off");
}

#[test]
fn handlers_that_are_off_answer_405_ka_21_ka_22() {
    let off = Options { debugging_handlers: false, ..Options::default() };
    let started = start(off);
    for (method, path, code) in [
        ("POST", "/exec/ns/p/c", "1.1 405"),
        ("GET", "/logs/", "1.1 405"),
        ("GET", "/exec", "1.1 307"),
        ("GET", "/configz", "1.1 404"),
        ("GET", "/pods", "1.1 200"),
        ("GET", "/healthz", "1.1 200"),
        ("GET", "/stats/summary", "1.1 200"),
    ] {
        assert_eq!(started.curl("guard", &["--http1.1", "-X", method], path).0, code, "{method} {path}");
    }
    let off = Options {
        system_log_handler: false,
        profiling_handler: false,
        debug_flags_handler: false,
        ..Options::default()
    };
    let started = start(off);
    for path in ["/logs/", "/logs/none", "/debug/pprof/cmdline", "/debug/flags/v"] {
        assert_eq!(started.curl("guard", &["--http1.1"], path).0, "1.1 405", "{path}");
    }
}

#[test]
fn a_kubelet_says_whether_it_checks_finely_and_takes_the_time_that_it_is_told_to() {
    let delay = Duration::from_millis(30);
    let started = start(Options { fine_grained: false, delay, ..Options::default() });
    let asked = Instant::now();
    let (_, body) = started.curl("guard", &[], "/metrics");
    assert!(asked.elapsed() >= delay);
    let line = "\nkubernetes_feature_enabled{name=\"KubeletFineGrainedAuthz\",stage=\"BETA\"} 0";
    assert!(body.contains(line), "{body}");
}

#[test]
fn a_pattern_of_any_length_is_streamed() {
    let started = start(Options::default());
    for bytes in [0, 1, 65_511, 65_512, 5_000_000] {
        for announced in ["", "&announced=true"] {
            let path = format!("/containerLogs/ns/p/c?bytes={bytes}{announced}");
            let file = started.scratch.path().join("out").display().to_string();
            let (status, _) = started.curl("guard", &["--http1.1", "-o", &file], &path);
            let content = std::fs::read(&file).unwrap_or_default();
            assert_eq!(status, "1.1 200");
            assert_eq!(content.len(), bytes, "{path}");
            assert!(is_pattern(&content), "{path}");
            // curl leaves no file for an empty body.
            drop(std::fs::remove_file(&file));
        }
    }
}

#[test]
fn a_followed_log_goes_on_until_its_end_or_until_the_client_goes() {
    let started = start(Options { follow_lines: Some(5), ..Options::default() });
    let (_, body) = started.curl("guard", &["--http1.1"], "/containerLogs/ns/p/c?follow=true");
    assert_eq!(body, "line 1\nline 2\nline 3\nline 4\nline 5\n");

    let started = start(Options { follow_every: Duration::from_millis(2), ..Options::default() });
    let (response, stream) = started.open("GET", "/containerLogs/ns/p/c?follow=true", Protocol::Plain);
    assert_eq!((response.code, response.header("transfer-encoding")), (200, Some("chunked")));
    let mut start = [0; 36];
    (&stream).read_exact(&mut start).unwrap();
    assert_eq!(&start, b"7\r\nline 1\n\r\n7\r\nline 2\n\r\n7\r\nline 3\n\r\n");
    assert_eq!(started.kubelet.open_streams(), 1);
    drop(stream);
    wait::until("the log is no longer followed", || started.kubelet.open_streams() == 0);
}

const OFFERS: [Protocol<'static>; 2] = [
    Protocol::WebSocket(&["v5.channel.k8s.io", "v4.channel.k8s.io"]),
    Protocol::Spdy(&["v5.channel.k8s.io", "v4.channel.k8s.io"]),
];

#[test]
fn the_protocol_is_changed_to_one_that_was_offered() {
    let started = start(Options::default());
    for (method, path, protocol, upgrade, chosen) in [
        ("GET", "/exec/ns/p/c?output=1", OFFERS[0], "websocket", Some("v5.channel.k8s.io")),
        (
            "GET",
            "/attach/ns/p/u/c?input=1",
            Protocol::WebSocket(&["x", "v4.channel.k8s.io", "v5.channel.k8s.io"]),
            "websocket",
            Some("v4.channel.k8s.io"),
        ),
        ("GET", "/exec/ns/p/c?error=1", Protocol::WebSocket(&[]), "websocket", None),
        (
            "GET",
            "/portForward/ns/p",
            Protocol::WebSocket(&["SPDY/3.1+portforward.k8s.io"]),
            "websocket",
            Some("SPDY/3.1+portforward.k8s.io"),
        ),
        ("POST", "/exec/ns/p/c?output=1", OFFERS[1], "SPDY/3.1", Some("v5.channel.k8s.io")),
        (
            "POST",
            "/portForward/ns/p/u?ports=80",
            Protocol::Spdy(&["portforward.k8s.io"]),
            "SPDY/3.1",
            Some("portforward.k8s.io"),
        ),
        ("POST", "/attach/ns/p/c?output=1", Protocol::Spdy(&[]), "SPDY/3.1", None),
    ] {
        let (response, _) = started.open(method, path, protocol);
        let named =
            if upgrade == "websocket" { "sec-websocket-protocol" } else { "x-stream-protocol-version" };
        let connection = response.header("connection").map(str::to_lowercase);
        assert_eq!(
            (response.code, connection.as_deref()),
            (101, Some("upgrade")),
            "{method} {path}: {response:?}"
        );
        assert_eq!(
            (response.header("upgrade"), response.header(named)),
            (Some(upgrade), chosen),
            "{method} {path}"
        );
    }
}

#[test]
fn an_upgrade_that_is_refused_leaves_http_going() {
    let started = start(Options::default());
    let stream = ByteStream::connect(started.kubelet.address(), &started.guard).unwrap();
    for (path, protocol, code) in [
        ("/exec/ns/p/c", OFFERS[0], 400),
        ("/exec/ns/none/c?output=1", OFFERS[0], 404),
        ("/exec/ns/p/c?output=1", Protocol::WebSocket(&["unknown"]), 403),
        ("/exec/ns/p/c?output=1", Protocol::Spdy(&["unknown"]), 403),
        ("/nosuch", OFFERS[1], 404),
        ("/healthz", Protocol::Plain, 200),
        ("/exec/ns/p/c?output=1", OFFERS[0], 101),
    ] {
        stream.request("GET", path, &[], protocol).unwrap();
        let response = stream.response().unwrap();
        assert_eq!(response.code, code, "{path}: {response:?}");
        stream.body(&response).unwrap();
    }
    assert_eq!((started.kubelet.connections(), started.kubelet.requests().len()), (1, 7));
}

#[test]
fn all_that_is_sent_is_echoed_in_both_directions_at_once() {
    const LENGTH: usize = 8_000_000;
    let started = start(Options { trailer: b"the end".to_vec(), ..Options::default() });
    for protocol in OFFERS {
        let (_, stream) = started.open("POST", "/exec/ns/p/c?input=1", protocol);
        let sent: Vec<u8> = (0..LENGTH as u64).map(pattern).collect();
        let mut received = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(&sent).unwrap();
                stream.close_write().unwrap();
            });
            (&stream).read_to_end(&mut received).unwrap();
        });
        assert!(received.strip_suffix(b"the end") == Some(&sent[..]), "{} bytes", received.len());
    }
    assert_eq!(started.kubelet.received(), 2 * LENGTH as u64);
    wait::until("the streams are closed", || started.kubelet.open_streams() == 0);
}

#[test]
fn bytes_that_come_with_the_request_are_part_of_the_stream() {
    let started = start(Options::default());
    let stream = ByteStream::connect(started.kubelet.address(), &started.guard).unwrap();
    let request = "POST /exec/ns/p/c?input=1 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                   Upgrade: SPDY/3.1\r\n\r\nearly";
    (&stream).write_all(request.as_bytes()).unwrap();
    assert_eq!(stream.response().unwrap().code, 101);
    (&stream).write_all(b" late").unwrap();
    let mut echoed = [0; 10];
    (&stream).read_exact(&mut echoed).unwrap();
    assert_eq!(&echoed, b"early late");
}

#[test]
fn each_half_of_a_stream_closes_by_itself() {
    let started = start(Options::default());
    let (_, stream) = started.open("POST", "/exec/ns/p/c?input=1&mode=sink", OFFERS[1]);
    (&stream).write_all(&[7; 100_000]).unwrap();
    stream.close_write().unwrap();
    let mut count = String::new();
    (&stream).read_to_string(&mut count).unwrap();
    assert_eq!(count, "100000");

    let (_, stream) = started.open("POST", "/exec/ns/p/c?output=1&mode=source&bytes=1000000", OFFERS[1]);
    let mut received = Vec::new();
    (&stream).read_to_end(&mut received).unwrap();
    assert_eq!((received.len(), is_pattern(&received)), (1_000_000, true));
    assert_eq!(started.kubelet.received(), 100_000);
    wait::until("one stream is half open", || started.kubelet.open_streams() == 1);
    (&stream).write_all(&[7; 50_000]).unwrap();
    stream.close_write().unwrap();
    wait::until("what is sent after the other half closed still comes", || {
        started.kubelet.received() == 150_000
    });
    wait::until("the stream is closed", || started.kubelet.open_streams() == 0);
}

#[test]
fn a_command_that_runs_answers_on_its_channels() {
    let started = start(Options::default());
    let (_, stream) = started.open("GET", "/exec/ns/p/c?command=id&output=1", OFFERS[0]);
    let frames = || websocket::read(&stream).unwrap();
    let (output, status, close) = (frames(), frames(), frames());
    assert_eq!((output.code, &output.payload[..1], output.masked), (websocket::BINARY, &[1][..], false));
    assert!(output.payload[1..].starts_with(b"uid=0(root)"));
    let status: Value = serde_json::from_slice(&status.payload[1..]).unwrap();
    assert_eq!((status["status"].as_str(), close.code), (Some("Success"), websocket::CLOSE));
    websocket::write(&stream, websocket::CLOSE, &close.payload).unwrap();
    stream.close_write().unwrap();
    assert_eq!((&stream).read(&mut [0]).unwrap(), 0);
}

#[test]
fn what_follows_a_refused_upgrade_is_written_down_nc_12_nc_13() {
    for (code, headers) in [(302, "Location: https://10.0.0.1/\r\n"), (200, ""), (403, "")] {
        let started =
            start(Options { fault: Some(Fault::refused_upgrade(code, headers)), ..Options::default() });
        let stream = ByteStream::connect(started.kubelet.address(), &started.guard).unwrap();
        stream.request("GET", "/healthz", &[], Protocol::Plain).unwrap();
        assert_eq!(stream.response().unwrap().code, 200, "other requests are served");
        stream.request("GET", "/exec/ns/p/c?output=1", &[], OFFERS[0]).unwrap();
        let response = stream.response().unwrap();
        assert_eq!((response.code, response.header("location").is_some()), (code, code == 302));
        assert_eq!(started.kubelet.strays(), [b""]);
        (&stream).write_all(b"GET /pods HTTP/1.1\r\n\r\n").unwrap();
        wait::until("the rest is kept", || started.kubelet.strays() == [b"GET /pods HTTP/1.1\r\n\r\n"]);
        let requests = started.kubelet.requests();
        let paths: Vec<&str> = requests.iter().map(|seen| seen.path.as_str()).collect();
        assert_eq!(paths, ["/healthz", "/exec/ns/p/c?output=1"]);
        assert_eq!(requests[1].certificate.as_deref(), Some("guard"));
    }
}

#[test]
fn answers_break_where_they_are_told_to() {
    for (fault, start_of_answer) in [
        (
            Fault::broken_body(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n0123456789",
        ),
        (Fault::broken_chunk(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nff\r\nabc"),
        (Fault::half_head(), "HTTP/1.1 200 OK\r\nContent-Le"),
    ] {
        let started = start(Options { fault: Some(fault), ..Options::default() });
        let stream = ByteStream::connect(started.kubelet.address(), &started.guard).unwrap();
        stream.request("GET", "/pods", &[], Protocol::Plain).unwrap();
        let mut received = Vec::new();
        let error = (&stream).read_to_end(&mut received).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(String::from_utf8(received).unwrap(), start_of_answer);
    }
    let started = start(Options { fault: Some(Fault::huge_head(1 << 20)), ..Options::default() });
    let (response, _) = started.open("GET", "/pods", Protocol::Plain);
    assert_eq!(response.header("x-huge").map(str::len), Some(1 << 20));

    let started = start(Options { fault: Some(Fault::silence()), ..Options::default() });
    let stream = ByteStream::connect(started.kubelet.address(), &started.guard).unwrap();
    stream.request("GET", "/pods", &[], Protocol::Plain).unwrap();
    wait::until("the request came", || started.kubelet.requests().len() == 1);
    stream.patience(Duration::from_millis(50));
    assert!(stream.response().is_err());
}

#[test]
fn a_kubelet_that_is_stopped_cuts_its_streams_and_starts_again_with_its_certificates() {
    let Started { kubelet, guard, scratch } = start(Options::default());
    let address = kubelet.address();
    let (_, stream) = open(address, &guard, "POST", "/exec/ns/p/c?input=1", &[], OFFERS[1]).unwrap();
    drop(kubelet);
    assert!((&stream).read(&mut [0]).is_err());
    let pods = vec![Pod { namespace: "other".into(), name: "q".into(), containers: vec!["d".into()] }];
    let kubelet =
        FakeKubelet::start(scratch.path(), Options { port: address.port(), pods, ..Options::default() });
    assert_eq!(kubelet.address(), address);
    let (response, stream) = open(address, &guard, "GET", "/pods", &[], Protocol::Plain).unwrap();
    let list: Value = serde_json::from_slice(&stream.body(&response).unwrap()).unwrap();
    assert_eq!(list["items"][0]["metadata"]["namespace"], "other");
}
