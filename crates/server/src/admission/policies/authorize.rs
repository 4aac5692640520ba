//! Authorizes writes of policies and bindings with parameters: the writer must be able to read the parameters, because
//! messages can contain them.

use kinds::Map;
use kinds::resources::admission_registration::{
    VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS,
};
use policy::Attributes;
use policy::request::ResourceRequest;
use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::authz::Authorization;
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::meta;

/// Checks the write of a policy or a binding. Other writes pass.
///
/// # Errors
/// 422 if the user cannot read the parameters.
pub(in crate::admission) async fn check_params(
    attributes: &AdmissionAttributes<'_>,
    authorization: &Authorization,
) -> Result<(), Status> {
    let resource = attributes.resource;
    let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
    if !is_write || !attributes.subresource.is_empty() {
        return Ok(());
    }
    let Some(object) = attributes.object.as_deref() else { return Ok(()) };
    let error = if *resource == VALIDATING_ADMISSION_POLICIES {
        of_policy(attributes, authorization, object).await
    } else if *resource == VALIDATING_ADMISSION_POLICY_BINDINGS {
        of_binding(attributes, authorization, object).await?
    } else {
        return Ok(());
    };
    let name = meta::text(object, "name");
    error.map_or(Ok(()), |error| Err(Status::invalid_object(resource.group, resource.kind, name, [error])))
}

async fn of_policy(
    attributes: &AdmissionAttributes<'_>,
    authorization: &Authorization,
    policy: &Map,
) -> Option<FieldError> {
    let kind = of_spec(policy, "paramKind")?;
    if attributes.old.and_then(|old| of_spec(old, "paramKind")) == Some(kind) {
        return None;
    }
    let (group, version, resource) = place(attributes, Some(kind));
    let all = ResourceRequest {
        group: &group,
        version: &version,
        resource: &resource,
        namespace: "*",
        name: "*",
        ..ResourceRequest::default()
    };
    if may_get(attributes, authorization, all).await {
        return None;
    }
    let text = |member: &str| kind.get(member).and_then(Value::as_str).unwrap_or_default();
    let why = format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        attributes.user.name,
        text("kind"),
        text("apiVersion")
    );
    Some(FieldError::forbidden("spec.paramKind", why))
}

async fn of_binding(
    attributes: &AdmissionAttributes<'_>,
    authorization: &Authorization,
    binding: &Map,
) -> Result<Option<FieldError>, Status> {
    let policy = |binding: &Map| of_spec_text(binding, "policyName").to_owned();
    let Some(reference) = of_spec(binding, "paramRef") else { return Ok(None) };
    let is_same = |old: &Map| of_spec(old, "paramRef") == Some(reference) && policy(old) == policy(binding);
    if attributes.old.is_some_and(is_same) {
        return Ok(None);
    }
    let policy = attributes.stored(&VALIDATING_ADMISSION_POLICIES, "", &policy(binding)).await?;
    let (group, version, resource) =
        place(attributes, policy.as_ref().and_then(|policy| of_spec(policy, "paramKind")));
    let text = |member: &str| reference.get(member).and_then(Value::as_str).unwrap_or_default();
    let named = ResourceRequest {
        group: &group,
        version: &version,
        resource: &resource,
        namespace: text("namespace"),
        name: text("name"),
        ..ResourceRequest::default()
    };
    if may_get(attributes, authorization, named).await {
        return Ok(None);
    }
    let why = format!(
        "user {} does not have \"get\" permission on the object referenced by paramRef",
        attributes.user.name
    );
    Ok(Some(FieldError::forbidden("spec.paramRef", why)))
}

fn of_spec<'o>(object: &'o Map, member: &str) -> Option<&'o Map> {
    object.get("spec")?.get(member)?.as_object()
}

fn of_spec_text<'o>(object: &'o Map, member: &str) -> &'o str {
    object.get("spec").and_then(|spec| spec.get(member)).and_then(Value::as_str).unwrap_or_default()
}

/// Group, version and resource of a kind: all, as far as they are not known.
fn place(attributes: &AdmissionAttributes<'_>, kind: Option<&Map>) -> (String, String, String) {
    let all = || "*".to_owned();
    let Some(kind) = kind else { return (all(), all(), all()) };
    let text = |member: &str| kind.get(member).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let row = attributes.kinds.of_document(api_version, name);
    (group.to_owned(), version.to_owned(), row.map_or_else(all, |row| row.plural.to_owned()))
}

async fn may_get(
    attributes: &AdmissionAttributes<'_>,
    authorization: &Authorization,
    resource: ResourceRequest<'_>,
) -> bool {
    let attributes = Attributes { user: attributes.user, verb: "get", path: "", resource: Some(resource) };
    authorization.ask(&attributes).await.is_allow()
}
