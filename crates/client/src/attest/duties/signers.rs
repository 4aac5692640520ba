//! Publishes the names of the signers in the status of the infrastructure cluster, by server-side apply (AT-90 to AT-95).

use http::Method;
use portcullis_attestation::time::instant;
use serde_json::{Value, json};

use super::api::{self, find, text};
use super::done::Done;
use crate::attest::shared::{Settings, Shared};
use crate::call::CallError;
use crate::connect::Connection;
use crate::events::{event, write_event};

/// The manager of the fields.
const MANAGER: &str = "portcullis-attest";
const CLUSTERS: &str = "cluster.x-k8s.io";

/// Publishes the names, or takes them back when that is switched off.
pub(super) async fn keep(shared: &Shared, settings: &Settings, is_new: bool) -> Result<Done, String> {
    let config = &settings.config;
    let (Some(namespace), Some(name)) = (&config.machines.namespace, &config.machines.cluster_name) else {
        return Ok(Done::Yes);
    };
    if !config.publish_signers && !is_new {
        return Ok(Done::Yes);
    }
    match publish(shared, settings, namespace, name, is_new).await {
        // Nothing was published that could be taken back, as far as we may see.
        Err(why) if !config.publish_signers => {
            tracing::debug!(why, "cannot look for published signers");
            Ok(Done::Yes)
        }
        done => done,
    }
}

async fn publish(
    shared: &Shared,
    settings: &Settings,
    namespace: &str,
    name: &str,
    is_new: bool,
) -> Result<Done, String> {
    let config = &settings.config;
    let management = &shared.management;
    let group = api::group(management, CLUSTERS).await?;
    let Some(group) = group else {
        return match config.publish_signers {
            true => Err(format!("the API server has no {CLUSTERS}: signers cannot be published")),
            false => Ok(Done::Yes),
        };
    };
    let path = format!("{group}/namespaces/{namespace}/clusters/{name}");
    let Some(cluster) = find(management, &path).await? else {
        return if config.publish_signers { Ok(Done::NotYet) } else { Ok(Done::Yes) };
    };
    let Some(path) = infrastructure(management, namespace, &cluster).await? else { return Ok(Done::NotYet) };
    let Some(object) = find(management, &path).await? else { return Ok(Done::NotYet) };
    let status = if config.publish_signers {
        let (client, serving) = config.published_signers();
        let mut status = json!({"kubeletClientCertificateSigner": client});
        if let (Some(serving), Some(status)) = (serving, status.as_object_mut()) {
            status.insert("kubeletServingCertificateSigner".to_owned(), serving.into());
        }
        status
    } else {
        json!({})
    };
    if config.publish_signers || is_managed(&object) {
        apply(management, &path, &object, &status).await?;
    }
    let is_insecure = config.authorized_attestors.first().is_some_and(|attestor| attestor == "insecure");
    if is_new && config.publish_signers && is_insecure {
        tell(shared, namespace, &cluster).await;
    }
    Ok(Done::Yes)
}

/// The path of the infrastructure cluster; none if the Cluster does not refer to one that the server has.
async fn infrastructure(
    connection: &Connection,
    namespace: &str,
    cluster: &Value,
) -> Result<Option<String>, String> {
    let reference = cluster.pointer("/spec/infrastructureRef").unwrap_or(&Value::Null);
    let plain = |at: &str| text(reference, at).filter(|text| is_plain(text));
    let (Some(kind), Some(name)) = (plain("/kind"), plain("/name")) else { return Ok(None) };
    // v1beta2 names the group alone, v1beta1 the group and a version.
    let version = text(reference, "/apiVersion").unwrap_or_default();
    let group = plain("/apiGroup").or_else(|| version.split_once('/').map(|(group, _)| group));
    let Some(group) = group.filter(|group| is_plain(group)) else { return Ok(None) };
    let Some(group) = api::group(connection, group).await? else { return Ok(None) };
    let Some(resources) = find(connection, &group).await? else { return Ok(None) };
    let resources = resources.pointer("/resources").and_then(Value::as_array).cloned().unwrap_or_default();
    let named = resources.iter().filter(|resource| text(resource, "/kind") == Some(kind));
    let plural = named.filter_map(|resource| text(resource, "/name")).find(|name| is_plain(name));
    Ok(plural.map(|plural| format!("{group}/namespaces/{namespace}/{plural}/{name}")))
}

/// Whether a text is one segment of a path.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !text.is_empty() && text.chars().all(is_plain) && text != "." && text != ".."
}

/// Whether fields of an object are ours.
fn is_managed(object: &Value) -> bool {
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    managers.is_some_and(|managers| managers.iter().any(|fields| text(fields, "/manager") == Some(MANAGER)))
}

async fn apply(connection: &Connection, path: &str, object: &Value, status: &Value) -> Result<(), String> {
    let applied = json!({
        "apiVersion": text(object, "/apiVersion"),
        "kind": text(object, "/kind"),
        "metadata": {"name": text(object, "/metadata/name"), "namespace": text(object, "/metadata/namespace")},
        "status": status,
    });
    let path = format!("{path}/status?fieldManager={MANAGER}&force=true");
    let body = Some(("application/apply-patch+yaml", applied.to_string().into_bytes()));
    let applied: Result<Value, CallError> = connection.call(Method::PATCH, &path, body).await;
    applied.map(drop).map_err(|error| error.to_string())
}

/// Says on the Cluster that its nodes prove nothing (AT-92).
async fn tell(shared: &Shared, namespace: &str, cluster: &Value) {
    let name = text(cluster, "/metadata/name").unwrap_or_default();
    let involved = json!({
        "apiVersion": text(cluster, "/apiVersion"),
        "kind": "Cluster",
        "namespace": namespace,
        "name": name,
        "uid": text(cluster, "/metadata/uid"),
    });
    let message = "nodes join with the attestor insecure: they prove nothing, their certificates are not renewed, and they \
                   get no serving certificates";
    let now = instant(shared.clock.now());
    let mut about = event(MANAGER, name, &involved, "InsecureAttestor", "Warning", message, now);
    if let Some(at) = about.pointer_mut("/metadata/namespace") {
        *at = namespace.into();
    }
    write_event(&shared.management, name, &about).await;
}
