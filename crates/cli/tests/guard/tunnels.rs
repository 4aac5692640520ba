//! When the guard closes a tunnel or a followed log that nobody else ends.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::thread;

use portcullis_testkit::https::Identity;
use portcullis_testkit::tool;
use portcullis_testkit::upgrade::{self, ByteStream, Protocol};
use portcullis_testkit::wait::{until, until_some};
use serde_json::json;

use crate::guard::support::{Guarded, Process};

const ECHO: &str = "/exec/ns/p/c?command=cat&input=1&output=1&mode=echo";
const SPDY: Protocol<'static> = Protocol::Spdy(&["v4.channel.k8s.io"]);
/// Answers of the API server are not kept.
const NOT_CACHED: [&str; 4] =
    ["--authentication-token-webhook-cache-ttl", "0s", "--authorization-webhook-cache-authorized-ttl", "0s"];

fn open(guard: &Process, identity: &Identity, path: &str) -> ByteStream {
    let (response, stream) = upgrade::open(guard.address, identity, "POST", path, &[], SPDY).unwrap();
    assert_eq!(response.code, 101);
    stream
}

/// Asserts that a tunnel still carries bytes.
fn assert_open(mut stream: &ByteStream) {
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
}

/// Waits until the other side has closed a tunnel.
fn assert_closed(mut stream: &ByteStream) {
    match stream.read(&mut [0; 16]) {
        Ok(count) => assert_eq!(count, 0),
        // It waited for as long as it does.
        Err(error) => {
            assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}")
        }
    }
}

#[test]
fn a_tunnel_without_traffic_is_closed_and_one_with_traffic_is_not() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "*", "nodes/proxy");
    let log = guarded.scratch.path().join("access.log");
    let guard = guarded.another(&[
        "--streaming-connection-idle-timeout",
        "3s",
        "--access-log-path",
        log.to_str().unwrap(),
    ]);
    let jane = guarded.user("jane");
    let busy = open(&guard, &jane, "/attach/ns/p/c?output=1&mode=source&bytes=1000000000000");
    let idle = open(&guard, &jane, ECHO);
    assert_open(&idle);
    thread::scope(|scope| {
        scope.spawn(|| while (&busy).read(&mut [0; 65536]).is_ok_and(|count| count > 0) {});
        assert_closed(&idle);
        until("the kubelet's stream is over", || guarded.kubelet.open_streams() == 1);
        let closed = until_some("the log tells it", || {
            let text = fs::read_to_string(&log).unwrap();
            text.lines().find(|line| line.contains(r#""event":"closed""#)).map(str::to_owned)
        });
        assert!(
            closed.contains("--streaming-connection-idle-timeout") && closed.contains("/exec"),
            "{closed}"
        );
        assert!(closed.contains(r#""sentBytes":5,"receivedBytes":5"#), "{closed}");
        busy.cut();
    });
}

#[test]
fn a_tunnel_is_closed_when_its_permission_is_revoked_and_those_of_others_are_not() {
    let guarded = Guarded::start(&[]);
    for user in ["jane", "joe"] {
        guarded.grant(user, "get", "nodes/proxy");
        guarded.grant(user, "create", "nodes/proxy");
    }
    let asking = guarded.another(&NOT_CACHED);
    let following = guarded.another(&["--authorization-mode", "RBAC"]);
    let tunnels = |user: &str| {
        let identity = guarded.user(user);
        // A guard that follows roles needs to know them first.
        let followed = until_some("roles are known", || {
            let opened = upgrade::open(following.address, &identity, "POST", ECHO, &[], SPDY);
            opened.ok().filter(|(response, _)| response.code == 101)
        });
        [open(&asking, &identity, ECHO), followed.1]
    };
    let (jane, joe) = (tunnels("jane"), tunnels("joe"));
    jane.iter().chain(&joe).for_each(assert_open);
    guarded.revoke("jane", "create", "nodes/proxy");
    jane.iter().for_each(assert_closed);
    joe.iter().for_each(assert_open);
    until("the kubelet's streams are over", || guarded.kubelet.open_streams() == joe.len());
}

#[test]
fn a_tunnel_is_closed_when_its_token_is_no_longer_valid() {
    let guarded = Guarded::start(&NOT_CACHED);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    guarded.admin(201, "POST", accounts, Some(&json!({"metadata": {"name": "agent"}})));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = guarded.admin(201, "POST", &format!("{accounts}/agent/token"), Some(&request));
    guarded.grant("system:serviceaccount:default:agent", "*", "nodes/proxy");
    let token = answer["status"]["token"].as_str().unwrap();
    let agent = Identity::with_token(&guarded.kubelet.authority(), token);
    let tunnel = open(&guarded.guard, &agent, ECHO);
    assert_open(&tunnel);
    let log = ByteStream::connect(guarded.guard.address, &agent).unwrap();
    let headers = [("Authorization", &*format!("Bearer {token}"))];
    log.request("GET", "/containerLogs/ns/p/c?follow=true", &headers, Protocol::Plain).unwrap();
    assert_eq!(log.response().unwrap().code, 200);
    guarded.admin(200, "DELETE", &format!("{accounts}/agent"), None);
    assert_closed(&tunnel);
    // The client notices that it is not the end of the log: the last chunk, which is empty, is missing.
    let mut lines = Vec::new();
    let _ = (&log).read_to_end(&mut lines);
    assert!(lines.windows(4).any(|four| four == b"line") && !lines.ends_with(b"0\r\n\r\n"));
}

#[test]
fn a_tunnel_is_closed_when_the_certificate_of_its_client_expires() {
    let guarded = Guarded::start(&[]);
    guarded.grant("brief", "*", "nodes/proxy");
    let file = |name: &str| guarded.scratch.path().join(name).to_str().unwrap().to_owned();
    let authority = |name: &str| guarded.data().join(name).to_str().unwrap().to_owned();
    let (key, request, certificate) = (file("brief.key"), file("brief.csr"), file("brief.crt"));
    let new = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=brief -keyout";
    tool::run("openssl", new.split(' ').chain([&*key, "-out", &request]));
    let extensions = file("client.ext");
    fs::write(&extensions, "extendedKeyUsage=clientAuth\n").unwrap();
    let mut seconds = 5;
    // On a slow machine it may have expired before it is used: the next one is valid for longer.
    let tunnel = until_some("a tunnel is open", || {
        seconds *= 2;
        let ago = format!("-{}s", 24 * 60 * 60 - seconds);
        let sign = ["-f", &ago, "openssl", "x509", "-req", "-days", "1", "-in", &request, "-CA"];
        let (ca, ca_key) = (authority("ca.crt"), authority("ca.key"));
        let files = [&*ca, "-CAkey", &ca_key, "-out", &certificate, "-extfile", &extensions];
        tool::run("faketime", sign.into_iter().chain(files));
        let authority = guarded.kubelet.authority();
        let brief = Identity::read(&authority, certificate.as_ref(), key.as_ref());
        let opened = upgrade::open(guarded.guard.address, &brief, "POST", ECHO, &[], SPDY);
        opened.ok().filter(|(response, _)| response.code == 101)
    });
    assert_closed(&tunnel.1);
    until("the kubelet's stream is over", || guarded.kubelet.open_streams() == 0);
}
