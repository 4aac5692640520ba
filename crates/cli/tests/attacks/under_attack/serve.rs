//! Attacks on `portcullis serve` by connections, frames and bytes.

use portcullis_testkit::http2::{indexed, request};
use portcullis_testkit::https::Client;
use serde_json::json;

use crate::honest::{Target as _, withstand_each};
use crate::served::Served;
use crate::{alone, connections};

pub(crate) const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[test]
fn connections_by_the_thousand_from_one_address_keep_nobody_out() {
    let _alone = alone();
    let served = Served::start(&[]);
    withstand_each(&served, connections::silent_connections(&served));
}

#[test]
fn headers_that_grow_by_their_index_are_not_held() {
    let _alone = alone();
    let served = Served::start(&[]);
    let (anonymous, node) = (served.anonymous(), served.known());
    for (who, identity) in [("a stranger", anonymous), ("a node", node)] {
        withstand_each(&served, connections::growing_headers(&served, "/api/v1/nodes", who, &identity));
    }
}

#[test]
fn floods_of_frames_delay_nobody() {
    let _alone = alone();
    let served = Served::start(&[]);
    withstand_each(&served, connections::floods_of_frames(&served, "/version", &served.known()));
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
    for (form, headers) in [
        ("JSON", vec![]),
        ("protobuf", indexed("accept", "application/vnd.kubernetes.protobuf")),
        ("YAML", indexed("accept", "application/yaml")),
    ] {
        let list = [request("GET", "/api/v1/services"), headers].concat();
        let name = format!("400 lists in {form} that are not read");
        let attack = connections::unread_answers(&served, &name, &list, &served.known());
        withstand_each(&served, [attack]);
    }
}

#[test]
fn unfinished_bodies_take_no_place() {
    let _alone = alone();
    let served = Served::start(&[]);
    let nobody = served.identity("nobody", &[]);
    withstand_each(&served, connections::unfinished_bodies(&served, REVIEW, &nobody));
}

#[test]
fn heads_that_come_slowly_are_bounded() {
    let _alone = alone();
    let served = Served::start(&[]);
    withstand_each(&served, [connections::unfinished_heads(&served, "/livez")]);
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

#[test]
fn a_client_that_reads_a_byte_a_second_is_cut_off_and_holds_nothing() {
    let _alone = alone();
    let served = Served::start(&[]);
    withstand_each(&served, [connections::slow_readers(&served, "/openapi/v2", &served.known())]);
}
