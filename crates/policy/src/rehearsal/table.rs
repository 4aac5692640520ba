//! The report of a rehearsal for people. Names come from events, so they are made harmless for the terminal.

use std::fmt::{self, Display, Formatter};

use portcullis_apimachinery::quote::plain;
use portcullis_apimachinery::time::Instant;

use super::example::{Change, Example};
use super::report::{Report, Summary};
use super::tally::Seen;

/// The spaces between columns.
const GAP: usize = 2;
/// The least width of a column that is made narrower.
const NARROW: usize = 12;

/// See the module.
#[derive(Debug)]
pub struct Table<'r> {
    report: &'r Report<'r>,
    width: Option<usize>,
    is_wide: bool,
}

impl<'r> Report<'r> {
    /// The report as a table: as wide as its texts, or at most as wide as a terminal, if that is possible. A wide one has
    /// the first request of each row below it, whole.
    pub fn table(&'r self, width: Option<usize>, is_wide: bool) -> Table<'r> {
        Table { report: self, width, is_wide }
    }
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for change in Change::ALL {
            let mut section = Section::new(self, &["VERB", "RESOURCE", "SUBJECT"]);
            for row in self.report.changed.iter().filter(|row| row.key.change == change) {
                let subject = row.key.subject.to_string();
                section.add(row.seen, &[&row.key.verb, &row.key.resource, &subject], Some(row.example));
            }
            for row in self.report.without_row.iter().filter(|row| row.change == change) {
                section.add(row.seen, &["", "", "(others, without rows)"], None);
            }
            section.print(f, change.name())?;
        }
        let mut section = Section::new(self, &["REASON", "MEANING"]);
        for row in &self.report.unknown {
            section.add(row.seen, &[row.reason.name(), row.meaning], row.example);
        }
        section.print(f, "unknown")?;
        self.totals(f)
    }
}

impl Table<'_> {
    /// The counts, and what they come to.
    fn totals(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let Seen { count, first, last } = report.requests();
        let unknown: u64 = report.unknown.iter().map(|row| row.seen.count).sum();
        let different: u64 = report.counts.iter().map(|(_, count)| count).sum();
        match (first, last) {
            (Some(first), Some(last)) => writeln!(f, "{}, from {first} to {last}:", requests(count))?,
            _ => writeln!(f, "{}:", requests(count))?,
        }
        writeln!(f, "{:>10}  decided as before", report.unchanged)?;
        for (change, count) in report.counts {
            writeln!(f, "{count:>10}  {}", change.name().replace('-', " "))?;
        }
        writeln!(f, "{unknown:>10}  unknown")?;
        let lost = report.lost;
        if lost.unreadable > 0 {
            writeln!(f, "{:>10}  lines or bodies that cannot be read", lost.unreadable)?;
        }
        if lost.overflowed > 0 {
            let (count, bytes) = (lost.overflowed, lost.overflowed_bytes);
            writeln!(f, "{count:>10}  bodies for which there was no room, of {bytes} bytes")?;
        }
        match report.summary() {
            Summary::Differs => writeln!(f, "{} would be decided differently.", requests(different)),
            Summary::Unknown => {
                writeln!(f, "Nothing is known to differ, but not everything could be judged.")
            }
            Summary::NothingJudged => writeln!(f, "Nothing was judged: no event told of a decision."),
            Summary::NothingDiffers => writeln!(f, "Nothing differs."),
        }
    }
}

fn requests(count: u64) -> String {
    format!("{count} request{}", if count == 1 { "" } else { "s" })
}

/// Rows with one head.
struct Section<'r> {
    table: &'r Table<'r>,
    lines: Vec<(Vec<String>, Option<&'r Example>)>,
}

impl<'r> Section<'r> {
    fn new(table: &'r Table<'r>, head: &[&str]) -> Self {
        let mut section = Self { table, lines: Vec::new() };
        section.line(["COUNT", "FIRST SEEN", "LAST SEEN"], head, None);
        section
    }

    fn add(&mut self, seen: Seen, texts: &[&str], example: Option<&'r Example>) {
        let time = |time: Option<Instant>| time.map(|time| time.to_string()).unwrap_or_default();
        self.line([&seen.count.to_string(), &time(seen.first), &time(seen.last)], texts, example);
    }

    fn line(&mut self, [count, first, last]: [&str; 3], texts: &[&str], example: Option<&'r Example>) {
        let is_wide = self.table.is_wide;
        let mut cells = vec![format!("{count:>5}")];
        cells.extend(is_wide.then(|| first.to_owned()));
        cells.push(last.to_owned());
        cells.extend(texts.iter().map(|text| plain(text)));
        self.lines.push((cells, example.filter(|_| is_wide)));
    }

    /// Prints the rows, if there are any.
    fn print(self, f: &mut Formatter<'_>, title: &str) -> fmt::Result {
        if self.lines.len() < 2 {
            return Ok(());
        }
        writeln!(f, "{}", title.to_uppercase().replace('-', " "))?;
        let widths = self.widths();
        for (cells, example) in &self.lines {
            let cells: Vec<String> = cells
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{:width$}", shortened(cell, *width), width = *width))
                .collect();
            writeln!(f, "{}", cells.join(&" ".repeat(GAP)).trim_end())?;
            if let Some(example) = example {
                writeln!(f, "      {}", plain(&serde_json::to_string(example).map_err(|_| fmt::Error)?))?;
            }
        }
        writeln!(f)
    }

    /// The width of each column. If they do not fit, the last one becomes narrower, and then the one before.
    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for (cells, _) in &self.lines {
            widths.resize(cells.len(), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let Some(most) = self.table.width else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(most);
        for width in widths.iter_mut().rev().take(2) {
            let taken = over.min(width.saturating_sub(NARROW));
            *width -= taken;
            over -= taken;
        }
        widths
    }
}

/// A text without its middle, if it is too long.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (start, end) = (kept / 2, kept - kept / 2);
    let start = text.chars().take(start);
    start.chain(['\u{2026}']).chain(text.chars().skip(length - end)).collect()
}
