//! Definitions of custom kinds: which of their names are taken, when their kinds are served, and what becomes of their
//! objects when they are deleted.

mod api_services;
mod cleanup;
mod names;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinds::custom::CustomKinds;
use kinds::resources::definitions::status::{Condition, holds, set};
use kinds::resources::definitions::{Approval, DEFINITIONS};
use kinds::{Kinds, Map};
use portcullis_store::{Event, Revision};

use self::cleanup::Cleanup;
use self::names::Names;
use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::storage::{self, Stored};
use crate::registry::write;

/// How long to wait until the table of kinds has taken a definition in.
const TAKES_IN: Duration = Duration::from_millis(10);
/// How long to wait until a name may be free.
const CONFLICT: Duration = Duration::from_secs(1);

/// The names of definitions, by key, each as of the revision at which it was read.
type NamesByKey = HashMap<Box<str>, (Revision, Arc<Names>)>;

/// See the module.
pub(super) struct Definitions {
    backend: Arc<Backend>,
    kinds: Arc<CustomKinds>,
    /// Kept because each new definition is compared with all others: decoding these each time takes quadratic time.
    names: Mutex<NamesByKey>,
    cleanup: Cleanup,
}

impl Definitions {
    pub(super) fn new(backend: Arc<Backend>, kinds: &Kinds) -> Self {
        let cleanup = Cleanup::new(Arc::clone(&backend), kinds.clone());
        Self { backend, kinds: Arc::clone(kinds.custom()), names: Mutex::default(), cleanup }
    }
}

impl Controller for Definitions {
    const NAME: &'static str = "customresourcedefinition-controller";
    const LISTED: &'static str = "/apiextensions.k8s.io/customresourcedefinitions/";
    const WATCHED: &'static str = "/apiextensions.k8s.io/customresourcedefinitions/";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        Some(storage::place(&DEFINITIONS, event.key()).1.to_owned())
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let Some(stored) = write::find(&self.backend, &DEFINITIONS, "", name).await? else {
            return self.forgotten(name, group).await;
        };
        if meta::is_terminating(&stored.object) {
            return self.cleanup.step(name, &stored).await;
        }
        let mut definition = stored.object.clone();
        if !names::are_accepted(&definition) {
            let others = self.others(name, group).await?;
            names::accept(&mut definition, others.iter().map(|names| &**names), now());
        }
        approve(&mut definition);
        if definition != stored.object {
            // The change is an event, which leads back here.
            let write = write::replace(&DEFINITIONS, &stored.entry, definition, write::SERVER)?;
            let done = write::commit(&self.backend, vec![write]).await?;
            return Ok(if done { Next::OnChange } else { Next::Later });
        }
        if !holds(&definition, "NamesAccepted") {
            return Ok(Next::After(CONFLICT));
        }
        // Who sees that a kind is established can use it.
        if !self.kinds.definition(name).is_some_and(|known| known.is_served) {
            // This server may never be able to serve it.
            return Ok(Next::Later);
        }
        api_services::keep(&self.backend, &self.kinds, group).await?;
        if holds(&definition, "Established") {
            return Ok(Next::OnChange);
        }
        let condition = Condition {
            kind: "Established",
            holds: true,
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        };
        set(&mut definition, condition, now());
        let write = write::replace(&DEFINITIONS, &stored.entry, definition, write::SERVER)?;
        let done = write::commit(&self.backend, vec![write]).await?;
        Ok(if done { Next::OnChange } else { Next::Later })
    }
}

impl Definitions {
    /// The names of the other definitions of a group, as they are stored now.
    async fn others(&self, name: &str, group: &str) -> Result<Vec<Arc<Names>>, Status> {
        let entries = write::all(&self.backend, &DEFINITIONS, "").await?;
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = std::mem::take(&mut *known);
        let mut others = Vec::new();
        for entry in entries {
            let other = storage::place(&DEFINITIONS, &entry.key).1;
            if other == name || other.split_once('.').is_none_or(|(_, of)| of != group) {
                // Of another group, or this one: what is known of it is kept.
                known.extend(last.remove_entry(&entry.key));
                continue;
            }
            let names = match last.remove(&entry.key) {
                Some((revision, names)) if revision == entry.modified => names,
                _ => Arc::new(Names::of(&Stored::read(&DEFINITIONS, Arc::clone(&entry))?.object)),
            };
            known.insert(entry.key.clone(), (entry.modified, Arc::clone(&names)));
            others.push(names);
        }
        Ok(others)
    }

    /// Cleans up after a definition that was deleted.
    async fn forgotten(&self, name: &str, group: &str) -> Result<Next, Status> {
        if self.kinds.definition(name).is_some() {
            return Ok(Next::After(TAKES_IN));
        }
        api_services::keep(&self.backend, &self.kinds, group).await?;
        Ok(Next::OnChange)
    }
}

/// Says whether a group of Kubernetes is approved.
fn approve(definition: &mut Map) {
    let (holds, reason, message) = match Approval::of(definition) {
        None => return,
        Some(Approval::Approved) => {
            (true, "ApprovedAnnotation", "approved by the annotation api-approved.kubernetes.io")
        }
        Some(Approval::Bypassed) => {
            (false, "UnapprovedAnnotation", "not approved: the annotation api-approved.kubernetes.io says so")
        }
        Some(Approval::Invalid) => (false, "InvalidAnnotation", "api-approved.kubernetes.io is not a URL"),
        Some(Approval::Missing) => (
            false,
            "MissingAnnotation",
            "protected groups must have approval annotation \"api-approved.kubernetes.io\"",
        ),
    };
    set(
        definition,
        Condition { kind: "KubernetesAPIApprovalPolicyConformant", holds, reason, message },
        now(),
    );
}
