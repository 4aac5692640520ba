//! Loading state files: what kubectl prints is taken, everything else is refused with its place.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use portcullis_policy::objects::Kind;
use portcullis_server::state::{self, Format, Loader, StateError, Summary};
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use proptest::prelude::*;
use serde_json::{Value, json};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Loads a text; the objects as text, in order, and what was counted.
fn load_text(format: Format, text: &str, threads: usize) -> Result<(Vec<String>, Summary), StateError> {
    let mut objects = Vec::new();
    let mut sink = |object: portcullis_policy::objects::Object<'_>| {
        objects.push(format!("{object:?}"));
        Ok(())
    };
    let mut loader = Loader::new(NonZeroUsize::new(threads).unwrap(), &mut sink);
    loader.text(Path::new("state"), format, text)?;
    let summary = loader.finish();
    Ok((objects, summary))
}

fn json(text: &str) -> (Vec<String>, Summary) {
    load_text(Format::Json, text, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(format: Format, text: &str) -> StateError {
    load_text(format, text, 1).map(|loaded| loaded.0).expect_err(text)
}

fn load_paths(paths: &[PathBuf]) -> Result<(Vec<String>, Summary), StateError> {
    let mut names = Vec::new();
    let summary = state::load(paths, ONE, &mut |object| {
        names.push(object.key().1.to_owned());
        Ok(())
    })?;
    Ok((names, summary))
}

fn states() -> Vec<String> {
    let folders = [("node-authorizer", 5), ("node-restriction", 5), ("rbac", 3)];
    let case = |(folder, count)| (1..=count).map(move |case| format!("{folder}/case{case}/state.json"));
    folders.into_iter().flat_map(case).map(|name| recorded::text(&name)).collect()
}

fn node(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}).to_string()
}

#[test]
fn every_recorded_state_loads_whole() {
    for text in states() {
        let (objects, summary) = json(&text);
        let value: Value = serde_json::from_str(&text).unwrap();
        let items = value["items"].as_array().unwrap();
        assert_eq!(objects.len(), items.len());
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for item in items {
            *kinds.entry(item["kind"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let counted: BTreeMap<String, u64> =
            summary.objects.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
        assert_eq!((counted, summary.ignored_count()), (kinds, 0));
    }
}

#[test]
fn the_same_objects_come_out_however_they_are_written() {
    for text in states() {
        let (expected, _) = json(&text);
        let value: Value = serde_json::from_str(&text).unwrap();
        let items = value["items"].as_array().unwrap();
        let line = |item: &Value| format!("{item}\n");
        let lines: String = items.iter().map(line).collect();
        let joined: String = items.iter().map(Value::to_string).collect();
        let pretty: String = items.iter().map(|item| serde_json::to_string_pretty(item).unwrap()).collect();
        let two_lists = format!(
            "{}{}",
            json!({"apiVersion": "v1", "kind": "List", "items": &items[..10]}),
            json!({"kind": "List", "items": &items[10..], "apiVersion": "v1"}),
        );
        let whole = serde_json::to_string_pretty(&value).unwrap();
        for written in [lines, joined, pretty, two_lists, whole] {
            // Parsing into a value sorts keys, and with them labels.
            assert_eq!(sorted_letters(&json(&written).0), sorted_letters(&expected));
        }
        // JSON is YAML.
        let (yaml, _) = load_text(Format::Yaml, &text, 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(yaml, expected);
    }
}

/// Each object as the multiset of its characters, for when the order of labels may differ.
fn sorted_letters(objects: &[String]) -> Vec<Vec<char>> {
    let sorted = |object: &String| {
        let mut letters: Vec<char> = object.chars().collect();
        letters.sort_unstable();
        letters
    };
    objects.iter().map(sorted).collect()
}

#[test]
fn what_kubectl_writes_as_yaml_and_json_is_read_back() {
    for text in states() {
        let scratch = Scratch::new();
        let file = scratch.write("state.json", &text);
        let file = file.to_str().unwrap();
        let written = |format: &str| kubectl(&["label", "--local", "-f", file, "-o", format, "absent-"]);
        let yaml = separated(&written("yaml"));
        assert!(yaml.contains("\n---\n"), "several documents");
        let sort = |(objects, _): (Vec<String>, Summary)| {
            let mut letters = sorted_letters(&objects);
            letters.sort();
            letters
        };
        let expected = sort(json(&text));
        assert_eq!(
            sort(load_text(Format::Yaml, &yaml, 1).unwrap_or_else(|error| panic!("{error}"))),
            expected
        );
        assert_eq!(sort(json(&written("json"))), expected);
    }
}

/// Puts separators between documents, which this command leaves out. Keys are sorted, so a document ends where a key
/// comes before the last one.
fn separated(yaml: &str) -> String {
    let (mut documents, mut last) = (String::new(), "");
    for line in yaml.lines() {
        if let Some((key, _)) = line.split_once(':').filter(|_| !line.starts_with([' ', '-'])) {
            if key <= last {
                documents.push_str("---\n");
            }
            last = key;
        }
        documents.push_str(line);
        documents.push('\n');
    }
    documents
}

fn kubectl(arguments: &[&str]) -> String {
    tool::run("kubectl", arguments)
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let items: Vec<String> = (0..5_000).map(|i| node(&format!("n{i}"))).collect();
    let text =
        |items: &[String]| format!(r#"{{"items":[{}],"kind":"List","apiVersion":"v1"}}"#, items.join("\n,"));
    let expected = json(&text(&items));
    for threads in [2, 3, 16] {
        assert_eq!(load_text(Format::Json, &text(&items), threads).unwrap(), expected);
    }
    let mut faulty = items;
    for place in [700, 1_400, 4_999] {
        faulty[place] = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":7}}"#.to_owned();
    }
    for threads in [1, 2, 16] {
        let error = load_text(Format::Json, &text(&faulty), threads).unwrap_err();
        assert_eq!((error.field.as_str(), error.line), ("items[700].metadata.name", Some(701)));
    }
}

#[test]
fn items_of_a_typed_list_take_the_type_of_the_list() {
    let (objects, summary) = json(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
            {"metadata":{"name":"a","namespace":"x"}},
            {"kind":"Pod","apiVersion":"v1","metadata":{"name":"b","namespace":"x"}}]}
           {"kind":"RoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":null}
           {"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"c"}}]}"#,
    );
    assert_eq!(objects.len(), 2);
    assert_eq!(summary.objects, BTreeMap::from([(Kind::Pod, 2)]));
    assert_eq!(summary.ignored, BTreeMap::from([(("v1".to_owned(), "ConfigMap".to_owned()), 1)]));
    let mixed = r#"{"kind":"PodList","apiVersion":"v1","items":[{"kind":"Node","metadata":{"name":"a"}}]}"#;
    assert_eq!(refused(Format::Json, mixed).field, "items[0].kind");
    let older =
        r#"{"kind":"PodList","apiVersion":"v1","items":[{"apiVersion":"v2","metadata":{"name":"a"}}]}"#;
    assert_eq!(refused(Format::Json, older).field, "items[0].apiVersion");
}

#[test]
fn kinds_that_play_no_part_are_checked_and_counted() {
    let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","items":{},"metadata":{"name":"a"}}
        {"apiVersion":"apps/v1","kind":"Deployment"}{"apiVersion":"example.com/v1","kind":"Pod","metadata":5}"#;
    let (objects, summary) = json(text);
    assert!(objects.is_empty());
    let count = |version: &str, kind: &str| (version.to_owned(), kind.to_owned());
    let expected = [(count("apps/v1", "Deployment"), 2), (count("example.com/v1", "Pod"), 1)];
    assert_eq!(summary.ignored, BTreeMap::from(expected));
    let twice = r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"a":1,"a":2}}"#;
    assert_eq!(refused(Format::Json, twice).field, "spec.a");
}

/// What is refused: the text, the line, the field, and a word of the reason.
const REFUSED: &[(&str, usize, &str, &str)] = &[
    ("[]", 1, "", "expected a Kubernetes object"),
    ("7", 1, "", "expected a Kubernetes object"),
    ("null", 1, "", "expected a Kubernetes object"),
    ("{}", 1, "apiVersion", "missing"),
    (r#"{"apiVersion":"v1"}"#, 1, "kind", "missing"),
    (r#"{"apiVersion":"v1","kind":5}"#, 1, "kind", "missing or not a string"),
    (r#"{"kind":"Node","metadata":{"name":"a"}}"#, 1, "apiVersion", "missing"),
    (r#"{"apiVersion":"v1","kind":"Node","kind":"Node"}"#, 1, "kind", "twice"),
    (r#"{"apiVersion":"v1","kind":"Node"}"#, 1, "metadata.name", "missing"),
    (r#"{"apiVersion":"v1","kind":"Node","metadata":{"generateName":"a-"}}"#, 1, "metadata.name", "missing"),
    (
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","namespace":"b"}}"#,
        1,
        "metadata.namespace",
        "no namespace",
    ),
    (r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#, 1, "metadata.namespace", "missing"),
    (
        "\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\n\"spec\":{\n\"nodeName\":5}}",
        4,
        "spec.nodeName",
        "expected a string",
    ),
    (r#"{"apiVersion":"v1","kind":"Status","status":"Failure"}"#, 1, "kind", "failed request"),
    (r#"{"apiVersion":"meta.k8s.io/v1","kind":"Table","rows":[]}"#, 1, "kind", "json or yaml"),
    (r#"{"apiVersion":"v1","kind":"List"}"#, 1, "items", "missing"),
    (r#"{"apiVersion":"v1","kind":"List","items":{}}"#, 1, "items", "must be a list"),
    (r#"{"apiVersion":"v1","kind":"List","items":[],"items":[]}"#, 1, "items", "twice"),
    (r#"{"apiVersion":"v1","kind":"List","items":[],"metadata":{"a":1,"a":1}}"#, 1, "metadata.a", "twice"),
    (r#"{"apiVersion":"v1","kind":"List","metadata":{},"items":[],"metadata":{}}"#, 1, "metadata", "twice"),
    (r#"{"apiVersion":"v1","kind":"Pods","items":[]}"#, 1, "kind", "ends in List"),
    (r#"{"kind":"PodList","items":[]}"#, 1, "apiVersion", "missing"),
    ("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\nnull]}", 2, "items[0]", "not an object"),
    ("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{},{}]}", 2, "items[0].apiVersion", "missing"),
    (
        r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[]}]}"#,
        1,
        "items[0].kind",
        "within a list",
    ),
    (
        "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"apiVersion\":\"v1\",\n\"kind\":",
        3,
        "items[0].kind",
        "truncated",
    ),
    (
        "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"apiVersion\":\"v1\"},\n",
        3,
        "items",
        "truncated",
    ),
    (r#"{"apiVersion":"v1","kind":"List","items":[]"#, 1, "", "truncated"),
    ("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}\n{\"a\":{\"b\":tru}}", 2, "a.b", "expected ident"),
    ("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}\n]", 2, "", "expected value"),
];

#[test]
fn what_is_not_a_state_is_refused_with_line_field_and_reason() {
    for (text, line, field, reason) in REFUSED {
        let error = refused(Format::Json, text);
        assert_eq!((error.line, error.field.as_str()), (Some(*line), *field), "{text}\n{error}");
        assert!(error.reason.contains(reason), "{text}\n{error}");
        assert!(error.to_string().starts_with(&format!("state:{line}:")), "{error}");
    }
}

#[test]
fn every_cut_of_a_state_is_refused() {
    let text = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{},{}]}}"#, node("a"), node("b"));
    for cut in 1..text.len() {
        let error = refused(Format::Json, &text[..cut]);
        assert!(error.reason.contains("truncated"), "{error}");
    }
}

#[test]
fn an_object_given_twice_is_refused_and_both_places_are_named() {
    let role = |version: &str| {
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/{version}","kind":"Role","metadata":{{"name":"r","namespace":"x"}}}}"#
        )
    };
    let error = refused(Format::Json, &format!("{}\n{}\n{}", role("v1"), node("n"), role("v1beta1")));
    assert_eq!((error.line, error.field.as_str()), (Some(3), ""));
    assert!(error.reason.contains("Role x/r") && error.reason.contains("line 1"), "{error}");
    // Another namespace, another kind, another name.
    let others = role("v1").replace("\"x\"", "\"y\"") + &role("v1").replace("Role", "RoleBinding");
    assert_eq!(json(&(role("v1") + &others + &role("v1").replace("\"r\"", "\"rx\""))).0.len(), 4);
    let scratch = Scratch::new();
    let files = [scratch.write("a.json", node("n")), scratch.write("b.json", node("n"))];
    let error = load_paths(&files).unwrap_err();
    assert_eq!(error.file, files[1]);
    assert!(error.reason.contains("a.json"), "{error}");
}

#[test]
fn faults_in_yaml_are_placed_in_the_yaml() {
    let yaml = "# state\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    \
                name: a\n    namespace: x\n    annotations:\n      text: |\n        two\n        lines\n  spec:\n    \
                nodeName: 5\n";
    let error = refused(Format::Yaml, yaml);
    assert_eq!((error.line, error.field.as_str()), (Some(15), "items[0].spec.nodeName"));
    let error = refused(Format::Yaml, "kind: Node\nkind: Node\n");
    assert_eq!(error.line, Some(2), "{error}");
    let error = refused(Format::Yaml, "---\n---\nkind: Node\n---\n# end\n");
    assert_eq!((error.line, error.field.as_str()), (Some(3), "apiVersion"));
    assert!(refused(Format::Yaml, "kind: [\n").reason.contains("not valid YAML"));
    let error = refused(Format::Yaml, "apiVersion: v1\nkind: Node\nmetadata: {name: on}\n");
    assert_eq!((error.line, error.field.as_str()), (Some(3), "metadata.name"));
}

#[test]
fn yaml_that_entangles_or_nests_without_end_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let entangled = refused(Format::Yaml, &bomb);
    assert!(entangled.reason.contains("not valid YAML: budget breached"), "{entangled}");
    for open in ["[", "- "] {
        // Which limit speaks first is the YAML reader's affair.
        let deep = refused(Format::Yaml, &open.repeat(100_000)).reason;
        assert!(deep.contains("deeper") || deep.contains("recursion limit"), "{deep}");
    }
    assert!(refused(Format::Json, &format!("{{\"a\":{}", "[".repeat(100_000))).reason.contains("deeper"));
}

#[test]
fn a_directory_is_read_in_the_order_of_names() {
    let scratch = Scratch::new();
    scratch.write("b.json", node("b"));
    scratch.write("a/z.yml", "apiVersion: v1\nkind: Node\nmetadata:\n  name: az\n");
    scratch.write("a/c.yaml", "---\napiVersion: v1\nkind: Node\nmetadata: {name: ac}\n---\n");
    scratch.write("c/notes.txt", "not a state");
    scratch.write("c/d.json", node("cd"));
    scratch.write("..2026/x.json", node("hidden"));
    let (names, summary) = load_paths(&[scratch.path().to_owned()]).unwrap();
    assert_eq!(names, ["ac", "az", "b", "cd"]);
    assert_eq!(summary.files, 4);
    let twice = load_paths(&[scratch.path().join("b.json"), scratch.path().to_owned()]).unwrap_err();
    assert!(twice.reason.contains("occurs twice"), "{twice}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    scratch.write("state/a/a.json", node("a"));
    let target = scratch.write("elsewhere/b.json", node("b"));
    symlink(&target, scratch.path().join("state/b.json")).unwrap();
    symlink(scratch.path().join("state"), scratch.path().join("state/a/up")).unwrap();
    symlink(".", scratch.path().join("state/here")).unwrap();
    let (names, _) = load_paths(&[scratch.path().join("state")]).unwrap();
    assert_eq!(names, ["a", "b"]);
    symlink("nowhere", scratch.path().join("state/c.json")).unwrap();
    let error = load_paths(&[scratch.path().join("state")]).unwrap_err();
    assert!(error.file.ends_with("state/c.json") && error.reason.contains("cannot be read"), "{error}");
}

#[test]
fn files_that_cannot_be_a_state_are_refused_by_name() {
    let scratch = Scratch::new();
    let cases: [(&str, &[u8], &str); 6] = [
        ("empty.json", b"", "empty"),
        ("blank.yaml", b"\n \n", "empty"),
        ("latin.json", b"{\n\"a\":\"\xe4\"}", "not UTF-8: byte 0xe4"),
        ("utf16.json", b"\xff\xfe{\0}\0", "UTF-16"),
        ("marked.json", b"\xef\xbb\xbf{}", "byte order mark"),
        ("text", b"hello", "expected a Kubernetes object"),
    ];
    for (name, content, reason) in cases {
        let path = scratch.write(name, content);
        let error = load_paths(std::slice::from_ref(&path)).unwrap_err();
        assert_eq!(error.file, path);
        assert!(error.reason.contains(reason), "{error}");
    }
    let folder = scratch.path().join("none");
    std::fs::create_dir(&folder).unwrap();
    assert!(load_paths(&[folder]).unwrap_err().reason.contains("no .json, .yaml or .yml"));
    assert!(load_paths(&[scratch.path().join("absent")]).unwrap_err().reason.contains("cannot be read"));
    assert_eq!(load_paths(&[]).unwrap(), (Vec::new(), Summary::default()));
}

#[test]
fn a_file_whose_name_says_nothing_is_told_by_its_text() {
    let scratch = Scratch::new();
    let files = [
        scratch.write("state", format!("\n {}\n{}", node("a"), node("b"))),
        scratch.write("state.txt", "kind: Node\napiVersion: v1\nmetadata:\n  name: c\n"),
    ];
    assert_eq!(load_paths(&files).unwrap().0, ["a", "b", "c"]);
}

proptest! {
    #[test]
    fn text_survives_yaml_as_it_survives_json(name in "\\PC{1,12}", key in "\\PC{1,8}", value in any::<String>()) {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": {key: value},
        }}).to_string();
        let from_json = load_text(Format::Json, &object, 1);
        // Characters that YAML cannot hold raw, serde_json writes raw: those alone may be refused.
        if let Ok((yaml, _)) = load_text(Format::Yaml, &object, 1) {
            prop_assert_eq!(yaml, from_json.unwrap().0);
        } else {
            prop_assert!(object.chars().any(|c| c.is_control() || !c.is_ascii()), "{}", object);
        }
    }
}
