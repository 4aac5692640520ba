//! Follows one kind.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use portcullis_policy::objects::{Kind, Object};

use super::kinds::Place;
use super::state::{Followed, Shared};
use crate::call::without_content;
use crate::connect::Connection;
use crate::watched::{Event, Form, Texts, key_of};

/// See the module.
pub(super) struct Follower {
    shared: Arc<Shared>,
    /// The place of the kind among those that are followed.
    number: usize,
    place: Place,
    texts: Texts,
    /// How many versions of the API the server did not have, one after the other.
    absent: usize,
    /// Each object that was heard of, and in which list it was last: all of an older one are gone when a list is complete.
    known: HashMap<Key, u32>,
    list: u32,
}

/// A namespace and a name.
type Key = (Box<str>, Box<str>);

impl Follower {
    /// None: there is no such place, or its kind has no resource.
    pub(super) fn new(
        connection: &Connection,
        shared: &Arc<Shared>,
        number: usize,
        silence: Duration,
    ) -> Option<Self> {
        let place = Place::of(shared.kinds.get(number)?.kind)?;
        Some(Self {
            texts: texts(connection, &place, silence),
            shared: Arc::clone(shared),
            number,
            place,
            absent: 0,
            known: HashMap::new(),
            list: 0,
        })
    }

    pub(super) async fn run(mut self) {
        loop {
            let event = self.texts.next().await;
            self.take(event);
            // A page of objects is there at once: others have a turn in between.
            tokio::task::consume_budget().await;
        }
    }

    fn take(&mut self, event: Event<Bytes>) {
        let is_confirmed = matches!(event, Event::Synced | Event::Current);
        match event {
            Event::Restarted => {
                self.list = self.list.wrapping_add(1);
                return;
            }
            Event::Listed(text) => {
                self.apply(&text);
                return;
            }
            Event::Synced => self.listed(),
            Event::Applied(text) => self.apply(&text),
            Event::Deleted(text) => {
                let (namespace, name) = key_of(&text);
                self.forget(&(namespace.into(), name.into()));
            }
            Event::Current => {}
            // Nothing new is known before what has happened meanwhile has arrived.
            Event::Resumed | Event::Unreadable { .. } => return,
            Event::Failed { code, why, retry_in } => return self.failed(code, &why, retry_in),
        }
        self.heard(is_confirmed);
    }

    fn followed(&self) -> Option<&Followed> {
        self.shared.kinds.get(self.number)
    }

    /// Everything up to the revision of the watch is applied.
    fn heard(&self, is_confirmed: bool) {
        let revision = self.texts.revision();
        // A deletion that happened during a failure may still be on its way (BC-22).
        self.heard_up_to(revision, is_confirmed || revision >= self.texts.newest());
    }

    fn heard_up_to(&self, revision: u64, is_current: bool) {
        let Some(followed) = self.followed() else { return };
        followed.revision.store(revision, Ordering::Release);
        if is_current {
            let now = u64::try_from(self.shared.clock.running().as_millis()).unwrap_or(0);
            followed.heard.store(now, Ordering::Release);
        }
        self.shared.changed.send_replace(());
    }

    fn apply(&mut self, text: &Bytes) {
        let Some(kind) = self.followed().map(|followed| followed.kind) else { return };
        let decoded = std::str::from_utf8(text)
            .map_err(|_| "it is not UTF-8".to_owned())
            .and_then(|json| Object::parse(kind, json).map_err(|error| without_content(&error)));
        let applied = decoded.and_then(|object| {
            let (namespace, name) = object.key();
            let key = (Box::from(namespace), Box::from(name));
            self.shared.engine.apply(object).map(|_| key).map_err(|error| error.to_string())
        });
        match applied {
            Ok(key) => {
                self.known.insert(key, self.list);
            }
            Err(why) => {
                let (namespace, name) = key_of(text);
                tracing::warn!(
                    kind = kind.as_str(),
                    namespace,
                    name,
                    why,
                    "an object cannot be used and grants nothing"
                );
                if let Some(followed) = self.followed() {
                    followed.unusable.fetch_add(1, Ordering::Relaxed);
                }
                self.forget(&(namespace.into(), name.into()));
            }
        }
        self.count();
    }

    fn forget(&mut self, key: &Key) {
        self.known.remove(key);
        if let Some(followed) = self.followed() {
            self.shared.engine.delete(followed.kind, &key.0, &key.1);
        }
        self.count();
    }

    fn count(&self) {
        if let Some(followed) = self.followed() {
            followed.objects.store(u64::try_from(self.known.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The list is complete: objects that it does not contain are gone.
    fn listed(&mut self) {
        let list = self.list;
        let gone: Vec<Key> = self.known.extract_if(|_, last| *last != list).map(|(key, _)| key).collect();
        gone.iter().for_each(|key| self.forget(key));
        self.absent = 0;
        self.complete();
    }

    /// The kind is known.
    fn complete(&self) {
        let Some(followed) = self.followed() else { return };
        if !followed.is_listed.swap(true, Ordering::AcqRel) {
            let kind = followed.kind.as_str();
            tracing::info!(kind, objects = self.known.len(), "all objects are known");
        }
        if self.shared.is_listed() {
            self.shared.engine.mark_complete();
        }
    }

    fn failed(&mut self, code: Option<u16>, why: &str, retry_in: Duration) {
        let Some(followed) = self.followed() else { return };
        followed.failures.fetch_add(1, Ordering::Relaxed);
        let (is_optional, kind) = (is_optional(followed.kind), followed.kind.as_str());
        // Clusters of other releases have other versions of an API, or none: then there are no objects.
        if code == Some(404) {
            self.absent = self.absent.saturating_add(1);
            self.texts.move_to(self.place.resource(self.absent));
            if is_optional {
                tracing::debug!(kind, why, "the server does not have this version of the API");
                if self.place.is_absent(self.absent) {
                    let gone: Vec<Key> = self.known.drain().map(|(key, _)| key).collect();
                    gone.iter().for_each(|key| self.forget(key));
                    self.complete();
                    // There is nothing to wait for.
                    self.heard_up_to(u64::MAX, true);
                }
                return;
            }
        }
        tracing::warn!(
            kind,
            why,
            ?retry_in,
            "the watch failed; will retry; check that the API server is reachable and grants list and watch"
        );
    }
}

/// Whether clusters may lack the API of a kind.
fn is_optional(kind: Kind) -> bool {
    matches!(kind, Kind::PodCertificateRequest | Kind::ResourceSlice)
}

fn texts(connection: &Connection, place: &Place, silence: Duration) -> Texts {
    let form = if place.metadata_only { Form::Metadata } else { Form::Whole };
    Texts::new(connection, place.resource(0), None, (form, silence))
}
