//! Gathers the context for the hooks of rows: the time, the user, and the other objects that they read. It is gathered
//! here; what is done with it is in the rows.

use std::collections::BTreeMap;

use bytes::Bytes;
use kinds::resource::{
    Certificates, Context, ExpressionsAbout, Need, OnRequest, Refusal, Requester, Resource,
};
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::definitions;
use kinds::{Kinds, Map};
use pki::csr::Csr;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::quoted;
use portcullis_store::{Expect, Store as _, StoreError, Value, Write};
use tokio::sync::MutexGuard;

use super::deletion::{Step, step};
use super::freshness;
use super::meta::{self, now};
use super::options::DeleteOptions;
use super::request_scope::RequestScope;
use super::storage::{self, Stored};
use super::target::Target;
use crate::http::status::Status;
use crate::http::turn;
use crate::match_conditions;

/// The most definitions of custom kinds. DIVERGES: Kubernetes has no limit.
const MAX_DEFINITIONS: usize = 2_000;

/// The first two parts of the keys of the records by which servers that share a store take turns.
pub(crate) const ALLOCATED: (&str, &str) = ("portcullis", "allocated");

/// The other objects that a write needs, locked until the write is stored.
pub(crate) struct Surroundings<'a> {
    need: Need,
    /// No two objects get the same of what all objects of a kind share: on this server by the lock, and among servers by a
    /// record that is written together with the object.
    _allocating: Option<MutexGuard<'a, ()>>,
    claim: Option<Write>,
}

impl<'a> Surroundings<'a> {
    /// Determines what these hooks need for an object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn of(
        scope: &RequestScope<'a>,
        hooks: &OnRequest,
        object: &Map,
    ) -> Result<Self, Status> {
        let need = (hooks.needs)(object);
        let allocating = match need {
            Need::AllOfKind => Some(scope.allocating.lock().await),
            Need::Nothing | Need::Namespace => None,
        };
        let claim = match allocating.is_some() && scope.backend.is_shared() {
            true => Some(claim(scope).await?),
            false => None,
        };
        Ok(Self { need, _allocating: allocating, claim })
    }

    /// The writes that store an object. [`Self::is_outrun`] says whether a conflict means that all must be done again.
    pub(crate) fn writes(&self, write: Write) -> Vec<Write> {
        std::iter::once(write).chain(self.claim.clone()).collect()
    }

    /// Whether another server may be allocating at the same time.
    pub(crate) fn may_be_outrun(&self) -> bool {
        self.claim.is_some()
    }

    /// Whether a conflict about this key means that another server was allocating at the same time.
    pub(crate) fn is_outrun(&self, key: &str) -> bool {
        self.claim.as_ref().is_some_and(|claim| *claim.key == *key)
    }

    /// Fills in what depends on the request, and says what is wrong with the object, apart from its metadata. The row's
    /// own validation is asked unless the hooks have another.
    ///
    /// # Errors
    /// Something that the object needs is not available.
    pub(crate) async fn complete(
        &self,
        scope: &RequestScope<'_>,
        hooks: &OnRequest,
        object: &mut Map,
        old: Option<&Map>,
        validate: impl FnOnce(&Map) -> FieldErrors + Send,
    ) -> Result<FieldErrors, Status> {
        let resource = scope.target.resource;
        let stored = match self.need {
            Need::AllOfKind => storage::all(scope.backend, resource).await?,
            Need::Nothing | Need::Namespace => Vec::new(),
        };
        let namespace = match self.need {
            Need::Namespace => scope.stored(&storage::key(&NAMESPACES, "", scope.target.namespace)).await?,
            Need::Nothing | Need::AllOfKind => None,
        };
        let namespace = namespace.map(|entry| storage::decode(&entry.value)).transpose()?;
        let expression_faults = faults(hooks.about, (hooks.expressions)(object, old)).await?;
        let compile_errors = match hooks.about {
            ExpressionsAbout::Definitions => definition_errors(scope, object.clone(), old.cloned()).await?,
            ExpressionsAbout::Policies => policy_errors(object, old).await?,
            ExpressionsAbout::Devices | ExpressionsAbout::Writes => FieldErrors::new(),
        };
        let policy::User { name, uid, groups, extra } = scope.user;
        let context = Context {
            now: now(),
            requester: Requester { name, uid, groups, extra },
            stored: &stored,
            namespace: namespace.as_ref(),
            ranges: scope.service_ranges,
            certificates: &Pki,
            expression_faults: &expression_faults,
            compile_errors: &compile_errors,
        };
        (hooks.complete)(object, old, &context).map_err(|refusal| refused(resource, object, refusal))?;
        Ok(match hooks.validate {
            Some(validate) => validate(object, old, &context),
            // Of custom kinds this can take long.
            None => turn::costly(|| validate(object)).await,
        })
    }
}

/// The write of the record of a kind, which fails if another server has allocated since.
async fn claim(scope: &RequestScope<'_>) -> Result<Write, Status> {
    freshness::fresh(scope.backend).await?;
    let (group, collection) = ALLOCATED;
    let key: Box<str> = format!("/{group}/{collection}/{}", scope.target.resource.plural).into();
    let expect = scope.stored(&key).await?.map_or(Expect::Absent, |found| Expect::Modified(found.modified));
    let empty = Value { bytes: Bytes::from_static(b"{}"), revision_at: None, relies_on: None };
    Ok(Write { key, expect, value: Some(empty) })
}

/// What is wrong with expressions, by expression. They are compiled apart from the threads that serve requests.
async fn faults(about: ExpressionsAbout, expressions: Vec<&str>) -> Result<BTreeMap<String, String>, Status> {
    if expressions.is_empty() {
        return Ok(BTreeMap::new());
    }
    let expressions = expressions.into_iter().map(str::to_owned).collect();
    let compile = match about {
        // They are looked at together with the whole object.
        ExpressionsAbout::Definitions | ExpressionsAbout::Policies => return Ok(BTreeMap::new()),
        ExpressionsAbout::Devices => match_conditions::selector_faults,
        ExpressionsAbout::Writes => match_conditions::admission_faults,
    };
    let compiled = tokio::task::spawn_blocking(move || compile(expressions)).await;
    compiled.map_err(|error| Status::internal(format!("expressions cannot be compiled: {error}")))
}

/// Everything wrong with a definition of a custom kind. It is looked at, and its rules are compiled, apart from the threads
/// that serve requests.
async fn definition_errors(
    scope: &RequestScope<'_>,
    definition: Map,
    old: Option<Map>,
) -> Result<FieldErrors, Status> {
    let kinds = scope.kinds.clone();
    let is_new = old.is_none();
    let validate = move || {
        let mut errors = definitions::validate_with(&definition, old.as_ref(), &match_conditions::RULES);
        let custom = kinds.custom();
        let full = (is_new && custom.len() >= MAX_DEFINITIONS).then(|| {
            format!("this server has {MAX_DEFINITIONS} definitions, and takes no more: delete one that is not used")
        });
        let full = full.or_else(|| custom.has_room_for(&definition).err().map(|error| error.to_string()));
        // DIVERGES: in Kubernetes such a definition is stored, and its kind is never served.
        let reserved = || (is_new && is_reserved(&kinds, &definition)).then(|| RESERVED.to_owned());
        errors.extend(full.or_else(reserved).map(|why| FieldError::forbidden("spec.names", why)));
        errors
    };
    let validated = tokio::task::spawn_blocking(validate).await;
    validated.map_err(|error| Status::internal(format!("a definition cannot be validated: {error}")))
}

/// Why there can be no definition of a kind of this server.
const RESERVED: &str = "the group has this resource already, which is one of Kubernetes: use another group";

fn is_reserved(kinds: &Kinds, definition: &Map) -> bool {
    let spec = definition.get("spec");
    let text = |path: &str| spec.and_then(|spec| spec.pointer(path)).and_then(serde_json::Value::as_str);
    text("/group").zip(text("/names/plural")).is_some_and(|(group, plural)| kinds.is_reserved(group, plural))
}

/// Everything wrong with the expressions of a policy. Those that are stored as they are were compiled before. They are compiled
/// apart from the threads that serve requests.
async fn policy_errors(policy: &Map, old: Option<&Map>) -> Result<FieldErrors, Status> {
    if old.is_some_and(|old| old.get("spec") == policy.get("spec")) {
        return Ok(FieldErrors::new());
    }
    let policy = policy.clone();
    let compiled = tokio::task::spawn_blocking(move || match_conditions::policies::faults(&policy)).await;
    let faults =
        compiled.map_err(|error| Status::internal(format!("a policy cannot be compiled: {error}")))?;
    let told = faults.into_iter().map(|fault| {
        FieldError::invalid(fault.field, quoted(&fault.text), format!("compilation failed: {}", fault.why))
    });
    Ok(told.collect())
}

fn refused(resource: &Resource, object: &Map, refusal: Refusal) -> Status {
    match refusal {
        Refusal::Invalid(errors) => {
            Status::invalid_object(resource.group, resource.kind, meta::text(object, "name"), errors)
        }
        Refusal::Internal(why) => Status::internal(why),
    }
}

/// Reads certificates for the rows.
struct Pki;

impl Certificates for Pki {
    fn request_fault(&self, pem: &[u8]) -> Option<String> {
        Csr::from_pem(pem).err().map(|error| error.to_string())
    }

    fn certificates_fault(&self, pem: &[u8]) -> Option<String> {
        pki::cert::check_certificates(pem).err().map(|error| error.to_string())
    }
}

/// Removes what goes with an object that was removed. The object stays deleted if this fails.
pub(crate) async fn removed(scope: &RequestScope<'_>) {
    for resource in scope.target.resource.removed_with {
        if let Err(status) = remove(scope, resource).await {
            let Target { namespace, name, .. } = scope.target;
            let (kind, error) = (resource.plural, status.message());
            tracing::error!(
                kind,
                namespace,
                name,
                error,
                "an object stays although what it belongs to is gone"
            );
        }
    }
}

async fn remove(scope: &RequestScope<'_>, resource: &'static Resource) -> Result<(), Status> {
    let key = storage::key(resource, scope.target.namespace, scope.target.name);
    while let Some(entry) = scope.stored(&key).await? {
        let stored = Stored::read(resource, entry)?;
        let value = match step(resource, &stored.object, &DeleteOptions::default()) {
            Step::Nothing => return Ok(()),
            Step::Mark(marked) => Some(storage::encode(resource, &marked)?),
            Step::MarkAndRemove(_) | Step::Remove => None,
        };
        let expect = Expect::Modified(stored.entry.modified);
        match scope.backend.commit_beyond_quota(vec![Write { key: key.clone(), expect, value }]).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(storage::failed(&error)),
        }
    }
    Ok(())
}
