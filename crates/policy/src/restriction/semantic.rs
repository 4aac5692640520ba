//! Values whose `==` is the semantic equality of Kubernetes (NR-51).
//!
//! Quantities are equal by value ([`Quantity`](portcullis_apimachinery::quantity::Quantity)), times by instant, and absent lists and
//! maps equal empty ones. A view made of these derives `PartialEq` and is compared as Kubernetes compares.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

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

/// An instant, parsed from RFC 3339 with any offset and truncated to nanoseconds. The default, and the value of `null`,
/// is the first instant of the year 1, as in Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant {
    /// Seconds since the first instant of the year 1.
    seconds: i64,
    nanoseconds: u32,
}

impl Instant {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let year = number(&mut rest, 4)?;
        skip(&mut rest, "-")?;
        let month = number(&mut rest, 2)?;
        skip(&mut rest, "-")?;
        let day = number(&mut rest, 2)?;
        skip(&mut rest, "T")?;
        let hour = number(&mut rest, 2).filter(|hour| *hour < 24)?;
        skip(&mut rest, ":")?;
        let minute = number(&mut rest, 2).filter(|minute| *minute < 60)?;
        skip(&mut rest, ":")?;
        let second = number(&mut rest, 2).filter(|second| *second < 60)?;
        let nanoseconds = fraction(&mut rest)?;
        let offset = offset(rest)?;
        let seconds = days(year, month, day)? * 86_400 + hour * 3_600 + minute * 60 + second - offset;
        Some(Self { seconds, nanoseconds })
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(text) = Option::<Text<'de>>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format_args!("{:?} is not an RFC 3339 time", &*text)))
    }
}

/// Consumes a number of exactly this many digits.
fn number(rest: &mut &str, digits: usize) -> Option<i64> {
    let (front, back) = rest.split_at_checked(digits)?;
    if !front.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    *rest = back;
    front.parse().ok()
}

fn skip(rest: &mut &str, prefix: &str) -> Option<()> {
    *rest = rest.strip_prefix(prefix)?;
    Some(())
}

/// Consumes the fraction of a second, if there is one, in nanoseconds.
fn fraction(rest: &mut &str) -> Option<u32> {
    let Some(after) = rest.strip_prefix('.') else { return Some(0) };
    let end = after.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, back) = after.split_at_checked(end)?;
    if digits.is_empty() {
        return None;
    }
    *rest = back;
    Some(digits.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |n, b| n * 10 + u32::from(b - b'0')))
}

/// Parses the rest as the offset from UTC, in seconds.
fn offset(rest: &str) -> Option<i64> {
    if rest == "Z" {
        return Some(0);
    }
    let (sign, mut rest) = match rest.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let hours = number(&mut rest, 2).filter(|hours| *hours < 24)?;
    skip(&mut rest, ":")?;
    let minutes = number(&mut rest, 2).filter(|minutes| *minutes < 60)?;
    rest.is_empty().then_some(sign * (hours * 3_600 + minutes * 60))
}

/// The days from January 1 of the year 1 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // (days before the month, days in the month) of a common year.
    let (before, length) = match month {
        1 => (0, 31),
        2 => (31, if is_leap { 29 } else { 28 }),
        3 => (59, 31),
        4 => (90, 30),
        5 => (120, 31),
        6 => (151, 30),
        7 => (181, 31),
        8 => (212, 31),
        9 => (243, 30),
        10 => (273, 31),
        11 => (304, 30),
        12 => (334, 31),
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let leap_day = i64::from(is_leap && month > 2);
    Some(past * 365 + leap_days + before + leap_day + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<i64> {
        Instant::parse(text).map(|i| i.seconds)
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
        assert_eq!(Instant::parse("2026-03-01T02:00:00+02:00"), Instant::parse("2026-03-01T00:00:00.000Z"));
        assert_eq!(Instant::parse("2026-02-28T22:30:00-01:30"), Instant::parse("2026-03-01T00:00:00Z"));
        assert_ne!(Instant::parse("2026-03-01T00:00:00.5Z"), Instant::parse("2026-03-01T00:00:00Z"));
        assert_eq!(
            Instant::parse("2026-03-01T00:00:00.123456789Z"),
            Instant::parse("2026-03-01T00:00:00.1234567891Z")
        );
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
            assert_eq!(Instant::parse(text), None, "{text}");
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
