//! Follows the objects of an etcd, for programs that decide without a server (BC-1).
//!
//! A kind is read at one revision, and then watched. After a failure, and after a silence, it is read again: etcd tells nobody who
//! only reads whether nothing has changed. Only the keys of the kinds that are asked for are read.
//!
//! Never writes anything, not even the key by which servers learn that their watch works.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kinds::resource::Resource;
use policy::objects::Kind;
use portcullis_client::feed::{News, Source};
use portcullis_client::random::fraction;
use portcullis_client::watched::Event;
use portcullis_store::Revision;
use portcullis_store::etcd::{Changed, Changes, ChangesEnded, Direct, LiveTls, Page, Range, Sealed};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{Content, ContentError, Item, Location, Unreadable};
use crate::registry::storage;

/// After so long without a change a kind is read again, also if the caller could wait longer.
const SILENCE: Duration = Duration::from_secs(90);
/// The first delay after a failure, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// An etcd whose objects are followed. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Etcd {
    content: Arc<Content>,
    direct: Arc<Direct>,
}

/// The objects of a kind in etcd. See the module.
#[derive(Debug)]
pub struct EtcdSource {
    etcd: Etcd,
    row: &'static Resource,
    range: Range,
    silence: Duration,
    step: Step,
    /// No change up to it is missing.
    revision: Revision,
    failures: u32,
    delay: Duration,
}

#[derive(Debug)]
enum Step {
    /// The list starts.
    Start,
    /// The next part of the list is requested; the list is complete if nothing is left.
    Page(Option<Range>),
    /// The objects of a page are passed on, and then the rest of the list is requested.
    Items(std::vec::IntoIter<Sealed>, Option<Range>),
    /// The watch starts.
    Watch,
    /// Changes arrive.
    Changes(Changes),
    /// Changes have arrived.
    Changed(std::vec::IntoIter<Changed>, Changes),
}

impl Content {
    /// Connects to etcd, to follow it. The second part takes up renewed certificates until it is dropped. Must be called in a
    /// runtime.
    ///
    /// # Errors
    /// The store is a file, which nobody else changes, or an address or certificate cannot be used.
    pub fn follow(self) -> Result<(Etcd, impl Future<Output = ()> + Send + use<>), ContentError> {
        let Location::Etcd(etcd) = &self.location else {
            return Err(ContentError::Invalid("only etcd can be followed".to_owned()));
        };
        let tls = Arc::<LiveTls>::from(etcd.tls.clone());
        let direct = etcd.options(self.own_layout()?).tls(Arc::clone(&tls)).direct()?;
        let reloading = etcd.files.clone().follow(etcd.tls.clone(), tls);
        Ok((Etcd { content: Arc::new(self), direct: Arc::new(direct) }, reloading))
    }
}

impl Etcd {
    /// Follows a kind. It is read again when nothing has changed for `silence`, or for a minute and a half.
    ///
    /// # Errors
    /// Objects of this kind are not stored.
    pub fn source(&self, kind: Kind, silence: Duration) -> Result<EtcdSource, ContentError> {
        let (row, range) = self.place(kind)?;
        Ok(EtcdSource {
            range,
            etcd: self.clone(),
            row,
            silence: silence.min(SILENCE),
            step: Step::Start,
            revision: Revision(0),
            failures: 0,
            delay: Duration::ZERO,
        })
    }

    /// Where the objects of a kind lie.
    fn place(&self, kind: Kind) -> Result<(&'static Resource, Range), ContentError> {
        let content = &self.content;
        let mut rows = content.kinds.stored();
        let row = rows.find(|row| Kind::of(&row.api_version(), row.kind) == Some(kind));
        let found = row.and_then(|row| Some((row, self.direct.below(&content.layout.folder(row)?))));
        found.ok_or_else(|| ContentError::Invalid(format!("{} is not stored in etcd", kind.as_str())))
    }

    /// The revision that etcd has now or later, by a linearizable read of this kind; none if it does not answer (BC-23).
    pub async fn newest(self, kind: Option<Kind>) -> Option<u64> {
        let (_, range) = self.place(kind?).ok()?;
        match self.direct.newest(&range).await {
            Ok((newest, _)) => Some(newest.0),
            Err(error) => {
                tracing::debug!(%error, "the newest revision is not known");
                None
            }
        }
    }
}

impl Source for EtcdSource {
    async fn next(&mut self) -> News {
        let delay_before = std::mem::take(&mut self.delay);
        if !delay_before.is_zero() {
            sleep(delay_before).await;
        }
        let event = match self.event().await {
            Ok(event) => event,
            Err(why) => {
                self.delay = delay(self.failures, fraction());
                self.failures = self.failures.saturating_add(1);
                self.step = Step::Start;
                Event::Failed { code: None, why, retry_in: self.delay }
            }
        };
        News { event, revision: self.revision.0, newest: 0 }
    }
}

impl EtcdSource {
    async fn event(&mut self) -> Result<Event<Bytes>, String> {
        let direct = Arc::clone(&self.etcd.direct);
        loop {
            // Whatever fails, and whoever drops this meanwhile: the list starts again.
            match std::mem::replace(&mut self.step, Step::Start) {
                Step::Start => {
                    let newest = direct.newest(&self.range).await.map_err(|error| error.to_string())?;
                    self.revision = newest.0;
                    self.step = Step::Page(Some(self.range.clone()));
                    return Ok(Event::Restarted);
                }
                Step::Page(Some(range)) => {
                    let page = direct.page(&range, self.revision).await;
                    let Page { found, rest } = page.map_err(|error| error.to_string())?;
                    self.step = Step::Items(found.into_iter(), rest);
                }
                Step::Page(None) => {
                    self.failures = 0;
                    self.step = Step::Watch;
                    return Ok(Event::Synced);
                }
                Step::Items(mut items, rest) => match items.next() {
                    Some(sealed) => {
                        self.step = Step::Items(items, rest);
                        if let Some(event) = self.read(&sealed, Event::Listed) {
                            return Ok(event);
                        }
                    }
                    None => self.step = Step::Page(rest),
                },
                Step::Watch => {
                    let opened = timeout(self.silence, direct.changes(&self.range, self.revision)).await;
                    if let Ok(opened) = opened {
                        self.step = Step::Changes(opened.map_err(|ended| ended.to_string())?);
                    }
                }
                Step::Changes(mut changes) => match timeout(self.silence, changes.next()).await {
                    // The watch may hang.
                    Err(_) => {}
                    Ok(Ok(changed)) => self.step = Step::Changed(changed.into_iter(), changes),
                    Ok(Err(ChangesEnded::Compacted)) => {
                        tracing::info!(
                            kind = self.row.kind,
                            "etcd has compacted changes that were not read: reading everything"
                        );
                    }
                    Ok(Err(ChangesEnded::Failed(why))) => return Err(why),
                },
                Step::Changed(mut changed, changes) => {
                    let Some(next) = changed.next() else {
                        self.step = Step::Changes(changes);
                        continue;
                    };
                    let is_last = changed.len() == 0;
                    self.step = Step::Changed(changed, changes);
                    let (Changed::Written(sealed) | Changed::Removed(sealed)) = &next;
                    // The changes of one revision arrive together. Before the last one, some of it may be missing.
                    let before = sealed.modified.0.saturating_sub(1);
                    self.revision = if is_last { sealed.modified } else { Revision(before) };
                    let event = match &next {
                        Changed::Written(sealed) => self.read(sealed, Event::Applied),
                        Changed::Removed(sealed) => self.named(sealed).map(Event::Deleted),
                    };
                    if let Some(event) = event {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// The object of a value; none for what is none of this kind.
    fn read(&self, sealed: &Sealed, event: fn(Bytes) -> Event<Bytes>) -> Option<Event<Bytes>> {
        let content = &self.etcd.content;
        match content.item(content.location.prefix(), sealed) {
            Item::Object { json, .. } => Some(event(json)),
            Item::Unreadable(_, Unreadable { why, .. }) => {
                let (namespace, name) = storage::place(self.row, sealed.key.as_deref()?);
                Some(Event::Unreadable { namespace: namespace.to_owned(), name: name.to_owned(), why })
            }
            Item::Foreign(_) => None,
        }
    }

    /// What is left of an object that is gone.
    fn named(&self, sealed: &Sealed) -> Option<Bytes> {
        let (namespace, name) = storage::place(self.row, sealed.key.as_deref()?);
        Some(json!({"metadata": {"namespace": namespace, "name": name}}).to_string().into())
    }
}

/// The delay after so many failures, reduced by up to a half at random, so that programs do not all ask together.
fn delay(failures: u32, chance: f64) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << failures.min(10)).min(LONGEST_DELAY);
    full.mul_f64(1.0 - chance / 2.0)
}
