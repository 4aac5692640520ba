//! Finds the line of a field in an object of a file. Never reads a file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Document;
use super::split::start_of;

/// The line of the file where the value of a field begins, from 1; of a field that is not there, that of the nearest one around it.
/// The field is a JSON pointer.
pub fn line_of(document: &Document<'_>, pointer: &str) -> usize {
    let mut at = document.json;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match within(at, &part) {
            Some(value) => at = value,
            None => break,
        }
    }
    let before = document.json.get(..start_of(document.json, at)).unwrap_or_default();
    document.line.saturating_add(before.matches('\n').count())
}

/// The value of a field of an object, or of a place of a list.
fn within<'t>(json: &'t str, part: &str) -> Option<&'t str> {
    if json.starts_with('[') {
        let list: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        return list.get(part.parse::<usize>().ok()?).map(|value| value.get());
    }
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json).ok()?;
    fields.get(part).map(|value| value.get())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_field_is_found_by_its_line() {
        let json = "{\"rules\": [\n{\"verbs\": [\"get\"]},\n{\"verbs\":\n[\"list\"]}],\n\"a/b\": 1}";
        let document = Document { api_version: "v1", kind: "X", json, path: Path::new("x.json"), line: 10 };
        for (pointer, line) in [
            ("", 10),
            ("/rules/0", 11),
            ("/rules/1", 12),
            ("/rules/1/verbs/0", 13),
            ("/a~1b", 14),
            ("/rules/7", 10),
        ] {
            assert_eq!(line_of(&document, pointer), line, "{pointer}");
        }
    }
}
