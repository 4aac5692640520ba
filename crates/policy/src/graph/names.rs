//! Names as numbers: the nodes to which objects are bound, and the namespaces of the vertices.
//!
//! A number is reused when its name is gone. A reader must ask what it means while it reads the shard of the vertex that
//! has the number: if that shard did not change meanwhile, the vertex held the name all the time (NA-107).

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use hashbrown::DefaultHashBuilder;

use super::table::{Bytes, Record, Slot, Space, Table, mark_of};
use super::vertex::{NUMBERS, Tag, VertexError};

/// A number is the place of the name's record in units of 16 words, a cache line. There is room for a million names of up to 56
/// bytes, or for 200,000 of 253.
const UNIT: u32 = 16;

/// The longest name in bytes. No name in Kubernetes is longer than 253.
const LONGEST: usize = u16::MAX as usize;

// The words of a record: the number of holders, the length in bytes, and the name.
const HOLDERS: u32 = 0;
const LENGTH: u32 = 1;
const TEXT: u32 = 2;

/// A name with its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed<'n> {
    pub(super) name: &'n str,
    pub(super) hash: u64,
}

/// The names. Readers need no lock.
#[derive(Debug, Default)]
pub(super) struct Names {
    hasher: DefaultHashBuilder,
    table: Table,
}

fn is_at(record: Record<'_>, name: &str) -> bool {
    record.word(LENGTH) as usize == name.len() && record.has_text(TEXT, name.as_bytes())
}

impl Names {
    #[inline]
    pub(super) fn hashed<'n>(&self, name: &'n str) -> Hashed<'n> {
        Hashed { name, hash: self.hash(name.as_bytes()) }
    }

    #[inline]
    fn hash(&self, name: &[u8]) -> u64 {
        let mut state = self.hasher.build_hasher();
        state.write(name);
        state.finish()
    }

    /// The number of a name, if it has one.
    pub(super) fn find(&self, name: Hashed<'_>) -> Option<u32> {
        self.table.read(|| {
            self.table.find(mark_of(name.hash), |slot| {
                is_at(self.table.record(slot.index()), name.name).then(|| slot.index() / UNIT)
            })
        })
    }

    /// Whether a number is that of a name. The number must be in use until the end of the caller's own reading.
    #[inline]
    pub(super) fn is(&self, number: u32, name: &str) -> bool {
        is_at(self.record(number), name)
    }

    /// The name of a number that is in use.
    pub(super) fn text(&self, number: u32) -> Bytes {
        let record = self.record(number);
        record.text(TEXT, record.word(LENGTH))
    }

    #[inline]
    fn record(&self, number: u32) -> Record<'_> {
        self.table.record(number.saturating_mul(UNIT))
    }

    /// Returns the number of a name, which is given one if it has none, and adds one holder.
    ///
    /// # Errors
    /// The name is too long, or there are too many. Then nothing has changed.
    pub(super) fn hold(&self, space: &mut Space, name: Hashed<'_>) -> Result<u32, VertexError> {
        if let Some(number) = self.find(name) {
            self.hold_again(number);
            return Ok(number);
        }
        if name.name.len() > LONGEST {
            return Err(VertexError::NameTooLong);
        }
        let length = name.name.len() as u32;
        let mut edit = self.table.edit(space);
        let index = edit.keep(size(length), NUMBERS * UNIT)?;
        let record = self.table.record(index);
        edit.set_all(record, HOLDERS, [1, length]);
        edit.set_text(record, TEXT, name.name.as_bytes(), None);
        if let Err(error) = edit.place(Slot::new(mark_of(name.hash), Tag::ANY, index)) {
            edit.free(index, size(length));
            return Err(error);
        }
        Ok(index / UNIT)
    }

    /// Adds one holder to a number that has some. The writer must be locked.
    pub(super) fn hold_again(&self, number: u32) {
        // Readers do not read it.
        if let Some(holders) = self.record(number).cell(HOLDERS) {
            holders.store(holders.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// Removes one holder. The name is removed with its last, and then this is true.
    pub(super) fn release(&self, space: &mut Space, number: u32) -> bool {
        let record = self.record(number);
        let Some(holders) = record.cell(HOLDERS) else { return false };
        let remaining = holders.load(Relaxed).saturating_sub(1);
        holders.store(remaining, Relaxed);
        if remaining > 0 {
            return false;
        }
        let length = record.word(LENGTH);
        let hash = self.hash(&record.text(TEXT, length));
        let mut edit = self.table.edit(space);
        edit.displace(mark_of(hash), number * UNIT);
        edit.free(number * UNIT, size(length));
        true
    }

    /// The name of a number that is in use. The writer must be locked.
    pub(super) fn name(&self, number: u32) -> Option<String> {
        String::from_utf8(self.text(number).into_vec()).ok()
    }

    /// All names, in no particular order. The writer must be locked.
    pub(super) fn all(&self) -> impl Iterator<Item = String> {
        self.table.indices().filter_map(|index| self.name(index / UNIT))
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

fn size(length: u32) -> u32 {
    (TEXT + length.div_ceil(4)).next_multiple_of(UNIT)
}

#[cfg(test)]
mod tests {
    use super::super::vertex::VertexId;
    use super::*;

    #[test]
    fn a_number_is_reused_and_means_one_name_at_a_time() {
        let (names, mut space) = (Names::default(), Space::default());
        let one = names.hold(&mut space, names.hashed("one")).unwrap();
        assert_eq!(names.hold(&mut space, names.hashed("one")), Ok(one));
        assert!(!names.release(&mut space, one), "it has another holder");
        assert!(names.is(one, "one") && !names.is(one, "on") && !names.is(one, "one1"));
        assert!(names.release(&mut space, one));
        assert_eq!((names.find(names.hashed("one")), names.len()), (None, 0));
        let two = names.hold(&mut space, names.hashed("two")).unwrap();
        assert_eq!(two, one);
        assert!(names.is(two, "two") && !names.is(two, "one"));
        assert_eq!(names.all().collect::<Vec<_>>(), ["two"]);
    }

    #[test]
    fn without_space_a_name_is_refused_and_the_others_stay() {
        let (names, mut space) = (Names::default(), Space::default());
        let one = names.hold(&mut space, names.hashed("one")).unwrap();
        let mut edit = names.table.edit(&mut space);
        while edit.keep(1 << 20, VertexId::MAX_INDEX).is_ok() {}
        drop(edit);
        assert_eq!(names.hold(&mut space, names.hashed("two")), Err(VertexError::Full));
        assert_eq!(names.find(names.hashed("two")), None);
        assert_eq!(names.hold(&mut space, names.hashed("one")), Ok(one));
        let long = "n".repeat(LONGEST + 1);
        assert_eq!(names.hold(&mut space, names.hashed(&long)), Err(VertexError::NameTooLong));
    }
}
