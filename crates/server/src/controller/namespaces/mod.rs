//! The namespace controller: deletes the content of terminating namespaces, then finalizes them (AP-59).
//!
//! Pods are deleted first, everything else when no pod is left. Objects with finalizers are waited for; every removal
//! triggers another look.

mod conditions;
mod content;

use std::sync::Arc;
use std::time::Duration;

use kinds::resources::core::namespaces::{FINALIZER, NAMESPACES};
use kinds::{Kinds, Map};
use portcullis_store::Event;
use serde_json::Value;

use self::content::Content;
use super::runner::{Controller, Next};
use super::service_accounts::changed_namespace;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::storage::Stored;
use crate::registry::write;

/// How long a terminating namespace is left unchanged, as in Kubernetes, so that clients learn of the deletion before
/// they write there.
const GRACE: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 10;

/// See the module.
pub(super) struct Namespaces {
    backend: Arc<Backend>,
    kinds: Kinds,
}

impl Namespaces {
    pub(super) fn new(backend: Arc<Backend>, kinds: Kinds) -> Self {
        Self { backend, kinds }
    }
}

impl Controller for Namespaces {
    const NAME: &'static str = "namespace-controller";
    const LISTED: &'static str = "/core/namespaces/";
    const WATCHED: &'static str = "/";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        if event.entry.is_some() {
            return changed_namespace(event);
        }
        // An object was deleted. It may have been the last one in its namespace.
        let mut parts = event.key().split('/').skip(3);
        let namespace = parts.next()?;
        parts.next().map(|_| namespace.to_owned())
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = self.terminating(name).await? else { return Ok(Next::OnChange) };
        if !is_held(&stored.object) {
            return Ok(Next::OnChange);
        }
        let since = meta::seconds(meta::text(&stored.object, "deletionTimestamp"));
        if let Some(left) = since.and_then(|since| left(since, now())) {
            return Ok(Next::After(left));
        }
        let content = Content::empty_out(&self.backend, &self.kinds, name).await?;
        self.report(name, &content).await?;
        if content.is_empty() {
            self.release(name).await?;
        } else if let Some(error) = content.error() {
            return Err(Status::internal(error));
        }
        Ok(Next::OnChange)
    }
}

/// Returns the remaining part of that time.
fn left(since: i64, now: i64) -> Option<Duration> {
    let over = u64::try_from(now.saturating_sub(since)).unwrap_or_default();
    GRACE.checked_sub(Duration::from_secs(over)).filter(|left| !left.is_zero())
}

/// Returns whether the namespace has the finalizer of this controller.
fn is_held(namespace: &Map) -> bool {
    finalizers(namespace).contains(&Value::from(FINALIZER))
}

fn finalizers(namespace: &Map) -> &[Value] {
    let list = namespace.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

impl Namespaces {
    /// Returns a namespace if it is being deleted.
    async fn terminating(&self, name: &str) -> Result<Option<Stored>, Status> {
        let stored = write::find(&self.backend, &NAMESPACES, "", name).await?;
        Ok(stored.filter(|stored| meta::is_terminating(&stored.object)))
    }

    /// Reports the progress of the deletion in the status.
    async fn report(&self, name: &str, content: &Content) -> Result<(), Status> {
        self.change(name, |namespace| conditions::update(namespace, content, now())).await
    }

    /// Removes the finalizer of the empty namespace. If it was the last one, the namespace is removed (AP-44).
    async fn release(&self, name: &str) -> Result<(), Status> {
        self.change(name, |namespace| {
            let rest: Vec<Value> =
                finalizers(namespace).iter().filter(|f| f.as_str() != Some(FINALIZER)).cloned().collect();
            let Some(spec) = namespace.get_mut("spec").and_then(Value::as_object_mut) else { return };
            match rest.is_empty() {
                true => spec.remove("finalizers"),
                false => spec.insert("finalizers".to_owned(), Value::Array(rest)),
            };
        })
        .await
    }

    /// Changes a terminating namespace.
    async fn change(&self, name: &str, change: impl Fn(&mut Map)) -> Result<(), Status> {
        for _ in 0..ATTEMPTS {
            let Some(stored) = self.terminating(name).await? else { return Ok(()) };
            let mut object = stored.object.clone();
            change(&mut object);
            if object == stored.object {
                return Ok(());
            }
            let write = write::change(&NAMESPACES, &stored, object)?;
            if write::commit(&self.backend, vec![write]).await? {
                return Ok(());
            }
        }
        Err(Status::internal("too many conflicts while updating the namespace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_left_alone_for_five_seconds_whatever_the_clock_does() {
        assert_eq!(left(100, 100), Some(GRACE));
        assert_eq!(left(100, 104), Some(Duration::from_secs(1)));
        assert_eq!(left(100, 105), None);
        assert_eq!(left(100, 1000), None);
        assert_eq!(left(100, 7), Some(GRACE));
    }
}
