//! The file of the audit log: appended to, put aside when it is full, and removed when it is old.
//!
//! A file that was put aside has the time in its name, `audit-2026-01-02T03-04-05.678.log`, as kube-apiserver's have.
//! All of them can be read by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use portcullis_kinds::time::Instant;

const MODE: u32 = 0o600;

/// When a file is put aside, and how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes that a file may hold (`--audit-log-maxsize`, there in megabytes). 0: as many as come.
    pub max_bytes: u64,
    /// How many files are kept beside the one that is written (`--audit-log-maxbackup`). 0: all.
    pub max_files: usize,
    /// How long they are kept (`--audit-log-maxage`, there in days). Zero: for ever.
    pub max_age: Duration,
    /// Whether they are compressed (`--audit-log-compress`).
    pub compress: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { max_bytes: 0, max_files: 0, max_age: Duration::ZERO, compress: false }
    }
}

/// A file that lines are appended to.
pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    /// None after a failure: the next line opens it again.
    file: Option<File>,
    written: u64,
}

impl LogFile {
    /// Opens the file, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be written.
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
        // Half a line, of a full disk or a killed process, must not spoil the next one.
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

    /// Appends whole lines.
    ///
    /// # Errors
    /// They cannot be written; a part of them may have been.
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
        self.written = self.written.saturating_add(length);
        if result.is_err() {
            self.file = None;
        }
        result
    }

    fn put_aside(&mut self) -> io::Result<()> {
        self.file = None;
        let aside = free_name(&self.path, SystemTime::now());
        fs::rename(&self.path, &aside)?;
        self.reopen()?;
        let (path, rotation) = (self.path.clone(), self.rotation);
        // Compressing takes its time, in which lines go on being written. Without a thread they wait.
        let tidy = move || {
            if let Err(error) = tidy(&path, rotation, SystemTime::now()) {
                tracing::error!(%error, "files that were put aside cannot be compressed or removed");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("audit-tidy".to_owned()).spawn(tidy.clone()) {
            tracing::warn!(%error, "no thread for files that were put aside");
            tidy();
        }
        Ok(())
    }
}

/// The start and the end of the names of files put aside.
fn affixes(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = match path.extension() {
        Some(extension) => format!(".{}", extension.to_string_lossy()),
        None => String::new(),
    };
    (format!("{}-", text(path.file_stem())), extension)
}

/// A name for a file that is put aside now and that is not taken.
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

/// `2026-01-02T03-04-05.678`, UTC.
fn stamp(when: SystemTime) -> String {
    let since = when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    let text = Instant::of_seconds(seconds).to_string().replace(':', "-");
    format!("{}.{:03}", text.trim_end_matches('Z'), since.subsec_millis())
}

/// One file is put aside after the other, and so they are compressed.
static TIDYING: Mutex<()> = Mutex::new(());

/// Compresses and removes what was put aside, as far as that is due.
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
    // Newest first: the text of a time sorts as the time does.
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

/// Puts a compressed file in the place of this one.
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
