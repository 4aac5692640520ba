//! Reads the objects of a file on several threads and returns them in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The number of objects that a thread reads at a time: large enough to make the handover cheap.
pub(super) const CHUNK: usize = 256;

/// Reads this many objects in chunks, each with `read`, and passes the chunks to `take`, in order. Few objects are read without
/// threads.
///
/// # Errors
/// The first error that `take` returns; the rest is then not read.
pub(super) fn each_chunk<T: Send, E>(
    count: usize,
    threads: NonZeroUsize,
    read: impl Fn(Range<usize>) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let chunks = count.div_ceil(CHUNK);
    let read_chunk = |chunk: usize| {
        let first = chunk.saturating_mul(CHUNK);
        read(first..first.saturating_add(CHUNK).min(count))
    };
    if threads.get() == 1 || chunks <= 2 {
        return (0..chunks).try_for_each(|chunk| take(read_chunk(chunk)));
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Bounded, so that objects do not pile up when the receiver is slow.
        let (sender, receiver) = mpsc::sync_channel(threads.get().saturating_mul(8));
        for _ in 0..threads.get().min(chunks) {
            let (sender, next, read_chunk) = (sender.clone(), &next, &read_chunk);
            scope.spawn(move || {
                loop {
                    let chunk = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is dropped after an error.
                    if chunk >= chunks || sender.send((chunk, read_chunk(chunk))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0usize;
        for (chunk, read) in receiver {
            early.insert(chunk, read);
            while let Some(read) = early.remove(&due) {
                take(read)?;
                due = due.saturating_add(1);
            }
        }
        Ok(())
    })
}
