//! Reads what the rules need from the cluster, without any cache (NB-55).

use portcullis_policy::approval::machine::{
    Config, ConfigMapKey, Machine, MachineApi, MachineKind, MachinePool, Node, Unreadable,
};
use serde_json::Value;

use crate::call::{CallError, NODES, Resource, found};
use crate::connect::Connection;
use crate::watched::name_of;

/// The namespaces of the bootstrap CA if the configuration names none (NB-14).
const BOOTSTRAP_CA_NAMESPACES: [&str; 2] = ["openshift-config", "openshift-config-managed"];

/// The Machines and the machine pools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machines {
    pub(crate) machines: Vec<Machine>,
    pub(crate) pools: Vec<MachinePool>,
    /// The Machines that cannot be decoded.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Returns the Machine API of this server, in the configured or the preferred version; none if it has no known one
/// (NB-120).
pub(super) async fn machine_kind(
    connection: &Connection,
    api: &MachineApi,
) -> Result<Option<MachineKind>, CallError> {
    let path = format!("/apis/{}", api.group);
    let group = found(connection.call::<Value>(http::Method::GET, &path, None).await)?;
    let Some(group) = group else { return Ok(None) };
    let served: Vec<&str> = group
        .pointer("/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|version| version.pointer("/version").and_then(Value::as_str))
        .collect();
    let preferred = group.pointer("/preferredVersion/version").and_then(Value::as_str);
    let known = |version: &str| MachineKind::of(&format!("{}/{version}", api.group));
    Ok(match &api.version {
        Some(version) => served.contains(&version.as_str()).then(|| known(version)).flatten(),
        None => preferred.into_iter().chain(served).find_map(known),
    })
}

/// Returns the resource of Machines of an API.
pub(super) fn machines_of(kind: MachineKind, namespace: Option<&str>) -> Resource {
    within(Resource::new(kind.group(), kind.version(), "machines"), namespace)
}

fn within(resource: Resource, namespace: Option<&str>) -> Resource {
    match namespace {
        Some(namespace) => resource.within(namespace),
        None => resource,
    }
}

/// Reads all Machines of the configured APIs. One that cannot be decoded is returned as
/// unreadable: it is not absent.
pub(crate) async fn machines(connection: &Connection, config: &Config) -> Result<Machines, CallError> {
    let namespace = config.machine_namespace.as_deref();
    let mut found = Machines::default();
    for api in &config.machine_apis {
        let Some(kind) = machine_kind(connection, api).await? else { continue };
        let machine = |text: &str| Machine::from_json(kind, text).map_err(|error| error.to_string());
        let (machines, unreadable) = list(connection, &machines_of(kind, namespace), machine).await?;
        found.machines.extend(machines);
        found.unreadable.extend(unreadable);
        if kind != MachineKind::OpenShiftV1Beta1 {
            let pools = within(Resource::new(kind.group(), kind.version(), "machinepools"), namespace);
            let pool = |text: &str| MachinePool::from_json(text).map_err(|error| error.to_string());
            let (pools, unreadable) = list(connection, &pools, pool).await?;
            found.pools.extend(pools);
            found.unreadable.extend(unreadable);
        }
    }
    Ok(found)
}

/// Lists the objects of a kind, and those that cannot be decoded; empty if the server does not have the kind.
async fn list<T>(
    connection: &Connection,
    resource: &Resource,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(Vec<T>, Vec<Unreadable>), CallError> {
    let list = found(connection.call::<Value>(http::Method::GET, &resource.path(), None).await)?;
    let list = list.unwrap_or_default();
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    for item in list.pointer("/items").and_then(Value::as_array).into_iter().flatten() {
        match read(&item.to_string()) {
            Ok(object) => objects.push(object),
            Err(why) => {
                tracing::warn!(kind = %resource.plural, name = name_of(item), why, "an object cannot be read");
                unreadable.push(illegible(item));
            }
        }
    }
    Ok((objects, unreadable))
}

/// Returns an object that cannot be decoded, with all texts in it, of which one may be a node's name.
pub(super) fn illegible(object: &Value) -> Unreadable {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let mut texts = Vec::new();
    let mut rest = vec![object];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => rest.extend(fields.values()),
            _ => {}
        }
    }
    Unreadable::new(format!("{namespace}/{}", name_of(object)), texts)
}

/// Reads a Node; none if it does not exist.
pub(super) async fn node(connection: &Connection, name: &str) -> Result<Option<Node>, String> {
    let object = connection.find::<Value>(&NODES, name).await.map_err(|error| error.to_string())?;
    let node = object.map(|object| Node::from_json(&object.to_string())).transpose();
    node.map_err(|error| error.to_string())
}

/// Reads the value of a key of a ConfigMap; none if either is missing.
async fn value(
    connection: &Connection,
    namespace: &str,
    at: &ConfigMapKey,
) -> Result<Option<String>, CallError> {
    let maps = Resource::new("", "v1", "configmaps").within(namespace);
    let map = connection.find::<Value>(&maps, &at.name).await?.unwrap_or_default();
    let value = map.get("data").and_then(|data| data.get(&at.key)).and_then(Value::as_str);
    Ok(value.map(str::to_owned))
}

/// Returns whether a bootstrap CA is published (NB-14, NB-86). A ConfigMap that cannot be read counts as not published.
pub(super) async fn has_bootstrap_ca(connection: &Connection, config: &Config) -> bool {
    let own: Vec<&str> = config.bootstrap_ca.namespace.iter().map(String::as_str).collect();
    let namespaces = if own.is_empty() { BOOTSTRAP_CA_NAMESPACES.to_vec() } else { own };
    for namespace in namespaces {
        match value(connection, namespace, &config.bootstrap_ca).await {
            Ok(Some(bundle)) if !bundle.trim().is_empty() => return true,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(namespace, %error, "cannot read the authority of bootstrap certificates")
            }
        }
    }
    false
}

/// Reads the CA of kubelets' serving certificates, in PEM (NB-58).
pub(super) async fn kubelet_ca(connection: &Connection, config: &Config) -> Result<String, String> {
    let at = &config.kubelet_ca;
    let namespace = at.namespace.as_deref().unwrap_or_default();
    match value(connection, namespace, at).await {
        Ok(Some(bundle)) => Ok(bundle),
        Ok(None) => {
            Err(format!("KubeletCAUnavailable: there is no {} in ConfigMap {namespace}/{}", at.key, at.name))
        }
        Err(error) => Err(format!("KubeletCAUnavailable: {error}")),
    }
}
