//! Follows one kind.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use portcullis_policy::objects::Object;

use super::source::{News, Source};
use super::state::{Followed, Shared};
use crate::call::without_content;
use crate::watched::{Event, key_of};

/// See the module.
pub(super) struct Follower<S> {
    shared: Arc<Shared>,
    /// The place of the kind among those that are followed.
    number: usize,
    source: S,
    /// Each object that was heard of.
    known: HashMap<Key, Seen>,
    /// How many of these cannot be used.
    unusable: usize,
    list: u32,
}

/// What is known of an object.
#[derive(Clone, Copy)]
struct Seen {
    /// In which list it was last: all of an older one are gone when a list is complete.
    list: u32,
    is_usable: bool,
}

/// A namespace and a name.
type Key = (Box<str>, Box<str>);

impl<S: Source> Follower<S> {
    pub(super) fn new(shared: &Arc<Shared>, number: usize, source: S) -> Self {
        Self { shared: Arc::clone(shared), number, source, known: HashMap::new(), unusable: 0, list: 0 }
    }

    pub(super) async fn run(mut self) {
        loop {
            let news = self.source.next().await;
            self.take(news);
            // A page of objects is there at once: others have a turn in between.
            tokio::task::consume_budget().await;
        }
    }

    fn take(&mut self, News { event, revision, newest }: News) {
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
                self.forget((namespace.into(), name.into()));
            }
            Event::Current => {}
            // Nothing new is known before what has happened meanwhile has arrived.
            Event::Resumed => return,
            Event::Unreadable { namespace, name, why } => return self.unusable(&namespace, &name, &why),
            Event::Failed { why, retry_in, .. } => return self.failed(&why, retry_in),
        }
        // A deletion that happened during a failure may still be on its way (BC-22).
        self.heard(revision, is_confirmed || revision >= newest);
    }

    fn followed(&self) -> Option<&Followed> {
        self.shared.kinds.get(self.number)
    }

    /// Everything up to this revision is applied.
    fn heard(&self, revision: u64, is_current: bool) {
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
            self.shared.engine.apply(as_stored(object)).map(|_| key).map_err(|error| error.to_string())
        });
        match applied {
            Ok(key) => self.note(key, Some(Seen { list: self.list, is_usable: true })),
            Err(why) => {
                let (namespace, name) = key_of(text);
                self.unusable(&namespace, &name, &why);
            }
        }
    }

    fn unusable(&mut self, namespace: &str, name: &str, why: &str) {
        let Some(kind) = self.followed().map(|followed| followed.kind) else { return };
        tracing::warn!(
            kind = kind.as_str(),
            namespace,
            name,
            why,
            "an object cannot be used and grants nothing"
        );
        // It counts as unusable before what it granted ends, so that a refusal is not taken for that of the cluster.
        self.note((namespace.into(), name.into()), Some(Seen { list: self.list, is_usable: false }));
        self.shared.engine.delete(kind, namespace, name);
    }

    fn forget(&mut self, key: Key) {
        if let Some(followed) = self.followed() {
            self.shared.engine.delete(followed.kind, &key.0, &key.1);
        }
        self.note(key, None);
    }

    /// Notes what is known of an object now; none: it is gone.
    fn note(&mut self, key: Key, seen: Option<Seen>) {
        let is_unusable = |seen: Option<Seen>| usize::from(seen.is_some_and(|seen| !seen.is_usable));
        let before = match seen {
            Some(seen) => self.known.insert(key, seen),
            None => self.known.remove(&key),
        };
        let unusable = self.unusable.saturating_add(is_unusable(seen));
        self.unusable = unusable.saturating_sub(is_unusable(before));
        let Some(followed) = self.followed() else { return };
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        followed.objects.store(number(self.known.len().saturating_sub(self.unusable)), Ordering::Relaxed);
        followed.unusable.store(number(self.unusable), Ordering::Release);
    }

    /// The list is complete: objects that it does not contain are gone.
    fn listed(&mut self) {
        let list = self.list;
        let gone = self.known.iter().filter(|(_, seen)| seen.list != list);
        let gone: Vec<Key> = gone.map(|(key, _)| key.clone()).collect();
        gone.into_iter().for_each(|key| self.forget(key));
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

    fn failed(&self, why: &str, retry_in: Duration) {
        let Some(followed) = self.followed() else { return };
        followed.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            kind = followed.kind.as_str(),
            why,
            ?retry_in,
            "the watch failed; will retry; check that the server is reachable and grants list and watch"
        );
    }
}

/// The rules of an aggregated ClusterRole are those that the cluster's controller has written: the API server decides by these.
fn as_stored(mut object: Object<'_>) -> Object<'_> {
    if let Object::ClusterRole(role) = &mut object {
        role.aggregation_rule = None;
    }
    object
}
