//! A hash table of numbered records, which any number of readers read without a lock while one writer changes it.
//!
//! A reader notes the version, reads, and reads again if the version is another one by then. While the writer changes the
//! table the version is odd. So readers write nothing that other readers read: a lock, even one for reading, would move its
//! cache line between the processors with every decision. A reader that meets a change may read nonsense. It never reads outside of
//! the arrays, and throws away what it read.
//!
//! The hash table is an array of slots that ascend by their hash: a slot is at its home, which ascends with the hash as well,
//! or as near after it as others leave room. A search ends at the first slot of a larger hash, so what is not there costs no
//! more than what is there. Records are runs of words in one array. A record never moves, so its first word's place is its
//! number, and the space of removed records is reused.

use std::collections::BTreeMap;
use std::hint;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

use smallvec::SmallVec;

use super::vertex::{Tag, VertexError, VertexId};
use super::words::Words;

/// Names of up to so many bytes are copied without allocation.
const SHORT: usize = 64;

/// The bytes of a name.
pub(super) type Bytes = SmallVec<[u8; SHORT]>;

/// After so many looks at an odd version the reader lets others run: the writer may wait for its processor.
const LOOKS: u32 = 128;

/// Records of fewer words are the rule.
const LARGE: u32 = 64;

/// A remainder of a record's space that is smaller than this is not cut off.
const SMALLEST: u32 = 4;

/// One entry of the hash table: 31 bits of the hash, a tag of eight bits, and the number of the record plus one. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u64);

/// How far left the hash is in a slot.
const MARK_SHIFT: u32 = VertexId::INDEX_BITS + 8;
/// The number of bits of a hash in a slot.
const MARK_BITS: u32 = 64 - MARK_SHIFT;

/// The part of a hash that is in slots. Its lower half selects the shard.
pub(super) fn mark_of(hash: u64) -> u32 {
    (hash >> MARK_SHIFT) as u32
}

impl Slot {
    pub(super) fn new(mark: u32, tag: Tag, index: u32) -> Self {
        Self(
            u64::from(mark) << MARK_SHIFT | u64::from(tag.0) << VertexId::INDEX_BITS | (u64::from(index) + 1),
        )
    }

    fn mark(self) -> u32 {
        (self.0 >> MARK_SHIFT) as u32
    }

    pub(super) fn tag(self) -> Tag {
        Tag((self.0 >> VertexId::INDEX_BITS) as u8)
    }

    /// The number of its record.
    pub(super) fn index(self) -> u32 {
        // It is at least one.
        (self.0 as u32 & (VertexId::MAX_INDEX - 1)).wrapping_sub(1)
    }

    fn is_none(self) -> bool {
        self.0 == 0
    }

    fn read(cell: &AtomicU64) -> Self {
        Self(cell.load(Relaxed))
    }

    fn write(self, cell: &AtomicU64) {
        cell.store(self.0, Relaxed);
    }
}

/// See the module. Tables lie beside each other, and each is changed alone: none shares a cache line with another.
///
/// The fields that decisions read come first, in one cache line.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Table {
    version: AtomicU64,
    slots: Words<AtomicU64>,
    words: Words<AtomicU32>,
    /// The number of slots that are homes. A few more follow, for those that find the last homes taken.
    homes: AtomicU32,
    live: AtomicUsize,
}

/// A record, found once for all of its words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'t> {
    table: &'t Table,
    at: u32,
    /// The words of its segment from the first one on. A record may go on in the next segment.
    rest: &'t [AtomicU32],
}

impl<'t> Record<'t> {
    /// The place of a word; `None` beyond the end of the array.
    #[inline]
    pub(super) fn cell(self, number: u32) -> Option<&'t AtomicU32> {
        match self.rest.get(number as usize) {
            None => self.table.words.get(self.at.saturating_add(number)),
            found => found,
        }
    }

    /// A word of the record; zero beyond the end of the array.
    #[inline]
    pub(super) fn word(self, number: u32) -> u32 {
        self.cell(number).map_or(0, |word| word.load(Relaxed))
    }

    /// A text of so many bytes that begins at a word.
    pub(super) fn text(self, first: u32, length: u32) -> Bytes {
        let mut buffer = [0; SHORT];
        let (words, _) = buffer.as_chunks_mut();
        if length as usize <= SHORT {
            for (number, bytes) in (first..first + length.div_ceil(4)).zip(words) {
                *bytes = self.word(number).to_le_bytes();
            }
            return Bytes::from_buf_and_len(buffer, length as usize);
        }
        let words = first..first + length.div_ceil(4);
        let mut bytes: Bytes = words.flat_map(|number| self.word(number).to_le_bytes()).collect();
        bytes.truncate(length as usize);
        bytes
    }

    /// Whether the text that begins at a word begins with this one.
    #[inline]
    pub(super) fn has_text(self, first: u32, text: &[u8]) -> bool {
        let (whole, last) = text.as_chunks();
        let mut number = first;
        for bytes in whole {
            if self.word(number) != u32::from_le_bytes(*bytes) {
                return false;
            }
            number += 1;
        }
        last.is_empty() || self.word(number).to_le_bytes().starts_with(last)
    }
}

/// The writer's private state of a table: how much of it is used, and which space is free.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// The number of slots.
    slots: u32,
    /// The number of words, and of those that were used at least once.
    words: u32,
    used: u32,
    /// Where removed records were, by their size.
    free: Vec<Vec<u32>>,
    /// The same for sizes of [`LARGE`] and more.
    free_large: BTreeMap<u32, Vec<u32>>,
}

impl Table {
    /// Reads until the table did not change meanwhile. Free of locks; `read` must cope with nonsense.
    #[inline]
    pub(super) fn read<T>(&self, read: impl Fn() -> T) -> T {
        let mut looks = 0_u32;
        loop {
            let before = self.version.load(Acquire);
            if before.is_multiple_of(2) {
                let found = read();
                fence(Acquire);
                if self.version.load(Relaxed) == before {
                    return found;
                }
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) { yield_now() } else { hint::spin_loop() }
        }
    }

    /// Passes the slots of a hash to `check`, until it answers.
    #[inline]
    pub(super) fn find<T>(&self, mark: u32, mut check: impl FnMut(Slot) -> Option<T>) -> Option<T> {
        let home = home(mark, self.homes.load(Relaxed));
        let found = self.slots.walk(home, |cell, _| {
            let slot = Slot::read(cell);
            if slot.is_none() || slot.mark() > mark {
                return Some(None);
            }
            if slot.mark() == mark { check(slot).map(Some) } else { None }
        });
        found.flatten()
    }

    /// Reads the home of a hash, for prefetching only.
    pub(super) fn ahead(&self, mark: u32) -> u64 {
        let home = home(mark, self.homes.load(Relaxed));
        self.slots.get(home).map_or(0, |cell| cell.load(Relaxed))
    }

    /// The numbers of all records.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> {
        self.slots.from(0).map(Slot::read).filter(|slot| !slot.is_none()).map(Slot::index)
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// A word of a record; zero beyond the end.
    #[inline]
    pub(super) fn word(&self, at: u32) -> u32 {
        self.words.get(at).map_or(0, |word| word.load(Relaxed))
    }

    /// The record that begins at a word.
    #[inline]
    pub(super) fn record(&self, at: u32) -> Record<'_> {
        Record { table: self, at, rest: self.words.rest(at) }
    }

    /// Begins a change. Readers wait until it is dropped.
    pub(super) fn edit<'t>(&'t self, space: &'t mut Space) -> Edit<'t> {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        Edit { table: self, space }
    }
}

/// A change of a table. There is one at a time, because there is one [`Space`] to a table.
#[derive(Debug)]
pub(super) struct Edit<'t> {
    pub(super) table: &'t Table,
    space: &'t mut Space,
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        let version = self.table.version.load(Relaxed);
        self.table.version.store(version.wrapping_add(1), Release);
    }
}

impl Edit<'_> {
    /// Adds a slot.
    ///
    /// # Errors
    /// The table is full. Then nothing has changed.
    pub(super) fn place(&mut self, slot: Slot) -> Result<(), VertexError> {
        while !self.has_room(slot.mark()) {
            self.widen()?;
        }
        let mut carried = slot;
        self.table.slots.walk(self.home(slot.mark()), |cell, _| {
            let found = Slot::read(cell);
            if found.is_none() || found.mark() > carried.mark() {
                carried.write(cell);
                carried = found;
            }
            found.is_none().then_some(())
        });
        self.table.live.store(self.table.len() + 1, Relaxed);
        Ok(())
    }

    /// Removes the slot of a record; false if it has none.
    pub(super) fn displace(&mut self, mark: u32, index: u32) -> bool {
        let homes = self.table.homes.load(Relaxed);
        let mut hole: Option<&AtomicU64> = None;
        self.table.slots.walk(self.home(mark), |cell, at| {
            let slot = Slot::read(cell);
            match hole {
                // Those after it that are not at home move up by one.
                Some(_) if slot.is_none() || home(slot.mark(), homes) >= at => return Some(()),
                Some(to) => slot.write(to),
                None if slot.is_none() => return Some(()),
                None if slot.mark() == mark && slot.index() == index => {}
                None => return None,
            }
            hole = Some(cell);
            None
        });
        let Some(hole) = hole else { return false };
        Slot(0).write(hole);
        self.table.live.store(self.table.len() - 1, Relaxed);
        true
    }

    /// Gives the slot of a record another tag or another record.
    pub(super) fn replace(&mut self, mark: u32, index: u32, new: Slot) {
        self.table.slots.walk(self.home(mark), |cell, _| {
            let slot = Slot::read(cell);
            if slot.mark() == mark && slot.index() == index {
                new.write(cell);
                return Some(());
            }
            slot.is_none().then_some(())
        });
    }

    fn home(&self, mark: u32) -> u32 {
        home(mark, self.table.homes.load(Relaxed))
    }

    /// Whether one more slot leaves a fifth of the homes empty, and finds an empty place after its home.
    fn has_room(&self, mark: u32) -> bool {
        let homes = u64::from(self.table.homes.load(Relaxed));
        (self.table.len() as u64 + 1) * 5 <= homes * 4
            && (self.is_empty(self.space.slots - 1)
                || (self.home(mark)..self.space.slots).any(|at| self.is_empty(at)))
    }

    fn is_empty(&self, at: u32) -> bool {
        self.table.slots.get(at).is_some_and(|cell| Slot::read(cell).is_none())
    }

    /// Adds slots, by about an eighth, and gives all their new homes.
    fn widen(&mut self) -> Result<(), VertexError> {
        let all: Vec<Slot> =
            self.table.slots.from(0).map(Slot::read).filter(|slot| !slot.is_none()).collect();
        let homes = loop {
            self.space.slots = self.table.slots.grow(self.space.slots).ok_or(VertexError::Full)?;
            let homes = self.space.slots - self.space.slots / 64 - 16;
            let end = all.iter().fold(0, |end, slot| home(slot.mark(), homes).max(end) + 1);
            if end <= self.space.slots {
                break homes;
            }
        };
        self.table.homes.store(homes, Relaxed);
        let mut slots = all.into_iter().peekable();
        for (cell, at) in self.table.slots.from(0).zip(0_u32..) {
            let here = slots.next_if(|slot| home(slot.mark(), homes) <= at);
            here.unwrap_or(Slot(0)).write(cell);
        }
        Ok(())
    }

    /// Finds space for a record of so many words.
    ///
    /// # Errors
    /// There is none below `most`.
    pub(super) fn keep(&mut self, size: u32, most: u32) -> Result<u32, VertexError> {
        let same = if size < LARGE {
            self.space.free.get_mut(size as usize)
        } else {
            self.space.free_large.get_mut(&size)
        };
        if let Some(at) = same.and_then(Vec::pop) {
            return Ok(at);
        }
        // The space of a large record, of which the rest is still of use.
        let larger =
            self.space.free_large.range_mut(size + SMALLEST..).find(|(_, places)| !places.is_empty());
        if let Some((larger, places)) = larger
            && let Some(at) = places.pop()
        {
            let larger = *larger;
            if places.is_empty() {
                self.space.free_large.remove(&larger);
            }
            self.free(at + size, larger - size);
            return Ok(at);
        }
        let at = self.space.used;
        let end = at
            .checked_add(size)
            .filter(|end| *end < most.min(VertexId::MAX_INDEX))
            .ok_or(VertexError::Full)?;
        while self.space.words < end {
            self.space.words = self.table.words.grow(self.space.words).ok_or(VertexError::Full)?;
        }
        self.space.used = end;
        Ok(at)
    }

    /// Takes back the space of a record.
    pub(super) fn free(&mut self, at: u32, size: u32) {
        if size >= LARGE {
            self.space.free_large.entry(size).or_default().push(at);
            return;
        }
        if self.space.free.is_empty() {
            self.space.free.resize_with(LARGE as usize, Vec::new);
        }
        if let Some(places) = self.space.free.get_mut(size as usize) {
            places.push(at);
        }
    }

    /// Sets a word of a record.
    #[inline]
    pub(super) fn set(&mut self, record: Record<'_>, number: u32, word: u32) {
        if let Some(cell) = record.cell(number) {
            cell.store(word, Relaxed);
        }
    }

    /// Sets the words of a record from this one on.
    pub(super) fn set_all(&mut self, record: Record<'_>, first: u32, words: impl IntoIterator<Item = u32>) {
        let mut words = words.into_iter();
        let here = record.rest.get(first as usize..).unwrap_or_default();
        for cell in here {
            match words.next() {
                Some(word) => cell.store(word, Relaxed),
                None => return,
            }
        }
        for (number, word) in (first + here.len() as u32..).zip(words) {
            self.set(record, number, word);
        }
    }

    /// Writes a text and, if given, one byte after it, filled up to whole words with zeros.
    pub(super) fn set_text(&mut self, record: Record<'_>, first: u32, text: &[u8], after: Option<u8>) {
        let (whole, last) = text.as_chunks();
        let mut number = first;
        for bytes in whole {
            self.set(record, number, u32::from_le_bytes(*bytes));
            number += 1;
        }
        if !last.is_empty() || after.is_some() {
            let mut end = [0; 4];
            end.iter_mut().zip(last.iter().copied().chain(after)).for_each(|(to, from)| *to = from);
            self.set(record, number, u32::from_le_bytes(end));
        }
    }
}

/// Lets others run. Where there are no threads nobody waits, and nothing is imported for it.
#[cfg_attr(
    not(target_family = "wasm"),
    expect(
        clippy::disallowed_methods,
        reason = "a lock would wait as well, and this one is about to be open"
    )
)]
fn yield_now() {
    #[cfg(not(target_family = "wasm"))]
    std::thread::yield_now();
}

fn home(mark: u32, homes: u32) -> u32 {
    ((u64::from(mark) * u64::from(homes)) >> MARK_BITS) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LAST: u32 = (1 << MARK_BITS) - 1;

    /// The records of a table: two words each, the second of which is the key.
    fn found(table: &Table, mark: u32, key: u32) -> Option<u32> {
        table.find(mark, |slot| (table.word(slot.index() + 1) == key).then_some(slot.index()))
    }

    fn every_slot_is_in_its_place(table: &Table) -> bool {
        let homes = table.homes.load(Relaxed);
        let slots: Vec<Slot> = table.slots.from(0).map(Slot::read).collect();
        slots.iter().enumerate().all(|(at, slot)| {
            let home = home(slot.mark(), homes) as usize;
            let before = &slots[home.min(at)..at];
            slot.is_none()
                || (home <= at && before.iter().all(|other| !other.is_none() && other.mark() <= slot.mark()))
        })
    }

    proptest! {
        #[test]
        fn a_table_equals_a_plain_map(
            marks in prop_oneof![Just(2_u32), Just(3), Just(50), Just(LAST)],
            steps in prop::collection::vec((prop::bool::weighted(0.6), 0_u32..600, 2_u32..9), 0..1500),
        ) {
            let (table, mut space) = (Table::default(), Space::default());
            // Few marks, so that many slots share one, from the first home to the last.
            let mark = |key: u32| (key.wrapping_mul(0x9e37_79b9) % marks) * (LAST / (marks - 1));
            let mut model: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for (insert, key, size) in steps {
                let there = found(&table, mark(key), key);
                prop_assert_eq!(there, model.get(&key).map(|(index, _)| *index));
                let mut edit = table.edit(&mut space);
                match there {
                    None if insert => {
                        let index = edit.keep(size, VertexId::MAX_INDEX).unwrap();
                        let overlaps = |(other, of): &(u32, u32)| index < other + of && *other < index + size;
                        prop_assert!(!model.values().any(overlaps), "{} is in use", index);
                        edit.set_all(table.record(index), 0, [0, key]);
                        edit.place(Slot::new(mark(key), Tag(key as u8), index)).unwrap();
                        model.insert(key, (index, size));
                    }
                    Some(index) if !insert => {
                        prop_assert!(edit.displace(mark(key), index));
                        edit.free(index, model.remove(&key).unwrap().1);
                    }
                    Some(index) => {
                        edit.replace(mark(key), index, Slot::new(mark(key), Tag(size as u8), index));
                    }
                    None => prop_assert!(!edit.displace(mark(key), VertexId::MAX_INDEX - 2)),
                }
                drop(edit);
                prop_assert_eq!(table.len(), model.len());
            }
            prop_assert!(every_slot_is_in_its_place(&table));
            for (key, (index, _)) in &model {
                prop_assert_eq!(found(&table, mark(*key), *key), Some(*index));
            }
            let mut indices: Vec<u32> = table.indices().collect();
            indices.sort_unstable();
            let mut expected: Vec<u32> = model.values().map(|(index, _)| *index).collect();
            expected.sort_unstable();
            prop_assert_eq!(indices, expected);
            prop_assert_eq!(table.version.load(Relaxed) % 2, 0);
        }

        #[test]
        fn a_text_is_found_as_it_was_written(before in 0_u32..90, text in ".{0,80}", other in ".{0,80}") {
            let (table, mut space) = (Table::default(), Space::default());
            let mut edit = table.edit(&mut space);
            edit.keep(before.max(1), VertexId::MAX_INDEX).unwrap();
            let at = edit.keep(64, VertexId::MAX_INDEX).unwrap();
            edit.set_text(table.record(at), 0, text.as_bytes(), None);
            drop(edit);
            prop_assert_eq!(&*table.record(at).text(0, text.len() as u32), text.as_bytes());
            prop_assert!(table.record(at).has_text(0, text.as_bytes()));
            if other.len() <= text.len() {
                prop_assert_eq!(table.record(at).has_text(0, other.as_bytes()), text.starts_with(&other));
            }
        }
    }

    #[test]
    fn a_full_table_says_so_and_keeps_what_it_has() {
        let (table, mut space) = (Table::default(), Space::default());
        let mut edit = table.edit(&mut space);
        let first = edit.keep(2, VertexId::MAX_INDEX).unwrap();
        edit.set_all(table.record(first), 0, [0, 7]);
        edit.place(Slot::new(1, Tag::ANY, first)).unwrap();
        while edit.keep(1 << 20, VertexId::MAX_INDEX).is_ok() {}
        assert_eq!(edit.keep(1 << 20, VertexId::MAX_INDEX), Err(VertexError::Full));
        drop(edit);
        assert_eq!(found(&table, 1, 7), Some(first));
    }
}
