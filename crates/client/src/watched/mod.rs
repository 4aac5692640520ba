//! Watches a resource: first the existing objects, then changes, until it is dropped.
//!
//! Broken connections, server restarts and compacted histories (410) are handled; the consumer is only notified that a
//! new list starts. An object that cannot be decoded is reported and skipped, so that one bad object never hides the
//! others. Nothing is cached here.

mod source;

use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Sleep;

use self::source::{Heard, SILENCE, Source, Trouble, What};
use crate::call::{Resource, without_content};
use crate::connect::Connection;
use crate::random::fraction;

pub(crate) use self::source::Form;

/// The first delay after a failure.
const FIRST_DELAY: Duration = Duration::from_millis(800);
/// The maximum delay.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A watch event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T> {
    /// A list starts: objects that it does not contain until [`Event::Synced`] are gone.
    Restarted,
    /// An object in the list.
    Listed(T),
    /// The list is complete.
    Synced,
    /// An object was created or changed.
    Applied(T),
    /// An object was deleted. This is its last state.
    Deleted(T),
    /// Nothing is missing up to the revision of the watch, which the server has confirmed.
    Current,
    /// The watch goes on after a failure or silence. What has happened meanwhile follows.
    Resumed,
    /// An existing or deleted object cannot be decoded.
    Unreadable {
        /// The namespace; empty for cluster-scoped objects.
        namespace: String,
        /// Its name.
        name: String,
        /// The position of the error in the JSON.
        why: String,
    },
    /// The server cannot be reached or refuses the request. It is retried; until then the known state may be outdated.
    Failed {
        /// The status code, if the server refused.
        code: Option<u16>,
        /// The server's URL, and why.
        why: String,
        /// The time until the retry.
        retry_in: Duration,
    },
}

impl Event<Bytes> {
    /// The same event with a decoded object.
    fn decoded<T: DeserializeOwned>(self) -> Event<T> {
        let decode = |text: Bytes, event: fn(T) -> Event<T>| match serde_json::from_slice(&text) {
            Ok(object) => event(object),
            Err(error) => {
                let (namespace, name) = key_of(&text);
                Event::Unreadable { namespace, name, why: without_content(&error) }
            }
        };
        match self {
            Self::Listed(text) => decode(text, Event::Listed),
            Self::Applied(text) => decode(text, Event::Applied),
            Self::Deleted(text) => decode(text, Event::Deleted),
            Self::Restarted => Event::Restarted,
            Self::Synced => Event::Synced,
            Self::Current => Event::Current,
            Self::Resumed => Event::Resumed,
            Self::Unreadable { namespace, name, why } => Event::Unreadable { namespace, name, why },
            Self::Failed { code, why, retry_in } => Event::Failed { code, why, retry_in },
        }
    }
}

/// The namespace and the name of an object, as far as they can be read.
pub(crate) fn key_of(text: &[u8]) -> (String, String) {
    let object: Value = serde_json::from_slice(text).unwrap_or_default();
    let field = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    (field("/metadata/namespace"), field("/metadata/name"))
}

/// The name in the metadata of an object.
pub(crate) fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// A watched resource, with each object as a `T`.
#[derive(Debug)]
pub struct Watched<T> {
    texts: Texts,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Watched<T> {
    /// Watches a resource: all objects, or those of a field selector such as `metadata.name=x`. Nothing is sent before
    /// the first call of `next`.
    pub fn new(connection: &Connection, resource: Resource, fields: Option<String>) -> Self {
        Self { texts: Texts::new(connection, resource, fields, (Form::Whole, SILENCE)), kind: PhantomData }
    }

    /// Waits for the next event. There is always another one. It is cancel safe.
    pub async fn next(&mut self) -> Event<T> {
        self.texts.next().await.decoded()
    }

    /// Starts over with a list, over the current connection. Requests in progress are dropped.
    pub fn restart(&mut self) {
        self.texts.restart();
    }
}

/// A watched resource, with each object as its JSON text.
pub(crate) struct Texts {
    connection: Connection,
    resource: Resource,
    /// A field selector.
    fields: Option<String>,
    /// How much of each object is asked for, and after how long a silent watch is started again.
    form: (Form, Duration),
    stream: BoxStream<'static, Result<Heard, Trouble>>,
    failures: u32,
    delay: Option<Pin<Box<Sleep>>>,
    revision: u64,
    newest: u64,
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched")
            .field("resource", &self.resource)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl Texts {
    /// See [`Watched::new`]. A watch on which nothing arrives for `silence`, or for a minute and a half, is started again.
    pub(crate) fn new(
        connection: &Connection,
        resource: Resource,
        fields: Option<String>,
        (form, silence): (Form, Duration),
    ) -> Self {
        Self {
            stream: Source::new(connection, &resource, fields.as_deref(), (form, silence.min(SILENCE)))
                .stream(),
            connection: connection.clone(),
            resource,
            fields,
            form: (form, silence.min(SILENCE)),
            failures: 0,
            delay: None,
            revision: 0,
            newest: 0,
        }
    }

    /// The revision of the last event: no change up to it is missing. 0 before the first list, and if the server's
    /// revisions are no numbers.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that the server had when the watch last went on after a failure or silence: changes up to it had happened
    /// meanwhile. 0 if a list has started since.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// See [`Watched::next`].
    pub(crate) async fn next(&mut self) -> Event<Bytes> {
        loop {
            if let Some(delay) = &mut self.delay {
                delay.as_mut().await;
                self.delay = None;
            }
            match self.stream.next().await {
                Some(Ok(heard)) => return self.read(heard),
                Some(Err(trouble)) => return self.fail(trouble),
                // The stream never ends; if it did, a new one would start.
                None => self.restart(),
            }
        }
    }

    /// See [`Watched::restart`].
    pub(crate) fn restart(&mut self) {
        self.delay = None;
        let fields = self.fields.as_deref();
        self.stream = Source::new(&self.connection, &self.resource, fields, self.form).stream();
    }

    /// Continues with a list of another resource, after the current delay.
    pub(crate) fn move_to(&mut self, resource: Resource) {
        let delay = self.delay.take();
        self.resource = resource;
        self.restart();
        self.delay = delay;
    }

    fn read(&mut self, Heard { what, revision, newest }: Heard) -> Event<Bytes> {
        if !matches!(what, What::Restarted | What::Listed(_)) {
            self.failures = 0;
            self.revision = revision;
        }
        self.newest = newest;
        match what {
            What::Restarted => Event::Restarted,
            What::Listed(text) => Event::Listed(text),
            What::Synced => Event::Synced,
            What::Applied(text) => Event::Applied(text),
            What::Deleted(text) => Event::Deleted(text),
            What::Current => Event::Current,
            What::Resumed => Event::Resumed,
        }
    }

    fn fail(&mut self, Trouble { code, why }: Trouble) -> Event<Bytes> {
        let retry_in = delay(self.failures, fraction());
        self.failures = self.failures.saturating_add(1);
        self.delay = Some(Box::pin(tokio::time::sleep(retry_in)));
        Event::Failed { code, why: format!("{}: {why}", self.connection.server()), retry_in }
    }
}

/// Returns the delay after this many failures: exponential backoff, reduced by up to a half at random, so that clients
/// of a failed server do not all reconnect at once.
pub(crate) fn delay(failures: u32, chance: f64) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << failures.min(10)).min(LONGEST_DELAY);
    full.mul_f64(1.0 - chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_half_a_minute_and_are_spread() {
        assert_eq!(delay(0, 0.0), FIRST_DELAY);
        assert_eq!(delay(1, 0.0), FIRST_DELAY * 2);
        assert_eq!(delay(0, 1.0), FIRST_DELAY / 2);
        for failures in [8, 100, u32::MAX] {
            assert_eq!(delay(failures, 0.0), LONGEST_DELAY);
        }
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_named() {
        let text = Bytes::from_static(br#"{"metadata":{"namespace":"a","name":"b"},"spec":7}"#);
        let event = Event::Applied(text).decoded::<std::collections::BTreeMap<String, String>>();
        let Event::Unreadable { namespace, name, why } = event else { panic!("{event:?}") };
        assert_eq!((namespace.as_str(), name.as_str()), ("a", "b"));
        assert!(why.contains("line 1 column"), "{why}");
    }
}
