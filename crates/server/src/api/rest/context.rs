//! What writes of some kinds need besides the object: the time, who asks, and what else is stored. Everything else of a
//! kind is in its row.

use std::net::Ipv4Addr;
use std::ptr;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::certificates::{self, CERTIFICATE_SIGNING_REQUESTS};
use kinds::resources::core::endpoints::ENDPOINTS;
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::core::persistent_volumes::{PERSISTENT_VOLUMES, stamp_phase};
use kinds::resources::core::services::SERVICES;
use kinds::resources::core::services::{AllocationError, FreePool, allocate};
use kinds::resources::dra::{self, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES};
use pki::csr::Csr;
use policy::field_error::FieldError;
use portcullis_kinds as kinds;
use portcullis_pki as pki;
use portcullis_policy as policy;
use portcullis_store::{Expect, Store as _, StoreError, Write};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use super::delete::{Step, step};
use super::options::DeleteOptions;
use super::storage::Stored;
use super::target::Target;
use super::{Call, meta, now, storage};
use crate::status::Status;

/// Where the addresses of services are from: this network, with so many bits of prefix.
const SERVICE_NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 0), 24);
/// Held while a service gets addresses and ports, until it is stored: no two services get the same.
static ALLOCATING: Mutex<()> = Mutex::const_new(());

/// Whether a call is about objects of a kind, and not about what is below them.
fn is_of(call: &Call<'_>, resource: &'static Resource) -> bool {
    call.target.subresource.is_none() && ptr::eq(call.target.resource, resource)
}

/// What is held from the preparation of a write until it is stored, for kinds whose objects share something.
pub(crate) async fn share(call: &Call<'_>) -> Option<MutexGuard<'static, ()>> {
    match is_of(call, &SERVICES) {
        true => Some(ALLOCATING.lock().await),
        false => None,
    }
}

/// Fills in what an object does not say, after it was decoded.
pub(crate) fn default(resource: &'static Resource, object: &mut Map) {
    (resource.default)(object);
    if ptr::eq(resource, &raw const RESOURCE_SLICES) {
        dra::stamp_taints(object, &meta::time(now()));
    }
}

/// Makes a new object fit to be stored (AP-30).
///
/// # Errors
/// What it needs cannot be had.
pub(crate) async fn prepare_create(call: &Call<'_>, object: &mut Map) -> Result<(), Status> {
    let resource = call.target.resource;
    (resource.prepare_create)(object);
    if is_of(call, &SERVICES) {
        allocate_for(call, object, None).await?;
    } else if is_of(call, &PERSISTENT_VOLUMES) {
        stamp_phase(object, None, &meta::time(now()));
    } else if is_of(call, &CERTIFICATE_SIGNING_REQUESTS) {
        certificates::set_requester(object, call.permit.user());
    }
    Ok(())
}

/// Everything wrong with a new object, apart from its metadata.
///
/// # Errors
/// The store failed.
pub(crate) async fn validate_create(call: &Call<'_>, object: &Map) -> Result<Vec<FieldError>, Status> {
    let resource = call.target.resource;
    if is_of(call, &CERTIFICATE_SIGNING_REQUESTS) {
        return Ok(certificates::validate_create(object, request_error(object).as_deref()));
    }
    let mut errors = (resource.validate_create)(object);
    let admin_access = match () {
        () if is_of(call, &RESOURCE_CLAIMS) => dra::admin_access_of_claim(object),
        () if is_of(call, &RESOURCE_CLAIM_TEMPLATES) => dra::admin_access_of_template(object),
        () => None,
    };
    if let Some(error) = admin_access
        && !allows_admin_access(call).await?
    {
        errors.insert(0, error);
    }
    Ok(errors)
}

/// Keeps what an update cannot change (AP-42).
///
/// # Errors
/// What the object needs cannot be had.
pub(crate) async fn prepare_update(call: &Call<'_>, object: &mut Map, old: &Map) -> Result<(), Status> {
    let resource = call.target.resource;
    (call.strategy.prepare)(object, old);
    if is_of(call, &SERVICES) {
        allocate_for(call, object, Some(old)).await?;
    } else if ptr::eq(resource, &raw const PERSISTENT_VOLUMES) && call.strategy.is_status {
        stamp_phase(object, Some(old), &meta::time(now()));
    } else if ptr::eq(resource, &raw const CERTIFICATE_SIGNING_REQUESTS) && call.target.subresource.is_some()
    {
        certificates::stamp_conditions(object, old, &meta::time(now()));
    }
    Ok(())
}

/// Everything wrong with an update, apart from the metadata.
pub(crate) fn validate_update(call: &Call<'_>, object: &Map, old: &Map) -> Vec<FieldError> {
    let resource = call.target.resource;
    if ptr::eq(resource, &raw const CERTIFICATE_SIGNING_REQUESTS) && call.strategy.is_status {
        let error = certificate_error(object);
        return certificates::validate_status(object, old, error.as_deref());
    }
    (call.strategy.validate)(object, old)
}

/// Removes what goes with an object that was removed: the endpoints of a service. The object is gone, whatever becomes
/// of them.
pub(crate) async fn removed(call: &Call<'_>) {
    if !ptr::eq(call.target.resource, &raw const SERVICES) {
        return;
    }
    if let Err(status) = remove_endpoints(call).await {
        let Target { namespace, name, .. } = call.target;
        tracing::error!(namespace, name, error = status.message(), "the endpoints of a service stay");
    }
}

async fn remove_endpoints(call: &Call<'_>) -> Result<(), Status> {
    let key = storage::key(&ENDPOINTS, call.target.namespace, call.target.name);
    while let Some(entry) = call.stored(&key).await? {
        let stored = Stored::read(&ENDPOINTS, entry)?;
        let value = match step(&ENDPOINTS, &stored.object, &DeleteOptions::default()) {
            Step::Nothing => return Ok(()),
            Step::Mark(marked) => Some(storage::encode(&ENDPOINTS, &marked)?),
            Step::MarkAndRemove(_) | Step::Remove => None,
        };
        let expect = Expect::Modified(stored.entry.modified);
        match call.backend.commit(vec![Write { key: key.clone(), expect, value }]).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(storage::failed(&error)),
        }
    }
    Ok(())
}

/// Gives a service what all services share: addresses, and ports of nodes.
async fn allocate_for(call: &Call<'_>, service: &mut Map, old: Option<&Map>) -> Result<(), Status> {
    let services = storage::all(call.backend, &SERVICES).await?;
    let (network, prefix) = SERVICE_NETWORK;
    let mut pool = FreePool::of(network, prefix, services.iter());
    allocate(service, old, &mut pool).map_err(|error| match error {
        AllocationError::Invalid(errors) => {
            Status::invalid_object("", SERVICES.kind, meta::text(service, "name"), &errors)
        }
        AllocationError::Internal(why) => Status::internal(why),
    })
}

/// Whether claims in this namespace may ask for the access of an administrator.
async fn allows_admin_access(call: &Call<'_>) -> Result<bool, Status> {
    let key = storage::key(&NAMESPACES, "", call.target.namespace);
    let Some(entry) = call.stored(&key).await? else { return Ok(false) };
    let namespace = storage::decode(&entry.value)?;
    let label = meta::of(&namespace).get("labels").and_then(|labels| labels.get(dra::ADMIN_ACCESS_LABEL));
    Ok(label.and_then(Value::as_str) == Some("true"))
}

/// The bytes of a field of bytes; none when it is not set.
///
/// # Errors
/// It is no base64, which does not happen to what was decoded by its shape.
pub(crate) fn bytes(object: &Map, part: &str, field: &str) -> Result<Vec<u8>, DecodeError> {
    let text = object.get(part).and_then(|part| part.get(field)).and_then(Value::as_str);
    STANDARD.decode(text.unwrap_or_default())
}

/// CS-11: what is wrong with the request inside a CertificateSigningRequest.
fn request_error(request: &Map) -> Option<String> {
    match bytes(request, "spec", "request") {
        Ok(pem) => Csr::from_pem(&pem).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// CS-23: what is wrong with the certificate inside a CertificateSigningRequest.
fn certificate_error(request: &Map) -> Option<String> {
    let text = match bytes(request, "status", "certificate") {
        Ok(text) => text,
        Err(error) => return Some(error.to_string()),
    };
    if text.is_empty() {
        return None;
    }
    pki::cert::check_certificates(&text).err().map(|error| error.to_string())
}
