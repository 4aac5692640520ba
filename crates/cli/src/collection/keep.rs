//! Reduces a document to the fields that are named, and to nothing else: what nobody thought of is left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Computes a field from the object that it is in, by the name in a path: the name of the field and its value.
pub(super) type Compute = fn(&str, &Map<String, Value>) -> Option<(String, Value)>;

/// What is kept of a value.
///
/// It is made of paths, whose parts are separated by dots: the name of a field, `[]` for every item of a list, and at the end
/// `{}` for "this field is there", or `<NAME>` for a field that is computed from the object. A path keeps everything below it.
#[derive(Debug)]
pub(super) struct Keep {
    parts: Parts,
    compute: Compute,
}

#[derive(Debug, Default)]
struct Parts(BTreeMap<String, Parts>);

impl Keep {
    /// Keeps what these paths name.
    pub(super) fn of(paths: impl IntoIterator<Item = impl AsRef<str>>, compute: Compute) -> Self {
        let mut parts = Parts::default();
        for path in paths {
            let mut at = &mut parts;
            for part in path.as_ref().split('.') {
                at = at.0.entry(part.to_owned()).or_default();
            }
        }
        Self { parts, compute }
    }

    /// Reduces a document.
    ///
    /// # Errors
    /// A value is not of the type that the paths name, and where.
    pub(super) fn reduce(&self, document: Value) -> Result<Value, String> {
        Ok(self.parts.kept(document, "", self.compute)?.unwrap_or_default())
    }
}

impl Parts {
    /// What is kept of a value; none if it is null.
    fn kept(&self, value: Value, path: &str, compute: Compute) -> Result<Option<Value>, String> {
        if value.is_null() || self.0.is_empty() {
            return Ok(Some(value).filter(|value| !value.is_null()));
        }
        if let Some(each) = self.0.get("[]") {
            let Value::Array(items) = value else { return Err(format!("{path} is no list")) };
            let path = format!("{path}[]");
            let items: Result<Vec<_>, _> =
                items.into_iter().map(|item| each.kept(item, &path, compute)).collect();
            return Ok(Some(items?.into_iter().flatten().collect()));
        }
        if self.0.contains_key("{}") {
            return Ok(Some(Value::Object(Map::new())));
        }
        let Value::Object(fields) = value else { return Err(format!("{path} is no object")) };
        self.fields(fields, path, compute).map(|fields| Some(Value::Object(fields)))
    }

    fn fields(
        &self,
        mut fields: Map<String, Value>,
        path: &str,
        compute: Compute,
    ) -> Result<Map<String, Value>, String> {
        let mut kept = Map::new();
        for name in self.0.keys().filter(|name| name.starts_with('<')) {
            kept.extend(compute(name, &fields));
        }
        for (name, keep) in &self.0 {
            let Some(value) = fields.remove(name) else { continue };
            if let Some(value) = keep.kept(value, &format!("{path}.{name}"), compute)? {
                kept.insert(name.clone(), value);
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_named_is_left_out() {
        let keep = Keep::of(["a", "b.c", "d.[].e", "f.{}", "g.h", "i.<size>"], |name, object| {
            (name == "<size>").then(|| ("size".to_owned(), object.len().into()))
        });
        let document = json!({
            "a": {"x": [1, {"y": 2}]}, "b": {"c": 1, "x": 2}, "d": [{"e": 1, "x": 2}, {"x": 3}, null], "f": {"x": 1},
            "g": {"x": 1}, "i": {"x": 1, "y": 1}, "x": 1,
        });
        let reduced = json!({"a": {"x": [1, {"y": 2}]}, "b": {"c": 1}, "d": [{"e": 1}, {}], "f": {}, "g": {}, "i": {"size": 2}});
        assert_eq!(keep.reduce(document), Ok(reduced));
        assert_eq!(keep.reduce(json!({"a": null, "b": null, "d": null, "f": null})), Ok(json!({})));
    }

    #[test]
    fn what_is_of_another_type_is_an_error_and_is_not_shown() {
        let keep = Keep::of(["a.b", "c.[].d"], |_, _| None);
        for (document, path) in
            [(json!({"a": "s3cret"}), ".a "), (json!({"c": {}}), ".c "), (json!({"c": ["s3cret"]}), ".c[] ")]
        {
            let error = keep.reduce(document).unwrap_err();
            assert!(error.starts_with(path) && !error.contains("s3cret"), "{error}");
        }
    }
}
