//! The progress of long work, on standard error: one line that changes on a terminal, otherwise a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a terminal is told.
const ON_TERMINAL: Duration = Duration::from_millis(200);
/// How often a log is told. Short work says nothing there.
const IN_LOG: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Progress {
    what: &'static str,
    began: Instant,
    shown: Instant,
    is_terminal: bool,
    /// Whether there is a line to remove.
    is_dirty: bool,
}

impl Progress {
    /// Begins work, named as in `exported`.
    pub(crate) fn new(what: &'static str) -> Self {
        let began = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        Self { what, began, shown: began, is_terminal, is_dirty: false }
    }

    /// So many of all objects are done. Failures to print are ignored: nobody may be reading.
    pub(crate) fn at(&mut self, done: u64, total: u64) {
        let pause = if self.is_terminal { ON_TERMINAL } else { IN_LOG };
        if self.shown.elapsed() < pause {
            return;
        }
        self.shown = Instant::now();
        let millis = self.began.elapsed().as_millis().max(1);
        let rate = u128::from(done).saturating_mul(1_000) / millis;
        let text = format!("{}: {done} of {total} ({rate}/s)", self.what);
        let mut out = std::io::stderr().lock();
        let _ = match self.is_terminal {
            // The second part removes what is left of a longer line.
            true => write!(out, "\r{text}\x1b[K").and_then(|()| out.flush()),
            false => writeln!(out, "{text}"),
        };
        self.is_dirty = self.is_terminal;
    }

    /// Clears the line, so that something else can be printed.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
