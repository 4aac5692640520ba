//! Callers by the thousand, idle and hostile, beside an honest one that is always answered.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use portcullis_testkit::https::{Client, Identity, Raw, raw};
use portcullis_testkit::process::{raise_open_files, resident_bytes};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::webhook::support::{Stop, Webhook, command};

/// The connections that are tried to keep, and the fewest with which the test says something.
const IDLE: usize = 10_000;
const FEWEST: usize = 2_000;
/// The files that other tests of this process and the honest callers may have open.
const OTHER_FILES: usize = 1_000;
/// How much memory an idle connection may take, in bytes.
const EACH: usize = 128 * 1024;
/// The hostile callers of each sort.
const HOSTILE: usize = 250;
/// How much more memory the webhook may take for hostile callers, in bytes.
const GROWTH: usize = 64 << 20;
/// Hostile callers come from another address than honest ones.
const ELSEWHERE: &str = "127.0.0.66:0";

fn review() -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "nobody", "nonResourceAttributes": {"path": "/nowhere", "verb": "get"}},
    })
}

/// A webhook whose callers have certificates.
fn start(scratch: &Scratch) -> Webhook {
    let folder = scratch.path().join("webhook");
    drop(command(&folder, &[]));
    tool::openssl(
        &folder,
        "req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=hostile \
         -CA ca.pem -CAkey ca-key.pem -keyout hostile-key.pem -out hostile.pem -addext basicConstraints=critical,CA:FALSE \
         -addext extendedKeyUsage=clientAuth",
    );
    let authority = folder.join("ca.pem");
    let flags = ["--client-ca-file", authority.to_str().unwrap(), "--allowed-names", "apiserver,hostile"];
    Webhook::over(scratch, "webhook-authorization/state.json", &flags)
}

/// Somebody with a certificate.
fn identity(webhook: &Webhook, name: &str) -> Identity {
    let file = |name: String| webhook.file(&name);
    Identity::read(&file("ca.pem".into()), &file(format!("{name}.pem")), &file(format!("{name}-key.pem")))
}

#[track_caller]
fn must_answer(client: &mut Client) {
    let answer = client.ask("POST", "/authorize", Some(&review())).unwrap();
    assert_eq!(answer.code, 200, "{}", answer.text());
}

#[test]
fn ten_thousand_idle_callers_keep_nobody_from_the_webhook() {
    let count = IDLE.min(raise_open_files().saturating_sub(OTHER_FILES));
    assert!(count >= FEWEST, "{count} connections are too few: raise the limit of open files");
    let scratch = Scratch::new();
    // Callers on the same host are known without a certificate.
    let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &[]);
    let (address, identity) = (webhook.running.address(), Identity::anonymous(&webhook.file("ca.pem")));
    let before = resident_bytes(webhook.running.id());
    // Each has asked once, as an API server does that keeps its connection.
    let mut idle: Vec<Client> = thread::scope(|scope| {
        let half = |number: usize| {
            let identity = &identity;
            scope.spawn(move || {
                let ask = |_| {
                    let mut client = Client::new(address, identity);
                    must_answer(&mut client);
                    client
                };
                (0..count / 2 + number * (count % 2)).map(ask).collect::<Vec<_>>()
            })
        };
        [half(0), half(1)].into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert_eq!(idle.len(), count);
    let each = resident_bytes(webhook.running.id()).saturating_sub(before) / count;
    println!("{count} idle connections, {each} bytes each");
    let mut honest = Client::new(address, &identity);
    must_answer(&mut honest);
    let open = honest.ask("GET", "/metrics", None).unwrap().text();
    let open = open.lines().find_map(|line| line.strip_prefix("portcullis_webhook_connections ")).unwrap();
    assert_eq!(open, (count + 1).to_string(), "all are open");
    assert!(each < EACH, "{each} bytes for a connection");
    // Somebody new, and one of those who were there.
    for client in idle.iter_mut().step_by(count / 50) {
        must_answer(&mut Client::new(address, &identity));
        must_answer(client);
        assert_eq!(client.connections(), 1, "its connection was kept");
    }
}

/// A connection without TLS, from elsewhere.
fn plain(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(ELSEWHERE.parse().unwrap()).unwrap();
    let stream = runtime.block_on(socket.connect(address)).unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// What hostile callers hold open.
#[derive(Default)]
struct Held {
    plain: Vec<TcpStream>,
    secure: Vec<Raw>,
}

/// Begins something on a connection and does not end it. The webhook may close the connection at any time.
fn attack(address: SocketAddr, stranger: &Identity, hostile: &Identity, number: usize, held: &mut Held) {
    let secure = |identity: &Identity, bytes: &[u8]| {
        let mut raw = raw(address, ELSEWHERE.parse().unwrap(), identity, "http/1.1").ok()?;
        raw.write_all(bytes).and_then(|()| raw.flush()).ok()?;
        Some(raw)
    };
    match number % 4 {
        // A head that does not end.
        0 => held.secure.extend(secure(stranger, b"POST /authorize HTTP/1.1\r\nHost: x\r\nX-Slow: ")),
        // A body that does not end, of somebody who may ask.
        1 => {
            let head = b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{\"kind\":";
            held.secure.extend(secure(hostile, head));
        }
        // Half of a TLS handshake: the begin of a record of 512 bytes.
        2 => {
            let mut stream = plain(address);
            let _ = stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
            held.plain.push(stream);
        }
        // Garbage instead of TLS.
        _ => {
            let mut stream = plain(address);
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0\xff garbage");
            held.plain.push(stream);
        }
    }
}

/// Goes on with heads and bodies, a byte each.
fn go_on(held: &mut Held) {
    for raw in &mut held.secure {
        let _ = raw.write_all(b"a").and_then(|()| raw.flush());
    }
}

#[test]
fn a_thousand_hostile_callers_keep_no_honest_one_from_an_answer() {
    raise_open_files();
    let scratch = Scratch::new();
    let webhook = start(&scratch);
    let (address, known) = (webhook.running.address(), identity(&webhook, "apiserver"));
    let (stranger, hostile) = (Identity::anonymous(&webhook.file("ca.pem")), identity(&webhook, "hostile"));
    must_answer(&mut Client::new(address, &known));
    let before = resident_bytes(webhook.running.id());
    let (is_done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let growth = thread::scope(|scope| {
        let (honest, is_done, answered) = (&known, &is_done, &answered);
        scope.spawn(move || {
            let mut kept = Client::new(address, honest);
            while !is_done.load(Ordering::Relaxed) {
                must_answer(&mut kept);
                must_answer(&mut Client::new(address, honest));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            assert_eq!(kept.connections(), 1, "the connection of an honest caller was kept");
        });
        let _stop = Stop(is_done);
        let mut held = Held::default();
        let mut most = 0;
        for number in 0..4 * HOSTILE {
            attack(address, &stranger, &hostile, number, &mut held);
            if number % 50 == 0 {
                most = resident_bytes(webhook.running.id()).max(most);
            }
        }
        let held_before = answered.load(Ordering::Relaxed);
        until("the honest caller is answered while all are there", || {
            go_on(&mut held);
            most = resident_bytes(webhook.running.id()).max(most);
            answered.load(Ordering::Relaxed) >= held_before + 50
        });
        // Garbage is refused at once.
        let mut byte = [0];
        let garbage = &mut held.plain[1];
        garbage.set_read_timeout(None).unwrap();
        while garbage.read(&mut byte).is_ok_and(|count| count > 0) {}
        most.saturating_sub(before)
    });
    println!("{} hostile callers, {} KiB more memory", 4 * HOSTILE, growth >> 10);
    assert!(growth < GROWTH, "{growth} bytes more memory");
    must_answer(&mut Client::new(address, &known));
}
