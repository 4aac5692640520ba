//! Cells that many tables share (AP-91, AP-92).

use serde_json::Value;

use super::fields::{metadata, text};
use crate::Map;
use crate::table::{Column, UNKNOWN};

/// The first column of most tables.
pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "What the object is called.",
    priority: 0,
};
/// How long there has been the object.
pub(super) const AGE: Column = text_column("Age", "How long ago the object was created.");

/// A column of texts that is always shown.
pub(super) const fn text_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column of texts that `-o wide` shows.
pub(super) const fn wide_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// The name of the object.
pub(super) fn name(object: &Map) -> Value {
    Value::from(text(metadata(object), "name"))
}

/// The age of the object at a time in seconds since 1970.
pub(super) fn age(object: &Map, now: i64) -> Value {
    Value::from(since(text(metadata(object), "creationTimestamp"), now))
}

/// How long ago a time was, in short; `<unknown>` for a time that is not set.
pub(super) fn since(time: &str, now: i64) -> String {
    match seconds_since_1970(time) {
        Some(then) => duration(now.saturating_sub(then)),
        None => UNKNOWN.to_owned(),
    }
}

/// A span in at most two units, as Kubernetes shows ages.
fn duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let pair = |large: i64, unit: char, small: i64, part: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// Reads `2026-01-02T03:04:05Z`, with or without a fraction.
fn seconds_since_1970(time: &str) -> Option<i64> {
    let (date, rest) = time.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let clock = rest.trim_end_matches('Z').split('.').next()?;
    let mut clock = clock.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    // Years begin in March: February, with its odd days, comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}
