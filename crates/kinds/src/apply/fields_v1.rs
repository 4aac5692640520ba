//! Field sets in the form of `fieldsV1`: objects whose members are steps, `.` for the object's own field.

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::step;

/// The deepest `fieldsV1` that is read. No object is deeper.
const MAX_DEPTH: usize = 128;

impl FieldSet {
    /// Reads a `fieldsV1`. Nothing is an empty set; steps of a kind that is not known are ignored.
    ///
    /// # Errors
    /// It is not in the form of `fieldsV1`.
    pub fn parse(fields: Option<&Value>) -> Result<Self, &'static str> {
        match fields {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(members)) => {
                let mut set = Self::default();
                read(&mut set, members, MAX_DEPTH)?;
                Ok(set)
            }
            Some(_) => Err("fieldsV1 is not an object"),
        }
    }

    /// The set as `fieldsV1`.
    pub fn print(&self) -> Value {
        let mut members = Map::new();
        for (step, child) in self.children() {
            let mut printed = child.print();
            if let Value::Object(below) = &mut printed
                && child.is_member()
                && !below.is_empty()
            {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            members.insert(step.to_owned(), printed);
        }
        Value::Object(members)
    }
}

/// Reads the members of an object into a set. Returns whether the object's own field is in the set.
fn read(set: &mut FieldSet, members: &Map<String, Value>, levels: usize) -> Result<bool, &'static str> {
    if levels == 0 {
        return Err("fieldsV1 is nested too deeply");
    }
    let mut is_member = true;
    let mut names_itself = false;
    for (name, value) in members {
        if name == "." {
            names_itself = true;
            continue;
        }
        let Some(step) = step::parse(name)? else { continue };
        let Value::Object(below) = value else { return Err("a field of fieldsV1 is not an object") };
        let mut child = FieldSet::default();
        if read(&mut child, below, levels.saturating_sub(1))? {
            child.insert_self();
        }
        set.insert(step, child);
        // An object with others in it is a field of the set only if it says so.
        is_member = false;
    }
    Ok(is_member || names_itself)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_is_ignored_and_what_is_wrong_refused() {
        let parse = |value: Value| FieldSet::parse(Some(&value));
        assert!(parse(json!({"g:data": {}})).unwrap().is_empty());
        assert_eq!(parse(json!({"f:a": {"g:b": {}}})), parse(json!({"f:a": {}})));
        for wrong in [json!([]), json!({"f": {}}), json!({"f:a": 1}), json!({"k:[]": {}}), json!({"i:x": {}})]
        {
            assert!(parse(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(FieldSet::parse(None).unwrap().is_empty());
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"f:a": deep});
        }
        assert!(parse(deep).is_err());
    }

    #[test]
    fn steps_are_equal_however_they_are_written() {
        let one = FieldSet::parse(Some(&json!({"k:{\"b\": 80.0, \"a\":\"\\u003c\"}": {}}))).unwrap();
        let two = FieldSet::parse(Some(&json!({"k:{\"a\":\"<\",\"b\":80}": {".": {}}}))).unwrap();
        assert_eq!(one, two);
        assert_eq!(one.print(), json!({"k:{\"a\":\"\\u003c\",\"b\":80}": {}}));
    }
}
