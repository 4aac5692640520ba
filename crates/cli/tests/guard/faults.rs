//! Failures of the API server, the kubelet and the files of a guard.

use std::fs;
use std::thread;
use std::time::Duration;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::{FakeKubelet, Fault, Options};
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until;

use crate::guard::support::{self, Guarded};

/// KA-54, KA-56, K19: without the API server only what is remembered is allowed.
#[test]
fn without_the_api_server_nothing_new_is_allowed() {
    let mut guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/pods");
    let folder = guarded.data();
    let admin =
        Identity::read(&guarded.kubelet.authority(), &folder.join("admin.crt"), &folder.join("admin.key"));
    let mut jane = guarded.client("jane");
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 200);
    let nothing = Running::spawn(std::process::Command::new("true"));
    std::mem::replace(&mut guarded.served, nothing).kill();
    // Known token, known answer.
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 200);
    // A certificate says who it is; whether they may cannot be found out.
    let refused = Client::new(guarded.guard.address, &admin).ask("GET", "/stats/summary", None).unwrap();
    assert_eq!(refused.code, 500);
    let body = String::from_utf8(refused.body).unwrap();
    assert!(
        ["user=", "verb=get", "resource=nodes", "subresource=stats"].iter().all(|w| body.contains(w)),
        "{body}"
    );
    // Nobody vouches for a new token.
    assert_eq!(guarded.code("joe", "GET", "/pods"), 401);
    // Requests that need no other server still work.
    assert_eq!(guarded.code("joe", "GET", "/nosuch"), 404);
    let log = guarded.guard.said();
    assert!(log.contains("cannot reach the API server"), "{log}");
    assert_eq!(guarded.kubelet.requests().len(), 2);
}

#[test]
fn a_kubelet_that_is_gone_is_said_to_be_and_one_that_comes_back_is_found() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/pods");
    let Guarded { kubelet, guard, served, scratch, .. } = guarded;
    let port = kubelet.address().port();
    let identity = Identity::with_token(&kubelet.authority(), "jane-token");
    let mut jane = Client::new(guard.address, &identity);
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 200);
    drop(kubelet);
    let answer = jane.ask("GET", "/pods", None).unwrap();
    assert_eq!(answer.code, 502);
    let body = String::from_utf8(answer.body).unwrap();
    assert!(body.starts_with("the kubelet at 127.0.0.1:") && body.contains("does not answer"), "{body}");
    let again = FakeKubelet::start(&scratch.path().join("kubelet"), Options { port, ..Options::default() });
    until("the kubelet answers again", || jane.ask("GET", "/pods", None).unwrap().code == 200);
    drop((again, served));
}

/// A kubelet must be who it should be, and the guard shows its certificate to nobody else's satisfaction.
#[test]
fn what_pretends_to_be_the_kubelet_is_not_spoken_to() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/pods");
    let elsewhere = Scratch::new();
    let pretender = FakeKubelet::start(elsewhere.path(), Options::default());
    let guard = guarded.another(&[]);
    drop(guard);
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    let guard = support::run(support::command(&guarded.scratch, &kubeconfig, pretender.address(), &[]));
    let mut jane = Client::new(guard.address, &guarded.user("jane"));
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 502);
    assert_eq!(pretender.requests(), []);
    // The right certificate under a wrong name.
    let guard = guarded.another(&["--kubelet-server-name", "node-2"]);
    let mut jane = Client::new(guard.address, &guarded.user("jane"));
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 502);
    assert_eq!(guarded.kubelet.requests(), []);
}

/// The guard uses its renewed client certificate.
#[test]
fn a_renewed_certificate_of_the_guard_comes_into_use() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/pods");
    let shown = |guarded: &Guarded| {
        assert_eq!(guarded.code("jane", "GET", "/pods"), 200);
        guarded.kubelet.requests().last().unwrap().certificate.clone().unwrap()
    };
    assert_eq!(shown(&guarded), "portcullis-guard");
    let (certificate, key) = guarded.kubelet.client_certificate("renewed", "renewed-guard", &[]);
    let folder = guarded.scratch.path().join("kubelet");
    // Certificate and key do not change at the same moment: in between they do not fit, and the old ones serve.
    fs::copy(certificate, folder.join("guard.pem")).unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(shown(&guarded), "portcullis-guard");
    fs::copy(key, folder.join("guard-key.pem")).unwrap();
    until("the new certificate is shown", || shown(&guarded) == "renewed-guard");
}

/// Answers that break off are not made whole.
#[test]
fn an_answer_that_breaks_off_breaks_off_for_the_client_too() {
    for fault in [Fault::broken_body(), Fault::broken_chunk()] {
        let guarded = Guarded::before(Options { fault: Some(fault), ..Options::default() }, &[]);
        guarded.grant("jane", "get", "nodes/pods");
        let broken = guarded.client("jane").ask("GET", "/pods", None);
        assert!(broken.is_err(), "{broken:?}");
    }
    for fault in [Fault::half_head(), Fault::huge_head(1 << 20), Fault::cut_after("")] {
        let guarded = Guarded::before(Options { fault: Some(fault), ..Options::default() }, &[]);
        guarded.grant("jane", "get", "nodes/pods");
        assert_eq!(guarded.code("jane", "GET", "/pods"), 502);
    }
}

/// One that says nothing keeps nobody but its own caller waiting.
#[test]
fn a_silent_kubelet_holds_up_nobody_else() {
    let guarded = Guarded::before(Options { fault: Some(Fault::silence()), ..Options::default() }, &[]);
    guarded.grant("jane", "get", "nodes/pods");
    thread::scope(|scope| {
        let jane = guarded.user("jane");
        let address = guarded.guard.address;
        for _ in 0..8 {
            let stream = portcullis_testkit::upgrade::ByteStream::connect(address, &jane).unwrap();
            let headers = [("Authorization", "Bearer jane-token")];
            stream.request("GET", "/pods", &headers, portcullis_testkit::upgrade::Protocol::Plain).unwrap();
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(500));
                drop(stream);
            });
        }
        let mut other = Client::new(address, &jane);
        for _ in 0..20 {
            assert_eq!(other.ask("GET", "/stats/summary", None).unwrap().code, 403);
        }
    });
}
