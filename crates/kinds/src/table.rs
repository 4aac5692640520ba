//! Tables: the columns that `kubectl get` shows (AP-90 to AP-92).

use portcullis_apimachinery::duration;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The type of its cells: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that identifies a row, else empty.
    pub format: &'static str,
    /// A description of the column.
    pub description: &'static str,
    /// 0 for columns that are always shown, 1 for those of `-o wide`.
    pub priority: i32,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// One cell per column.
    pub cells: Vec<Value>,
    /// The reason of the row's condition `Completed`, if it has one (`Succeeded` or `Failed`).
    pub completed: Option<&'static str>,
}

impl Row {
    /// A row without the condition `Completed`.
    pub(crate) fn of(cells: Vec<Value>) -> Self {
        Self { cells, completed: None }
    }
}

/// The text of an empty cell.
pub const NONE: &str = "<none>";
/// The cell of a time that is not set.
pub const UNKNOWN: &str = "<unknown>";

/// Formats the age of a `Time` for tables; `<unknown>` if it is not set (AP-92).
pub(crate) fn age(time: Option<&str>, now: i64) -> String {
    match time.and_then(|text| Instant::parse(text).ok()) {
        Some(time) if time != Instant::ZERO => duration::human(now.saturating_sub(time.seconds)),
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_what_has_no_time_is_unknown_ap_92() {
        assert_eq!(age(None, 5), UNKNOWN);
        assert_eq!(age(Some("0001-01-01T00:00:00Z"), 5), UNKNOWN);
        assert_eq!(age(Some("1970-01-01T00:00:00Z"), 5), "5s");
        for text in ["", "-", "2026-01-02T03:04:05", "9999-12-31T23:59:59Z"] {
            for now in [i64::MIN, i64::MAX] {
                let _ = age(Some(text), now);
            }
        }
    }
}
