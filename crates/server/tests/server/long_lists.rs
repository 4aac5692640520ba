//! Lists that are streamed have the same content as their pages, in every format.

use crate::common::start;
use portcullis_testkit::https::{Client, Identity};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_long_list_is_the_same_in_pieces_compressed_as_yaml_and_in_pages() {
    let server = start();
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

#[test]
fn people_get_lines_and_programs_do_not() {
    let server = start();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "{\"b\": [1]}"}});
    Client::new(server.address, &Identity::admin(&server.dir)).must(201, "POST", MAPS, Some(&map));
    let get = |path: &str, client: &str, accept: &str| {
        let request = server.get(path).by(&server.admin()).header(&format!("User-Agent: {client}"));
        request.header(&format!("Accept: {accept}")).send()
    };
    let json = "application/json";
    for (path, code) in
        [(MAPS, 200), ("/api/v1/namespaces/default", 200), ("/apis", 200), ("/api/v1/nodes/none", 404)]
    {
        let program = get(path, "kubectl/v1.36.0", json);
        assert_eq!(program.code, code, "{path}");
        assert!(!program.text().trim_end().contains('\n'), "{path}: {}", program.text());
        let person = get(path, "curl/8.5.0", json);
        assert!(person.text().starts_with("{\n  \""), "{path}: {}", person.text());
        assert!(person.text().ends_with("\n}"), "{path}: {}", person.text());
        assert_eq!(person.json(), program.json(), "{path}");
        for query in ["pretty=true", "pretty=1"] {
            assert_eq!(
                get(&format!("{path}?{query}"), "kubectl/v1.36.0", json).body,
                person.body,
                "{path}?{query}"
            );
        }
        assert_eq!(get(&format!("{path}?pretty=false"), "curl/8.5.0", json).body, program.body, "{path}");
        let yaml = "application/yaml";
        assert_eq!(get(&format!("{path}?pretty=1"), "x", yaml).body, get(path, "x", yaml).body, "{path}");
    }
    assert!(get("/version", "kubectl/v1.36.0", json).text().starts_with("{\n  \""), "always for people");
    // A watch is one event a line, whoever reads it.
    let watch = get(&format!("{MAPS}?watch=1&timeoutSeconds=1&pretty=true"), "curl/8.5.0", json);
    let [event] = watch.text().lines().collect::<Vec<_>>()[..] else { panic!("{}", watch.text()) };
    assert_eq!(serde_json::from_str::<Value>(event).unwrap()["object"]["metadata"]["name"], "m");
}
