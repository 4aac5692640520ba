//! The audit log file, with rotation by size and removal by age and number.
//!
//! A rotated file has the time in its name, `audit-2026-01-02T03-04-05.678.log`, as with kube-apiserver. Only the owner
//! can read the files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use portcullis_apimachinery::time::Instant;

const MODE: u32 = 0o600;

/// When a file is rotated, and how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The maximum size of a file in bytes (`--audit-log-maxsize`, there in megabytes). 0: unlimited.
    pub max_bytes: u64,
    /// The maximum number of rotated files (`--audit-log-maxbackup`). 0: unlimited.
    pub max_files: usize,
    /// The maximum age of rotated files (`--audit-log-maxage`, there in days). Zero: unlimited.
    pub max_age: Duration,
    /// Whether rotated files are compressed (`--audit-log-compress`).
    pub compress: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { max_bytes: 0, max_files: 0, max_age: Duration::ZERO, compress: false }
    }
}

/// A log file that is appended to.
pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    /// None after a failure: the next write opens the file again.
    file: Option<File>,
    written: u64,
}

impl LogFile {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let mut log = Self { path: path.to_owned(), rotation, file: None, written: 0 };
        log.reopen()?;
        Ok(log)
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Some(dir) = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(MODE).open(&self.path)?;
        let found = file.metadata()?;
        self.written = found.len();
        // An incomplete line, left by a full disk or a killed process, must not corrupt the next one.
        if found.is_file() && found.len() > 0 {
            let mut last = [0];
            let mut reader = File::open(&self.path)?;
            reader.seek(SeekFrom::End(-1))?;
            reader.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                self.written += 1;
            }
        }
        self.file = Some(file);
        Ok(())
    }

    /// Appends complete lines.
    ///
    /// # Errors
    /// The lines cannot be written. What was written of them is removed if that is possible, and otherwise is a line of
    /// its own.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let max = self.rotation.max_bytes;
        if max > 0 && self.written > 0 && self.written.saturating_add(length) > max {
            self.put_aside()?;
        }
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let result = file.write_all(lines);
        if result.is_err() {
            cut(file, self.written, length);
            self.file = None;
        }
        self.written = self.written.saturating_add(length);
        result
    }

    fn put_aside(&mut self) -> io::Result<()> {
        self.file = None;
        let aside = free_name(&self.path, SystemTime::now());
        fs::rename(&self.path, &aside)?;
        self.reopen()?;
        let (path, rotation) = (self.path.clone(), self.rotation);
        // Compression takes time, so it runs on its own thread while logging continues. If no thread can be started,
        // logging waits.
        let tidy = move || {
            if let Err(error) = tidy(&path, rotation, SystemTime::now()) {
                tracing::error!(%error, "rotated files cannot be compressed or removed");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("audit-tidy".to_owned()).spawn(tidy.clone()) {
            tracing::warn!(%error, "cannot start a thread for rotated files");
            tidy();
        }
        Ok(())
    }
}

/// Removes what was written of lines that could not be written completely.
fn cut(file: &File, before: u64, length: u64) {
    let is_part = |found: fs::Metadata| {
        found.is_file() && found.len().checked_sub(before).is_some_and(|part| part < length)
    };
    if file.metadata().is_ok_and(is_part) {
        // If this fails, the part is ended by a newline when the file is opened again.
        let _ = file.set_len(before);
    }
}

/// Returns the prefix and the suffix of the names of rotated files.
fn affixes(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = match path.extension() {
        Some(extension) => format!(".{}", extension.to_string_lossy()),
        None => String::new(),
    };
    (format!("{}-", text(path.file_stem())), extension)
}

/// Returns an unused name for a file that is rotated now.
fn free_name(path: &Path, now: SystemTime) -> PathBuf {
    let (prefix, suffix) = affixes(path);
    let mut when = now;
    loop {
        let aside = path.with_file_name(format!("{prefix}{}{suffix}", stamp(when)));
        let gz = aside.with_added_extension("gz");
        if !aside.exists() && !gz.exists() {
            return aside;
        }
        when += Duration::from_millis(1);
    }
}

/// Formats a time as `2026-01-02T03-04-05.678`, in UTC.
fn stamp(when: SystemTime) -> String {
    let since = when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    let text = Instant::of_seconds(seconds).to_string().replace(':', "-");
    format!("{}.{:03}", text.trim_end_matches('Z'), since.subsec_millis())
}

/// Serializes the compression and removal of rotated files.
static TIDYING: Mutex<()> = Mutex::new(());

/// Compresses and removes rotated files that are due.
fn tidy(path: &Path, rotation: Rotation, now: SystemTime) -> io::Result<()> {
    let _alone = TIDYING.lock().unwrap_or_else(PoisonError::into_inner);
    let (prefix, suffix) = affixes(path);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files: Vec<(String, PathBuf)> = fs::read_dir(dir)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let stamp = name.strip_prefix(&prefix)?.trim_end_matches(".gz").strip_suffix(&suffix)?.to_owned();
            is_stamp(&stamp).then(|| (stamp, entry.path()))
        })
        .collect();
    // Newest first: the names sort by time.
    files.sort_by(|a, b| b.cmp(a));
    let oldest = (!rotation.max_age.is_zero())
        .then(|| now.checked_sub(rotation.max_age))
        .flatten()
        .map(stamp)
        .unwrap_or_default();
    for (at, (when, file)) in files.iter().enumerate() {
        if *when < oldest || rotation.max_files > 0 && at >= rotation.max_files {
            fs::remove_file(file)?;
        } else if rotation.compress && file.extension().is_none_or(|extension| extension != "gz") {
            compress(file)?;
        }
    }
    Ok(())
}

fn is_stamp(text: &str) -> bool {
    let shape = "0000-00-00T00-00-00.000";
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(found, wanted)| match wanted {
            b'0' => found.is_ascii_digit(),
            wanted => found == wanted,
        })
}

/// Replaces a file by its compressed form.
fn compress(file: &Path) -> io::Result<()> {
    let done = file.with_added_extension("gz");
    let half = file.with_added_extension("gz.part");
    let out = OpenOptions::new().create(true).truncate(true).write(true).mode(MODE).open(&half)?;
    let mut encoder = GzEncoder::new(out, Compression::fast());
    io::copy(&mut File::open(file)?, &mut encoder)?;
    let mut out = encoder.finish()?;
    out.flush()?;
    out.sync_all()?;
    fs::rename(&half, &done)?;
    fs::remove_file(file)
}

#[cfg(test)]
mod tests {
    use portcullis_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn half_a_line_that_was_left_behind_does_not_spoil_the_next() {
        let scratch = Scratch::new();
        let path = scratch.write("audit.log", "whole\nhal");
        for (line, expected) in [("a\n", "whole\nhal\na\n"), ("b\n", "whole\nhal\na\nb\n")] {
            LogFile::open(&path, Rotation::default()).unwrap().append(line.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        }
    }
}
