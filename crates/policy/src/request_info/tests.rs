//! Tests of request parsing against recordings, and of its invariants for every input (AC-10 to AC-49).

use portcullis_testkit::recorded;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn read(method: &str, target: &str) -> RequestInfo {
    RequestInfo::parse(method, target).unwrap_or_else(|e| panic!("{method} {target}: {e}"))
}

/// Verb, namespace, `group/resource/subresource`, name.
fn summary(method: &str, target: &str) -> (String, String, String, String) {
    let info = read(method, target);
    assert!(info.is_resource_request(), "{target}");
    let mut resource = info.resource().to_owned();
    if !info.group().is_empty() {
        resource = format!("{}: {resource}", info.group());
    }
    if !info.subresource().is_empty() {
        resource = format!("{resource}/{}", info.subresource());
    }
    (info.verb().to_owned(), info.namespace().to_owned(), resource, info.name().to_owned())
}

#[test]
fn every_recorded_request_is_read_as_kubernetes_reads_it() {
    for line in recorded::lines("requestinfo.jsonl") {
        let (method, url) = (line["method"].as_str().unwrap(), line["url"].as_str().unwrap());
        match (RequestInfo::parse_reference(method, url), line.get("info"), line.get("error")) {
            (Ok(info), Some(expected), None) => {
                assert_eq!(&serde_json::to_value(&info).unwrap(), expected, "{method} {url}");
            }
            (Err(error), None, Some(expected)) => assert_eq!(error.to_string(), expected.as_str().unwrap()),
            (result, _, _) => panic!("{method} {url}: {result:?} is not as recorded: {line}"),
        }
    }
}

#[test]
fn recorded_paths_read_the_same_from_the_wire() {
    for line in recorded::lines("requestinfo.jsonl") {
        let (method, url) = (line["method"].as_str().unwrap(), line["url"].as_str().unwrap());
        if url.starts_with("//") {
            continue; // AC-49: read differently on purpose
        }
        let wire = RequestInfo::parse(method, url).ok();
        assert_eq!(wire.map(|info| serde_json::to_value(info).unwrap()).as_ref(), line.get("info"), "{url}");
    }
}

#[test]
fn ac_2_7_the_table_of_cases() {
    for (method, target, verb, namespace, resource, name) in [
        ("GET", "/api/v1/namespaces", "list", "", "namespaces", ""),
        ("GET", "/api/v1/namespaces/other", "get", "other", "namespaces", "other"),
        ("PUT", "/api/v1/namespaces/other/finalize", "update", "other", "namespaces/finalize", "other"),
        ("PUT", "/api/v1/namespaces/other/status", "update", "other", "namespaces/status", "other"),
        ("GET", "/api/v1/namespaces/other/pods", "list", "other", "pods", ""),
        ("HEAD", "/api/v1/pods", "list", "", "pods", ""),
        ("GET", "/api/v1/namespaces/other/pods/foo", "get", "other", "pods", "foo"),
        ("GET", "/api/v1/namespaces/other/pods?watch=1", "watch", "other", "pods", ""),
        ("GET", "/api/v1/namespaces/other/pods?watch=0", "list", "other", "pods", ""),
        ("GET", "/api/v1/watch/pods", "watch", "", "pods", ""),
        ("GET", "/api/v1/proxy/namespaces/other/pods/foo/x/y", "proxy", "other", "pods", "foo"),
        ("GET", "/api/v1/namespaces/other/pods/foo/proxy/sub", "get", "other", "pods/proxy", "foo"),
        ("DELETE", "/api/v1/namespaces", "deletecollection", "", "namespaces", ""),
        (
            "DELETE",
            "/apis/extensions/v1/namespaces/other/pods",
            "deletecollection",
            "other",
            "extensions: pods",
            "",
        ),
        ("POST", "/apis/extensions/v1beta3/namespaces/other/pods", "create", "other", "extensions: pods", ""),
        ("GET", "/apis/g/v/r?fieldSelector=metadata.name=n1", "list", "", "g: r", "n1"),
        ("GET", "/apis/g/v/r?watch=true&fieldSelector=metadata.name=n1,foo", "watch", "", "g: r", ""),
        ("GET", "/apis/g/v/watch/r?fieldSelector=metadata.name=foo", "watch", "", "g: r", ""),
        ("GET", "/apis/g/v/watch/r/n", "watch", "", "g: r", "n"),
        ("GET", "/apis/g/v/r/n?fieldSelector=foo=bar", "get", "", "g: r", "n"),
        // AC-21, AC-36, AC-37
        ("DELETE", "/api/v1/watch/pods", "watch", "", "pods", ""),
        ("get", "/api/v1/pods", "", "", "pods", ""),
        ("OPTIONS", "/api/v1/pods/p", "", "", "pods", "p"),
        ("POST", "/api/v1/namespaces/x/pods/p/exec", "create", "x", "pods/exec", "p"),
        // AC-10, AC-28
        ("GET", "//api/v1/pods", "list", "", "pods", ""),
        ("GET", "/api/v1//pods", "get", "", "", "pods"),
        ("GET", "/api%2Fv1/pods", "list", "", "pods", ""),
        ("GET", "/api/v1/../pods", "get", "", "..", "pods"),
        ("GET", "/api/v1/namespaces/x/foo", "list", "x", "foo", ""),
    ] {
        let expected = (verb.to_owned(), namespace.to_owned(), resource.to_owned(), name.to_owned());
        assert_eq!(summary(method, target), expected, "{method} {target}");
    }
}

#[test]
fn ac_18_short_and_foreign_paths_are_no_resources() {
    for path in
        ["/", "/api", "/api/v1", "/api/v1/", "/apis", "/apis/g", "/apis/g/v1", "/healthz", "/version", "*"]
    {
        let info = read("Get", path);
        assert!(!info.is_resource_request(), "{path}");
        assert_eq!((info.verb(), info.path(), info.resource()), ("get", path, ""));
        assert!(info.attributes(&User::default()).resource.is_none());
    }
    // AC-15
    assert_eq!(read("GET", "/apis/version/resource").prefix(), "apis");
    assert_eq!(read("GET", "/api/v1").prefix(), "");
}

#[test]
fn ac_24_a_path_that_ends_after_the_verb_is_an_error() {
    for path in ["/api/v1/watch", "/api/v1/watch/", "/apis/g/v1/proxy?x"] {
        let error = RequestInfo::parse("GET", path).unwrap_err();
        assert_eq!(error.to_string(), format!("unable to determine kind and namespace from url, {path}"));
    }
}

#[test]
fn ac_31_every_word_but_two_means_watch() {
    let verb = |query: &str| read("GET", &format!("/api/v1/pods{query}")).verb().to_owned();
    for query in
        ["?watch", "?watch=", "?watch=1", "?watch=True", "?watch=no", "?watch=00", "?watch=%zz&watch=1"]
    {
        assert_eq!(verb(query), "watch", "{query}");
    }
    for query in
        ["", "?watch=0", "?watch=false", "?watch=FALSE", "?watch=0&watch=1", "?watch=%zz", "?Watch=1"]
    {
        assert_eq!(verb(query), "list", "{query}");
    }
}

#[test]
fn ac_32_to_34_a_name_comes_from_an_exact_selector_and_readable_options() {
    let name = |query: &str| read("GET", &format!("/api/v1/pods?{query}")).name().to_owned();
    assert_eq!(name("fieldSelector=metadata.name=b,metadata.name=a"), "a");
    assert_eq!(name("fieldSelector=metadata.name==z,metadata.name=a"), "z");
    assert_eq!(
        name("fieldSelector=metadata.name=a&limit=-5&timeoutSeconds=%2B7&resourceVersionMatch=x"),
        "a"
    );
    assert_eq!(name("fieldSelector=spec.nodeName=n,metadata.name=a&labelSelector=k"), "a");
    for query in [
        "fieldSelector=metadata.name!=a",
        "fieldSelector=metadata.name=",
        "fieldSelector=metadata.name=.",
        "fieldSelector=metadata.name=..",
        "fieldSelector=metadata.name=a/b",
        "fieldSelector=metadata.name=a%2525",
        // AC-33: the first term decides, though a later one would be legal.
        "fieldSelector=metadata.name=..,metadata.name=a",
        "fieldSelector=metadata.name=a,foo",
        "fieldSelector=metadata.name=a&labelSelector=a b",
        "fieldSelector=metadata.name=a&limit=",
        "fieldSelector=metadata.name=a&limit=x",
        "fieldSelector=metadata.name=a&limit=+5",
        "fieldSelector=metadata.name=a&limit=1.5",
        "fieldSelector=metadata.name=a&timeoutSeconds=9223372036854775808",
        "fieldSelector=%zz",
    ] {
        assert_eq!(name(query), "", "{query}");
    }
    // AC-35
    let deletion = read("DELETE", "/api/v1/pods?fieldSelector=metadata.name=a");
    assert_eq!((deletion.name(), deletion.verb()), ("", "deletecollection"));
    assert!(read("GET", "/api/v1/pods?fieldSelector=metadata.name=a").is_name_selected());
}

#[test]
fn ac_38_39_46_selectors_are_kept_raw_and_unreadable_ones_demand_nothing() {
    let info = read("DELETE", "/api/v1/pods?fieldSelector=a=b,c&labelSelector=x=y&fieldSelector=later");
    assert_eq!((info.raw_field_selector(), info.raw_label_selector()), ("a=b,c", "x=y"));
    assert!(info.field_selector.error.is_some());
    assert!(info.label_selector.error.is_none());
    let user = User::default();
    let resource = info.attributes(&user).resource.unwrap();
    assert!(resource.field_selector.is_empty());
    assert_eq!(resource.label_selector.len(), 1);

    for (method, target) in [
        ("GET", "/api/v1/pods/p?fieldSelector=a=b"),
        ("GET", "/api/v1/watch/pods?fieldSelector=a=b"),
        ("POST", "/api/v1/pods?fieldSelector=a=b"),
        ("GET", "/healthz?fieldSelector=a=b"),
    ] {
        let info = read(method, target);
        assert_eq!(info.raw_field_selector(), "", "{method} {target}");
    }
}

#[test]
fn selectors_that_are_no_text_are_refused_and_other_parameters_are_not_looked_at() {
    assert!(RequestInfo::parse("GET", "/api/v1/pods?fieldSelector=%ff").is_err());
    assert!(RequestInfo::parse("POST", "/api/v1/namespaces/x/pods/p/exec?command=%ff").is_ok());
    assert!(RequestInfo::parse("GET", "/api/v1/pods?x=%ff").is_ok());
    assert!(RequestInfo::parse("GET", "/api/v1/pods/%ff").is_err());
    assert_eq!(read("GET", "/api/v1/pods/a%00b").name(), "a\0b");
}

#[test]
fn over_long_paths_are_read_like_short_ones() {
    let target = format!("/api/v1/namespaces/x/pods/p/log{}", "/a".repeat(500_000));
    let info = read("GET", &target);
    assert_eq!((info.resource(), info.name(), info.subresource()), ("pods", "p", "log"));
    assert_eq!(info.parts().count(), 500_003);
}

proptest! {
    #[test]
    fn no_request_makes_the_reader_panic(
        method in prop_oneof![".{0,4}", Just("GET".to_owned()), Just("DELETE".to_owned())],
        target in prop::collection::vec(0_u8.., 0..64),
        tail in "(/|api|apis|v1|watch|proxy|namespaces|status|x|%2f|%|\\?|fieldSelector=|metadata.name|=|&){0,12}",
    ) {
        let _ = RequestInfo::parse(&method, &String::from_utf8_lossy(&target));
        let _ = RequestInfo::parse(&method, &format!("/{tail}"));
        let _ = RequestInfo::parse_reference(&method, &tail);
    }

    #[test]
    fn parts_are_the_words_between_slashes(words in prop::collection::vec("[a-c]{0,2}", 1..6)) {
        let target = format!("/api/v1/r/{}/end", words.join("/"));
        let info = read("PUT", &target);
        let expected: Vec<&str> = target.split('/').skip(3).collect();
        prop_assert_eq!(info.parts().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn slashes_around_the_path_change_nothing_but_the_path(before in "/{1,4}", after in "/{0,4}") {
        let info = read("GET", &format!("{before}apis/g/v1/namespaces/n/r/o/s{after}"));
        let plain = read("GET", "/apis/g/v1/namespaces/n/r/o/s");
        let (mut a, mut b) = (serde_json::to_value(info).unwrap(), serde_json::to_value(plain).unwrap());
        a["path"] = Value::Null;
        b["path"] = Value::Null;
        prop_assert_eq!(a, b);
    }
}
