//! Tables: the columns that `kubectl get` shows (AP-90 to AP-92).

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
    /// What it shows, in a sentence.
    pub description: &'static str,
    /// 0 for columns that are always shown, 1 for those of `-o wide`.
    pub priority: i32,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// A cell for each column.
    pub cells: Vec<Value>,
    /// The reason of the row's condition `Completed`, when it has one (`Succeeded` or `Failed`).
    pub completed: Option<&'static str>,
}

/// What a cell shows when there is nothing to show.
pub const NONE: &str = "<none>";
/// What a cell shows for a time that is not set.
pub const UNKNOWN: &str = "<unknown>";
