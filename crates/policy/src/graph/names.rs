//! Names as numbers: the nodes to which objects are bound, and the namespaces of the vertices.
//!
//! A number is used again when its name is gone. A reader must find it while it reads the shard of the vertex that it asks
//! for: if that shard did not change meanwhile, what the vertex holds was there all the time, and its number meant this name
//! (NA-107).

use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

use super::table::{Slot, Space, Table};
use super::vertex::{Tag, VertexError, VertexId};

/// So many names can be there at a time: a number and "none" fit into 20 bits.
pub(super) const NUMBERS: u32 = (1 << 20) - 1;

/// The longest name in bytes. No name in Kubernetes is longer than 253.
const LONGEST: usize = u16::MAX as usize;

// The words of a record: the number, the length in bytes, and the name.
const NUMBER: u32 = 0;
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

/// What only the writer knows of names.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    space: Space,
    /// By number.
    all: Vec<Numbered>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Numbered {
    hash: u64,
    record: u32,
    holders: u32,
}

fn mark_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Names {
    pub(super) fn hashed<'n>(&self, name: &'n str) -> Hashed<'n> {
        Hashed { name, hash: self.hasher.hash_one(name) }
    }

    /// The number of a name, if it has one.
    pub(super) fn find(&self, name: Hashed<'_>) -> Option<u32> {
        self.table.read(|| {
            self.table.find(mark_of(name.hash), |slot| {
                let at = slot.index();
                let is_it = self.table.word(at + LENGTH) as usize == name.name.len()
                    && self.table.has_text(at + TEXT, name.name.as_bytes());
                is_it.then(|| self.table.word(at + NUMBER))
            })
        })
    }

    /// Returns the number of a name, which is given one if it has none, and adds one holder.
    ///
    /// # Errors
    /// The name is too long, or there are too many. Then nothing has changed.
    pub(super) fn hold(&self, numbers: &mut Numbers, name: Hashed<'_>) -> Result<u32, VertexError> {
        if let Some(number) = self.find(name) {
            if let Some(numbered) = numbers.all.get_mut(number as usize) {
                numbered.holders = numbered.holders.saturating_add(1);
            }
            return Ok(number);
        }
        if name.name.len() > LONGEST {
            return Err(VertexError::NameTooLong);
        }
        let next = u32::try_from(numbers.all.len()).unwrap_or(NUMBERS);
        let number = numbers.free.last().copied().unwrap_or(next);
        if number >= NUMBERS {
            return Err(VertexError::Full);
        }
        let length = name.name.len() as u32;
        let mut edit = self.table.edit(&mut numbers.space);
        let record = edit.keep(size(length), VertexId::MAX_INDEX)?;
        edit.set_all(record, [number, length]);
        edit.set_text(record + TEXT, name.name.as_bytes());
        if let Err(error) = edit.place(Slot::new(mark_of(name.hash), Tag::ANY, record)) {
            edit.free(record, size(length));
            return Err(error);
        }
        drop(edit);
        let numbered = Numbered { hash: name.hash, record, holders: 1 };
        match numbers.free.pop() {
            Some(number) => {
                numbers.all.get_mut(number as usize).into_iter().for_each(|free| *free = numbered)
            }
            None => numbers.all.push(numbered),
        }
        Ok(number)
    }

    /// Removes one holder. The name is removed with its last.
    pub(super) fn release(&self, numbers: &mut Numbers, number: u32) {
        let numbered = numbers.all.get_mut(number as usize).filter(|numbered| numbered.holders > 0);
        let Some(numbered) = numbered else { return };
        numbered.holders -= 1;
        if numbered.holders > 0 {
            return;
        }
        let Numbered { hash, record, .. } = *numbered;
        numbers.free.push(number);
        let mut edit = self.table.edit(&mut numbers.space);
        edit.displace(mark_of(hash), record);
        let length = self.table.word(record + LENGTH);
        edit.free(record, size(length));
    }

    /// The name of a number. The writer must be locked.
    pub(super) fn name(&self, numbers: &Numbers, number: u32) -> Option<String> {
        let numbered = numbers.all.get(number as usize).filter(|numbered| numbered.holders > 0)?;
        self.text(numbered.record)
    }

    /// All names, in no particular order. The writer must be locked.
    pub(super) fn all(&self) -> impl Iterator<Item = String> {
        self.table.indices().filter_map(|record| self.text(record))
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn text(&self, record: u32) -> Option<String> {
        let bytes = self.table.text(record + TEXT, self.table.word(record + LENGTH));
        String::from_utf8(bytes.into_vec()).ok()
    }
}

impl Numbers {
    /// The hash of a number's name; zero if it has none.
    pub(super) fn hash(&self, number: u32) -> u64 {
        self.all.get(number as usize).map_or(0, |numbered| numbered.hash)
    }
}

fn size(length: u32) -> u32 {
    TEXT + length.div_ceil(4)
}
