//! Carries out the lifetimes of the bootstrap tokens of Machines and MachinePools (AT-140 to AT-144).
//!
//! The token of a Machine is in its KubeadmConfig, and the Secret in the workload cluster. What a missing token is created
//! from is the KubeadmConfig, so the bootstrap data that was rendered with it stays right.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use portcullis_apimachinery::time::Instant;
use portcullis_attestation::time::{instant, system_time};
use portcullis_attestation::token_lifetime::{Action, Facts, Owner};
use portcullis_policy::approval::machine::{Machine, MachineKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Done;
use crate::attest::shared::{Settings, Shared};
use crate::call::{CallError, Resource, found};
use crate::connect::Connection;
use crate::events::{event, write_event};

const CONFIGS: &str = "bootstrap.cluster.x-k8s.io";
const CLUSTERS: &str = "cluster.x-k8s.io";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const COMPONENT: &str = "portcullis-attest";
/// The most Machines and MachinePools that are looked at.
const MOST: usize = 50_000;

/// What was told about Machines already, by their UIDs.
#[derive(Default)]
pub(super) struct Told(HashSet<(String, &'static str)>);

/// A Machine or MachinePool, with its token.
struct Owned {
    object: Value,
    kind: &'static str,
    owner: Owner,
    token: Token,
}

/// A bootstrap token: its identifier and its secret.
struct Token {
    id: String,
    secret: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Secret {
    metadata: Metadata,
    data: HashMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
}

pub(super) async fn keep(shared: &Shared, settings: &Settings, told: &mut Told) -> Result<Done, String> {
    let Some(tokens) = settings.config.tokens else { return Ok(Done::Yes) };
    let owners = owners(shared, settings).await?;
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for owned in &owners {
        let count = uses.entry(&owned.token.id).or_default();
        *count = count.saturating_add(1);
    }
    for owned in &owners {
        let is_shared = uses.get(owned.token.id.as_str()).is_some_and(|count| *count > 1);
        let now = shared.clock.now();
        let secret = secret(shared, &owned.token).await.map_err(|error| error.to_string())?;
        let facts = Facts {
            owner: owned.owner,
            is_deleting: owned.object.pointer("/metadata/deletionTimestamp").is_some(),
            is_paused: is_paused(shared, &owned.object).await?,
            is_attested: true,
            expires: secret.as_ref().and_then(expires),
            now,
        };
        let done = match tokens.times().decide(&facts) {
            Action::Nothing => Ok(()),
            Action::Extend(until) | Action::Rotate(until) => match &secret {
                Some(secret) => extend(shared, &owned.token, secret, until).await,
                None => Ok(()),
            },
            // It may be of use to another one.
            Action::Delete if is_shared => Ok(()),
            Action::Delete => delete(shared, &owned.token).await,
            Action::Create(until) => create(shared, settings, owned, until).await,
            Action::Lost => {
                let message =
                    "the bootstrap token is gone, and the machine was started with it: replace the Machine";
                tell(shared, owned, "BootstrapTokenLost", message, told).await;
                Ok(())
            }
            Action::TimedOut => {
                let message =
                    "the machine did not join in time: its bootstrap token is not extended any more";
                tell(shared, owned, "BootstrapTimedOut", message, told).await;
                Ok(())
            }
        };
        match done {
            Ok(()) => {}
            // Somebody else changed the token: decided again next time.
            Err(error) if error.is_conflict() || error.is_not_found() || error.is_already_exists() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    told.0.retain(|(uid, _)| owners.iter().any(|owned| owned.object["metadata"]["uid"] == *uid));
    Ok(Done::Yes)
}

/// The Machines and MachinePools of the cluster whose token is known.
async fn owners(shared: &Shared, settings: &Settings) -> Result<Vec<Owned>, String> {
    let management = &shared.management;
    let Some(version) = version(management, CLUSTERS).await? else { return Ok(Vec::new()) };
    let Some(configs) = version_path(management, CONFIGS).await? else { return Ok(Vec::new()) };
    let machines = &settings.config.machines;
    let within = machines.namespace.as_ref().map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    let mut owners = Vec::new();
    for (kind, plural) in [("Machine", "machines"), ("MachinePool", "machinepools")] {
        let path = format!("/apis/{CLUSTERS}/{version}{within}/{plural}");
        let list = find(management, &path).await?.unwrap_or_default();
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        for object in items.into_iter().take(MOST) {
            let cluster = object.pointer("/spec/clusterName").and_then(Value::as_str);
            if machines.cluster_name.as_deref().is_some_and(|own| cluster != Some(own)) {
                continue;
            }
            let Some(owner) = owner(kind, &version, &object) else { continue };
            if let Some(token) = token(management, &configs, &object, kind).await? {
                owners.push(Owned { object, kind, owner, token });
            }
        }
    }
    Ok(owners)
}

fn owner(kind: &str, version: &str, object: &Value) -> Option<Owner> {
    if kind == "MachinePool" {
        return Some(Owner::Pool);
    }
    let kind = MachineKind::of(&format!("{CLUSTERS}/{version}"))?;
    let machine = Machine::from_json(kind, &object.to_string()).ok()?;
    Some(Owner::Machine {
        created: system_time(machine.created?),
        has_infrastructure: machine.has_infrastructure,
        is_ready: machine.node_ref.is_some() && machine.provider_id.is_some(),
    })
}

/// The token in the KubeadmConfig of a Machine or MachinePool; none if it has none.
async fn token(
    connection: &Connection,
    configs: &str,
    object: &Value,
    kind: &str,
) -> Result<Option<Token>, String> {
    let at = if kind == "Machine" {
        "/spec/bootstrap/configRef"
    } else {
        "/spec/template/spec/bootstrap/configRef"
    };
    let reference = object.pointer(at).unwrap_or(&Value::Null);
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let (Some("KubeadmConfig"), Some(name)) = (reference["kind"].as_str(), reference["name"].as_str()) else {
        return Ok(None);
    };
    let path = format!("{configs}/namespaces/{namespace}/kubeadmconfigs/{name}");
    let config = find(connection, &path).await?.unwrap_or_default();
    let text =
        config.pointer("/spec/joinConfiguration/discovery/bootstrapToken/token").and_then(Value::as_str);
    let parts = text.and_then(|text| text.split_once('.'));
    let is_part = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let parts = parts.filter(|(id, secret)| is_part(id, 6) && is_part(secret, 16));
    Ok(parts.map(|(id, secret)| Token { id: id.to_owned(), secret: secret.to_owned() }))
}

async fn is_paused(shared: &Shared, object: &Value) -> Result<bool, String> {
    if object.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(PAUSED).is_some()) {
        return Ok(true);
    }
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let Some(group) = version_path(&shared.management, CLUSTERS).await? else { return Ok(false) };
    let (namespace, name) = (text("/metadata/namespace"), text("/spec/clusterName"));
    let cluster =
        find(&shared.management, &format!("{group}/namespaces/{namespace}/clusters/{name}")).await?;
    let cluster = cluster.unwrap_or_default();
    let has_annotation =
        cluster.pointer("/metadata/annotations").is_some_and(|all| all.get(PAUSED).is_some());
    Ok(has_annotation || cluster.pointer("/spec/paused") == Some(&true.into()))
}

async fn find(connection: &Connection, path: &str) -> Result<Option<Value>, String> {
    found(connection.call(Method::GET, path, None).await).map_err(|error| error.to_string())
}

async fn version(connection: &Connection, group: &str) -> Result<Option<String>, String> {
    let found = find(connection, &format!("/apis/{group}")).await?.unwrap_or_default();
    Ok(found.pointer("/preferredVersion/version").and_then(Value::as_str).map(str::to_owned))
}

async fn version_path(connection: &Connection, group: &str) -> Result<Option<String>, String> {
    Ok(version(connection, group).await?.map(|version| format!("/apis/{group}/{version}")))
}

fn secrets() -> Resource {
    Resource::new("", "v1", "secrets").within("kube-system")
}

fn name(token: &Token) -> String {
    format!("bootstrap-token-{}", token.id)
}

async fn secret(shared: &Shared, token: &Token) -> Result<Option<Secret>, CallError> {
    shared.workload.find(&secrets(), &name(token)).await
}

/// When a token expires. One without a date never does, and one whose date cannot be read has.
fn expires(secret: &Secret) -> Option<SystemTime> {
    let Some(text) = secret.data.get("expiration") else {
        return SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(u64::from(u32::MAX) * 2));
    };
    let text = STANDARD.decode(text).ok().and_then(|text| String::from_utf8(text).ok());
    let at = text.and_then(|text| Instant::parse(&text).ok()).map(system_time);
    Some(at.unwrap_or(SystemTime::UNIX_EPOCH))
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

async fn extend(shared: &Shared, token: &Token, secret: &Secret, until: SystemTime) -> Result<(), CallError> {
    let patch = json!({
        "metadata": {"resourceVersion": secret.metadata.resource_version},
        "data": {"expiration": encoded(&instant(until).to_string())},
    });
    shared.workload.merge::<Value>(&secrets().object(&name(token)), &patch).await?;
    tracing::info!(token = token.id, until = %instant(until), "extended a bootstrap token");
    Ok(())
}

async fn delete(shared: &Shared, token: &Token) -> Result<(), CallError> {
    shared.workload.call::<Value>(Method::DELETE, &secrets().object(&name(token)), None).await?;
    tracing::info!(token = token.id, "deleted a bootstrap token that is not needed any more");
    Ok(())
}

async fn create(
    shared: &Shared,
    settings: &Settings,
    owned: &Owned,
    until: SystemTime,
) -> Result<(), CallError> {
    let token = &owned.token;
    let of = owned.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let description = format!("for {} {of}", owned.kind);
    let mut data = json!({
        "token-id": encoded(&token.id),
        "token-secret": encoded(&token.secret),
        "expiration": encoded(&instant(until).to_string()),
        "usage-bootstrap-signing": encoded("true"),
        "usage-bootstrap-authentication": encoded("true"),
        "description": encoded(&description),
    });
    if let (Some(group), Some(data)) = (&settings.rules.allowed.token_group, data.as_object_mut()) {
        data.insert("auth-extra-groups".to_owned(), encoded(group).into());
    }
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name(token)},
        "type": "bootstrap.kubernetes.io/token",
        "data": data,
    });
    shared.workload.create::<Value>(&secrets(), &object).await?;
    tracing::info!(token = token.id, description, "created a bootstrap token that was missing");
    Ok(())
}

/// Writes an Event about a Machine, once.
async fn tell(shared: &Shared, owned: &Owned, reason: &'static str, message: &str, told: &mut Told) {
    let text = |at: &str| owned.object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (name, namespace, uid) = (text("/metadata/name"), text("/metadata/namespace"), text("/metadata/uid"));
    if !told.0.insert((uid.to_owned(), reason)) {
        return;
    }
    tracing::warn!(kind = owned.kind, namespace, name, reason, message, "a bootstrap token needs attention");
    let involved = json!({
        "apiVersion": owned.object["apiVersion"],
        "kind": owned.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    });
    let now = instant(shared.clock.now());
    let mut about = event(COMPONENT, name, &involved, reason, "Warning", message, now);
    if let Some(at) = about.pointer_mut("/metadata/namespace") {
        *at = namespace.into();
    }
    write_event(&shared.management, name, &about).await;
}
