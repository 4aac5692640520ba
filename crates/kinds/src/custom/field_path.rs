//! Paths to a field of a schema, such as `.spec.color` or `.labels['a/b']`: of rules and of selectable fields.

use serde_json::Value;

use super::schema::Schema;
use crate::Map;

/// A path to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// The members on the way, and whether each is one of a map.
    steps: Box<[(Box<str>, bool)]>,
}

impl FieldPath {
    /// Reads a path, and finds the schema of the field that it leads to.
    ///
    /// # Errors
    /// It is not a path, or does not lead to a field.
    pub fn find<'s>(text: &str, schema: &'s Schema) -> Result<(Self, &'s Schema), String> {
        let mut steps = Vec::new();
        let mut at = schema;
        let mut rest = text;
        if rest.is_empty() {
            return Err("an empty path".to_owned());
        }
        while !rest.is_empty() {
            let (name, after) = step(rest)?;
            let (next, is_key) = match (at.property(&name), at.additional()) {
                (Some(next), _) => (next, false),
                (None, Some(next)) => (next, true),
                (None, None) => return Err(format!("does not refer to a valid field: {name:?}")),
            };
            steps.push((name.into_boxed_str(), is_key));
            (at, rest) = (next, after);
        }
        Ok((Self { steps: steps.into() }, at))
    }

    /// Whether the first member has this name.
    pub fn begins_with(&self, name: &str) -> bool {
        self.steps.first().is_some_and(|(first, _)| **first == *name)
    }

    /// The value that the path leads to.
    pub fn value<'v>(&self, object: &'v Map) -> Option<&'v Value> {
        let ((first, _), rest) = self.steps.split_first()?;
        rest.iter().try_fold(object.get(&**first)?, |value, (name, _)| value.get(&**name))
    }

    /// The name by which the field is selected: `spec.color`.
    pub fn name(&self) -> String {
        self.steps.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(".")
    }

    /// The path of an error: `spec.labels[a]`.
    pub fn shown(&self) -> String {
        let mut shown = String::new();
        for (name, is_key) in &self.steps {
            match (is_key, shown.is_empty()) {
                (true, _) => shown.push_str(&format!("[{name}]")),
                (false, true) => shown.push_str(name),
                (false, false) => shown.push_str(&format!(".{name}")),
            }
        }
        shown
    }
}

/// Reads the first step of a path; returns the rest.
fn step(text: &str) -> Result<(String, &str), String> {
    if let Some(rest) = text.strip_prefix("['") {
        let mut name = String::new();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '\'' => {
                    let after = rest.get(at + 1..).and_then(|rest| rest.strip_prefix(']'));
                    return after
                        .map(|after| (name, after))
                        .ok_or_else(|| "a quote that does not end".to_owned());
                }
                c => name.push(c),
            }
        }
        return Err("a quote that does not end".to_owned());
    }
    let Some(rest) = text.strip_prefix('.') else {
        return Err(format!("expected [ or . but got: {text:?}"));
    };
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, after) = rest.split_at_checked(end).unwrap_or_default();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(format!("unexpected token: {name:?}"));
    }
    Ok((name.to_owned(), after))
}
