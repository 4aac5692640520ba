//! A network that fails, as a tool of tests.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::tool;

/// How long nothing must come, where nothing may come.
const SILENCE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that sends back what it gets, until the client closes.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    address
}

fn connect(proxy: &TcpProxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn read(mut stream: &TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[track_caller]
fn is_silent(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let error = stream.read(&mut [0]).expect_err("nothing comes");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}

#[track_caller]
fn is_closed(mut stream: &TcpStream) {
    match stream.read(&mut [0]) {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn all_bytes_pass_in_order_and_so_does_the_end_of_one_direction() {
    let proxy = TcpProxy::start(echo());
    let stream = connect(&proxy);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut got).unwrap();
    });
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
}

#[test]
fn while_answers_are_held_the_target_gets_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = TcpProxy::start(listener.local_addr().unwrap());
    let client = connect(&proxy);
    let (target, _) = listener.accept().unwrap();
    proxy.hold_answers();
    (&client).write_all(b"question").unwrap();
    assert_eq!(read(&target, 8), b"question");
    (&target).write_all(b"answer").unwrap();
    is_silent(&client);
    proxy.heal();
    assert_eq!(read(&client, 6), b"answer");
}

#[test]
fn a_cut_network_is_silent_and_passes_on_what_it_held_when_it_is_healed() {
    let proxy = TcpProxy::start(echo());
    let before = connect(&proxy);
    (&before).write_all(b"one").unwrap();
    assert_eq!(read(&before, 3), b"one");

    proxy.cut();
    (&before).write_all(b"two").unwrap();
    let meanwhile = connect(&proxy);
    (&meanwhile).write_all(b"three").unwrap();
    is_silent(&before);
    is_silent(&meanwhile);

    proxy.heal();
    assert_eq!(read(&before, 3), b"two");
    assert_eq!(read(&meanwhile, 5), b"three");
}

#[test]
fn the_end_of_a_connection_does_not_pass_a_cut_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = TcpProxy::start(listener.local_addr().unwrap());
    let client = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    proxy.cut();
    drop(server);
    is_silent(&client);
    proxy.heal();
    is_closed(&client);
}

#[test]
fn a_reset_closes_what_is_open_and_nothing_that_comes_later() {
    let proxy = TcpProxy::start(echo());
    let open = connect(&proxy);
    (&open).write_all(b"one").unwrap();
    assert_eq!(read(&open, 3), b"one");
    proxy.reset();
    is_closed(&open);
    let later = connect(&proxy);
    (&later).write_all(b"two").unwrap();
    assert_eq!(read(&later, 3), b"two");
}

#[test]
fn connections_that_a_cut_network_holds_are_reset_too() {
    let proxy = TcpProxy::start(echo());
    let open = connect(&proxy);
    (&open).write_all(b"one").unwrap();
    assert_eq!(read(&open, 3), b"one");
    proxy.cut();
    (&open).write_all(b"two").unwrap();
    proxy.reset();
    is_closed(&open);
}

#[test]
fn bytes_take_at_least_the_delay_in_each_direction() {
    let proxy = TcpProxy::start(echo());
    let stream = connect(&proxy);
    (&stream).write_all(b"one").unwrap();
    assert_eq!(read(&stream, 3), b"one");
    let delay = Duration::from_millis(200);
    proxy.delay(delay);
    let start = Instant::now();
    (&stream).write_all(b"two").unwrap();
    assert_eq!(read(&stream, 3), b"two");
    assert!(start.elapsed() >= 2 * delay, "{:?}", start.elapsed());
}

#[test]
fn a_target_that_does_not_listen_closes_the_connection() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    is_closed(&connect(&TcpProxy::start(target)));
}

#[test]
fn dropping_the_proxy_closes_both_sides_also_while_it_is_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = TcpProxy::start(listener.local_addr().unwrap());
    let client = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    proxy.cut();
    let address = proxy.address();
    drop(proxy);
    is_closed(&client);
    is_closed(&server);
    TcpListener::bind(address).unwrap();
}

#[test]
fn etcd_is_lost_behind_a_cut_network_and_found_again_when_it_is_healed() {
    let etcd = Etcd::start();
    let proxy = TcpProxy::start(([127, 0, 0, 1], etcd.port()));
    let put = |value: &str| {
        let endpoint = format!("--endpoints={}", proxy.address());
        let mut command = tool::command("etcdctl");
        command.env("ETCDCTL_API", "3").args([&endpoint, "--command-timeout=2s", "put", "a", value]);
        tool::Finished::of(&mut command)
    };
    let value = || etcd.etcdctl(["get", "a", "--print-value-only"]).ok();
    portcullis_testkit::wait::until("etcd answers through the proxy", || put("1").code == 0);
    proxy.cut();
    assert_ne!(put("2").code, 0);
    assert_eq!(value(), "1\n");
    proxy.heal();
    portcullis_testkit::wait::until("etcd answers through the proxy", || put("3").code == 0);
    assert_eq!(value(), "3\n");
}
