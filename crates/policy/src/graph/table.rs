//! A hash table of numbered records, which any number of readers read without a lock while one writer changes it.
//!
//! A reader notes the version, reads, and reads again if the version is another one by then. While the writer changes the
//! table the version is odd. So readers write nothing that other readers read: a lock, even one for reading, would move its
//! cache line between the processors with every decision. What a reader finds while the table changes may be nonsense; it is
//! bounded by the arrays, and thrown away.
//!
//! The hash table is an array of slots that ascend by their hash: a slot is at its home, which ascends with the hash as well,
//! or as near after it as others leave room. A search ends at the first slot of a larger hash, so what is not there costs no
//! more than what is there. Records are runs of words in one array. A record never moves, so its first word's place is its
//! number, and the space of removed records is used again.

use std::collections::BTreeMap;
use std::hint;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

use smallvec::SmallVec;

use super::vertex::{Tag, VertexError, VertexId};
use super::words::Words;

/// The bytes of a name.
pub(super) type Bytes = SmallVec<[u8; 64]>;

/// After so many looks at an odd version the reader lets others run: the writer may wait for its processor.
const LOOKS: u32 = 128;

/// A remainder of a record's space that is smaller than this is not cut off.
const SMALLEST: u32 = 4;

/// One entry of the hash table: 32 bits of the hash, a tag of eight bits, and the number of the record plus one. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u64);

impl Slot {
    pub(super) fn new(mark: u32, tag: Tag, index: u32) -> Self {
        Self(u64::from(mark) << 32 | u64::from(tag.0) << VertexId::INDEX_BITS | (u64::from(index) + 1))
    }

    fn mark(self) -> u32 {
        (self.0 >> 32) as u32
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
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Table {
    version: AtomicU64,
    /// The number of slots that are homes. A few more follow, for those that find the last homes taken.
    homes: AtomicU32,
    slots: Words<AtomicU64>,
    words: Words<AtomicU32>,
    live: AtomicUsize,
}

/// What only the writer knows of a table.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// The number of slots.
    slots: u32,
    /// The number of words, and of those that were used at least once.
    words: u32,
    used: u32,
    /// Where removed records were, by their size.
    free: BTreeMap<u32, Vec<u32>>,
}

impl Table {
    /// Reads until the table did not change meanwhile. Free of locks; `read` must cope with nonsense.
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
    pub(super) fn find<T>(&self, mark: u32, mut check: impl FnMut(Slot) -> Option<T>) -> Option<T> {
        let mut at = home(mark, self.homes.load(Relaxed));
        loop {
            let rest = self.slots.rest(at);
            for cell in rest {
                let slot = Slot::read(cell);
                if slot.is_none() || slot.mark() > mark {
                    return None;
                }
                if slot.mark() == mark
                    && let Some(found) = check(slot)
                {
                    return Some(found);
                }
            }
            if rest.is_empty() {
                return None;
            }
            at += rest.len() as u32;
        }
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
    pub(super) fn word(&self, at: u32) -> u32 {
        self.words.get(at).map_or(0, |word| word.load(Relaxed))
    }

    /// The words from this one to the end.
    pub(super) fn words(&self, at: u32) -> impl Iterator<Item = u32> {
        self.words.from(at).map(|word| word.load(Relaxed))
    }

    /// Whether the text that begins at a word begins with this one.
    pub(super) fn has_text(&self, at: u32, text: &[u8]) -> bool {
        let rest = self.words.rest(at);
        let word = |number: usize| match rest.get(number) {
            Some(word) => word.load(Relaxed),
            None => self.word(at + number as u32),
        };
        let (whole, last) = text.as_chunks();
        whole.iter().enumerate().all(|(number, bytes)| word(number) == u32::from_le_bytes(*bytes))
            && (last.is_empty() || word(whole.len()).to_le_bytes().starts_with(last))
    }

    /// A text of so many bytes that begins at a word.
    pub(super) fn text(&self, at: u32, length: u32) -> Bytes {
        let mut bytes = Bytes::with_capacity(length as usize + 3);
        for word in self.words(at).take(length.div_ceil(4) as usize) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(length as usize);
        bytes
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
        for cell in self.table.slots.from(self.home(slot.mark())) {
            let found = Slot::read(cell);
            if found.is_none() {
                carried.write(cell);
                break;
            }
            if found.mark() > carried.mark() {
                carried.write(cell);
                carried = found;
            }
        }
        self.table.live.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Removes the slot of a record.
    pub(super) fn displace(&mut self, mark: u32, index: u32) {
        let homes = self.table.homes.load(Relaxed);
        let start = self.home(mark);
        let mut cells = self.table.slots.from(start).zip(start..);
        let Some((mut hole, _)) = cells.find(|(cell, _)| {
            let slot = Slot::read(cell);
            slot.is_none() || (slot.mark() == mark && slot.index() == index)
        }) else {
            return;
        };
        if Slot::read(hole).is_none() {
            return;
        }
        // Those after it that are not at home move up by one.
        for (cell, at) in cells {
            let slot = Slot::read(cell);
            if slot.is_none() || home(slot.mark(), homes) >= at {
                break;
            }
            slot.write(hole);
            hole = cell;
        }
        Slot(0).write(hole);
        self.table.live.fetch_sub(1, Relaxed);
    }

    /// Gives the slot of a record another tag or another record.
    pub(super) fn replace(&mut self, mark: u32, index: u32, new: Slot) {
        let cells = self.table.slots.from(self.home(mark));
        let mut cells = cells.take_while(|cell| !Slot::read(cell).is_none());
        if let Some(cell) =
            cells.find(|cell| Slot::read(cell).mark() == mark && Slot::read(cell).index() == index)
        {
            new.write(cell);
        }
    }

    fn home(&self, mark: u32) -> u32 {
        home(mark, self.table.homes.load(Relaxed))
    }

    /// Whether one more slot leaves an eighth of the homes empty, and finds an empty place after its home.
    fn has_room(&self, mark: u32) -> bool {
        let homes = u64::from(self.table.homes.load(Relaxed));
        (self.table.len() as u64 + 1) * 8 <= homes * 7
            && self.table.slots.from(self.home(mark)).any(|cell| Slot::read(cell).is_none())
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
        if let Some(at) = self.space.free.get_mut(&size).and_then(Vec::pop) {
            return Ok(at);
        }
        // A larger one, what remains of which is still of use.
        let larger = self.space.free.range_mut(size + SMALLEST..).find(|(_, places)| !places.is_empty());
        if let Some((larger, places)) = larger
            && let Some(at) = places.pop()
        {
            let larger = *larger;
            if places.is_empty() {
                self.space.free.remove(&larger);
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
        self.space.free.entry(size).or_default().push(at);
    }

    pub(super) fn set(&mut self, at: u32, word: u32) {
        if let Some(cell) = self.table.words.get(at) {
            cell.store(word, Relaxed);
        }
    }

    /// Sets the words from this one on.
    pub(super) fn set_all(&mut self, at: u32, words: impl IntoIterator<Item = u32>) {
        for (cell, word) in self.table.words.from(at).zip(words) {
            cell.store(word, Relaxed);
        }
    }

    /// Writes a text, filled up to whole words with zeros.
    pub(super) fn set_text(&mut self, at: u32, text: &[u8]) {
        self.set_all(
            at,
            text.chunks(4).map(|chunk| {
                let mut bytes = [0; 4];
                bytes.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                u32::from_le_bytes(bytes)
            }),
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "a lock would wait as well, and this one is about to be open")]
fn yield_now() {
    std::thread::yield_now();
}

fn home(mark: u32, homes: u32) -> u32 {
    ((u64::from(mark) * u64::from(homes)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

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
            marks in prop_oneof![Just(2_u32), Just(3), Just(50), Just(u32::MAX)],
            steps in prop::collection::vec((prop::bool::weighted(0.6), 0_u32..600, 2_u32..9), 0..1500),
        ) {
            let (table, mut space) = (Table::default(), Space::default());
            // Few marks, so that many slots share one, from the first home to the last.
            let mark = |key: u32| (key.wrapping_mul(0x9e37_79b9) % marks) * (u32::MAX / marks.saturating_sub(1).max(1));
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
                        edit.set_all(index, [0, key]);
                        edit.place(Slot::new(mark(key), Tag(key as u8), index)).unwrap();
                        model.insert(key, (index, size));
                    }
                    Some(index) if !insert => {
                        edit.displace(mark(key), index);
                        edit.free(index, model.remove(&key).unwrap().1);
                    }
                    Some(index) => {
                        edit.replace(mark(key), index, Slot::new(mark(key), Tag(size as u8), index));
                    }
                    None => edit.displace(mark(key), VertexId::MAX_INDEX - 2),
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
            edit.set_text(at, text.as_bytes());
            drop(edit);
            prop_assert_eq!(&*table.text(at, text.len() as u32), text.as_bytes());
            prop_assert!(table.has_text(at, text.as_bytes()));
            if other.len() <= text.len() {
                prop_assert_eq!(table.has_text(at, other.as_bytes()), text.starts_with(&other));
            }
        }
    }

    #[test]
    fn a_full_table_says_so_and_keeps_what_it_has() {
        let (table, mut space) = (Table::default(), Space::default());
        let mut edit = table.edit(&mut space);
        let first = edit.keep(2, VertexId::MAX_INDEX).unwrap();
        edit.set_all(first, [0, 7]);
        edit.place(Slot::new(1, Tag::ANY, first)).unwrap();
        while edit.keep(1 << 20, VertexId::MAX_INDEX).is_ok() {}
        assert_eq!(edit.keep(1 << 20, VertexId::MAX_INDEX), Err(VertexError::Full));
        drop(edit);
        assert_eq!(found(&table, 1, 7), Some(first));
    }
}
