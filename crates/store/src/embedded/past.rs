//! The history of a store that was closed, in its file: the newest commits with the values that they replaced, so that
//! watches continue after a restart.
//!
//! It is written once, when the store is closed, and costs no write anything. After a crash there is none, or one that
//! ends before the last commit; both are passed over, and watches begin anew.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use crate::{Entry, Event, PartOf, Revision, TransformError, Transformer};

/// The changes, by revision and place in the commit.
const CHANGES: TableDefinition<(u64, u64), &[u8]> = TableDefinition::new("portcullis.history");

/// The most bytes of history in the file. The oldest commits are left out first.
const MOST_BYTES: usize = 64 << 20;

/// The history of a file.
#[derive(Default)]
pub(super) struct Past {
    /// The changes of each commit, oldest first.
    pub(super) commits: Vec<(Revision, Vec<Event>)>,
    /// Whether a value would now be written differently.
    pub(super) is_stale: bool,
}

/// Replaces the history in a file. `commits` are the newest ones, oldest first.
pub(super) fn write<'c>(
    database: &Database,
    commits: impl DoubleEndedIterator<Item = (Revision, &'c [Event])>,
    transformer: &dyn Transformer,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.delete_table(CHANGES)?;
    {
        let mut changes = transaction.open_table(CHANGES)?;
        let mut size = 0_usize;
        for (revision, events) in commits.rev() {
            let records = events.iter().map(|event| encode(event, transformer));
            // A commit that cannot be encrypted is left out, with all earlier ones.
            let Ok(records) = records.collect::<Result<Vec<Vec<u8>>, _>>() else { break };
            size = size.saturating_add(records.iter().map(Vec::len).sum());
            if size > MOST_BYTES {
                break;
            }
            for (place, record) in (0_u64..).zip(&records) {
                changes.insert((revision.0, place), record.as_slice())?;
            }
        }
    }
    Ok(transaction.commit()?)
}

/// Reads the history of a file that is at this revision: every commit from some revision on, or none.
pub(super) fn read(
    database: &Database,
    newest: Revision,
    transformer: &dyn Transformer,
    part_of: Option<&PartOf>,
) -> Result<Past, redb::Error> {
    let transaction = database.begin_read()?;
    let changes = match transaction.open_table(CHANGES) {
        Ok(changes) => changes,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Past::default()),
        Err(error) => return Err(error.into()),
    };
    let mut past = Past::default();
    // An entry that occurs in two events is kept once.
    let mut known: HashMap<(Box<str>, Revision), Arc<Entry>> = HashMap::new();
    for record in changes.iter()? {
        let (place, record) = record?;
        let revision = Revision(place.value().0);
        let damaged = || redb::Error::Corrupted(format!("the history of revision {}", revision.0));
        let mut event = decode(record.value(), revision).ok_or_else(damaged)?;
        match opened(&mut event, transformer, part_of) {
            Ok(is_stale) => past.is_stale |= is_stale,
            // The key of a replaced value may be gone. Only watches need the history: drop it, and rewrite the file.
            Err(_) => return Ok(Past { commits: Vec::new(), is_stale: true }),
        }
        for entry in [&mut event.previous, &mut event.entry].into_iter().flatten() {
            let same = known.entry((entry.key.clone(), entry.modified)).or_insert_with(|| Arc::clone(entry));
            *entry = Arc::clone(same);
        }
        match past.commits.last_mut() {
            Some((last, events)) if *last == revision => events.push(event),
            _ => past.commits.push((revision, vec![event])),
        }
    }
    // A history with a gap, or of another state, is no use.
    let expected = (0..past.commits.len()).rev().map(|before| newest.0.checked_sub(before as u64));
    if !past.commits.iter().zip(expected).all(|((revision, _), expected)| Some(revision.0) == expected) {
        past.commits.clear();
    }
    Ok(past)
}

/// Opens the values of a change, and returns whether one of them is stale.
fn opened(
    event: &mut Event,
    transformer: &dyn Transformer,
    part_of: Option<&PartOf>,
) -> Result<bool, TransformError> {
    let mut is_stale = false;
    for place in [&mut event.previous, &mut event.entry] {
        let Some(sealed) = place.take() else { continue };
        let opened = transformer.open(&sealed.key, &sealed.value)?;
        is_stale |= opened.is_stale;
        let value = Bytes::from(opened.value.into_owned());
        let Entry { key, created, modified, .. } = &*sealed;
        let entry = Entry::new(key.clone(), value, *created, *modified);
        *place = Some(Arc::new(entry.in_part(part_of)));
    }
    Ok(is_stale)
}

/// The length of the key, the key, and both entries with their values in the form of the file.
fn encode(event: &Event, transformer: &dyn Transformer) -> Result<Vec<u8>, TransformError> {
    let mut record = Vec::new();
    put(&mut record, event.key().as_bytes());
    for entry in [&event.previous, &event.entry] {
        match entry {
            None => record.push(0),
            Some(entry) => {
                record.push(1);
                record.extend(entry.created.0.to_le_bytes());
                record.extend(entry.modified.0.to_le_bytes());
                put(&mut record, &transformer.seal(&entry.key, &entry.value)?);
            }
        }
    }
    Ok(record)
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend((bytes.len() as u64).to_le_bytes());
    record.extend(bytes);
}

/// The reverse of [`encode`]. The values keep the form of the file.
fn decode(record: &[u8], revision: Revision) -> Option<Event> {
    let (key, mut rest) = take(record)?;
    let key = std::str::from_utf8(key).ok()?;
    let mut entries = [None, None];
    for entry in &mut entries {
        let (is_there, after) = rest.split_first()?;
        rest = after;
        if *is_there == 1 {
            let (created, after) = rest.split_first_chunk()?;
            let (modified, after) = after.split_first_chunk()?;
            let (value, after) = take(after)?;
            rest = after;
            let [created, modified] = [created, modified].map(|bytes| Revision(u64::from_le_bytes(*bytes)));
            *entry = Some(Arc::new(Entry::new(key, Bytes::copy_from_slice(value), created, modified)));
        }
    }
    let [previous, entry] = entries;
    rest.is_empty().then_some(Event { revision, previous, entry })
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}
