//! Writes log lines, such as audit events, on one thread behind a queue that is bounded in lines and bytes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

use super::file::LogFile;
pub use super::file::Rotation;

/// The maximum number of queued lines (`--audit-log-batch-buffer-size` of kube-apiserver).
const QUEUED_LINES: usize = 10_000;
/// The maximum number of queued bytes.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Whether requests wait until their events are written (`--audit-log-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Requests do not wait. When the queue is full, events are dropped, counted, and reported in the log.
    #[default]
    Batch,
    /// Requests wait until the event is written or has failed.
    Blocking,
    /// Requests wait, and a request whose first event cannot be written is refused.
    BlockingStrict,
}

/// The options of a sink.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// The name of the log in messages, such as `audit log`.
    pub name: &'static str,
    /// The file; none for standard output.
    pub path: Option<PathBuf>,
    /// Whether requests wait.
    pub mode: Mode,
    /// When files are rotated and removed.
    pub rotation: Rotation,
}

/// An error opening a log.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The file cannot be opened.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The writer thread cannot be started.
    #[error("cannot start a thread that writes: {0}")]
    Thread(io::Error),
}

/// Queues lines for the writer thread.
pub struct Sink {
    name: &'static str,
    lines: Option<mpsc::Sender<Line>>,
    queued: Arc<AtomicUsize>,
    mode: Mode,
    errors: Counter,
    writer: Option<JoinHandle<()>>,
}

struct Line {
    bytes: Vec<u8>,
    /// Notified when the line is written.
    written: Option<oneshot::Sender<bool>>,
}

enum Target {
    File(LogFile),
    Output(io::Stdout),
}

impl Sink {
    /// Opens the log.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn open(options: &SinkOptions, errors: Counter) -> Result<Self, SinkError> {
        let mut target = match &options.path {
            None => Target::Output(io::stdout()),
            Some(path) => Target::File(open(path, options.rotation)?),
        };
        let (lines, mut incoming) = mpsc::channel::<Line>(QUEUED_LINES);
        let queued = Arc::new(AtomicUsize::new(0));
        let (still_queued, failures) = (Arc::clone(&queued), errors.clone());
        let name = options.name;
        let write = move || {
            let mut is_failing = false;
            while let Some(Line { bytes, written }) = incoming.blocking_recv() {
                still_queued.fetch_sub(bytes.len(), Ordering::Relaxed);
                let result = target.append(&bytes);
                if let Err(error) = &result {
                    failures.inc();
                    // Reported once, not for every line.
                    if !is_failing {
                        tracing::error!(%error, log = name, "lines cannot be written and are lost");
                    }
                }
                is_failing = result.is_err();
                if let Some(written) = written {
                    // The request may have ended.
                    let _ = written.send(!is_failing);
                }
            }
        };
        let writer = std::thread::Builder::new().name(name.to_owned()).spawn(write);
        let writer = writer.map_err(SinkError::Thread)?;
        Ok(Self { name, lines: Some(lines), queued, mode: options.mode, errors, writer: Some(writer) })
    }

    /// Whether requests wait.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Queues a line. Returns false if the queue is full and the line is dropped.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        self.push(Line { bytes, written: None })
    }

    fn push(&self, line: Line) -> bool {
        let length = line.bytes.len();
        let waiting = self.queued.fetch_add(length, Ordering::Relaxed);
        let has_room = waiting == 0 || waiting.saturating_add(length) <= QUEUED_BYTES;
        let is_sent = has_room && self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !is_sent {
            self.queued.fetch_sub(length, Ordering::Relaxed);
            // Report the first, and then every thousandth.
            if self.errors.inc().is_multiple_of(1000) {
                tracing::error!(log = self.name, "lines are dropped: the queue is full");
            }
        }
        is_sent
    }

    /// Queues a line, and in a blocking mode waits until it is written. Returns false if it is not written.
    pub(super) async fn write(&self, bytes: Vec<u8>) -> bool {
        if self.mode == Mode::Batch {
            return self.send(bytes);
        }
        let Some(lines) = &self.lines else { return false };
        let (written, is_written) = oneshot::channel();
        let Ok(place) = lines.reserve().await else { return false };
        self.queued.fetch_add(bytes.len(), Ordering::Relaxed);
        place.send(Line { bytes, written: Some(written) });
        is_written.await.unwrap_or(false)
    }
}

fn open(path: &Path, rotation: Rotation) -> Result<LogFile, SinkError> {
    LogFile::open(path, rotation).map_err(|source| SinkError::File { path: path.to_owned(), source })
}

impl Drop for Sink {
    /// Write all queued lines first.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(log = self.name, "the thread that writes it failed");
        }
    }
}

impl Target {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.append(line),
            Self::Output(out) => {
                let mut out = out.lock();
                out.write_all(line)?;
                out.flush()
            }
        }
    }
}
