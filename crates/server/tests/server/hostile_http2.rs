//! Invalid HTTP/2: every frame is written by hand. The connection ends or the frame is ignored, and other clients are
//! served.

use std::time::Duration;

use crate::common::{Setup, Started, Tls, start, start_with};
use portcullis_server::http::limits::Limits;
use portcullis_testkit::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PUSH, RESET, SETTINGS, WINDOW,
    begin, frame, request,
};

/// `GET` of a path.
fn get(path: &str) -> Vec<u8> {
    request("GET", path)
}

fn open(server: &Started) -> Tls {
    server.open_tls_as(&server.admin(), "h2")
}

/// The kinds of the frames that the server has sent until it closed.
fn answered(tls: Tls, bytes: Vec<u8>) -> Vec<u8> {
    let bytes = tls.exchange(bytes);
    let mut kinds = Vec::new();
    let mut rest = bytes.as_slice();
    while let [a, b, c, kind, _, _, _, _, _, after @ ..] = rest {
        kinds.push(*kind);
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        rest = after.get(usize::try_from(length).unwrap()..).unwrap_or_default();
    }
    kinds
}

#[track_caller]
fn assert_others_are_served(server: &Started) {
    for version in ["--http1.1", "--http2"] {
        assert_eq!(server.get("/livez").word(version).send().text(), "ok");
    }
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_and_nothing_else() {
    let server = start();
    let livez = get("/livez");
    let asked = |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &livez);
    for (name, bytes) in [
        ("another preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec()),
        ("data before settings", [PREFACE, &frame(DATA, 0, 1, b"x")].concat()),
        ("data on the connection", [begin(), frame(DATA, 0, 0, b"x")].concat()),
        ("data on a stream that is not open", [begin(), frame(DATA, 0, 7, b"x")].concat()),
        ("headers on the connection", [begin(), frame(HEADERS, END_HEADERS, 0, &livez)].concat()),
        ("a stream of the server's", [begin(), asked(2)].concat()),
        ("streams that go backwards", [begin(), asked(5), asked(3), asked(1)].concat()),
        ("a promise by the client", [begin(), frame(PUSH, END_HEADERS, 1, &[0, 0, 0, 2])].concat()),
        ("a frame of sixteen megabytes", [begin(), vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]].concat()),
        ("settings of no length", [begin(), frame(SETTINGS, 0, 0, &[0; 5])].concat()),
        ("settings on a stream", [begin(), frame(SETTINGS, 0, 1, &[])].concat()),
        ("a window that does not grow", [begin(), frame(WINDOW, 0, 0, &[0; 4])].concat()),
        ("a window too large", [begin(), frame(WINDOW, 0, 0, &[0x7f, 0xff, 0xff, 0xff])].concat()),
        ("a ping of no length", [begin(), frame(PING, 0, 0, &[0; 7])].concat()),
        ("a continuation of nothing", [begin(), frame(CONTINUATION, END_HEADERS, 1, &livez)].concat()),
        (
            "headers that are cut by another frame",
            [begin(), frame(HEADERS, 0, 1, &livez), frame(PING, 0, 0, &[0; 8])].concat(),
        ),
        ("an index that is none", [begin(), frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0x80])].concat()),
        (
            "an index beyond the table",
            [begin(), frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff, 0xff, 0xff, 0x0f])].concat(),
        ),
        (
            "a number without end",
            [begin(), frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff; 40])].concat(),
        ),
        (
            "padding longer than the frame",
            [begin(), frame(HEADERS, END_STREAM | END_HEADERS | 8, 1, &[200, 0x82])].concat(),
        ),
    ] {
        // That the server closes is what ends this.
        let kinds = answered(open(&server), bytes);
        assert!(!kinds.contains(&DATA), "{name}: {kinds:?}");
        assert_others_are_served(&server);
    }
    // The same hand writes what is right, and is answered.
    let mut tls = open(&server);
    tls.send(&[begin(), asked(1)].concat());
    assert!(tls.sees(b"ok"));
    tls.cut();
}

#[test]
fn floods_end_the_connection_and_hold_nothing() {
    let server = start();
    let livez = get("/livez");
    let mut resets = begin();
    for stream in (1..40_000).step_by(2) {
        resets.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &livez));
        resets.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
    }
    let mut headers = [begin(), frame(HEADERS, END_STREAM, 1, &livez)].concat();
    // A header of its own in each: `a: ` and a hundred letters.
    let more = [&[0x00, 1, b'a', 100][..], &[b'x'; 100]].concat();
    for _ in 0..20_000 {
        headers.extend(frame(CONTINUATION, 0, 1, &more));
    }
    for bytes in [resets, headers] {
        let kinds = answered(open(&server), bytes);
        assert!(!kinds.contains(&DATA), "{} frames", kinds.len());
        assert_others_are_served(&server);
    }
    let under_way = server.app.metrics().render().unwrap();
    assert!(
        under_way.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0"),
        "{under_way}"
    );
}

#[test]
fn watches_on_one_connection_are_bounded() {
    let limits = Limits { streams: 10, shutdown: Duration::from_secs(1), ..Limits::default() };
    let server = start_with(Setup { is_cluster: true, limits, ..Setup::default() });
    let watch = get("/api/v1/namespaces?watch=true&timeoutSeconds=600");
    let mut tls = open(&server);
    let mut bytes = begin();
    for stream in (1..100).step_by(2) {
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &watch));
    }
    tls.send(&bytes);
    let wait_for = |count: usize| {
        let line = format!(
            r#"apiserver_longrunning_requests{{verb="WATCH",group="",version="v1",resource="namespaces",subresource="",scope="cluster",component="apiserver"}} {count}"#
        );
        server.wait_for_metric(&line);
    };
    wait_for(10);
    assert_others_are_served(&server);
    wait_for(10);
    tls.cut();
    wait_for(0);
}
