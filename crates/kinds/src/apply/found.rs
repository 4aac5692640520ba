//! Whether a `fieldsV1` has the fields of a set, without reading it into one.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::set::FieldSet;
use super::step;

/// The fields of a set that a `fieldsV1` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Whether it has its own field.
    has_own: bool,
    /// Whether it has all fields of the set.
    pub(super) has_all: bool,
    /// Whether it may have one of them. A step that is not spelled as we spell it may be any step.
    pub(super) may_have_any: bool,
}

impl Found {
    /// Looks for the fields of a set in a `fieldsV1`; `None` if that cannot be read.
    pub(super) fn in_fields<'de>(fields: impl Deserializer<'de>, set: &FieldSet) -> Option<Self> {
        Search(set).deserialize(fields).ok()
    }
}

/// A search for the fields of this set.
#[derive(Clone, Copy)]
struct Search<'s>(&'s FieldSet);

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, fields: D) -> Result<Found, D::Error> {
        fields.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a set of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found, A::Error> {
        let mut is_empty = true;
        let (mut has_own, mut is_spelled_otherwise, mut may_have_any) = (false, false, false);
        let mut complete = 0_usize;
        let mut missing = self.0.children().filter(|(step, _)| step::name(step).is_none()).count();
        while let Some(step) = members.next_key_seed(Step(self.0))? {
            is_empty = false;
            let child = match step {
                Member::Own => {
                    has_own = true;
                    None
                }
                Member::Other { is_ours } => {
                    is_spelled_otherwise |= !is_ours;
                    None
                }
                Member::In { child, is_named } => {
                    if !is_named {
                        missing = missing.saturating_sub(1);
                    }
                    Some(child)
                }
            };
            let Some(child) = child else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let found = members.next_value_seed(Search(child))?;
            may_have_any |= child.is_member() && found.has_own || found.may_have_any;
            if (!child.is_member() || found.has_own) && found.has_all {
                complete = complete.saturating_add(1);
            }
        }
        Ok(Found {
            has_own: is_empty || has_own,
            has_all: complete == self.0.children().count(),
            may_have_any: may_have_any || missing > 0 && is_spelled_otherwise,
        })
    }
}

/// A member of a `fieldsV1`, beside a set.
enum Member<'s> {
    /// `.`: the object's own field.
    Own,
    /// A step that the set has.
    In {
        /// The part of the set below the step.
        child: &'s FieldSet,
        /// Whether it is the name of a field, which has one spelling.
        is_named: bool,
    },
    /// Another one.
    Other {
        /// Whether it is spelled as we spell it.
        is_ours: bool,
    },
}

/// Finds a step of a `fieldsV1` in this set.
struct Step<'s>(&'s FieldSet);

impl<'de, 's> DeserializeSeed<'de> for Step<'s> {
    type Value = Member<'s>;

    fn deserialize<D: Deserializer<'de>>(self, step: D) -> Result<Member<'s>, D::Error> {
        step.deserialize_str(self)
    }
}

impl<'s> Visitor<'_> for Step<'s> {
    type Value = Member<'s>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step to a field")
    }

    fn visit_str<E>(self, text: &str) -> Result<Member<'s>, E> {
        if text == "." {
            return Ok(Member::Own);
        }
        let is_named = step::name(text).is_some();
        Ok(match self.0.below(text) {
            Some(child) => Member::In { child, is_named },
            // A name has one spelling.
            None => Member::Other {
                is_ours: is_named || step::parse(text).is_ok_and(|step| step.as_deref() == Some(text)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The result as it follows from the sets themselves.
    fn naive(fields: &Value, set: &FieldSet) -> (bool, bool) {
        let owned = FieldSet::parse(Some(fields)).unwrap();
        (set.is_within(&owned), !set.common(&owned).is_empty())
    }

    #[test]
    fn a_search_finds_what_the_sets_have_in_common() {
        let of = |value: &Value| FieldSet::parse(Some(value)).unwrap();
        let keyed = r#"k:{"name":"a"}"#;
        let parts = [
            json!({"f:a": {}}),
            json!({"f:b": {}}),
            json!({"f:a": {"f:b": {}}}),
            json!({"f:a": {".": {}, "f:b": {}}}),
            json!({"f:a": {"f:b": {}, "f:c": {}}}),
            json!({"f:l": {keyed: {}}}),
            json!({"f:l": {keyed: {".": {}, "f:x": {}}}}),
            json!({"f:l": {keyed: {"f:x": {}}, "v:1": {}}}),
            json!({"f:l": {"v:1": {}}}),
            json!({"f:l": {"v:2": {}, "i:0": {}}}),
            json!({}),
        ];
        for fields in &parts {
            for set in parts.iter().map(of) {
                let text = fields.to_string();
                let found = Found::in_fields(fields, &set).unwrap();
                let of_text = Found::in_fields(&mut serde_json::Deserializer::from_str(&text), &set);
                assert_eq!(of_text, Some(found));
                assert_eq!((found.has_all, found.may_have_any), naive(fields, &set), "{fields} {set:?}");
            }
        }
    }

    #[test]
    fn another_spelling_may_be_any_field() {
        let set = FieldSet::parse(Some(&json!({"f:l": {"k:{\"a\":\"<\",\"b\":80}": {}}}))).unwrap();
        let search = |fields: Value| Found::in_fields(&fields, &set);
        let found = search(json!({"f:l": {"k:{\"b\":80,\"a\":\"<\"}": {}}})).unwrap();
        assert!(found.may_have_any && !found.has_all);
        let found = search(json!({"f:l": {"k:{\"a\":\"x\",\"b\":80}": {}, "f:o": {}}})).unwrap();
        assert!(!found.may_have_any && !found.has_all);
        for wrong in [json!([]), json!({"f:l": 1}), json!({"f:l": {"k:{\"a\":\"\\u003c\",\"b\":80}": "x"}})] {
            assert_eq!(search(wrong.clone()), None, "{wrong}");
        }
    }
}
