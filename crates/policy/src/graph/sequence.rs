//! Reading without writing: a reader looks at a number before and after, and looks again if a change came between.
//!
//! A lock would make every reader write to it, and two processors that do so wait for each other's memory more than
//! they decide. The price: what is read may be torn until the number has been looked at again, so what is done with it
//! must be harmless, whatever it is; and everything that changes must be atomic.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::thread::yield_now;

/// Looks before a reader gives its processor to the writer it waits for.
const PATIENCE: u32 = 64;

/// Even when nothing is being changed; one more change for every two.
#[derive(Debug, Default)]
pub(super) struct Sequence(AtomicU32);

/// A change under way. Ends when dropped, also by a panic.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    sequence: &'a Sequence,
    end: u32,
}

impl Sequence {
    /// Reads something that no change came into.
    pub(super) fn read<T>(&self, mut read: impl FnMut() -> T) -> T {
        let mut looks = 0;
        loop {
            let before = self.0.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let found = read();
                fence(Ordering::Acquire);
                if self.0.load(Ordering::Relaxed) == before {
                    return found;
                }
            }
            looks += 1;
            if looks % PATIENCE == 0 { yield_now() } else { spin_loop() }
        }
    }

    /// Begins a change. There must be no other: the writer's lock is held.
    pub(super) fn change(&self) -> Changing<'_> {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        Changing { sequence: self, end: before.wrapping_add(2) }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.sequence.0.store(self.end, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    #[test]
    fn a_reader_never_sees_half_a_change() {
        let (sequence, stop) = (Sequence::default(), AtomicBool::new(false));
        let words = [const { AtomicU64::new(0) }; 8];
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let seen: Vec<u64> =
                            sequence.read(|| words.each_ref().map(|w| w.load(Ordering::Relaxed))).into();
                        assert!(seen.windows(2).all(|pair| pair.first() == pair.last()), "{seen:?}");
                    }
                });
            }
            for round in 0..200_000 {
                let _changing = sequence.change();
                words.iter().for_each(|word| word.store(round, Ordering::Relaxed));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_change_that_panics_ends_all_the_same() {
        let sequence = Sequence::default();
        let broken = std::panic::catch_unwind(|| {
            let _changing = sequence.change();
            panic!("on purpose");
        });
        assert!(broken.is_err());
        assert_eq!(sequence.read(|| 7), 7);
    }
}
