//! Objects: JSON, state in both languages, and RBAC objects of old versions.

use std::num::NonZeroUsize;
use std::path::Path;

use portcullis_apimachinery::json;
use portcullis_kinds::resources::rbac::legacy;
use portcullis_policy::objects::Object;
use portcullis_server::state::{self, Format, Loader};
use serde_json::Value;

pub(super) const JSON: &[&str] =
    &["{}", "[]", "null", "true", "\"a\":", "\"\\u00e4\"", "1.5e3", ",", ":", "\"apiVersion\":\"v1\""];

pub(super) const STATE_JSON: &[&str] = &[
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

pub(super) const STATE_ARCHIVE: &[&str] =
    &["ustar\0", "ustar  \0", "00000000012\0", "path=a.json\n", "a.json", "../", "kubelets/", "\u{1f}\u{8b}"];

pub(super) const STATE_YAML: &[&str] = &[
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

pub(super) const RBAC_LEGACY: &[&str] = &[
    "rbac.authorization.k8s.io/v1alpha1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "\"apiVersion\":\"v1\",",
    "\"apiGroup\":\"\",",
    "\"kind\":\"User\",",
    "\"kind\":\"Group\",",
    "\"kind\":\"ServiceAccount\",",
    "\"name\":\"*\",",
    "\"attributeRestrictions\":{},",
    "\"subjects\":",
    "\"rules\":",
    "\"roleRef\":",
    "null",
    "{}",
    "[]",
];

pub(super) fn json(input: &[u8]) -> bool {
    let Ok(text) = json::check_bytes(input) else { return false };
    let value: Value = serde_json::from_str(text).expect("what passes the check is JSON");
    // There was no duplicate key, so nothing was lost, and the printed value is valid as well.
    assert_eq!(json::check(&value.to_string()), Ok(()), "what was read passes again");
    true
}

pub(super) fn state_archive(input: &[u8]) -> bool {
    let archive = Path::new("archive.tar");
    let mut size = 0;
    let read = state::archive(archive, input, &mut |path, _, text| {
        assert!(path.starts_with(archive), "{}", path.display());
        size += text.len();
        Ok(())
    });
    // Nothing in it is compressed that often.
    assert!(size <= input.len().saturating_mul(1_100), "{size}");
    read.is_ok()
}

pub(super) fn state_json(input: &[u8]) -> bool {
    let Ok(text) = json::utf8(input) else { return false };
    let one = load(Format::Json, text, 1);
    assert_eq!(one, load(Format::Json, text, 2), "the number of threads changes nothing");
    one.is_ok()
}

pub(super) fn state_yaml(input: &[u8]) -> bool {
    let Ok(text) = json::utf8(input) else { return false };
    let loaded = load(Format::Yaml, text, 1);
    if let Err((Some(line), reason)) = &loaded {
        let lines = text.lines().count().max(1);
        assert!(*line <= lines + 1, "line {line} of {lines}: {reason}");
    }
    loaded.is_ok()
}

/// Returns the state in a text, or the line and message of the error.
fn load(format: Format, text: &str, threads: usize) -> Result<Vec<String>, (Option<usize>, String)> {
    let mut keys = Vec::new();
    let mut sink = |object: Object<'_>| {
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

pub(super) fn rbac_legacy(input: &[u8]) -> bool {
    let Ok(text) = json::check_bytes(input) else { return false };
    let original: Value = serde_json::from_str(text).expect("what passes the check is JSON");
    let mut upgraded = original.clone();
    if !legacy::upgrade(&mut upgraded) {
        assert_eq!(upgraded, original, "what is no old RBAC object stays as it is");
        return false;
    }
    let mut again = upgraded.clone();
    assert!(!legacy::upgrade(&mut again), "what was upgraded is of the newest version");
    assert_eq!(again, upgraded, "and stays as it is");
    let everybody = |value: &Value| {
        let subjects = value.get("subjects").and_then(Value::as_array).into_iter().flatten();
        let is = |subject: &Value, key, text| subject.get(key).is_some_and(|value| value == text);
        subjects.filter(|subject| is(subject, "kind", "User") && is(subject, "name", "*")).count()
    };
    if original.get("apiVersion").is_none_or(|version| version != legacy::V1ALPHA1) {
        assert_eq!(everybody(&upgraded), everybody(&original), "RB-124: v1beta1 takes the star literally");
        return true;
    }
    assert_eq!(everybody(&upgraded), 0, "RB-124: v1alpha1 means everybody by the star");
    // RB-121, RB-123: conversion and back loses nothing relevant.
    assert!(legacy::downgrade_to_v1alpha1(&mut again), "an object of the newest version has an old form");
    assert!(legacy::upgrade(&mut again), "which is an old one");
    assert_eq!(again, upgraded, "and means the same");
    true
}
