//! Attacks by connections, frames and bytes.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use portcullis_testkit::http2::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, NEWEST, PING, RESET, SETTINGS, WINDOW, begin, frame,
    indexed, request,
};
use portcullis_testkit::https::{Client, Identity, Raw, raw};
use serde_json::json;

use tokio::net::TcpSocket;

use crate::alone;
use crate::honest::{GROWTH, GROWTH_OF_NODE, Served, withstand, withstand_within};

/// The address of the attacker: honest clients have another one.
const ATTACKER: &str = "127.0.0.66:0";
/// How long an attack lasts at least.
const LONG: Duration = Duration::from_secs(4);

/// Raises this process's limit of open files as far as it goes, and says how far that is.
fn open_files() -> usize {
    let id = std::process::id().to_string();
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let hard = line.split_whitespace().nth(1).unwrap().parse().unwrap_or(1 << 20);
    let raised = Command::new("prlimit").args(["--pid", &id, &format!("--nofile={hard}:{hard}")]).status();
    assert!(raised.is_ok_and(|status| status.success()), "prlimit (Debian package util-linux) does not run");
    hard
}

/// Repeats a round of an attack on some threads for a while. A connection that the server closes is a round's end.
fn repeat(threads: usize, round: impl Fn() + Sync) {
    let end = Instant::now() + LONG;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while Instant::now() < end {
                    round();
                }
            });
        }
    });
}

/// Opens a connection; none if the server closes it before it is open.
fn open(address: SocketAddr, identity: &Identity, protocol: &str) -> Option<Raw> {
    raw(address, ATTACKER.parse().unwrap(), identity, protocol).ok()
}

#[test]
fn connections_by_the_thousand_from_one_address_keep_nobody_out() {
    let _alone = alone();
    let served = Served::start(&[]);
    let count = 20_000.min(open_files().saturating_sub(500));
    let address = served.address();
    // From an address of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let silent = || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(ATTACKER.parse().unwrap()).ok()?;
        runtime.block_on(socket.connect(address)).ok()
    };
    withstand(&served, "silent connections", || {
        let held: Vec<_> = (0..count).filter_map(|_| silent()).collect();
        thread::sleep(Duration::from_secs(2));
        assert!(held.len() > count / 2, "{}", held.len());
    });
    let anonymous = served.anonymous();
    withstand(&served, "TLS handshakes", || {
        let held = std::sync::Mutex::new(Vec::new());
        repeat(4, || {
            let opened = open(address, &anonymous, "http/1.1");
            let mut held = held.lock().unwrap();
            held.extend(opened);
            if held.len() > 4000 {
                held.clear();
            }
        });
    });
}

#[test]
fn headers_that_grow_by_their_index_are_not_held() {
    let _alone = alone();
    let served = Served::start(&[]);
    let (address, anonymous, node) = (served.address(), served.anonymous(), served.node("thief"));
    // One header of four kilobytes, and fifteen times its index, in each of a thousand requests without an end.
    let first = [request("POST", "/api/v1/nodes"), indexed("a", &"x".repeat(3900))].concat();
    let more = [request("POST", "/api/v1/nodes"), vec![NEWEST; 15]].concat();
    let mut flood = [begin(), frame(HEADERS, END_HEADERS, 1, &first)].concat();
    for stream in (3..2000).step_by(2) {
        flood.extend(frame(HEADERS, END_HEADERS, stream, &more));
    }
    // The same in headers that do not end.
    let endless = [begin(), frame(HEADERS, 0, 1, &first), frame(CONTINUATION, 0, 1, &[NEWEST; 15])].concat();
    for (who, identity, bound) in [("a stranger", &anonymous, GROWTH), ("a node", &node, GROWTH_OF_NODE)] {
        for (what, bytes) in [("requests", &flood), ("headers", &endless)] {
            withstand_within(bound, &served, &format!("unfinished {what} of {who}"), || {
                let held = std::sync::Mutex::new(Vec::new());
                repeat(2, || {
                    let Some(mut raw) = open(address, identity, "h2") else { return };
                    let _ = raw.write_all(bytes);
                    held.lock().unwrap().push(raw);
                });
            });
        }
    }
}

#[test]
fn floods_of_frames_delay_nobody() {
    let _alone = alone();
    let served = Served::start(&[]);
    let (address, node) = (served.address(), served.node("thief"));
    let get = request("GET", "/version");
    let mut resets = begin();
    for stream in (1..20_000).step_by(2) {
        resets.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &get));
        resets.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
    }
    let many = |kind: u8, payload: &[u8]| [begin(), frame(kind, 0, 0, payload).repeat(20_000)].concat();
    for (name, bytes) in [
        ("resets", resets),
        ("settings", many(SETTINGS, &[])),
        ("pings", many(PING, &[0; 8])),
        ("windows", many(WINDOW, &[0, 0, 0, 1])),
    ] {
        withstand(&served, name, || {
            repeat(2, || {
                let Some(mut raw) = open(address, &node, "h2") else { return };
                let _ = raw.write_all(&bytes);
            });
        });
    }
}

#[test]
fn answers_that_are_not_read_are_not_held() {
    let _alone = alone();
    let served = Served::start(&[]);
    let mut admin = served.admin();
    // Four megabytes that a node may list.
    let text = "x".repeat(250_000);
    for number in 0..16 {
        let service = json!({"metadata": {"name": format!("s{number}"), "annotations": {"a": text}},
            "spec": {"ports": [{"port": 80}]}});
        admin.must(201, "POST", "/api/v1/namespaces/default/services", Some(&service));
    }
    let (address, node) = (served.address(), served.node("thief"));
    for (form, headers) in [
        ("JSON", vec![]),
        ("protobuf", indexed("accept", "application/vnd.kubernetes.protobuf")),
        ("YAML", indexed("accept", "application/yaml")),
    ] {
        let list = [request("GET", "/api/v1/services"), headers].concat();
        // A window of two gigabytes for each stream and for the connection.
        let settings = [&[0, 4][..], &0x7fff_ffff_u32.to_be_bytes()].concat();
        let mut bytes = [begin(), frame(SETTINGS, 0, 0, &settings)].concat();
        bytes.extend(frame(WINDOW, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
        for stream in (1..800).step_by(2) {
            bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &list));
        }
        withstand_within(2 * GROWTH, &served, &format!("400 lists in {form} that are not read"), || {
            let mut unread = open(address, &node, "h2").unwrap();
            let _ = unread.write_all(&bytes);
            thread::sleep(LONG);
        });
    }
}

#[test]
fn unfinished_bodies_take_no_place() {
    let _alone = alone();
    let served = Served::start(&[]);
    let (address, nobody) = (served.address(), served.identity("nobody", &[]));
    let review = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\nHost: x\r\n\
        Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{";
    withstand(&served, "500 unfinished bodies", || {
        let mut held = Vec::new();
        for _ in 0..500 {
            let mut raw = open(address, &nobody, "http/1.1").unwrap();
            raw.write_all(review.as_bytes()).unwrap();
            held.push(raw);
        }
        thread::sleep(LONG);
    });
    let almost = [review.as_bytes(), &vec![b' '; 2_900_000]].concat();
    withstand(&served, "bodies of almost three megabytes", || {
        let mut held = Vec::new();
        for _ in 0..60 {
            let mut raw = open(address, &nobody, "http/1.1").unwrap();
            let _ = raw.write_all(&almost);
            held.push(raw);
        }
        thread::sleep(LONG);
    });
}

#[test]
fn heads_that_come_slowly_are_bounded() {
    let _alone = alone();
    let served = Served::start(&[]);
    let (address, anonymous) = (served.address(), served.anonymous());
    let head = format!("GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(60_000));
    withstand(&served, "unfinished heads", || {
        let held = std::sync::Mutex::new(Vec::new());
        repeat(2, || {
            let Some(mut raw) = open(address, &anonymous, "http/1.1") else { return };
            let _ = raw.write_all(head.as_bytes());
            held.lock().unwrap().push(raw);
        });
    });
}

#[test]
fn a_watch_with_the_longest_timeout_of_all_is_a_watch() {
    let _alone = alone();
    let served = Served::start(&[]);
    let gauge = |served: &Served| {
        let text = served.admin().ask("GET", "/metrics", None).unwrap().text();
        let line = text.lines().find(|line| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains(r#"resource="services""#)
        });
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap())
    };
    let identity = served.node("thief");
    for timeout in ["9223372036854775807", "9223372036", "4294967296"] {
        let path = format!("/api/v1/services?watch=true&timeoutSeconds={timeout}");
        let events = Client::new(served.address(), &identity).watch(&path).unwrap();
        assert_eq!(gauge(&served), 1, "{timeout}");
        drop(events);
        portcullis_testkit::wait::until("the watch has ended", || gauge(&served) == 0);
    }
    assert!(!served.running.log().contains("panicked"), "{}", served.running.log());
}

/// Reads what is there, so that the connection is not only written to.
#[test]
fn a_client_that_reads_a_byte_a_second_is_cut_off_and_holds_nothing() {
    let _alone = alone();
    let served = Served::start(&[]);
    let (address, node) = (served.address(), served.node("thief"));
    withstand(&served, "slow readers", || {
        let mut held = Vec::new();
        for _ in 0..200 {
            let mut raw = open(address, &node, "http/1.1").unwrap();
            let many = "GET /openapi/v2 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
            raw.write_all(many.as_bytes()).unwrap();
            held.push(raw);
        }
        for _ in 0..3 {
            for raw in &mut held {
                let _ = raw.read(&mut [0]);
            }
            thread::sleep(Duration::from_secs(1));
        }
    });
}
