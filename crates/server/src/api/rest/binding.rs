//! Binding a pod to a node: `pods/binding`, and the older `bindings` (AP-120).

use bytes::Bytes;
use http::StatusCode;
use hyper::body::Incoming;
use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::pods::{self, BindError, PODS};
use kinds::schema::core::BINDING;
use portcullis_kinds as kinds;
use serde_json::json;

use super::admission::{self, Operation};
use super::decode::{self, Expected};
use super::options::{self, WriteKind};
use super::target::Target;
use super::{Call, meta, now, update};
use crate::api::negotiate;
use crate::service;
use crate::status::{Answer, Status, json};

/// The older endpoint. Nothing is stored under it.
pub(crate) static BINDINGS: Resource =
    Resource { kind: "Binding", plural: "bindings", schema: &BINDING, ..Resource::USUAL };

/// Binds the pod that a body names, or the one of the path.
pub(crate) async fn answer(call: Call<'_>, body: &mut Incoming) -> Result<Answer, Status> {
    let form = negotiate::form(&call.head.headers)?;
    let bytes: Bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let options = options::write(&call.query, WriteKind::Create)?;
    let expected = Expected { kind: BINDING.name, api_version: "v1", shape: &BINDING };
    let mut binding = decode::document(&bytes, form, expected, options.validation)?.object;
    meta::place(&mut binding, &call.target)?;
    let target = call.target;
    let review_name = target.name;
    let mut review = call.review(Operation::Create, review_name, Some(&mut binding), None);
    admission::admit(&mut review).await?;
    let name = match target.name {
        "" => meta::text(&binding, "name").to_owned(),
        name => name.to_owned(),
    };
    pods::check_binding(&binding, &name).map_err(|error| refusal(&name, error))?;
    let review = call.review(Operation::Create, review_name, Some(&mut binding), None);
    admission::validate(&review).await?;
    let call = Call { target: Target { resource: &PODS, subresource: None, name: &name, ..target }, ..call };
    bind(&call, &binding, options.is_dry_run).await?;
    Ok(created())
}

async fn bind(call: &Call<'_>, binding: &Map, is_dry_run: bool) -> Result<(), Status> {
    let name = call.target.name;
    let uid = Some(meta::text(binding, "uid")).filter(|uid| !uid.is_empty());
    let version = Some(meta::text(binding, "resourceVersion")).filter(|version| !version.is_empty());
    update::change(call, is_dry_run, |pod| {
        for (field, asked) in [("uid", uid), ("resourceVersion", version)] {
            let found = meta::text(pod, field);
            if let Some(asked) = asked.filter(|asked| *asked != found) {
                let why = format!(
                    "Precondition failed: {field} in precondition: {asked}, {field} in object meta: {found}"
                );
                return Err(Status::conflict("", PODS.plural, name, &why));
            }
        }
        pods::bind(pod, binding, now()).map_err(|error| refusal(name, error))
    })
    .await?;
    Ok(())
}

fn refusal(name: &str, error: BindError) -> Status {
    match error {
        BindError::Name(why) => Status::bad_request(why),
        BindError::Target(why) => Status::unknown(why),
        BindError::Conflict(why) => Status::conflict("", "pods/binding", name, &why),
    }
}

/// The answer to a document that has done its work: 201, although nothing was made.
pub(crate) fn created() -> Answer {
    let code = StatusCode::CREATED;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "code": code.as_u16()});
    json(code, &status)
}
