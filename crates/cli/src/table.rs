//! Tables for people.

use std::io::{self, Write};

/// Prints rows in columns of equal width.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn columns(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        writeln!(out, "{}", cells.join("   ").trim_end())?;
    }
    Ok(())
}

/// Leaves out the columns in which no row but the first, the head, has anything.
pub(crate) fn without_empty_columns(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let is_used =
        |column: usize| rows.iter().skip(1).any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let used: Vec<usize> = (0..count).filter(|column| is_used(*column)).collect();
    rows.iter().map(|row| used.iter().filter_map(|column| row.get(*column)).cloned().collect()).collect()
}
