//! Streams in both directions: exec, attach, port-forward and logs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use portcullis_testkit::https::Identity;
use portcullis_testkit::kubelet::{Options, pattern};
use portcullis_testkit::mutate::dice;
use portcullis_testkit::upgrade::{self, ByteStream, Protocol};
use portcullis_testkit::wait::until;

use crate::guard::support::Guarded;

const WEBSOCKET: Protocol<'static> = Protocol::WebSocket(&["v5.channel.k8s.io"]);
const SPDY: Protocol<'static> = Protocol::Spdy(&["v4.channel.k8s.io"]);
const FORWARD: Protocol<'static> = Protocol::Spdy(&["portforward.k8s.io"]);
const GIBIBYTE: u64 = 1 << 30;

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (dice(seed * 7_919 + at / 8) >> (at % 8)) as u8).collect()
}

fn all() -> Guarded {
    let guarded = Guarded::before(
        Options { trailer: b"the end".to_vec(), ..Options::default() },
        &["--access-log-path", "-"],
    );
    guarded.grant("jane", "*", "nodes/proxy");
    guarded
}

fn memory(process: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// Sends everything, says that this is the end, and reads to the other side's end.
fn exchange(stream: &ByteStream, sent: &[u8]) -> Vec<u8> {
    thread::scope(|scope| {
        scope.spawn(|| {
            for piece in sent.chunks(10_007) {
                (&*stream).write_all(piece).unwrap();
            }
            stream.close_write().unwrap();
        });
        let mut received = Vec::new();
        (&*stream).read_to_end(&mut received).unwrap();
        received
    })
}

#[test]
fn what_goes_through_is_unchanged_both_ways_and_each_side_may_end_first() {
    let guarded = all();
    let jane = guarded.user("jane");
    let address = guarded.guard.address;
    for (method, path, protocol) in [
        ("POST", "/exec/ns/p/c?command=cat&input=1&output=1", SPDY),
        ("GET", "/exec/ns/p/c?command=cat&input=1&output=1", WEBSOCKET),
        ("POST", "/attach/ns/p/c?output=1", SPDY),
        ("GET", "/attach/ns/p/0b6f3a0e-0000-4000-8000-000000000001/c?output=1", WEBSOCKET),
        ("POST", "/portForward/ns/p", FORWARD),
    ] {
        let path = if path.contains('?') { format!("{path}&mode=echo") } else { format!("{path}?mode=echo") };
        let (response, stream) = upgrade::open(address, &jane, method, &path, &[], protocol).unwrap();
        assert_eq!(response.code, 101, "{path}");
        let sent = bytes(path.len() as u64, 300_000);
        let received = exchange(&stream, &sent);
        // The kubelet went on after our end: it echoed the rest and said its last word.
        assert!(received.ends_with(b"the end"), "{path}: {} bytes", received.len());
        assert!(received[..received.len() - 7] == sent, "{path}");
    }
    until("the kubelet's streams are over", || guarded.kubelet.open_streams() == 0);

    // The other way round: the kubelet ends first, and takes what we go on to send.
    let before = guarded.kubelet.received();
    let path = "/exec/ns/p/c?command=cat&input=1&output=1&mode=source&bytes=100000";
    let (_, stream) = upgrade::open(address, &jane, "POST", path, &[], SPDY).unwrap();
    let mut received = Vec::new();
    (&stream).read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), 100_000);
    assert!(received.iter().zip(0..).all(|(byte, at)| *byte == pattern(at)));
    (&stream).write_all(&[7; 50_000]).unwrap();
    stream.close_write().unwrap();
    until("the kubelet has it all", || guarded.kubelet.received() - before == 50_000);
}

#[test]
fn many_streams_at_once_do_not_meet() {
    let guarded = all();
    let jane = guarded.user("jane");
    let address = guarded.guard.address;
    thread::scope(|scope| {
        for seed in 0..24_u64 {
            let jane = &jane;
            scope.spawn(move || {
                let path = "/exec/ns/p/c?command=cat&input=1&output=1&mode=echo";
                let (response, stream) = upgrade::open(address, jane, "POST", path, &[], SPDY).unwrap();
                assert_eq!(response.code, 101);
                let sent = bytes(seed, 1_000_000);
                let received = exchange(&stream, &sent);
                assert!(received.len() == sent.len() + 7 && received[..sent.len()] == sent, "{seed}");
            });
        }
        // Meanwhile others ask for ordinary things.
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = portcullis_testkit::https::Client::new(address, &jane);
                for _ in 0..200 {
                    assert_eq!(client.ask("GET", "/pods", None).unwrap().code, 200);
                }
            });
        }
    });
}

#[test]
fn whoever_breaks_off_the_other_side_learns_of_it() {
    let guarded = all();
    let jane = guarded.user("jane");
    let address = guarded.guard.address;
    let path = "/exec/ns/p/c?command=cat&input=1&output=1&mode=echo";
    let (_, stream) = upgrade::open(address, &jane, "POST", path, &[], SPDY).unwrap();
    until("the kubelet has a stream", || guarded.kubelet.open_streams() == 1);
    stream.cut();
    until("the kubelet's stream is over", || guarded.kubelet.open_streams() == 0);

    // The same for a log that is followed.
    let stream = ByteStream::connect(address, &jane).unwrap();
    let headers = [("Authorization", "Bearer jane-token")];
    stream.request("GET", "/containerLogs/ns/p/c?follow=true", &headers, Protocol::Plain).unwrap();
    assert_eq!(stream.response().unwrap().code, 200);
    let mut read = [0; 64];
    for _ in 0..10 {
        // Line by line, not when there is enough of them.
        assert!((&stream).read(&mut read).unwrap() > 0);
    }
    assert_eq!(guarded.kubelet.open_streams(), 1);
    drop(stream);
    until("the kubelet follows for nobody", || guarded.kubelet.open_streams() == 0);
}

/// Reads the body of an answer in chunks, and hands every piece on.
fn chunks(stream: &ByteStream, mut piece: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 256 * 1024];
    let mut held = Vec::new();
    let mut left = 0_usize;
    loop {
        let count = (&*stream).read(&mut buffer).unwrap();
        assert!(count > 0, "it broke off");
        held.extend_from_slice(&buffer[..count]);
        let mut at = 0;
        loop {
            if left > 2 {
                let take = (left - 2).min(held.len() - at);
                piece(&held[at..at + take]);
                at += take;
                left -= take;
                if left > 2 {
                    break;
                }
            }
            if left == 2 {
                if held.len() - at < 2 {
                    break;
                }
                assert_eq!(&held[at..at + 2], b"\r\n");
                at += 2;
                left = 0;
            }
            let Some(end) = held[at..].windows(2).position(|w| w == b"\r\n") else { break };
            let size = std::str::from_utf8(&held[at..at + end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                return;
            }
            at += end + 2;
            left = size + 2;
        }
        held.drain(..at);
    }
}

#[test]
fn a_log_of_a_gibibyte_takes_no_more_memory_than_a_short_one() {
    let guarded = all();
    let jane: Identity = guarded.user("jane");
    assert_eq!(guarded.code("jane", "GET", "/containerLogs/ns/p/c?bytes=1000000"), 200);
    let process = guarded.guard.id();
    let before = memory(process, "VmHWM:");
    let stream = ByteStream::connect(guarded.guard.address, &jane).unwrap();
    let headers = [("Authorization", "Bearer jane-token")];
    let path = format!("/containerLogs/ns/p/c?bytes={GIBIBYTE}");
    stream.request("GET", &path, &headers, Protocol::Plain).unwrap();
    let response = stream.response().unwrap();
    assert_eq!(response.code, 200);
    // The guard reads nothing for a client that does not read.
    thread::sleep(Duration::from_secs(1));
    let mut at = 0_u64;
    let mut check = |piece: &[u8]| {
        // All of it is counted, a part of each piece compared.
        for (offset, byte) in piece.iter().enumerate().step_by(997) {
            assert_eq!(*byte, pattern(at + offset as u64));
        }
        at += piece.len() as u64;
    };
    match response.header("content-length") {
        None => chunks(&stream, check),
        Some(length) => {
            assert_eq!(length, GIBIBYTE.to_string());
            let mut buffer = vec![0; 256 * 1024];
            let mut left = GIBIBYTE;
            while left > 0 {
                let count = (&stream).read(&mut buffer).unwrap();
                check(&buffer[..count]);
                left -= count as u64;
            }
        }
    }
    assert_eq!(at, GIBIBYTE);
    // The kernel counts roughly.
    let grown = memory(process, "VmHWM:").saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more");
}
