//! TokenRequest: a token of a service account, for whoever may ask for it (AN-90 to AN-97). Nothing is stored.

use http::StatusCode;
use http::header::WARNING;
use hyper::body::Incoming;
use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::nodes::NODES;
use kinds::resources::core::secrets::SECRETS;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::PODS;
use kinds::schema::authentication::TOKEN_REQUEST;
use policy::field_error::FieldError;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use serde_json::{Value, json};

use super::admission::{self, Operation};
use super::decode::{self, Expected};
use super::options::{self, WriteKind};
use super::{Call, meta, now, storage};
use crate::api::negotiate;
use crate::audit::Trail;
use crate::authn::service_account::ServiceAccounts;
use crate::authn::service_account::claims::Reference;
use crate::authn::service_account::issue::Order;
use crate::service;
use crate::status::{Answer, Status, json};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// AN-91. Seconds.
const DEFAULT_EXPIRATION: i64 = 3600;
/// AN-91. Seconds.
const SHORTEST: i64 = 600;
/// AN-91. Seconds.
const LONGEST: i64 = 1 << 32;

/// The audit annotation that names the token that was issued (AN-96).
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";

/// Makes a token.
pub(crate) async fn answer(call: Call<'_>, body: &mut Incoming) -> Result<Answer, Status> {
    let form = negotiate::form(&call.head.headers)?;
    let bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let options = options::write(&call.query, WriteKind::Create)?;
    let expected = Expected { kind: KIND, api_version: "authentication.k8s.io/v1", shape: &TOKEN_REQUEST };
    let read = decode::document(&bytes, form, expected, options.validation)?;
    let (mut request, mut warnings) = (read.object, read.warnings);
    let spec = |request: &Map, field: &str| request.get("spec").and_then(|spec| spec.get(field)).cloned();
    if spec(&request, "expirationSeconds").is_none_or(|seconds| seconds.is_null()) {
        set(&mut request, "spec", "expirationSeconds", DEFAULT_EXPIRATION);
    }
    meta::place(&mut request, &call.target)?;
    if let Some(trail) = Trail::of(call.head) {
        trail.request_object(|| request.clone().into());
    }
    let name = call.target.name;
    let mut review = call.review(Operation::Create, name, Some(&mut request), None);
    admission::admit(&mut review).await?;

    let accounts = call.app.authentication().service_accounts().ok_or_else(|| {
        let message = "this server issues no tokens of service accounts";
        Status::other(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message, None)
    })?;
    let account = account(&call, &request).await?;
    let mut audiences = texts(spec(&request, "audiences"));
    if audiences.is_empty() {
        accounts.api_audiences().clone_into(&mut audiences);
        set(&mut request, "spec", "audiences", json!(audiences));
    }
    let now = now();
    meta::set(&mut request, "name", name);
    meta::set(&mut request, "creationTimestamp", meta::time(now));
    let asked = spec(&request, "expirationSeconds").and_then(|seconds| seconds.as_i64()).unwrap_or_default();
    check_expiration(asked)?;
    let review = call.review(Operation::Create, name, Some(&mut request), None);
    admission::validate(&review).await?;

    let bound = bind(&call, spec(&request, "boundObjectRef")).await?;
    let mut expiration = asked;
    if let Some(longest) = accounts.issuer().max_expiration.filter(|longest| asked > *longest) {
        expiration = longest;
        set(&mut request, "spec", "expirationSeconds", expiration);
        let shortened = format!("requested expiration of {asked} seconds shortened to {expiration} seconds");
        warnings.extend(options::warning(&shortened));
    }
    let token = issue(&call, accounts, account, &audiences, expiration, bound, now)?;
    request.insert(
        "status".to_owned(),
        json!({"token": token, "expirationTimestamp": meta::time(now.saturating_add(expiration))}),
    );
    let mut answer = json(StatusCode::CREATED, &request);
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

/// The account of the path, if the request is about that one (AN-90).
async fn account(call: &Call<'_>, request: &Map) -> Result<Reference, Status> {
    let name = call.target.name;
    let said = meta::text(request, "name");
    if !said.is_empty() && said != name {
        let detail = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", said, detail);
        return Err(Status::invalid_object(GROUP, KIND, name, &[error]));
    }
    let stored = found(call, &SERVICE_ACCOUNTS, call.target.namespace, name).await?;
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
    Err(Status::invalid_object(GROUP, KIND, "", &[error]))
}

/// What a token dies with.
#[derive(Default)]
struct Bound {
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

/// The object that a token is to be bound to (AN-93, AN-94).
async fn bind(call: &Call<'_>, reference: Option<Value>) -> Result<Bound, Status> {
    let Some(Value::Object(reference)) = reference else { return Ok(Bound::default()) };
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    // What is no group and version counts as the core group.
    let is_core = match text("apiVersion").split_once('/') {
        None => true,
        Some((group, version)) => group.is_empty() || version.contains('/'),
    };
    let namespace = call.target.namespace;
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
    let object = found(call, resource, namespace, name).await?;
    let found = Reference { name: name.to_owned(), uid: meta::text(&object, "uid").to_owned() };
    let mut bound = Bound::default();
    match kind {
        "Pod" => {
            bound.node = pod_node(call, &object).await?;
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

/// The node of a pod of the account; nothing if it has none yet.
async fn pod_node(call: &Call<'_>, pod: &Map) -> Result<Option<Reference>, Status> {
    let spec =
        |field: &str| pod.get("spec").and_then(|s| s.get(field)).and_then(Value::as_str).unwrap_or_default();
    let account = call.target.name;
    if spec("serviceAccountName") != account {
        let account = crate::go::quoted(account);
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account} to pod running with different serviceaccount name."
        )));
    }
    let name = spec("nodeName");
    if name.is_empty() {
        return Ok(None);
    }
    let node = stored(call, &NODES, "", name).await?;
    let uid = node.as_ref().map(|node| meta::text(node, "uid").to_owned());
    Ok(Some(Reference { name: name.to_owned(), uid: uid.unwrap_or_default() }))
}

async fn stored(
    call: &Call<'_>,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Map>, Status> {
    let entry = call.stored(&storage::key(resource, namespace, name)).await?;
    entry.map(|entry| storage::decode(&entry.value)).transpose()
}

async fn found(
    call: &Call<'_>,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<Map, Status> {
    let object = stored(call, resource, namespace, name).await?;
    object.ok_or_else(|| Status::no_object(resource.group, resource.plural, name))
}

fn issue(
    call: &Call<'_>,
    accounts: &ServiceAccounts,
    account: Reference,
    audiences: &[String],
    expiration: i64,
    bound: Bound,
    now: i64,
) -> Result<String, Status> {
    let Bound { pod, secret, node } = bound;
    let namespace = call.target.namespace;
    let order = Order { namespace, account, audiences, expiration, pod, secret, node };
    let issued = accounts.issue(order, meta::new_uid()?, now).map_err(Status::internal)?;
    if let Some(trail) = Trail::of(call.head) {
        trail.annotate(ISSUED, issued.credential_id.clone());
    }
    tracing::debug!(namespace, account = call.target.name, credential = issued.credential_id, "token issued");
    Ok(issued.token)
}
