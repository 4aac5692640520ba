//! The history of a store that was closed, in its file: the newest commits with the values that they replaced, so that
//! watches continue after a restart.
//!
//! It is written once, when the store is closed, and costs no write anything. After a crash there is none, or one that
//! ends before the last commit; both are passed over, and watches begin anew.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use crate::{Entry, Event, Revision};

/// The changes, by revision and place in the commit.
const CHANGES: TableDefinition<(u64, u64), &[u8]> = TableDefinition::new("portcullis.history");

/// The most bytes of history in the file. The oldest commits are left out first.
const MOST_BYTES: usize = 64 << 20;

/// The changes of one commit.
pub(super) type Past = Vec<(Revision, Vec<Event>)>;

/// Replaces the history in a file. `commits` are the newest ones, oldest first.
pub(super) fn write<'c>(
    database: &Database,
    commits: impl DoubleEndedIterator<Item = (Revision, &'c [Event])>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.delete_table(CHANGES)?;
    {
        let mut changes = transaction.open_table(CHANGES)?;
        let mut size = 0_usize;
        for (revision, events) in commits.rev() {
            let records: Vec<Vec<u8>> = events.iter().map(encode).collect();
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
pub(super) fn read(database: &Database, newest: Revision) -> Result<Past, redb::Error> {
    let transaction = database.begin_read()?;
    let changes = match transaction.open_table(CHANGES) {
        Ok(changes) => changes,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Past::new()),
        Err(error) => return Err(error.into()),
    };
    let mut past = Past::new();
    // An entry that occurs in two events is kept once.
    let mut known: HashMap<(Box<str>, Revision), Arc<Entry>> = HashMap::new();
    for record in changes.iter()? {
        let (place, record) = record?;
        let revision = Revision(place.value().0);
        let damaged = || redb::Error::Corrupted(format!("the history of revision {}", revision.0));
        let mut event = decode(record.value(), revision).ok_or_else(damaged)?;
        for entry in [&mut event.previous, &mut event.entry].into_iter().flatten() {
            let same = known.entry((entry.key.clone(), entry.modified)).or_insert_with(|| Arc::clone(entry));
            *entry = Arc::clone(same);
        }
        match past.last_mut() {
            Some((last, events)) if *last == revision => events.push(event),
            _ => past.push((revision, vec![event])),
        }
    }
    // A history with a gap, or of another state, is no use.
    let expected = (0..past.len()).rev().map(|before| newest.0.checked_sub(before as u64));
    let is_complete = past.iter().zip(expected).all(|((revision, _), expected)| Some(revision.0) == expected);
    Ok(if is_complete { past } else { Past::new() })
}

/// The length of the key, the key, and both entries.
fn encode(event: &Event) -> Vec<u8> {
    let mut record = Vec::new();
    put(&mut record, event.key().as_bytes());
    for entry in [&event.previous, &event.entry] {
        match entry {
            None => record.push(0),
            Some(entry) => {
                record.push(1);
                record.extend(entry.created.0.to_le_bytes());
                record.extend(entry.modified.0.to_le_bytes());
                put(&mut record, &entry.value);
            }
        }
    }
    record
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend((bytes.len() as u64).to_le_bytes());
    record.extend(bytes);
}

/// The reverse of [`encode`].
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
            *entry = Some(Arc::new(Entry {
                key: key.into(),
                value: Bytes::copy_from_slice(value),
                created: Revision(u64::from_le_bytes(*created)),
                modified: Revision(u64::from_le_bytes(*modified)),
            }));
        }
    }
    let [previous, entry] = entries;
    rest.is_empty().then_some(Event { revision, previous, entry })
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}
