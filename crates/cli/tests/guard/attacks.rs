//! Attacks on what stands behind the guard.

use std::collections::BTreeMap;
use std::io::Write as _;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::{FakeKubelet, Fault, Holder, Options};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::upgrade::{self, ByteStream, Protocol};
use portcullis_testkit::wait::until;
use portcullis_testkit::websocket;

use crate::guard::support::Guarded;

const EXEC: &str = "/exec/ns/p/c?command=id&output=1";
const WEBSOCKET: Protocol<'static> = Protocol::WebSocket(&["v5.channel.k8s.io"]);
const SPDY: Protocol<'static> = Protocol::Spdy(&["v4.channel.k8s.io"]);

/// NC-8, K10: on a bare kubelet `get` on nodes/proxy runs commands in every container, by a WebSocket.
#[test]
fn get_on_nodes_proxy_runs_commands_on_a_kubelet_that_nobody_guards() {
    let scratch = Scratch::new();
    let grants = vec![("get".to_owned(), "proxy".to_owned())];
    let holder = Holder { user: "monitoring".to_owned(), grants };
    let grants = Some(BTreeMap::from([("monitoring-token".to_owned(), holder)]));
    let kubelet = FakeKubelet::start(scratch.path(), Options { grants, ..Options::default() });
    let agent = Identity::with_token(&kubelet.authority(), "monitoring-token");
    let (response, stream) = upgrade::open(kubelet.address(), &agent, "GET", EXEC, &[], WEBSOCKET).unwrap();
    assert_eq!(response.code, 101);
    let frame = websocket::read(&stream).unwrap();
    assert!(frame.payload.windows(5).any(|w| w == b"uid=0"), "{frame:?}");
    // By POST the same caller may not.
    let (response, _) = upgrade::open(kubelet.address(), &agent, "POST", EXEC, &[], SPDY).unwrap();
    assert_eq!(response.code, 403);
}

/// The same, with a guard between them.
#[test]
fn get_on_nodes_proxy_runs_no_command_behind_the_guard() {
    // Without the guard's own rule it lets through what a kubelet lets through.
    let guarded = Guarded::start(&["--exec-requires-create=false"]);
    guarded.grant("monitoring", "get", "nodes/proxy");
    let jane = guarded.user("monitoring");
    let (response, stream) =
        upgrade::open(guarded.guard.address, &jane, "GET", EXEC, &[], WEBSOCKET).unwrap();
    assert_eq!(response.code, 101);
    let frame = websocket::read(&stream).unwrap();
    assert!(frame.payload.windows(5).any(|w| w == b"uid=0"), "{frame:?}");

    let guard = guarded.another(&[]);
    guarded.kubelet.forget();
    for path in [EXEC, "/attach/ns/p/c?output=1", "/portForward/ns/p"] {
        for protocol in [WEBSOCKET, SPDY] {
            let (response, stream) = upgrade::open(guard.address, &jane, "GET", path, &[], protocol).unwrap();
            assert_eq!(response.code, 403, "{path}");
            let body = String::from_utf8(stream.body(&response).unwrap()).unwrap();
            assert_eq!(
                body,
                "Forbidden (user=monitoring, verb=create, resource=nodes, subresource(s)=[proxy])\n"
            );
        }
    }
    assert_eq!(guarded.kubelet.requests(), []);
    // All else that nodes/proxy grants stays granted.
    assert_eq!(Client::new(guard.address, &jane).ask("GET", "/pods", None).unwrap().code, 200);
}

/// KA-83: both the method's own verb and `create` are needed, so nobody gains anything.
#[test]
fn create_alone_does_not_open_a_websocket_that_a_kubelet_would_refuse() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "create", "nodes/proxy");
    let jane = guarded.user("jane");
    let (response, _) = upgrade::open(guarded.guard.address, &jane, "GET", EXEC, &[], WEBSOCKET).unwrap();
    assert_eq!(response.code, 403);
    let (response, _) = upgrade::open(guarded.guard.address, &jane, "POST", EXEC, &[], SPDY).unwrap();
    assert_eq!(response.code, 101);
    guarded.grant("joe", "create", "nodes/proxy");
    guarded.grant("joe", "get", "nodes/proxy");
    let joe = guarded.user("joe");
    let (response, _) = upgrade::open(guarded.guard.address, &joe, "GET", EXEC, &[], WEBSOCKET).unwrap();
    assert_eq!(response.code, 101);
}

/// An agent that reads logs needs no nodes/proxy.
#[test]
fn finer_subresources_grant_one_endpoint_each() {
    let guarded = Guarded::start(&["--finer-subresources"]);
    guarded.grant("monitoring", "get", "nodes/containerlogs");
    guarded.grant("jane", "create", "nodes/exec");
    guarded.grant("joe", "*", "nodes/proxy");
    let code = |user, method, path| guarded.code(user, method, path);
    assert_eq!(code("monitoring", "GET", "/containerLogs/ns/p/c"), 200);
    let refused = guarded.ask("monitoring", "GET", "/pods");
    assert_eq!(refused.code, 403);
    for path in [EXEC, "/attach/ns/p/c?output=1", "/portForward/ns/p", "/run/ns/p/c"] {
        let answer = guarded.ask("monitoring", "POST", path);
        assert_eq!(answer.code, 403, "{path}");
    }
    // Past authorization: no upgrade was asked for.
    assert_eq!(code("jane", "POST", EXEC), 400);
    assert_eq!(code("jane", "POST", "/run/ns/p/c"), 403);
    assert_eq!(code("joe", "POST", "/run/ns/p/c"), 200);
    assert_eq!(code("joe", "GET", "/containerLogs/ns/p/c"), 200);
    // Off, they grant nothing.
    let upstream = guarded.another(&[]);
    let mut client = Client::new(upstream.address, &guarded.user("monitoring"));
    assert_eq!(client.ask("GET", "/containerLogs/ns/p/c", None).unwrap().code, 403);
}

/// Whatever a caller says about who it is, and whatever concerns its own connection, stays at the guard.
#[test]
fn nothing_by_which_a_caller_could_pass_for_somebody_reaches_the_kubelet() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/pods");
    let mut client = guarded
        .client("jane")
        .header("X-Remote-User: system:admin")
        .header("X-Remote-Group: system:masters")
        .header("X-Remote-Extra-Scopes: all")
        .header("Impersonate-User: system:admin")
        .header("Impersonate-Group: system:masters")
        .header("X-Forwarded-For: 10.0.0.1")
        .header("X-Forwarded-Client-Cert: Subject=admin")
        .header("Forwarded: for=10.0.0.1")
        .header("Cookie: session=sesame")
        .header("Proxy-Authorization: Basic c2VzYW1l")
        .header("Connection: X-Hop, keep-alive")
        .header("X-Hop: by")
        .header("Keep-Alive: timeout=5")
        .header("TE: trailers")
        .header("Accept: application/json");
    assert_eq!(client.ask("GET", "/pods", None).unwrap().code, 200);
    let seen = guarded.kubelet.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].certificate.as_deref(), Some("portcullis-guard"));
    let mut names: Vec<&str> = seen[0].headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "content-length", "content-type", "host"]);
    assert_eq!(seen[0].header("host"), Some(&*guarded.kubelet.address().to_string()));
}

/// KA-43: the token among the subprotocols is the guard's business.
#[test]
fn a_token_among_the_subprotocols_is_used_and_not_passed_on() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "*", "nodes/proxy");
    // "jane-token" in unpadded base64url, by RFC 4648.
    let token = "base64url.bearer.authorization.k8s.io.amFuZS10b2tlbg";
    let protocol = Protocol::WebSocket(&[token, "v5.channel.k8s.io"]);
    let (response, _) =
        upgrade::open(guarded.guard.address, &guarded.nobody(), "GET", EXEC, &[], protocol).unwrap();
    assert_eq!(response.code, 101);
    assert_eq!(response.header("sec-websocket-protocol"), Some("v5.channel.k8s.io"));
    let seen = guarded.kubelet.requests();
    assert_eq!(seen[0].header("sec-websocket-protocol"), Some("v5.channel.k8s.io"));
    assert!(seen[0].headers.iter().all(|(_, value)| !value.contains("amFuZS10b2tlbg")));
}

/// NC-12, NC-13: what is not a change of protocol is no way to a connection that the guard's certificate opened.
#[test]
fn a_kubelet_that_answers_an_upgrade_otherwise_gets_nobody_through() {
    for (code, expected) in [(302, 502), (200, 502), (403, 403), (500, 500)] {
        let fault = Fault::refused_upgrade(code, "Location: https://127.0.0.1:1/exec/other\r\n");
        let guarded = Guarded::before(Options { fault: Some(fault), ..Options::default() }, &[]);
        guarded.grant("jane", "*", "nodes/proxy");
        let jane = guarded.user("jane");
        let address = guarded.guard.address;
        let (response, stream) = upgrade::open(address, &jane, "POST", EXEC, &[], SPDY).unwrap();
        assert_eq!(response.code, expected, "{code}");
        assert_eq!(response.header("location").is_some(), code == 403 || code == 500, "{code}");
        stream.body(&response).unwrap();
        // A second request, which comes without a credential of its own.
        let request = "GET /run/ns/p/c HTTP/1.1\r\nHost: kubelet\r\n\r\n";
        (&stream).write_all(request.as_bytes()).unwrap();
        let second = stream.response().unwrap();
        assert_eq!(second.code, 401, "{code}");
        let strays: Vec<u8> = guarded.kubelet.strays().concat();
        assert!(strays.is_empty(), "{code}: {}", String::from_utf8_lossy(&strays));
    }
}

/// A protocol that the client did not ask for is not one that it gets.
#[test]
fn a_change_of_protocol_that_nobody_asked_for_is_an_error() {
    let fault = Fault::unasked_upgrade("h2c");
    let guarded = Guarded::before(Options { fault: Some(fault), ..Options::default() }, &[]);
    guarded.grant("jane", "*", "nodes/proxy");
    assert_eq!(guarded.code("jane", "GET", "/pods"), 502);
    let jane = guarded.user("jane");
    let (response, _) = upgrade::open(guarded.guard.address, &jane, "POST", EXEC, &[], SPDY).unwrap();
    assert_eq!(response.code, 502);
}

/// Upgrades that are none, or come with bodies, or to endpoints without streams.
#[test]
fn only_exec_attach_and_port_forward_go_on_in_another_protocol() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "*", "nodes/proxy");
    let jane = guarded.user("jane");
    let address = guarded.guard.address;
    let (response, _) = upgrade::open(address, &jane, "GET", "/pods", &[], WEBSOCKET).unwrap();
    assert_eq!(response.code, 200);
    let seen = guarded.kubelet.requests();
    assert_eq!(seen.last().unwrap().header("upgrade"), None);
    for headers in ["Upgrade: h2c", "Upgrade: websocket, SPDY/3.1", "Upgrade: TLS/1.0"] {
        let mut client = guarded.client("jane").header("Connection: Upgrade").header(headers);
        assert_eq!(client.ask("POST", EXEC, None).unwrap().code, 400, "{headers}");
        let seen = guarded.kubelet.requests();
        assert_eq!(seen.last().unwrap().header("upgrade"), None, "{headers}");
    }
    // A body, of which one side would make the first bytes of the stream.
    let stream = ByteStream::connect(address, &jane).unwrap();
    let before = guarded.kubelet.requests().len();
    let request = format!(
        "POST {EXEC} HTTP/1.1\r\nHost: kubelet\r\nAuthorization: Bearer jane-token\r\nConnection: Upgrade\r\n\
         Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 4\r\n\r\nabcd"
    );
    (&stream).write_all(request.as_bytes()).unwrap();
    assert_eq!(stream.response().unwrap().code, 400);
    assert_eq!(guarded.kubelet.requests().len(), before);
}

/// Two ways to say how long a body is: whichever counts, what follows is a request of its own.
#[test]
fn no_second_request_is_smuggled_behind_a_body() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "*", "nodes/pods");
    let jane = guarded.user("jane");
    let inner = "POST /run/ns/p/c HTTP/1.1\r\nHost: kubelet\r\nContent-Length: 0\r\n\r\n";
    for head in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}", inner.len() + 5),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{inner}"),
        format!("Transfer-Encoding: xchunked\r\nContent-Length: {}\r\n\r\n{inner}", inner.len()),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{inner}"),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{inner}", inner.len()),
        format!("Content-Length: +0\r\n\r\n{inner}"),
    ] {
        guarded.kubelet.forget();
        let stream = ByteStream::connect(guarded.guard.address, &jane).unwrap();
        let request =
            format!("POST /pods HTTP/1.1\r\nHost: kubelet\r\nAuthorization: Bearer jane-token\r\n{head}");
        (&stream).write_all(request.as_bytes()).unwrap();
        let first = stream.response().map(|response| (response.code, stream.body(&response)));
        // A second request, if there is one, has no credential.
        if first.is_ok()
            && let Ok(second) = stream.response()
        {
            assert!(matches!(second.code, 400 | 401), "{head:?}: {second:?}");
        }
        let paths: Vec<String> = guarded.kubelet.requests().into_iter().map(|seen| seen.path).collect();
        assert!(paths.iter().all(|path| path == "/pods"), "{head:?}: {paths:?}");
    }
}

/// NC-4: what a query says is no business of the guard's, and no way round `nodes/log`.
#[test]
fn queries_of_logs_are_passed_on_as_they_are_to_whoever_may_read_logs_and_to_nobody_else() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/log");
    guarded.grant("joe", "*", "nodes/proxy");
    for query in
        ["query=kubelet;id", "query=$(id)", "pattern=%60id%60", "query=a&sinceTime=%3Bid", "query=a%0aid"]
    {
        let path = format!("/logs/?{query}");
        assert_eq!(guarded.code("joe", "GET", &path), 403, "{query}");
        assert_eq!(guarded.kubelet.requests(), []);
        assert_eq!(guarded.code("jane", "GET", &path), 200, "{query}");
        assert_eq!(guarded.kubelet.requests()[0].path, path);
        guarded.kubelet.forget();
    }
}

/// An anonymous caller is nobody unless the guard is told otherwise, and then may do what is granted to that name.
#[test]
fn who_shows_nothing_is_let_in_only_where_that_is_wanted() {
    let guarded = Guarded::start(&[]);
    assert_eq!(
        Client::new(guarded.guard.address, &guarded.nobody()).ask("GET", "/healthz", None).unwrap().code,
        401
    );
    let open = guarded.another(&["--anonymous-auth"]);
    let mut nobody = Client::new(open.address, &guarded.nobody());
    let answer = nobody.ask("GET", "/healthz", None).unwrap();
    assert_eq!(answer.code, 403);
    assert_eq!(
        String::from_utf8(answer.body).unwrap(),
        "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n"
    );
    guarded.grant("system:anonymous", "get", "nodes/configz");
    until("the grant counts", || nobody.ask("GET", "/configz", None).unwrap().code == 200);
    // K16: a bad token is no way to be nobody.
    let mut wrong = Client::new(open.address, &guarded.nobody()).header("Authorization: Bearer wrong");
    assert_eq!(wrong.ask("GET", "/configz", None).unwrap().code, 401);
}
