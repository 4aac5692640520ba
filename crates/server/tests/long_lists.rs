//! Lists that are too long to be put together at once say the same as their pages, in every form.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used, reason = "tests")]

mod common;

use common::{Setup, start_with};
use portcullis_testkit::https::{Client, Identity};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_long_list_is_the_same_in_pieces_compressed_as_yaml_and_in_pages() {
    let server = start_with(Setup { keeps_objects: true, ..Setup::default() });
    let mut client = Client::new(server.address, &Identity::admin(&server.dir));
    for number in 0..300 {
        let filling: String =
            (0..5_000_usize).map(|at| char::from(b'a' + (at * number % 23) as u8)).collect();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m-{number}")},
            "data": {"filling": filling, "text": "\u{e4}\"\\\n"}});
        client.must(201, "POST", MAPS, Some(&map));
    }
    let list = |words: &[&str]| {
        let request = server.get(MAPS).by(&server.admin());
        let answer = words.iter().fold(request, |request, word| request.word(word)).send();
        assert_eq!(answer.code, 200);
        answer
    };
    let plain = list(&[]);
    assert!(plain.body.len() > 1 << 20, "{} bytes are not long", plain.body.len());
    let document = plain.json();
    assert_eq!(document["kind"], "ConfigMapList");

    // curl undoes the compression, by a gzip that is not ours.
    let compressed = list(&["--compressed"]);
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert_eq!(compressed.header("vary"), "accept-encoding");
    assert_eq!(compressed.body, plain.body);
    assert_eq!(list(&["--http2"]).body, plain.body);
    let yaml = list(&["-H", "Accept: application/yaml"]);
    let mut read: Value = serde_saphyr::from_str(yaml.text()).unwrap();
    assert_eq!(read["metadata"].take()["resourceVersion"], document["metadata"]["resourceVersion"]);
    assert_eq!(read["items"], document["items"]);

    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let page = client.must(200, "GET", &format!("{MAPS}?limit=70&continue={token}"), None);
        pages.extend(page["items"].as_array().unwrap().clone());
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(&pages, document["items"].as_array().unwrap());
}
