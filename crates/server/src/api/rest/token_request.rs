//! TokenRequest issues a token for a service account (AN-90 to AN-97). Nothing is stored.

use http::StatusCode;
use http::header::WARNING;
use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::nodes::NODES;
use kinds::resources::core::secrets::SECRETS;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::PODS;
use kinds::schema::authentication::TOKEN_REQUEST;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::request::Request;
use crate::audit::Trail;
use crate::authn::service_account::ServiceAccounts;
use crate::authn::service_account::claims::Reference;
use crate::authn::service_account::issue::Order;
use crate::http::status::{Answer, Status, json};
use crate::http::{negotiate, warning};
use crate::registry::admission::Operation;
use crate::registry::decode::{self, Expected};
use crate::registry::meta::{self, now};
use crate::registry::options::{self, WriteKind};
use crate::registry::request_scope::RequestScope;
use crate::registry::storage;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// AN-91. In seconds.
const DEFAULT_EXPIRATION: i64 = 3600;
/// AN-91. Seconds.
const SHORTEST: i64 = 600;
/// AN-91. Seconds.
const LONGEST: i64 = 1 << 32;

/// The audit annotation with the ID of the issued token (AN-96).
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";

/// Issues a token.
pub(crate) async fn answer(request: &Request<'_>, bytes: &[u8]) -> Result<Answer, Status> {
    let scope = &request.scope;
    let form = negotiate::form(&request.head.headers)?;
    let options = options::write(&request.query, WriteKind::Create)?;
    let expected =
        Expected { kind: KIND, api_version: "authentication.k8s.io/v1", shape: &TOKEN_REQUEST, custom: None };
    let read = decode::document(bytes, form, expected, options.validation)?;
    let (mut document, mut warnings) = (read.object, read.warnings);
    let spec = |document: &Map, field: &str| document.get("spec").and_then(|spec| spec.get(field)).cloned();
    if spec(&document, "expirationSeconds").is_none_or(|seconds| seconds.is_null()) {
        set(&mut document, "spec", "expirationSeconds", DEFAULT_EXPIRATION);
    }
    meta::place(&mut document, &scope.target)?;
    request.note(|| document.clone().into());
    let name = scope.target.name;
    scope.admit(Operation::Create, name, &options, Some(&mut document), None).await?;

    let accounts = request.app.authentication().service_accounts();
    let account = account(scope, &document).await?;
    let mut audiences = texts(spec(&document, "audiences"));
    if audiences.is_empty() {
        accounts.api_audiences().clone_into(&mut audiences);
        set(&mut document, "spec", "audiences", json!(audiences));
    }
    let now = now();
    meta::set(&mut document, "name", name);
    meta::set(&mut document, "creationTimestamp", meta::time(now));
    let asked = spec(&document, "expirationSeconds").and_then(|seconds| seconds.as_i64()).unwrap_or_default();
    check_expiration(asked)?;
    scope.validate(Operation::Create, name, &options, Some(&mut document), None).await?;

    let bound = bind(scope, spec(&document, "boundObjectRef")).await?;
    let mut expiration = asked;
    if let Some(longest) = accounts.issuer().max_expiration.filter(|longest| asked > *longest) {
        expiration = longest;
        set(&mut document, "spec", "expirationSeconds", expiration);
        let shortened = format!("requested expiration of {asked} seconds shortened to {expiration} seconds");
        warnings.extend(warning::header(&shortened));
    }
    let token = issue(request, accounts, account, &audiences, expiration, bound, now)?;
    document.insert(
        "status".to_owned(),
        json!({"token": token, "expirationTimestamp": meta::time(now.saturating_add(expiration))}),
    );
    let mut answer = json(StatusCode::CREATED, &document);
    for warning in warnings {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}

fn set(object: &mut Map, part: &str, field: &str, value: impl Into<Value>) {
    let part = object.entry(part).or_insert_with(|| Map::new().into());
    if let Some(part) = part.as_object_mut() {
        part.insert(field.to_owned(), value.into());
    }
}

fn texts(list: Option<Value>) -> Vec<String> {
    let list = list.as_ref().and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads the service account of the path, and checks that the request is for it (AN-90).
async fn account(scope: &RequestScope<'_>, request: &Map) -> Result<Reference, Status> {
    let name = scope.target.name;
    let said = meta::text(request, "name");
    if !said.is_empty() && said != name {
        let detail = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", said, detail);
        return Err(Status::invalid_object(GROUP, KIND, name, [error]));
    }
    let stored = found(scope, &SERVICE_ACCOUNTS, scope.target.namespace, name).await?;
    let uid = meta::text(&stored, "uid").to_owned();
    let wanted = meta::text(request, "uid");
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(GROUP, KIND, name, &why));
    }
    Ok(Reference { name: name.to_owned(), uid })
}

/// AN-91
fn check_expiration(seconds: i64) -> Result<(), Status> {
    let detail = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds.to_string(), detail);
    Err(Status::invalid_object(GROUP, KIND, "", [error]))
}

/// The object that a token is bound to.
#[derive(Default)]
struct Bound {
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

/// Looks up the object that a token is to be bound to (AN-93, AN-94). A mirror pod has no account (MP-27).
async fn bind(scope: &RequestScope<'_>, reference: Option<Value>) -> Result<Bound, Status> {
    let Some(Value::Object(reference)) = reference else { return Ok(Bound::default()) };
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    // Anything that is not a group and version counts as the core group.
    let is_core = match text("apiVersion").split_once('/') {
        None => true,
        Some((group, version)) => group.is_empty() || version.contains('/'),
    };
    let namespace = scope.target.namespace;
    let (resource, namespace) = match kind {
        "Pod" if is_core => (&PODS, namespace),
        "Secret" if is_core => (&SECRETS, namespace),
        "Node" if is_core => (&NODES, ""),
        _ => {
            let group = text("apiVersion");
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}, Kind={kind}"
            )));
        }
    };
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let object = found(scope, resource, namespace, name).await?;
    let found = Reference { name: name.to_owned(), uid: meta::text(&object, "uid").to_owned() };
    let mut bound = Bound::default();
    match kind {
        "Pod" => {
            bound.node = pod_node(scope, &object).await?;
            bound.pod = Some(found.clone());
        }
        "Secret" => bound.secret = Some(found.clone()),
        _ => bound.node = Some(found.clone()),
    }
    if !uid.is_empty() && uid != found.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record: the object might have been \
             deleted and then recreated"
        );
        return Err(Status::conflict("", kind, name, &why));
    }
    Ok(bound)
}

/// Returns the node of a pod of the account; none if it is not scheduled yet.
async fn pod_node(scope: &RequestScope<'_>, pod: &Map) -> Result<Option<Reference>, Status> {
    let spec =
        |field: &str| pod.get("spec").and_then(|s| s.get(field)).and_then(Value::as_str).unwrap_or_default();
    let account = scope.target.name;
    if spec("serviceAccountName") != account {
        let account = quoted(account);
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account} to pod running with different serviceaccount name."
        )));
    }
    let name = spec("nodeName");
    if name.is_empty() {
        return Ok(None);
    }
    let node = stored(scope, &NODES, "", name).await?;
    let uid = node.as_ref().map(|node| meta::text(node, "uid").to_owned());
    Ok(Some(Reference { name: name.to_owned(), uid: uid.unwrap_or_default() }))
}

async fn stored(
    scope: &RequestScope<'_>,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Map>, Status> {
    let entry = scope.stored(&storage::key(resource, namespace, name)).await?;
    entry.map(|entry| storage::decode(&entry.value)).transpose()
}

async fn found(
    scope: &RequestScope<'_>,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<Map, Status> {
    let object = stored(scope, resource, namespace, name).await?;
    object.ok_or_else(|| Status::no_object(resource.group, resource.plural, name))
}

fn issue(
    request: &Request<'_>,
    accounts: &ServiceAccounts,
    account: Reference,
    audiences: &[String],
    expiration: i64,
    bound: Bound,
    now: i64,
) -> Result<String, Status> {
    let Bound { pod, secret, node } = bound;
    let namespace = request.scope.target.namespace;
    let order = Order { namespace, account, audiences, expiration, pod, secret, node };
    let issued = accounts.issue(order, meta::new_uid()?, now).map_err(Status::internal)?;
    if let Some(trail) = Trail::of(request.head) {
        trail.annotate(ISSUED, issued.credential_id.clone());
    }
    tracing::debug!(
        namespace,
        account = request.scope.target.name,
        credential = issued.credential_id,
        "token issued"
    );
    Ok(issued.token)
}
