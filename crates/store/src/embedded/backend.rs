//! The file that redb writes to. In tests, each of its steps can fail.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

/// The file that redb writes to, noting failed flushes.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) file: FileBackend,
    pub(super) unflushed: Arc<AtomicBool>,
    #[cfg(test)]
    pub(super) faults: Faults,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(Step::Grow)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(test)]
        let flushed = self.faults.strike(Step::Flush).and_then(|()| self.file.sync_data());
        #[cfg(not(test))]
        let flushed = self.file.sync_data();
        if flushed.is_err() {
            self.unflushed.store(true, Ordering::Release);
        }
        flushed
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(Step::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// The steps that a test can let fail.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Grow,
    Write,
    Flush,
}

/// Failures that a test orders. Holding the lock also blocks the disk.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(pub(super) Arc<std::sync::Mutex<Orders>>);

#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The step that fails, after so many more successes.
    pub(super) fails: Option<(Step, usize)>,
    /// How many flushes there have been.
    pub(super) flushes: usize,
}

#[cfg(test)]
impl Faults {
    /// Lets a step fail after so many more successes.
    pub(super) fn order(&self, step: Step, after: usize) {
        self.0.lock().unwrap().fails = Some((step, after));
    }

    /// Ends all failures, and returns whether there was one.
    pub(super) fn lift(&self) -> bool {
        self.0.lock().unwrap().fails.take().is_some_and(|(_, left)| left == 0)
    }

    fn strike(&self, step: Step) -> io::Result<()> {
        let mut orders = self.0.lock().unwrap();
        orders.flushes += usize::from(step == Step::Flush);
        match &mut orders.fails {
            Some((fails, left)) if *fails == step => match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Err(io::ErrorKind::StorageFull.into()),
            },
            _ => {}
        }
        Ok(())
    }
}
