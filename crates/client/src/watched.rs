//! Watches a resource: first the existing objects, then changes, until it is dropped.
//!
//! Broken connections, server restarts and compacted histories (410) are handled; the consumer is only notified that a
//! new list starts. An object that cannot be decoded is reported and skipped, so that one bad object never hides the
//! others. Nothing is cached here.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ApiResource, GroupVersionKind};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::time::Sleep;

use crate::call::{Resource, without_content};
use crate::connect::{Connection, describe};
use crate::random::fraction;

/// The first delay after a failure.
const FIRST_DELAY: Duration = Duration::from_millis(800);
/// The maximum delay.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// After this many refusals to resume a watch, it starts over with a list.
const REFUSALS: u32 = 3;

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
        /// The server's URL, and why.
        why: String,
        /// The time until the retry.
        retry_in: Duration,
    },
}

/// A watched resource, with each object as a `T`.
pub struct Watched<T> {
    connection: Connection,
    resource: Resource,
    /// A field selector.
    fields: Option<String>,
    stream: BoxStream<'static, watcher::Result<watcher::Event<Raw>>>,
    /// The generation of the client of the stream.
    generation: u64,
    failures: u32,
    refusals: u32,
    delay: Option<Pin<Box<Sleep>>>,
    kind: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched")
            .field("resource", &self.resource)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Watched<T> {
    /// Watches a resource: all objects, or those of a field selector such as `metadata.name=x`. Nothing is sent before
    /// the first call of `next`.
    pub fn new(connection: &Connection, resource: Resource, fields: Option<String>) -> Self {
        Self {
            stream: stream(connection, &resource, fields.as_deref()),
            generation: connection.generation(),
            connection: connection.clone(),
            resource,
            fields,
            failures: 0,
            refusals: 0,
            delay: None,
            kind: PhantomData,
        }
    }

    /// Waits for the next event. There is always another one. It is cancel safe.
    pub async fn next(&mut self) -> Event<T> {
        loop {
            if let Some(delay) = &mut self.delay {
                delay.as_mut().await;
                self.delay = None;
            }
            match self.stream.next().await {
                Some(Ok(event)) => return self.read(event),
                Some(Err(error)) => return self.fail(&error),
                // The stream never ends; if it did, a new one would start.
                None => self.start_over(),
            }
        }
    }

    /// Starts over with a list, over the current connection. Requests in progress are dropped.
    pub fn restart(&mut self) {
        self.delay = None;
        self.start_over();
    }

    fn read(&mut self, event: watcher::Event<Raw>) -> Event<T> {
        self.refusals = 0;
        match event {
            watcher::Event::Init => Event::Restarted,
            watcher::Event::InitApply(raw) => raw.into_event(Event::Listed),
            watcher::Event::InitDone => {
                self.failures = 0;
                Event::Synced
            }
            watcher::Event::Apply(raw) => {
                self.failures = 0;
                raw.into_event(Event::Applied)
            }
            watcher::Event::Delete(raw) => raw.into_event(Event::Deleted),
        }
    }

    /// Decides how to continue after a failure.
    fn fail(&mut self, error: &watcher::Error) -> Event<T> {
        let retry_in = delay(self.failures, fraction());
        self.failures = self.failures.saturating_add(1);
        self.delay = Some(Box::pin(tokio::time::sleep(retry_in)));
        match error {
            watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
                self.refusals = self.refusals.saturating_add(1);
                // The revision of the watch is compacted, or the server refuses for another reason.
                if status.code == 410 || self.refusals >= REFUSALS {
                    self.start_over();
                }
            }
            // The server may have come back with an older store. A watch from a revision that this store has not
            // reached yet would wait for it, and miss all changes until then.
            watcher::Error::WatchStartFailed(_) | watcher::Error::WatchFailed(_) => self.start_over(),
            _ => {}
        }
        if self.connection.generation() != self.generation {
            // The credentials of the stream are outdated.
            self.start_over();
        }
        Event::Failed { why: format!("{}: {}", self.connection.server(), describe(error)), retry_in }
    }

    fn start_over(&mut self) {
        self.refusals = 0;
        self.generation = self.connection.generation();
        self.stream = stream(&self.connection, &self.resource, self.fields.as_deref());
    }
}

/// Returns the delay after this many failures: exponential backoff, reduced by up to a half at random, so that clients
/// of a failed server do not all reconnect at once.
fn delay(failures: u32, chance: f64) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << failures.min(10)).min(LONGEST_DELAY);
    full.mul_f64(1.0 - chance / 2.0)
}

fn stream(
    connection: &Connection,
    resource: &Resource,
    fields: Option<&str>,
) -> BoxStream<'static, watcher::Result<watcher::Event<Raw>>> {
    let Resource { group, version, plural, .. } = resource;
    // The kind is not used in paths.
    let kind = GroupVersionKind::gvk(group, version, plural);
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    let api: Api<Raw> = match &resource.namespace {
        Some(namespace) => Api::namespaced_with(connection.client(), namespace, &kind),
        None => Api::all_with(connection.client(), &kind),
    };
    let config = watcher::Config { field_selector: fields.map(str::to_owned), ..watcher::Config::default() };
    watcher(api, config).boxed()
}

/// An object as received, with the fields that the watch needs.
#[derive(Clone, Debug)]
struct Raw {
    meta: ObjectMeta,
    object: Value,
}

impl Raw {
    fn into_event<T: DeserializeOwned>(self, event: impl FnOnce(T) -> Event<T>) -> Event<T> {
        match T::deserialize(&self.object) {
            Ok(object) => event(object),
            Err(error) => Event::Unreadable {
                namespace: self.meta.namespace.unwrap_or_default(),
                name: self.meta.name.unwrap_or_default(),
                why: without_content(&error),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    /// Accepts any JSON: each object is decoded on its own, so that one error does not affect others.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        let text = |name: &str| object.pointer(name).and_then(Value::as_str).map(str::to_owned);
        let meta = ObjectMeta {
            name: text("/metadata/name"),
            namespace: text("/metadata/namespace"),
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, object })
    }
}

impl kube::Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.kind)
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.group)
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.version)
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
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
}
