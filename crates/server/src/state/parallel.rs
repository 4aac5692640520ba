//! Decodes the objects of a file on several threads and returns them in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use portcullis_apimachinery::json::JsonError;

use super::decode::{self, Decoded, Reading};
use super::split::Pieces;

/// The number of pieces that a thread decodes at a time: large enough to make the handover cheap.
const CHUNK: usize = 256;

/// The decoded pieces of one part of a file, each with its index, up to the first error.
pub(super) struct Chunk<'t, O> {
    pub(super) decoded: Vec<(usize, Decoded<'t, O>)>,
    pub(super) fault: Option<JsonError>,
}

/// Decodes all pieces of `text` and passes them to `take`, in order. Small files are decoded without threads.
///
/// # Errors
/// The first error that `take` returns; the rest is then not decoded.
pub(super) fn each_chunk<'t, R: Reading>(
    text: &str,
    pieces: &'t Pieces<'t>,
    threads: NonZeroUsize,
    mut take: impl FnMut(Chunk<'t, R::Object<'t>>) -> Result<(), JsonError>,
) -> Result<(), JsonError> {
    let chunks = pieces.pieces.len().div_ceil(CHUNK);
    if threads.get() == 1 || chunks <= 2 {
        return (0..chunks).try_for_each(|chunk| take(decode_chunk::<R>(text, pieces, chunk)));
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Bounded, so that decoded objects do not pile up when the receiver is slow.
        let (sender, receiver) = mpsc::sync_channel(threads.get().saturating_mul(8));
        for _ in 0..threads.get().min(chunks) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let chunk = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is dropped after an error.
                    if chunk >= chunks
                        || sender.send((chunk, decode_chunk::<R>(text, pieces, chunk))).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0usize;
        for (chunk, decoded) in receiver {
            early.insert(chunk, decoded);
            while let Some(decoded) = early.remove(&due) {
                take(decoded)?;
                due = due.saturating_add(1);
            }
        }
        Ok(())
    })
}

fn decode_chunk<'t, R: Reading>(
    text: &str,
    pieces: &'t Pieces<'t>,
    chunk: usize,
) -> Chunk<'t, R::Object<'t>> {
    let first = chunk.saturating_mul(CHUNK);
    let mut decoded = Vec::with_capacity(CHUNK);
    for (place, piece) in pieces.pieces.iter().enumerate().skip(first).take(CHUNK) {
        match decode::decode::<R>(text, pieces, *piece) {
            Ok(object) => decoded.push((place, object)),
            Err(fault) => return Chunk { decoded, fault: Some(fault) },
        }
    }
    Chunk { decoded, fault: None }
}
