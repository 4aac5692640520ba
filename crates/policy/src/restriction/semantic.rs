//! Values whose `==` is the semantic equality of Kubernetes (NR-51).
//!
//! Quantities are equal by value ([`Quantity`](portcullis_apimachinery::quantity::Quantity)), times by instant, and absent lists and
//! maps equal empty ones. A view made of these derives `PartialEq` and is compared as Kubernetes compares.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use portcullis_apimachinery::time;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::objects::decode::Text;

/// A map with string keys. The order of the document is ignored; the last value of a repeated key wins. Absent and
/// `null` are the empty map, and a `null` value is the default of the value type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map<'a, V>(BTreeMap<Text<'a>, V>);

impl<V> Default for Map<'_, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, V> Map<'a, V> {
    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.0.get(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(AsRef::as_ref)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Text<'a>, &V)> {
        self.0.iter()
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de> + Default> Deserialize<'de> for Map<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de> + Default> Visitor<'de> for MapVisitor<V> {
            type Value = Map<'de, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, Option<V>>()? {
                    entries.insert(key, value.unwrap_or_default());
                }
                Ok(Map(entries))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Map::default())
            }
        }
        let Map(entries) = deserializer.deserialize_any(MapVisitor(PhantomData))?;
        Ok(Self(entries))
    }
}

/// An instant. The default, and the value of `null`, is the first instant of the year 1, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant(time::Instant);

impl Default for Instant {
    fn default() -> Self {
        Self(time::Instant::ZERO)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(text) = Option::<Text<'de>>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        let refused = |_| D::Error::custom(format_args!("{:?} is not an RFC 3339 time", &*text));
        time::Instant::parse(&text).map(Self).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Instant> {
        serde_json::from_value(serde_json::json!(text)).ok()
    }

    fn seconds(text: &str) -> Option<i64> {
        parse(text).map(|Instant(time)| time.seconds - time::Instant::ZERO.seconds)
    }

    #[test]
    fn times_are_instants_nr_51() {
        // `date -u -d ... +%s` prints these, and -62135596800 for the first instant of the year 1.
        let epoch = 62_135_596_800;
        assert_eq!(seconds("0001-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(epoch));
        assert_eq!(seconds("2000-02-29T12:30:45Z"), Some(epoch + 951_827_445));
        assert_eq!(seconds("2026-03-01T00:00:00Z"), Some(epoch + 1_772_323_200));
        assert_eq!(seconds("2024-12-31T23:59:59Z"), Some(epoch + 1_735_689_599));
        assert_eq!(parse("2026-03-01T02:00:00+02:00"), parse("2026-03-01T00:00:00.000Z"));
        assert_eq!(parse("2026-02-28T22:30:00-01:30"), parse("2026-03-01T00:00:00Z"));
        assert_ne!(parse("2026-03-01T00:00:00.5Z"), parse("2026-03-01T00:00:00Z"));
        assert_eq!(parse("2026-03-01T00:00:00.123456789Z"), parse("2026-03-01T00:00:00.1234567891Z"));
    }

    #[test]
    fn what_is_no_time_is_refused_nr_113() {
        for text in [
            "",
            "2026-03-01",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00Zx",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01 00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00+é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn maps_are_equal_whatever_their_order_and_nothing_equals_empty_nr_51() {
        let map = |text| serde_json::from_str::<Map<'_, Text<'_>>>(text).unwrap();
        assert_eq!(map(r#"{"a":"1","b":"2"}"#), map(r#"{"b":"2","a":"1"}"#));
        assert_eq!(map("null"), map("{}"));
        assert_eq!(map(r#"{"a":null}"#), map(r#"{"a":""}"#));
        assert_eq!(map(r#"{"a":"1","a":"2"}"#), map(r#"{"a":"2"}"#));
        assert_ne!(map(r#"{"a":""}"#), map("{}"));
    }
}
