//! The readers of outside input and what each promises whatever it is given: a new reader is one more row.

use std::num::NonZeroUsize;
use std::path::Path;

use portcullis_policy::json;
use portcullis_server::state::{Format, Loader};

/// A reader of outside input.
pub(crate) struct Target {
    /// Its name, and that of its corpus.
    pub(crate) name: &'static str,
    /// Words of its format.
    pub(crate) dictionary: &'static [&'static str],
    /// Reads an input; panics when a promise is broken.
    pub(crate) run: fn(&[u8]),
}

/// Every target.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "json", dictionary: JSON, run: json_check },
    Target { name: "state-json", dictionary: STATE, run: state_json },
    Target { name: "state-yaml", dictionary: YAML, run: state_yaml },
];

const JSON: &[&str] =
    &["{}", "[]", "null", "true", "\"a\":", "\"\\u00e4\"", "1.5e3", ",", ":", "\"apiVersion\":\"v1\""];

const STATE: &[&str] = &[
    "\"apiVersion\":\"v1\",",
    "\"kind\":\"Pod\",",
    "\"kind\":\"PodList\",",
    "\"kind\":\"List\",",
    "\"items\":[",
    "\"metadata\":{",
    "\"name\":\"a\",",
    "\"namespace\":\"a\",",
    "null",
    "{}",
    "[]",
    "\n",
];

const YAML: &[&str] = &[
    "---\n",
    "...\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "!!binary ",
    "!x ",
    "|\n",
    ">-\n",
    "? ",
    "- ",
    "%YAML 1.1\n",
    "# ",
    "kind: List\n",
    "items:\n",
    "~",
    "yes",
    "0o7",
    "2026-11-21",
    "\t",
];

fn json_check(input: &[u8]) {
    let Ok(text) = json::check_bytes(input) else { return };
    let value: serde_json::Value = serde_json::from_str(text).expect("what passes the check is JSON");
    // No key was given twice, so nothing is lost by reading it, and what was read passes as well.
    assert_eq!(json::check(&value.to_string()), Ok(()), "what was read passes again");
}

fn state_json(input: &[u8]) {
    let Ok(text) = json::utf8(input) else { return };
    let one = load(Format::Json, text, 1);
    assert_eq!(one, load(Format::Json, text, 2), "the number of threads changes nothing");
}

fn state_yaml(input: &[u8]) {
    let Ok(text) = json::utf8(input) else { return };
    if let Err(error) = load(Format::Yaml, text, 1) {
        let lines = text.lines().count().max(1);
        assert!(error.0.is_none_or(|line| line <= lines + 1), "line {:?} of {lines}: {}", error.0, error.1);
    }
}

/// What a text holds as a state, or the line and words of its fault.
fn load(format: Format, text: &str, threads: usize) -> Result<Vec<String>, (Option<usize>, String)> {
    let mut keys = Vec::new();
    let mut sink = |object: portcullis_policy::objects::Object<'_>| {
        let (namespace, name) = object.key();
        assert!(!name.is_empty(), "every object has a name");
        assert_eq!(object.kind().is_namespaced(), !namespace.is_empty(), "namespaces are where they belong");
        keys.push(format!("{} {namespace}/{name}", object.kind()));
        Ok(())
    };
    let mut loader = Loader::new(NonZeroUsize::new(threads).expect("not zero"), &mut sink);
    loader.text(Path::new("input"), format, text).map_err(|error| (error.line, error.to_string()))?;
    let count = loader.finish().object_count();
    assert_eq!(count, keys.len() as u64, "every object is counted");
    keys.sort();
    let length = keys.len();
    keys.dedup();
    assert_eq!(length, keys.len(), "no object is handed out twice");
    Ok(keys)
}
