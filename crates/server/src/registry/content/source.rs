//! Reads the content of a store at one revision, page by page.

use bytes::Bytes;
use kinds::resource::Resource;
use portcullis_store::Revision;
use portcullis_store::embedded::Reader;
use portcullis_store::etcd::{Direct, Layout as _, Opened, Range, Sealed};

use super::{Content, ContentError, Location, Unreadable};
use crate::registry::{server_addresses, storage};

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An object, or a record of the server.
    Object {
        /// The key.
        key: Box<str>,
        /// The JSON document, without a resourceVersion.
        json: Bytes,
        /// Whether it would be written in another form today: with another key or provider, or another media type or version.
        is_stale: bool,
    },
    /// A value that cannot be read, and its resource, as at the start of keys: `core/pods`.
    Unreadable(String, Unreadable),
    /// Something in etcd that is not served: its resource, or what stands in its place (`ranges`).
    Foreign(String),
}

/// The content of a store at one revision.
#[derive(Debug)]
pub struct Source<'c> {
    content: &'c Content,
    revision: u64,
    total: u64,
    reading: Reading,
}

#[derive(Debug)]
enum Reading {
    /// Only keys with one of these prefixes; all if there are none.
    File { reader: Reader, after: Option<Box<str>>, prefixes: Vec<String> },
    /// The ranges that are left, the next one last.
    Etcd { direct: Direct, left: Vec<Range>, at: Revision },
}

impl Content {
    /// Everything in the store at the newest revision.
    ///
    /// # Errors
    /// The store does not exist, is in use, or cannot be reached.
    pub async fn source(&self) -> Result<Source<'_>, ContentError> {
        self.source_of(&[]).await
    }

    /// As [`Content::source`], only these kinds; all if there are none.
    pub(super) async fn source_of(&self, rows: &[&'static Resource]) -> Result<Source<'_>, ContentError> {
        match &self.location {
            Location::File(path) => {
                let reader = Reader::open(path)?;
                self.learn_from_file(&reader)?;
                let (revision, total) = (reader.revision().0, reader.count());
                let prefixes = rows.iter().map(|row| storage::prefix(row, "")).collect();
                Ok(Source {
                    content: self,
                    revision,
                    total,
                    reading: Reading::File { reader, after: None, prefixes },
                })
            }
            Location::Etcd(etcd) => {
                let direct = etcd.options(self.own_layout()?).direct()?;
                let mut left: Vec<Range> = rows
                    .iter()
                    .filter_map(|row| self.layout.folder(row))
                    .map(|path| direct.below(&path))
                    .collect();
                if rows.is_empty() {
                    left.push(direct.everything());
                }
                let (at, total) = direct.newest(&direct.everything()).await?;
                self.learn_from_etcd(&direct, at).await?;
                Ok(Source {
                    content: self,
                    revision: at.0,
                    total,
                    reading: Reading::Etcd { direct, left, at },
                })
            }
        }
    }

    /// Reads a value of etcd.
    pub(super) fn item(&self, prefix: &str, sealed: &Sealed) -> Item {
        let etcd_key = sealed.etcd_key();
        // The addresses of servers end by themselves, and are no content.
        let is_content = |key: &str| !server_addresses::is_address(key) && self.layout.is_served(key);
        let Some(key) = sealed.key.as_ref().filter(|key| is_content(key)) else {
            let path = etcd_key.strip_prefix(prefix).unwrap_or(&etcd_key).trim_start_matches('/');
            return Item::Foreign(foreign(path));
        };
        match self.layout.open(key, &etcd_key, &sealed.value, Revision(0)) {
            Ok(Opened { value, is_stale }) => match self.current(key, value) {
                Ok(json) => Item::Object { key: key.clone(), json, is_stale },
                Err(why) => {
                    Item::Unreadable(resource(key).to_owned(), Unreadable { key: etcd_key.into_owned(), why })
                }
            },
            Err(error) => Item::Unreadable(resource(key).to_owned(), error.into()),
        }
    }
}

/// The resource of a key, as it stands there: `core/pods`.
#[must_use]
pub fn resource(key: &str) -> &str {
    let key = key.strip_prefix('/').unwrap_or(key);
    let end = key.match_indices('/').nth(1).map_or(key.len(), |(slash, _)| slash);
    key.get(..end).unwrap_or(key)
}

/// What stands in the place of the resource in a path of etcd that is not served. Keys of API groups have two parts there.
fn foreign(path: &str) -> String {
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    match parts.next() {
        Some(second) if first.contains('.') => format!("{first}/{second}"),
        _ => first.to_owned(),
    }
}

impl Source<'_> {
    /// The revision of the store that is read.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The number of keys in the store.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The next page; an empty one is the end.
    ///
    /// # Errors
    /// The store cannot be read, or etcd has compacted the revision.
    pub async fn next(&mut self) -> Result<Vec<Item>, ContentError> {
        let content = self.content;
        match &mut self.reading {
            Reading::File { reader, after, prefixes } => loop {
                let page = reader.page(after.as_deref())?;
                let Some(last) = page.last() else { return Ok(Vec::new()) };
                *after = Some(last.key.clone());
                let is_asked = |key: &str| {
                    prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
                };
                let asked = page.iter().filter(|record| is_asked(&record.key));
                let items: Vec<Item> = asked
                    .map(|record| match content.open_record(&record.key, &record.sealed) {
                        Ok(_) if !content.layout.is_served(&record.key) => {
                            Item::Foreign(resource(&record.key).to_owned())
                        }
                        Ok(Opened { value: json, is_stale }) => {
                            Item::Object { key: record.key.clone(), json, is_stale }
                        }
                        Err(unreadable) => Item::Unreadable(resource(&record.key).to_owned(), unreadable),
                    })
                    .collect();
                if !items.is_empty() {
                    return Ok(items);
                }
            },
            Reading::Etcd { direct, left, at } => {
                let prefix = content.location.prefix();
                while let Some(range) = left.pop() {
                    let page = direct.page(&range, *at).await?;
                    left.extend(page.rest);
                    if !page.found.is_empty() {
                        return Ok(page.found.iter().map(|sealed| content.item(prefix, sealed)).collect());
                    }
                }
                Ok(Vec::new())
            }
        }
    }
}

impl Location {
    /// The prefix of keys in etcd.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::File(_) => "",
            Self::Etcd(etcd) => &etcd.prefix,
        }
    }
}
