//! Arrays of atomics that grow and never move, so that readers need no lock. Plain storage: what the words mean, and whether a
//! reader saw all of them in one state, is the business of `table`.

use std::sync::OnceLock;

/// The first segment has 64 words.
const FIRST_BITS: u32 = 6;
/// Each doubling after it takes eight segments, so at most an eighth of an array is unused.
const STEP_BITS: u32 = 3;
/// An array has at most 2^25 words.
const MAX_BITS: u32 = 25;
const SEGMENTS: usize = 1 + (((MAX_BITS - FIRST_BITS) as usize) << STEP_BITS);

type Segment<A> = OnceLock<Box<[A]>>;

/// See the module. The length is known to the writer alone.
#[derive(Debug)]
pub(super) struct Words<A> {
    /// Made with the first word, because a small graph has many arrays without any.
    segments: OnceLock<Box<[Segment<A>]>>,
}

impl<A> Default for Words<A> {
    fn default() -> Self {
        Self { segments: OnceLock::new() }
    }
}

impl<A: Default> Words<A> {
    /// The segment of a word, and the word's place there.
    #[inline]
    fn place(at: u32) -> (usize, usize) {
        match at.checked_ilog2() {
            Some(bits) if bits >= FIRST_BITS => {
                let size = bits - STEP_BITS;
                let step = (bits - FIRST_BITS) << STEP_BITS | (at >> size) & ((1 << STEP_BITS) - 1);
                (1 + step as usize, (at & ((1 << size) - 1)) as usize)
            }
            _ => (0, at as usize),
        }
    }

    /// The words from this one to the end of its segment; none if it is beyond the end of the array.
    #[inline]
    pub(super) fn rest(&self, at: u32) -> &[A] {
        let (segment, offset) = Self::place(at);
        let segment = self.segments.get().and_then(|segments| segments.get(segment)).and_then(OnceLock::get);
        segment.and_then(|words| words.get(offset..)).unwrap_or_default()
    }

    /// A word; `None` beyond the end of the array.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&A> {
        self.rest(at).first()
    }

    /// Passes the words from this one on to `take`, with their places, until it answers or the array ends.
    #[inline]
    pub(super) fn walk<'w, T>(
        &'w self,
        mut at: u32,
        mut take: impl FnMut(&'w A, u32) -> Option<T>,
    ) -> Option<T> {
        loop {
            let rest = self.rest(at);
            if rest.is_empty() {
                return None;
            }
            for word in rest {
                if let Some(found) = take(word, at) {
                    return Some(found);
                }
                at += 1;
            }
        }
    }

    /// The words from this one to the end of the array.
    pub(super) fn from(&self, at: u32) -> impl Iterator<Item = &A> {
        let segments = std::iter::successors(Some((at, self.rest(at))), |(at, rest)| {
            let next = at + rest.len() as u32;
            Some((next, self.rest(next)))
        });
        segments.map(|(_, rest)| rest).take_while(|rest| !rest.is_empty()).flatten()
    }

    /// Adds a segment to an array of this length, and returns the new length; `None` if it is as long as it can be.
    pub(super) fn grow(&self, length: u32) -> Option<u32> {
        let (segment, _) = Self::place(length);
        let size = length.checked_ilog2().map_or(1 << FIRST_BITS, |bits| 1 << (bits - STEP_BITS));
        let segments = self.segments.get_or_init(|| (0..SEGMENTS).map(|_| OnceLock::new()).collect());
        segments.get(segment)?.get_or_init(|| (0..size).map(|_| A::default()).collect());
        Some(length + size)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn every_word_has_a_place_of_its_own_while_the_array_grows() {
        let words = Words::<AtomicU32>::default();
        assert!(words.get(0).is_none());
        let mut length = 0;
        while length < 100_000 {
            let longer = words.grow(length).unwrap();
            assert!(longer - length <= (length / 8).max(64), "{length} grew to {longer}");
            assert!(words.get(longer).is_none());
            (length..longer).for_each(|at| words.get(at).unwrap().store(at, Relaxed));
            length = longer;
        }
        assert!((0..length).all(|at| words.get(at).unwrap().load(Relaxed) == at));
        assert!(words.from(0).map(|word| word.load(Relaxed)).eq(0..length));
        assert!(words.from(length - 1).map(|word| word.load(Relaxed)).eq([length - 1]));
        assert_eq!(words.from(length).count(), 0);
    }
}
