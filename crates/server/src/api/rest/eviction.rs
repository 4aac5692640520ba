//! Eviction: a deletion of a pod that budgets have a say in (AP-121). There are no budgets here.

use hyper::body::Incoming;
use kinds::Map;
use kinds::resources::pods;
use kinds::schema::policy::EVICTION;
use portcullis_kinds as kinds;

use super::admission::{self, Operation};
use super::decode::{self, Expected};
use super::options::{self, DeleteOptions, WriteKind};
use super::{Call, binding, delete, meta, now, update};
use crate::api::negotiate;
use crate::service;
use crate::status::{Answer, Status};

/// Evicts a pod.
pub(crate) async fn answer(call: Call<'_>, body: &mut Incoming) -> Result<Answer, Status> {
    let form = negotiate::form(&call.head.headers)?;
    let bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let options = options::write(&call.query, WriteKind::Create)?;
    let read = |api_version| {
        let expected = Expected { kind: EVICTION.name, api_version, shape: &EVICTION };
        decode::document(&bytes, form, expected, options.validation)
    };
    let read = read("policy/v1").or_else(|refusal| read("policy/v1beta1").map_err(|_| refusal));
    let mut eviction: Map = read?.object;
    meta::place(&mut eviction, &call.target)?;
    let name = call.target.name;
    let mut review = call.review(Operation::Create, name, Some(&mut eviction), None);
    admission::admit(&mut review).await?;
    let deletion = pods::check_eviction(&eviction, name).map_err(Status::bad_request)?;
    let mut deletion = deletion.map(DeleteOptions::from_body).transpose()?.unwrap_or_default();
    deletion.is_dry_run |= options.is_dry_run;
    let review = call.review(Operation::Create, name, Some(&mut eviction), None);
    admission::validate(&review).await?;
    evict(&call, deletion).await?;
    Ok(binding::created())
}

/// Notes in the pod why it goes, and deletes it.
async fn evict(call: &Call<'_>, mut options: DeleteOptions) -> Result<(), Status> {
    if !options.is_dry_run {
        let revision = update::change(call, false, |pod| {
            delete::check_preconditions(call, &options, pod)?;
            pods::mark_evicted(pod, now());
            Ok(())
        })
        .await?;
        // The pod that was meant is the one that was just written.
        if options.resource_version.is_some() {
            options.resource_version = Some(revision.0.to_string());
        }
    }
    delete::delete_admitted(call, &options).await?;
    Ok(())
}
