//! Attacks on `portcullis guard`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use portcullis_testkit::http2::request;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::Options;
use portcullis_testkit::process::raise_open_files;
use portcullis_testkit::upgrade::{self, Protocol};
use portcullis_testkit::wait::until;

use crate::connections::{LONG, open, repeat};
use crate::honest::{Ask, Target, expect, withstand, withstand_each};
use crate::served::client_certificate;
use crate::support::Guarded;
use crate::{alone, connections};

/// A log without an end, as far as an attack is concerned.
const LOG: &str = "/containerLogs/ns/p/c?bytes=1000000000";

/// A guard in front of a fake kubelet.
struct Guard(Guarded);

impl Guard {
    fn start() -> Self {
        // The kubelet runs in this process.
        raise_open_files();
        let guarded = Guarded::before(Options { log: false, ..Options::default() }, &[]);
        guarded.grant("prometheus", "get", "nodes/metrics");
        guarded.grant("jane", "get", "nodes/healthz");
        Self(guarded)
    }

    fn identity(&self, name: &str) -> Identity {
        let (certificate, key) = client_certificate(&self.0.data(), name, &[]);
        Identity::read(&self.0.kubelet.authority(), &certificate, &key)
    }

    /// Somebody who may read logs and open tunnels.
    fn with_rights(&self) -> Identity {
        self.0.grant("reader", "*", "nodes/proxy");
        self.identity("reader")
    }
}

impl Target for Guard {
    fn process(&self) -> u32 {
        self.0.guard.id()
    }

    fn address(&self) -> SocketAddr {
        self.0.guard.address
    }

    fn anonymous(&self) -> Identity {
        self.0.nobody()
    }

    fn known(&self) -> Identity {
        self.identity("thief")
    }

    fn honest(&self) -> Vec<(&'static str, Ask)> {
        let (address, jane) = (self.address(), self.0.user("jane"));
        let mut prometheus = Client::new(address, &self.identity("prometheus"));
        vec![
            ("metrics", Box::new(move || expect(&mut prometheus, 200, "GET", "/metrics", None))),
            // Somebody with a token, who connects anew each time.
            (
                "healthz",
                Box::new(move || expect(&mut Client::new(address, &jane), 200, "GET", "/healthz", None)),
            ),
        ]
    }
}

#[test]
fn connections_by_the_thousand_keep_nobody_from_a_kubelet() {
    let _alone = alone();
    let guard = Guard::start();
    withstand_each(&guard, connections::silent_connections(&guard));
}

#[test]
fn a_guard_does_not_hold_headers_that_grow_by_their_index() {
    let _alone = alone();
    let guard = Guard::start();
    let stranger = guard.anonymous();
    withstand_each(&guard, connections::growing_headers(&guard, "/run/ns/p/c", "a stranger", &stranger));
}

#[test]
fn floods_of_frames_delay_nobody_at_a_guard() {
    let _alone = alone();
    let guard = Guard::start();
    withstand_each(&guard, connections::floods_of_frames(&guard, "/healthz", &guard.known()));
}

#[test]
fn a_guard_holds_nothing_of_long_answers_that_are_not_read() {
    let _alone = alone();
    let guard = Guard::start();
    let reader = guard.with_rights();
    let logs = connections::unread_answers(&guard, "400 logs on HTTP/2", &request("GET", LOG), &reader);
    withstand_each(&guard, [logs]);
    let log = format!("GET {LOG} HTTP/1.1\r\nHost: x\r\n\r\n");
    withstand(&guard, "1000 logs on HTTP/1.1", || {
        let mut held = Vec::new();
        for _ in 0..1000 {
            let mut raw = open(guard.address(), &reader, "http/1.1").unwrap();
            raw.write_all(log.as_bytes()).unwrap();
            held.push(raw);
        }
        thread::sleep(LONG);
    });
}

#[test]
fn unfinished_bodies_take_no_place_at_a_guard() {
    let _alone = alone();
    let guard = Guard::start();
    // Somebody without rights, and somebody whose body is passed on.
    for identity in [guard.known(), guard.with_rights()] {
        withstand_each(&guard, connections::unfinished_bodies(&guard, "/run/ns/p/c", &identity));
    }
}

#[test]
fn heads_that_come_slowly_are_bounded_at_a_guard() {
    let _alone = alone();
    let guard = Guard::start();
    withstand_each(&guard, [connections::unfinished_heads(&guard, "/healthz")]);
}

#[test]
fn a_guard_cuts_off_whoever_reads_a_byte_a_second() {
    let _alone = alone();
    let guard = Guard::start();
    let reader = guard.with_rights();
    withstand_each(&guard, [connections::slow_readers(&guard, LOG, &reader)]);
}

/// A tunnel cannot be refused later, because the kubelet has run its command.
#[test]
fn an_account_has_as_many_tunnels_as_it_may_have_and_takes_none_from_others() {
    const TUNNELS: usize = 400;
    let _alone = alone();
    let guard = Guard::start();
    let (reader, address) = (guard.with_rights(), guard.address());
    let tunnel = |identity: &Identity| {
        let path = "/exec/ns/p/c?command=cat&input=1&output=1&mode=source&bytes=1000000000";
        let protocol = Protocol::Spdy(&["v4.channel.k8s.io"]);
        upgrade::open(address, identity, "POST", path, &[], protocol).unwrap()
    };
    guard.0.grant("other", "*", "nodes/proxy");
    let other = guard.identity("other");
    withstand(&guard, "400 tunnels that are not read", || {
        let held: Vec<_> = (0..TUNNELS).map(|_| tunnel(&reader)).collect();
        assert!(held.iter().all(|(response, _)| response.code == 101));
        assert_eq!(tunnel(&reader).0.code, 429);
        assert_eq!(tunnel(&other).0.code, 101);
        thread::sleep(LONG);
    });
    until("a tunnel is free", || tunnel(&reader).0.code == 101);
}

/// Each is a question to the API server.
#[test]
fn made_up_tokens_delay_no_caller_of_a_guard() {
    let _alone = alone();
    let guard = Guard::start();
    let anonymous = guard.anonymous();
    let number = AtomicUsize::new(0);
    withstand(&guard, "made-up tokens", || {
        repeat(4, || {
            let Some(mut raw) = open(guard.address(), &anonymous, "http/1.1") else { return };
            for _ in 0..100 {
                let token = number.fetch_add(1, Ordering::Relaxed);
                let head =
                    format!("GET /pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer made-up-{token}\r\n\r\n");
                if raw.write_all(head.as_bytes()).is_err() {
                    return;
                }
            }
        });
    });
}
