//! Carries out the lifetimes of the bootstrap tokens of Machines and MachinePools (AT-140 to AT-144). That of a pool lives as
//! long as the pool, so that user data never goes stale (AT-9).
//!
//! The token of a Machine is in its KubeadmConfig, and the Secret in the workload cluster. What a missing token is created
//! from is the KubeadmConfig, so the bootstrap data that was rendered with it stays right.
//!
//! DIVERGES: what AT-143 and AT-144 have as conditions of the Machine are Events here: other controllers own the conditions.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use portcullis_apimachinery::time::Instant;
use portcullis_attestation::time::{instant, system_time};
use portcullis_attestation::token_lifetime::{Action, Facts, Owner};
use portcullis_policy::approval::machine::{Machine, MachineKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{self, find, items, text};
use super::done::Done;
use crate::attest::shared::{Settings, Shared};
use crate::call::{CallError, Resource};
use crate::events::{event, write_event};

const CONFIGS: &str = "bootstrap.cluster.x-k8s.io";
const CLUSTERS: &str = "cluster.x-k8s.io";
/// The annotation of what is paused, as a JSON pointer.
const PAUSED: &str = "/metadata/annotations/cluster.x-k8s.io~1paused";
/// The type of the Secrets of bootstrap tokens.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// A time in some centuries.
const NEVER: Duration = Duration::from_secs(10_000_000_000);
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
#[derive(Clone)]
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
    let secrets = list_secrets(shared).await?;
    let paused = paused_clusters(shared, &owners).await?;
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for owned in &owners {
        let count = uses.entry(&owned.token.id).or_default();
        *count = count.saturating_add(1);
    }
    for owned in &owners {
        let is_shared = uses.get(owned.token.id.as_str()).is_some_and(|count| *count > 1);
        let secret = secrets.get(&name(&owned.token));
        let is_paused = owned.object.pointer(PAUSED).is_some() || paused.contains(&cluster_of(&owned.object));
        let facts = Facts {
            owner: owned.owner,
            is_deleting: text(&owned.object, "/metadata/deletionTimestamp").is_some(),
            is_paused,
            is_attested: true,
            expires: secret.map(expires),
            now: shared.clock.now(),
        };
        let done = match tokens.times().decide(&facts) {
            Action::Nothing => Ok(()),
            Action::Extend(until) | Action::Rotate(until) => match secret {
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
    let live: HashSet<&str> =
        owners.iter().filter_map(|owned| text(&owned.object, "/metadata/uid")).collect();
    told.0.retain(|(uid, _)| live.contains(uid.as_str()));
    Ok(Done::Yes)
}

/// The Machines and MachinePools of the cluster whose token is known.
async fn owners(shared: &Shared, settings: &Settings) -> Result<Vec<Owned>, String> {
    let management = &shared.management;
    let Some(version) = api::version(management, CLUSTERS).await? else { return Ok(Vec::new()) };
    let Some(configs) = api::group(management, CONFIGS).await? else { return Ok(Vec::new()) };
    let machines = &settings.config.machines;
    let within = machines.namespace.as_ref().map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    let mut tokens: HashMap<(String, String), Token> = HashMap::new();
    for config in
        items(find(management, &format!("{configs}{within}/kubeadmconfigs")).await?.unwrap_or_default())
    {
        if let Some(token) = token(&config) {
            tokens.insert((namespace_of(&config), own_name(&config)), token);
        }
    }
    let mut owners = Vec::new();
    for (kind, plural, reference) in [
        ("Machine", "machines", "/spec/bootstrap/configRef"),
        ("MachinePool", "machinepools", "/spec/template/spec/bootstrap/configRef"),
    ] {
        let path = format!("/apis/{CLUSTERS}/{version}{within}/{plural}");
        for object in items(find(management, &path).await?.unwrap_or_default()).into_iter().take(MOST) {
            let cluster = text(&object, "/spec/clusterName");
            if machines.cluster_name.as_deref().is_some_and(|own| cluster != Some(own)) {
                continue;
            }
            let reference = object.pointer(reference).unwrap_or(&Value::Null);
            let config =
                text(reference, "/name").filter(|_| text(reference, "/kind") == Some("KubeadmConfig"));
            let key = config.map(|name| (namespace_of(&object), name.to_owned()));
            let token = key.and_then(|key| tokens.get(&key).cloned());
            if let (Some(owner), Some(token)) = (owner(kind, &version, &object), token) {
                owners.push(Owned { object, kind, owner, token });
            }
        }
    }
    Ok(owners)
}

fn namespace_of(object: &Value) -> String {
    text(object, "/metadata/namespace").unwrap_or_default().to_owned()
}

fn own_name(object: &Value) -> String {
    text(object, "/metadata/name").unwrap_or_default().to_owned()
}

/// The namespace and the name of the Cluster of a Machine or MachinePool.
fn cluster_of(object: &Value) -> (String, String) {
    (namespace_of(object), text(object, "/spec/clusterName").unwrap_or_default().to_owned())
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

/// The token in a KubeadmConfig; none if it has none.
fn token(config: &Value) -> Option<Token> {
    let (id, secret) =
        text(config, "/spec/joinConfiguration/discovery/bootstrapToken/token")?.split_once('.')?;
    let is_part = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_token = is_part(id, 6) && is_part(secret, 16);
    is_token.then(|| Token { id: id.to_owned(), secret: secret.to_owned() })
}

/// The Clusters that are paused.
async fn paused_clusters(shared: &Shared, owners: &[Owned]) -> Result<HashSet<(String, String)>, String> {
    let Some(group) = api::group(&shared.management, CLUSTERS).await? else { return Ok(HashSet::new()) };
    let mut paused = HashSet::new();
    for (namespace, name) in owners.iter().map(|owned| cluster_of(&owned.object)).collect::<HashSet<_>>() {
        let path = format!("{group}/namespaces/{namespace}/clusters/{name}");
        let cluster = find(&shared.management, &path).await?.unwrap_or_default();
        if cluster.pointer(PAUSED).is_some() || cluster.pointer("/spec/paused") == Some(&true.into()) {
            paused.insert((namespace, name));
        }
    }
    Ok(paused)
}

fn secrets() -> Resource {
    Resource::new("", "v1", "secrets").within("kube-system")
}

fn name(token: &Token) -> String {
    format!("bootstrap-token-{}", token.id)
}

/// The tokens of the workload cluster, by the names of their Secrets.
async fn list_secrets(shared: &Shared) -> Result<HashMap<String, Secret>, String> {
    let path = format!("{}?fieldSelector=type%3D{}", secrets().path(), TYPE.replace('/', "%2F"));
    let list = find(&shared.workload, &path).await?.unwrap_or_default();
    let read = |object: Value| {
        let name = own_name(&object);
        serde_json::from_value(object).ok().map(|secret| (name, secret))
    };
    Ok(items(list).into_iter().filter_map(read).collect())
}

/// When a token expires. One without a date never does, and one whose date cannot be read has.
fn expires(secret: &Secret) -> SystemTime {
    let Some(text) = secret.data.get("expiration") else { return SystemTime::UNIX_EPOCH + NEVER };
    let text = STANDARD.decode(text).ok().and_then(|text| String::from_utf8(text).ok());
    let at = text.and_then(|text| Instant::parse(&text).ok()).map(system_time);
    at.unwrap_or(SystemTime::UNIX_EPOCH)
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
    let description = format!("for {} {}", owned.kind, own_name(&owned.object));
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
        "type": TYPE,
        "data": data,
    });
    shared.workload.create::<Value>(&secrets(), &object).await?;
    tracing::info!(token = token.id, description, "created a bootstrap token that was missing");
    Ok(())
}

/// Writes an Event about a Machine, once.
async fn tell(shared: &Shared, owned: &Owned, reason: &'static str, message: &str, told: &mut Told) {
    let part = |at: &str| text(&owned.object, at).unwrap_or_default();
    let (name, namespace, uid) = (part("/metadata/name"), part("/metadata/namespace"), part("/metadata/uid"));
    if !told.0.insert((uid.to_owned(), reason)) {
        return;
    }
    tracing::warn!(kind = owned.kind, namespace, name, reason, message, "a bootstrap token needs attention");
    let involved = json!({
        "apiVersion": part("/apiVersion"),
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
