//! Creates the objects that bootstrap credentials need in a cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_client::{CallError, Connection, Resource};
use serde_json::{Value, json};

use super::common::refused;
use crate::bootstrap_flags::Place;
use crate::failure::Failure;

/// The ClusterRole that allows machines to request certificates and nothing else (NB-36). It is in the default policy.
const ROLE: &str = "system:node-bootstrapper";
/// The binding of that role to the account.
const ACCOUNT_BINDING: &str = "portcullis:node-bootstrapper";
/// The binding of that role to the group of bootstrap tokens.
const TOKEN_BINDING: &str = "portcullis:bootstrap-tokens";
/// The number of attempts of a write after conflicts.
const ATTEMPTS: usize = 10;

/// Returns the resource of ConfigMaps in a namespace.
pub(super) fn config_maps(namespace: &str) -> Resource {
    Resource::new("", "v1", "configmaps").within(namespace)
}

/// Returns the resource of secrets in a namespace.
pub(super) fn secrets(namespace: &str) -> Resource {
    Resource::new("", "v1", "secrets").within(namespace)
}

/// Returns the resource of service accounts in a namespace.
pub(super) fn service_accounts(namespace: &str) -> Resource {
    Resource::new("", "v1", "serviceaccounts").within(namespace)
}

const NAMESPACES: Resource = Resource::new("", "v1", "namespaces");
const BINDINGS: Resource = Resource::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings");

/// Returns the namespace as an object.
pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns the binding that allows the account to request certificates.
pub(super) fn account_binding(account: &Place) -> Value {
    let subject = json!({"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace});
    binding(ACCOUNT_BINDING, &subject)
}

/// Returns the binding that allows holders of tokens in this group to request certificates.
pub(super) fn token_binding(group: &str) -> Value {
    binding(TOKEN_BINDING, &json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}))
}

fn binding(name: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [subject],
    })
}

/// Creates the namespace if it does not exist.
///
/// # Errors
/// The API server cannot be reached or refuses.
pub(super) async fn ensure_namespace(connection: &Connection, name: &str) -> Result<(), Failure> {
    // Read first: a user who may read namespaces need not be allowed to create them.
    let found = connection.find::<Value>(&NAMESPACES, name).await;
    if found.map_err(refused(format!("read the namespace {name}")))?.is_some() {
        return Ok(());
    }
    made(connection.create(&NAMESPACES, &namespace(name)).await)
        .map_err(refused(format!("make the namespace {name}")))
}

/// Adds the subject of this binding to the stored one; other subjects are kept.
///
/// # Errors
/// The API server cannot be reached or refuses, or the binding refers to another role.
pub(super) async fn ensure_binding(connection: &Connection, wanted: &Value) -> Result<(), Failure> {
    let name = text(wanted, &["metadata", "name"]);
    let failed = || refused(format!("bind the role {ROLE} (ClusterRoleBinding {name})"));
    for _ in 0..ATTEMPTS {
        let found = connection.find(&BINDINGS, name).await.map_err(failed())?;
        let Some(mut found): Option<Value> = found else {
            match connection.create::<Value>(&BINDINGS, wanted).await {
                Err(error) if error.is_already_exists() => continue,
                answer => return answer.map(drop).map_err(failed()),
            }
        };
        if found.get("roleRef") != wanted.get("roleRef") {
            return Err(Failure::input(format_args!(
                "ClusterRoleBinding {name} refers to another role than {ROLE}: delete or rename it"
            )));
        }
        let subject = wanted.get("subjects").and_then(|all| all.get(0)).cloned().unwrap_or_default();
        let fields = found.as_object_mut();
        let subjects = fields.map(|fields| fields.entry("subjects").or_insert_with(|| json!([])));
        let Some(subjects) = subjects.and_then(Value::as_array_mut) else {
            return Err(Failure::unreachable(format_args!("ClusterRoleBinding {name} cannot be read")));
        };
        if subjects.contains(&subject) {
            return Ok(());
        }
        subjects.push(subject);
        match connection.replace::<Value>(&BINDINGS.object(name), &found).await {
            Err(error) if error.is_conflict() => {}
            answer => return answer.map(drop).map_err(failed()),
        }
    }
    Err(Failure::unreachable(format_args!("ClusterRoleBinding {name} went on changing")))
}

/// Treats an object that already exists as created.
///
/// # Errors
/// Any other.
pub(super) fn made(answer: Result<Value, CallError>) -> Result<(), CallError> {
    match answer {
        Err(error) if error.is_already_exists() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Deletes the object that was read, and no other of its name. Returns false if it does not exist.
///
/// # Errors
/// The API server cannot be reached or refuses.
pub(super) async fn delete(
    connection: &Connection,
    resource: &Resource,
    object: &Value,
) -> Result<bool, CallError> {
    let name = text(object, &["metadata", "name"]);
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": text(object, &["metadata", "uid"])}});
    let body = Some(("application/json", body.to_string().into_bytes()));
    match connection.call::<Value>(http::Method::DELETE, &resource.object(name), body).await {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Returns the text in a field of an object, by its path; empty if there is none.
pub(super) fn text<'o>(object: &'o Value, path: &[&str]) -> &'o str {
    let found = path.iter().try_fold(object, |value, name| value.get(name));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// Returns a value of a secret as text; empty if there is none.
pub(super) fn field(secret: &Value, key: &str) -> String {
    let bytes = STANDARD.decode(text(secret, &["data", key])).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Returns whether the object is being deleted.
pub(super) fn is_going(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}
