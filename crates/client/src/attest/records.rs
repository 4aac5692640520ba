//! The identity records, as ConfigMaps (AT-150 to AT-154).
//!
//! A record is created, never overwritten by a first success; afterwards it is replaced in the version that was read. A
//! second ConfigMap for each device says which Machine it belongs to.

use std::collections::BTreeMap;

use portcullis_attestation::Device;
use portcullis_attestation::machine::{Machine, Owner};
use portcullis_attestation::record::Record;
use portcullis_pki::sha256;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::call::{CallError, Resource};
use crate::connect::Connection;

/// The key of a ConfigMap with a record.
const RECORD: &str = "record";
/// The keys of a ConfigMap about a device.
const MACHINE: &str = "machineUID";
const NODE: &str = "nodeName";
/// The label with the kind of the ConfigMap.
const LABEL: &str = "portcullis.dev/attestation";
const IDENTITY: &str = "identity-record";
const DEVICE: &str = "device";
/// The ConfigMaps of one page of a list.
const PAGE: usize = 500;

/// The identity records of a cluster.
#[derive(Clone, Debug)]
pub struct Records {
    connection: Connection,
    namespace: String,
}

/// A record, in the version that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The record.
    pub record: Record,
    /// The namespace of its ConfigMap.
    pub namespace: String,
    /// The version of its ConfigMap.
    pub resource_version: String,
}

/// The machine that has a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The UID of the Machine.
    pub machine_uid: String,
    /// The version of the ConfigMap that says so.
    pub resource_version: String,
}

/// A record cannot be used. Nothing is decided without it (AT-154).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The API request failed.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The ConfigMap has no valid record.
    #[error("ConfigMap {namespace}/{name}: {why}")]
    Malformed {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ConfigMap {
    metadata: Metadata,
    data: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct List {
    metadata: ListMetadata,
    items: Vec<ConfigMap>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListMetadata {
    #[serde(rename = "continue")]
    token: String,
}

impl Records {
    /// The records of machines without an object of their own are in this namespace; all others are next to their object.
    pub fn new(connection: Connection, namespace: String) -> Self {
        Self { connection, namespace }
    }

    /// Reads the record of a machine; none if there is none.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn find(&self, machine: &Machine) -> Result<Option<Versioned>, RecordError> {
        let maps = self.maps(machine.owner.as_ref());
        let found: Option<ConfigMap> = self.connection.find(&maps, &name(&machine.uid)).await?;
        let found = found.map(read).transpose()?;
        if let Some(found) = found.as_ref().filter(|found| found.record.machine_uid != machine.uid) {
            return Err(RecordError::Malformed {
                namespace: found.namespace.clone(),
                name: name(&machine.uid),
                why: format!("it is the record of Machine {:?}", found.record.machine_uid),
            });
        }
        Ok(found)
    }

    /// Writes a record: creates it, or replaces the version that was read.
    ///
    /// # Errors
    /// See [`RecordError`]; a conflict if another process was first.
    pub async fn write(
        &self,
        machine: &Machine,
        before: Option<&Versioned>,
        record: &Record,
    ) -> Result<(), RecordError> {
        let maps = self.maps(machine.owner.as_ref());
        let mut metadata = labelled(&name(&machine.uid), IDENTITY);
        if let Some(owner) = &machine.owner {
            let owner = json!([{
                "apiVersion": owner.api_version, "kind": "Machine", "name": owner.name, "uid": machine.uid,
            }]);
            metadata.insert("ownerReferences".to_owned(), owner);
        }
        self.put(&maps, metadata, before, record).await
    }

    /// Replaces a record in the version that was read.
    ///
    /// # Errors
    /// See [`RecordError`]; a conflict if another process was first.
    pub async fn replace(&self, before: &Versioned, record: &Record) -> Result<(), RecordError> {
        let maps = Resource::new("", "v1", "configmaps").within(before.namespace.clone());
        let path = maps.object(&name(&record.machine_uid));
        let patch = json!({
            "metadata": {"resourceVersion": before.resource_version},
            "data": {RECORD: text(record), NODE: record.node_name},
        });
        self.connection.merge::<Value>(&path, &patch).await?;
        Ok(())
    }

    async fn put(
        &self,
        maps: &Resource,
        mut metadata: Map<String, Value>,
        before: Option<&Versioned>,
        record: &Record,
    ) -> Result<(), RecordError> {
        if let Some(before) = before {
            metadata.insert("resourceVersion".to_owned(), before.resource_version.as_str().into());
        }
        let path = maps.object(&name(&record.machine_uid));
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {RECORD: text(record), NODE: record.node_name},
        });
        match before {
            Some(_) => self.connection.replace::<Value>(&path, &object).await?,
            None => self.connection.create::<Value>(maps, &object).await?,
        };
        Ok(())
    }

    /// Claims a device for a machine. Returns who has it, if it is another machine (AT-152).
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn claim(&self, device: Device, machine: &Machine) -> Result<Option<Holder>, RecordError> {
        let maps = self.maps(None);
        let object = claim(device, machine, None);
        match self.connection.create::<Value>(&maps, &object).await {
            Ok(_) => return Ok(None),
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let found: ConfigMap = self.connection.get(&maps, &device_name(device)).await?;
        let machine_uid = found.data.get(MACHINE).cloned().unwrap_or_default();
        if machine_uid == machine.uid {
            return Ok(None);
        }
        Ok(Some(Holder { machine_uid, resource_version: found.metadata.resource_version }))
    }

    /// Claims a device whose machine is gone.
    ///
    /// # Errors
    /// See [`RecordError`]; a conflict if another process was first.
    pub async fn take_over(
        &self,
        device: Device,
        machine: &Machine,
        from: &Holder,
    ) -> Result<(), RecordError> {
        let object = claim(device, machine, Some(&from.resource_version));
        let path = self.maps(None).object(&device_name(device));
        self.connection.replace::<Value>(&path, &object).await?;
        Ok(())
    }

    /// Releases a device, so that another machine can claim it.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn release(&self, device: Device) -> Result<(), RecordError> {
        let path = self.maps(None).object(&device_name(device));
        match self.connection.call::<Value>(http::Method::DELETE, &path, None).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Reads all records, in all namespaces.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn list(&self) -> Result<Vec<Versioned>, RecordError> {
        let path = Resource::new("", "v1", "configmaps").path();
        let mut records = Vec::new();
        let mut token = String::new();
        loop {
            let token_parameter = match token.as_str() {
                "" => String::new(),
                token => format!("&continue={token}"),
            };
            let path = format!("{path}?labelSelector={LABEL}%3D{IDENTITY}&limit={PAGE}{token_parameter}");
            let list: List = self.connection.call(http::Method::GET, &path, None).await?;
            for map in list.items {
                records.push(read(map)?);
            }
            token = list.metadata.token;
            if token.is_empty() {
                return Ok(records);
            }
        }
    }

    fn maps(&self, owner: Option<&Owner>) -> Resource {
        let namespace = owner.map_or(&self.namespace, |owner| &owner.namespace);
        Resource::new("", "v1", "configmaps").within(namespace.clone())
    }
}

/// The ConfigMap that says which machine a device belongs to.
fn claim(device: Device, machine: &Machine, version: Option<&str>) -> Value {
    let mut metadata = labelled(&device_name(device), DEVICE);
    if let Some(version) = version {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    let data = json!({MACHINE: machine.uid, NODE: machine.named.node_name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn device_name(device: Device) -> String {
    format!("portcullis-device-{}", device.digits())
}

/// The name of the record of a Machine.
fn name(machine_uid: &str) -> String {
    let digits = Device(sha256(machine_uid.as_bytes())).digits();
    format!("portcullis-identity-{}", digits.get(..40).unwrap_or_default())
}

fn labelled(name: &str, kind: &str) -> Map<String, Value> {
    let metadata = json!({"name": name, "labels": {LABEL: kind}});
    match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    }
}

fn text(record: &Record) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

fn read(map: ConfigMap) -> Result<Versioned, RecordError> {
    let Metadata { name, namespace, resource_version } = map.metadata;
    let text = map.data.get(RECORD).map(String::as_str).unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(record) => Ok(Versioned { record, namespace, resource_version }),
        Err(error) => {
            let why = format!("data.{RECORD} is not an identity record: {error}");
            Err(RecordError::Malformed { namespace, name, why })
        }
    }
}
