//! Reads the lines of an audit log, of any length of the log: plain, or compressed with gzip or zstd (AU-16). Damage stops nothing but the
//! file that it breaks off.

mod zstd;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use crate::failure::Failure;
use crate::lines::MAX_LINE;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// One line, or what is there instead.
pub(crate) enum Line<'l> {
    /// A line that is not blank, with its number from 1.
    Text(usize, &'l [u8]),
    /// A line that cannot be read: its number, and the reason.
    Damaged(usize, String),
}

/// Reads files one after the other, and knows how far it is.
pub(crate) struct AuditLogs {
    paths: Vec<PathBuf>,
    read: Rc<Cell<u64>>,
    /// The size of all files; 0 if one of them is standard input.
    total: u64,
}

/// Counts what is read of a file.
struct Counted<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.set(self.read.get().saturating_add(count as u64));
        Ok(count)
    }
}

impl AuditLogs {
    /// The files, or `-` for standard input.
    ///
    /// # Errors
    /// A file is not there. Nothing is read then.
    pub(crate) fn find(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut total = Some(0_u64);
        for path in paths {
            let size = match is_stdin(path) {
                true => None,
                false => Some(std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.len()),
            };
            total = total.zip(size).map(|(total, size)| total.saturating_add(size));
        }
        Ok(Self { paths: paths.to_owned(), read: Rc::default(), total: total.unwrap_or_default() })
    }

    /// How much was read of how much, in bytes. None if nobody knows.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        (self.total > 0).then(|| (self.read.get(), self.total))
    }

    /// Passes on every line, with the name of its file.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn each(&self, take: &mut dyn FnMut(&Path, Line<'_>)) -> Result<(), Failure> {
        for path in &self.paths {
            let input: Box<dyn Read> = match is_stdin(path) {
                true => Box::new(io::stdin().lock()),
                false => Box::new(File::open(path).map_err(|error| unreadable(path, &error))?),
            };
            let counted = Counted { inner: input, read: Rc::clone(&self.read) };
            let mut plain = BufReader::with_capacity(1 << 16, counted);
            let start = plain.fill_buf().map_err(|error| unreadable(path, &error))?;
            let (is_gzip, is_zstd) = (start.starts_with(GZIP), start.starts_with(zstd::MAGIC));
            let take = &mut |line: Line<'_>| take(path, line);
            let done = if is_gzip {
                lines(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(plain)), take)
            } else if is_zstd {
                lines(BufReader::with_capacity(1 << 16, zstd::Decoder::new(plain)), take)
            } else {
                lines(plain, take)
            };
            match done {
                Ok(()) => {}
                Err((number, error)) if (is_gzip || is_zstd) && is_damage(&error) => {
                    let reason = format!("the compressed file is damaged or cut, and ends here: {error}");
                    take(Line::Damaged(number, reason));
                }
                Err((_, error)) => return Err(unreadable(path, &error)),
            }
        }
        Ok(())
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::input(format_args!("cannot read --audit-log {}: {error}", path.display()))
}

fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Passes on the lines of one file.
///
/// # Errors
/// The file cannot be read on, with the number of the line.
fn lines(mut input: impl BufRead, take: &mut dyn FnMut(Line<'_>)) -> Result<(), (usize, io::Error)> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line);
        if read.map_err(|error| (number, error))? == 0 {
            break;
        }
        if line.len() > MAX_LINE && !line.ends_with(b"\n") {
            input.skip_until(b'\n').map_err(|error| (number, error))?;
            take(Line::Damaged(number, format!("the line has more than {MAX_LINE} bytes")));
        } else if !line.trim_ascii().is_empty() {
            take(Line::Text(number, &line));
        }
    }
    Ok(())
}
