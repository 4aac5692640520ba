//! Hostile clients: garbage on the socket, invalid bodies, slow requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{REVIEW, REVIEWS, Setup, start, start_with};
use portcullis_server::http::limits::Limits;
use portcullis_testkit::wait;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// An answer to a broken body is one of these, and yes only if the body still asks for what is allowed.
#[track_caller]
fn assert_sane(body: &[u8], (code, answer): (u16, Vec<u8>)) {
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    match code {
        201 => {
            assert_eq!(answer["kind"], "SubjectAccessReview");
            if answer["status"]["allowed"] == true {
                let spec = &answer["spec"];
                let resource = &spec["resourceAttributes"];
                let groups = spec["groups"].as_array().cloned().unwrap_or_default();
                assert!(
                    (spec["user"] == "jane"
                        && resource["verb"] == "get"
                        && resource["resource"] == "pods"
                        && resource["namespace"] == "default")
                        || groups.iter().any(|g| g == "system:masters"),
                    "{}\n{answer}",
                    String::from_utf8_lossy(body)
                );
            }
        }
        400 | 422 => assert_eq!(answer["kind"], "Status"),
        other => panic!("{other}: {}", String::from_utf8_lossy(body)),
    }
}

#[test]
fn every_byte_of_a_review_can_be_broken() {
    let server = start();
    let mut tls = server.open_tls();
    let valid = REVIEW.as_bytes();
    for at in 0..valid.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut body = valid.to_vec();
            body[at] ^= flip;
            let answer = tls.review(&body);
            assert_sane(&body, answer);
        }
        let answer = tls.review(&valid[..at]);
        assert_eq!(answer.0, 400, "cut at {at}");
    }
    assert_eq!(tls.review(valid).0, 201);
}

#[test]
fn bodies_of_any_bytes_and_of_any_json_are_survived() {
    let server = start();
    let tls = std::cell::RefCell::new(server.open_tls());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    runner
        .run(&bytes, |body| {
            assert_sane(&body, tls.borrow_mut().review(&body));
            Ok(())
        })
        .unwrap();
    let word = prop::sample::select(vec![
        r#""spec""#,
        r#""user""#,
        r#""groups""#,
        r#""system:masters""#,
        r#""resourceAttributes""#,
        r#""nonResourceAttributes""#,
        r#""verb""#,
        r#""metadata""#,
        r#""fieldSelector""#,
        r#""requirements""#,
        r#""rawSelector""#,
        r#""extra""#,
        r#""\ud800""#,
        "null",
        "1e999",
        "-0",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
    ]);
    runner
        .run(&prop::collection::vec(word, 0..30), |words| {
            let body = words.concat();
            assert_sane(body.as_bytes(), tls.borrow_mut().review(body.as_bytes()));
            Ok(())
        })
        .unwrap();
}

#[test]
fn garbage_on_the_socket_harms_nobody() {
    let server = start();
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 1000], &[0x16, 0x03, 0x01, 0xff, 0xff, 0x01], b"\x80\x80\x80"]
    {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.write_all(garbage).unwrap();
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 2"));
    }
    for garbage in [
        &b"\r\n\r\nnonsense\r\n\r\n"[..],
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut tls = server.open_tls();
        tls.send(garbage);
        let text = tls.rest();
        assert!(!text.starts_with("HTTP/1.1 2") || garbage.starts_with(b"POST"), "{text}");
    }
    // A body of more than it says is the next request, and that is none.
    let mut tls = server.open_tls();
    tls.send(format!("POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{REVIEW}").as_bytes());
    let text = tls.rest();
    assert!(text.starts_with("HTTP/1.1 400") && !text.contains("allowed\":true"), "{text}");
    assert_eq!(server.get("/livez").send().text(), "ok");
}

#[test]
fn heads_are_bounded() {
    let server = start();
    let long = "x".repeat(300 * 1024);
    let mut tls = server.open_tls();
    tls.send(format!("GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n\r\n").as_bytes());
    assert!(tls.rest().starts_with("HTTP/1.1 431"));
    assert_eq!(server.get("/livez").send().text(), "ok");
}

fn impatient() -> Limits {
    let short = Duration::from_millis(300);
    Limits {
        handshake: short,
        header_read: short,
        body_read: short,
        idle: short,
        shutdown: short,
        ..Limits::default()
    }
}

#[test]
fn whoever_takes_too_long_is_cut_off() {
    let server = start_with(Setup { limits: impatient(), ..Setup::default() });
    // Says nothing at all.
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    assert_eq!(silent.read_to_end(&mut answer).unwrap(), 0, "closed by the server");
    // Half a head; half a body; nothing after an answer.
    let mut tls = server.open_tls();
    tls.send(b"GET /livez HTTP/1.1\r\nHos");
    assert!(!tls.rest().starts_with("HTTP/1.1 2"));
    let mut tls = server.open_tls();
    tls.send(format!("POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{").as_bytes());
    assert!(tls.rest().starts_with("HTTP/1.1 408"));
    let mut tls = server.open_tls();
    tls.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(tls.rest().ends_with("ok"));
}

#[test]
fn whoever_has_most_connections_loses_the_oldest_for_a_new_one() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = start_with(Setup { limits, ..Setup::default() });
    let mut first = server.open_tls();
    assert_eq!(first.review(REVIEW.as_bytes()).0, 201);
    let mut second = server.open_tls();
    assert_eq!(second.review(REVIEW.as_bytes()).0, 201);
    // Both are the administrator's.
    assert_eq!(server.get("/livez").send().text(), "ok");
    assert_eq!(second.review(REVIEW.as_bytes()).0, 201);
    assert_eq!(first.rest(), "", "the server has closed it");
    assert!(
        server
            .app
            .metrics()
            .render()
            .unwrap()
            .contains("\nportcullis_connections_closed_for_others_total 1\n")
    );
    second.cut();
}

#[test]
fn a_server_that_stops_finishes_what_is_under_way() {
    let limits = Limits { shutdown: Duration::from_secs(20), ..Limits::default() };
    let mut server = start_with(Setup { limits, ..Setup::default() });
    let mut tls = server.open_tls();
    assert_eq!(tls.review(REVIEW.as_bytes()).0, 201);
    let (head, tail) = REVIEW.split_at(20);
    tls.send(
        format!("POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{head}", REVIEW.len())
            .as_bytes(),
    );
    // The server holds the first half once the socket has taken it; asking for something else shows that it is busy.
    assert_eq!(server.get("/livez").send().text(), "ok");
    server.stop();
    wait::until("nothing new is accepted", || TcpStream::connect(server.address).is_err());
    tls.send(tail.as_bytes());
    let text = tls.rest();
    assert!(text.starts_with("HTTP/1.1 201") && text.contains("\"allowed\":true"), "{text}");
}
