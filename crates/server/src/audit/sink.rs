//! Writes log lines, such as audit events, on one thread behind a queue that is bounded in lines and bytes.
//!
//! A request gets a place in the queue before it is worked on. Once it has one, its lines are not lost: there is space
//! for them, and the thread repeats a line until it is written.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::file::LogFile;
pub use super::file::Rotation;
use super::metrics::{Lost, SinkMetrics};
use super::queue::{Class, Place, Queue};
use crate::metrics::Counted;

/// The first pause before a line that could not be written is written again. It doubles up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often lines are written again when the program ends, all together.
const LAST_ATTEMPTS: u32 = 5;

/// Whether requests wait until their events are written (`--audit-log-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Requests do not wait until their events are written. See [`WhenFull`] for what they wait for.
    #[default]
    Batch,
    /// Requests wait until the event is written or has failed.
    Blocking,
    /// Requests wait, and a request whose first event cannot be written is refused.
    BlockingStrict,
}

/// What happens in mode `batch` while the queue is full (`--audit-log-when-full`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Requests wait before they are worked on, and are refused when their time is up. A line that cannot be written is
    /// written again. Only reads of strangers go on without an event.
    ///
    /// DIVERGES: kube-apiserver drops events. A caller without credentials could fill the queue, and what an attacker
    /// does meanwhile would leave no trace.
    #[default]
    Wait,
    /// Requests never wait. Events are dropped, as in kube-apiserver.
    Drop,
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
    /// What requests do while the queue is full, in mode `batch`.
    pub when_full: WhenFull,
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
    lines: Option<mpsc::UnboundedSender<Line>>,
    queue: Arc<Queue>,
    mode: Mode,
    when_full: WhenFull,
    metrics: SinkMetrics,
    is_ending: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

struct Line {
    bytes: Vec<u8>,
    class: Class,
    /// Notified when the line is written or has failed.
    written: Option<oneshot::Sender<bool>>,
}

enum Target {
    File(LogFile),
    Output(io::Stdout),
}

/// No place in the queue became free in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Sink {
    /// Opens the log.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn open(options: &SinkOptions, metrics: SinkMetrics) -> Result<Self, SinkError> {
        let target = match &options.path {
            None => Target::Output(io::stdout()),
            Some(path) => Target::File(open(path, options.rotation)?),
        };
        let (lines, incoming) = mpsc::unbounded_channel::<Line>();
        let queue = Queue::new();
        let is_ending = Arc::new(AtomicBool::new(false));
        let (mode, when_full, name) = (options.mode, options.when_full, options.name);
        let writer = Writer {
            name,
            target,
            queue: Arc::clone(&queue),
            metrics: metrics.clone(),
            repeats: mode == Mode::Batch && when_full == WhenFull::Wait,
            is_ending: Arc::clone(&is_ending),
            last_attempts: LAST_ATTEMPTS,
            is_failing: false,
            lost: 0,
        };
        let writer = std::thread::Builder::new().name(name.to_owned()).spawn(|| writer.run(incoming));
        let writer = Some(writer.map_err(SinkError::Thread)?);
        Ok(Self { name, lines: Some(lines), queue, mode, when_full, metrics, is_ending, writer })
    }

    /// Whether requests wait.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns a place for the lines of a request, and waits for it at most as long as `limit`. Returns none if the
    /// request goes on without its lines, which is counted.
    ///
    /// # Errors
    /// There was no place in time.
    pub(crate) async fn enter(&self, class: Class, deadline: Instant) -> Result<Option<Place>, Full> {
        if self.mode == Mode::Batch && (self.when_full == WhenFull::Drop || class == Class::StrangersRead) {
            return Ok(self.try_enter(class));
        }
        if let Some(place) = self.queue.try_enter(class) {
            return Ok(Some(place));
        }
        let _waiting = Counted::new(&self.metrics.waiting);
        let entering = self.queue.enter(class);
        if self.mode != Mode::Batch {
            return Ok(Some(entering.await));
        }
        timeout_at(deadline, entering).await.map(Some).map_err(|_| Full)
    }

    /// Returns a place for the lines of a request if there is one now. If not, the lines are lost, which is counted.
    pub(crate) fn try_enter(&self, class: Class) -> Option<Place> {
        let place = self.queue.try_enter(class);
        if place.is_none() {
            let lost = match class {
                Class::StrangersRead | Class::StrangersWrite => Lost::Stranger,
                Class::Read | Class::Write => Lost::Full,
            };
            self.metrics.lost(lost);
            // Report the first, and then every thousandth.
            if self.metrics.errors.inc().is_multiple_of(1000) {
                tracing::error!(log = self.name, "lines are dropped: the queue is full");
            }
        }
        place
    }

    /// Queues a line of a request that has a place.
    pub(crate) fn send(&self, place: &mut Place, bytes: Vec<u8>) {
        self.push(place, bytes, None);
    }

    fn push(&self, place: &mut Place, bytes: Vec<u8>, written: Option<oneshot::Sender<bool>>) {
        let Some(lines) = &self.lines else { return };
        place.take(Queue::slots(bytes.len()));
        self.metrics.queued(bytes.len());
        // The thread ends only after this sender.
        let _ = lines.send(Line { bytes, class: place.class(), written });
    }

    /// Whether requests wait until their lines are written.
    pub(super) fn is_blocking(&self) -> bool {
        self.mode != Mode::Batch
    }

    /// Queues a line. The returned value says whether it is written, when that is known.
    pub(super) fn write(&self, place: &mut Place, bytes: Vec<u8>) -> oneshot::Receiver<bool> {
        let (written, is_written) = oneshot::channel();
        self.push(place, bytes, Some(written));
        is_written
    }
}

/// What the writer thread has.
struct Writer {
    name: &'static str,
    target: Target,
    queue: Arc<Queue>,
    metrics: SinkMetrics,
    /// Whether a line that cannot be written is written again.
    repeats: bool,
    is_ending: Arc<AtomicBool>,
    /// The attempts that are left when the program ends.
    last_attempts: u32,
    is_failing: bool,
    lost: u64,
}

impl Writer {
    fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Line>) {
        while let Some(Line { bytes, class, written }) = incoming.blocking_recv() {
            let is_written = self.write(&bytes);
            self.metrics.unqueued(bytes.len());
            self.queue.leave(class, Queue::slots(bytes.len()));
            if let Some(written) = written {
                // The request may have ended.
                let _ = written.send(is_written);
            }
        }
        if self.lost > 0 {
            tracing::error!(log = self.name, lines = self.lost, "lines could not be written and are lost");
        }
    }

    /// Returns whether the line is written.
    fn write(&mut self, line: &[u8]) -> bool {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.target.append(line) {
            self.metrics.errors.inc();
            // Reported once, not for every line.
            if !std::mem::replace(&mut self.is_failing, true) {
                let then = if self.repeats { "are written again later" } else { "are lost" };
                tracing::error!(%error, log = self.name, "lines cannot be written and {then}");
            }
            if !self.repeats || !self.may_repeat() {
                self.lost += 1;
                self.metrics.lost(Lost::Unwritten);
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(log = self.name, "lines are written again");
        }
        true
    }

    fn may_repeat(&mut self) -> bool {
        if !self.is_ending.load(Ordering::Relaxed) {
            return true;
        }
        let may_repeat = self.last_attempts > 0;
        self.last_attempts = self.last_attempts.saturating_sub(1);
        may_repeat
    }
}

fn open(path: &Path, rotation: Rotation) -> Result<LogFile, SinkError> {
    LogFile::open(path, rotation).map_err(|source| SinkError::File { path: path.to_owned(), source })
}

impl Drop for Sink {
    /// Writes all queued lines first. Lines that cannot be written are lost after a few attempts.
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
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
