//! Arrays that grow while they are read. What is in them stays where it is.

use std::sync::OnceLock;

/// The length of the first chunks. No record is longer.
const FIRST: usize = 1 << FIRST_BITS;
const FIRST_BITS: u32 = 7;

/// Chunks of one length before they double: so much, and never more than an eighth of the whole, is ahead of its use.
const EQUAL: usize = 1 << EQUAL_BITS;
const EQUAL_BITS: u32 = 3;

/// The first place that is beyond the array.
const END: usize = 1 << 24;

/// `END` lies in the eight chunks after these.
const CHUNKS: usize = (24 - FIRST_BITS as usize - EQUAL_BITS as usize) * EQUAL;

/// An array of up to [`Grown::END`] elements, in chunks: eight of [`FIRST`] elements, eight of twice as many, and so on. A
/// chunk is made when it is first needed and never moves, so reading needs no lock.
#[derive(Debug)]
pub(super) struct Grown<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T> Default for Grown<T> {
    fn default() -> Self {
        Self { chunks: std::array::from_fn(|_| OnceLock::new()) }
    }
}

/// Where a place lies: which chunk, how long it is, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: usize,
    length: usize,
    offset: usize,
}

impl Place {
    /// The chunks of one length are told apart by the bits after the highest, counted from where the first would begin
    /// if there were shorter ones before it.
    fn of(place: usize) -> Self {
        let shifted = place + FIRST * EQUAL;
        let doubled = shifted.ilog2() - FIRST_BITS - EQUAL_BITS;
        let length = FIRST << doubled;
        let among_equals = (shifted >> (FIRST_BITS + doubled)) & (EQUAL - 1);
        Self { chunk: doubled as usize * EQUAL + among_equals, length, offset: shifted & (length - 1) }
    }
}

impl<T> Grown<T> {
    /// One past the last place there can be.
    pub(super) const END: usize = END - FIRST * EQUAL;

    /// The element at a place; nothing where none was made.
    pub(super) fn get(&self, place: usize) -> Option<&T> {
        self.run(place)?.first()
    }

    /// The elements from a place to the end of its chunk.
    pub(super) fn run(&self, place: usize) -> Option<&[T]> {
        let Place { chunk, offset, .. } = Place::of(place);
        self.chunks.get(chunk)?.get()?.get(offset..)
    }

    /// How many elements there can be from a place to the end of its chunk.
    pub(super) fn room(place: usize) -> usize {
        let Place { length, offset, .. } = Place::of(place);
        length - offset
    }
}

impl<T: Default> Grown<T> {
    /// Makes the chunk of a place, if it is not there. Nothing beyond the end.
    pub(super) fn make(&self, place: usize) {
        if place < Self::END {
            let Place { chunk, length, .. } = Place::of(place);
            if let Some(chunk) = self.chunks.get(chunk) {
                chunk.get_or_init(|| std::iter::repeat_with(T::default).take(length).collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_lies_in_one_chunk_and_places_follow_each_other() {
        let mut expected = Place { chunk: 0, length: FIRST, offset: 0 };
        for place in 0..1 << 17 {
            assert_eq!(Place::of(place), expected, "{place}");
            expected.offset += 1;
            if expected.offset == expected.length {
                let chunk = expected.chunk + 1;
                expected = Place { chunk, length: FIRST << (chunk / EQUAL), offset: 0 };
            }
        }
    }

    #[test]
    fn the_last_place_can_be_made_and_the_next_cannot() {
        let last = Grown::<u8>::END - 1;
        assert_eq!(Place::of(last).chunk, CHUNKS - 1);
        assert_eq!(Place::of(last + 1).chunk, CHUNKS);
        let grown = Grown::<u8>::default();
        assert_eq!(grown.get(last), None);
        grown.make(last);
        assert_eq!(grown.get(last), Some(&0));
        grown.make(last + 1);
        assert_eq!(grown.get(last + 1), None);
    }

    #[test]
    fn no_chunk_is_longer_than_an_eighth_of_what_lies_before_it_but_the_first() {
        for place in FIRST * EQUAL..1 << 17 {
            let Place { length, offset, .. } = Place::of(place);
            assert!(length * EQUAL <= place - offset + FIRST * EQUAL);
        }
    }
}
