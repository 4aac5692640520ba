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
/// The workload cluster: a key of a ConfigMap about a device, and a label of records.
const CLUSTER: &str = "cluster";
const CLUSTER_LABEL: &str = "portcullis.dev/cluster";
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
    cluster: Option<String>,
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
    /// The name of its ConfigMap.
    pub name: String,
    /// The workload cluster; none if the controller has one alone.
    pub cluster: Option<String>,
}

/// The machine that has a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The UID of the Machine.
    pub machine_uid: String,
    /// The workload cluster of the Machine.
    pub cluster: Option<String>,
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
    labels: BTreeMap<String, String>,
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
        Self { connection, namespace, cluster: None }
    }

    /// The workload cluster.
    pub(super) fn cluster(&self) -> &Option<String> {
        &self.cluster
    }

    /// Only the records of one workload cluster, of several that have their records here.
    #[must_use]
    pub fn of_cluster(self, cluster: Option<String>) -> Self {
        Self { cluster, ..self }
    }

    /// Reads the record of a machine; none if there is none.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn find(&self, machine: &Machine) -> Result<Option<Versioned>, RecordError> {
        let maps = self.maps(machine.owner.as_ref());
        let found: Option<ConfigMap> = self.connection.find(&maps, &self.name(&machine.uid)).await?;
        let found = found.map(read).transpose()?;
        if let Some(found) = found.as_ref().filter(|found| found.record.machine_uid != machine.uid) {
            return Err(RecordError::Malformed {
                namespace: found.namespace.clone(),
                name: self.name(&machine.uid),
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
        let mut metadata = self.labelled(&self.name(&machine.uid), IDENTITY);
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
        let path = maps.object(&before.name);
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
        let path = maps.object(&self.name(&record.machine_uid));
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
        let object = self.claimed(device, machine, None);
        match self.connection.create::<Value>(&maps, &object).await {
            Ok(_) => return Ok(None),
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let found: ConfigMap = self.connection.get(&maps, &device_name(device)).await?;
        let machine_uid = found.data.get(MACHINE).cloned().unwrap_or_default();
        let cluster = found.data.get(CLUSTER).cloned();
        if machine_uid == machine.uid && cluster == self.cluster {
            return Ok(None);
        }
        Ok(Some(Holder { machine_uid, cluster, resource_version: found.metadata.resource_version }))
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
        let object = self.claimed(device, machine, Some(&from.resource_version));
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
        self.list_of(Resource::new("", "v1", "configmaps")).await
    }

    /// Reads the records in one namespace, or in that of machines without an object.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn list_in(&self, namespace: Option<&str>) -> Result<Vec<Versioned>, RecordError> {
        let namespace = namespace.unwrap_or(&self.namespace);
        self.list_of(Resource::new("", "v1", "configmaps").within(namespace)).await
    }

    async fn list_of(&self, maps: Resource) -> Result<Vec<Versioned>, RecordError> {
        let path = maps.path();
        let mut records = Vec::new();
        let mut token = String::new();
        loop {
            let token_parameter = match token.as_str() {
                "" => String::new(),
                token => format!("&continue={token}"),
            };
            let of_cluster = match &self.cluster {
                Some(cluster) => format!("%2C{CLUSTER_LABEL}%3D{cluster}"),
                None => String::new(),
            };
            let path = format!(
                "{path}?labelSelector={LABEL}%3D{IDENTITY}{of_cluster}&limit={PAGE}{token_parameter}"
            );
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

    /// The ConfigMap that says which machine a device belongs to.
    fn claimed(&self, device: Device, machine: &Machine, version: Option<&str>) -> Value {
        let mut metadata = self.labelled(&device_name(device), DEVICE);
        if let Some(version) = version {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        let mut data = json!({MACHINE: machine.uid, NODE: machine.named.node_name});
        if let (Some(cluster), Some(data)) = (&self.cluster, data.as_object_mut()) {
            data.insert(CLUSTER.to_owned(), cluster.as_str().into());
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    }

    /// The name of the record of a Machine. The machines of two inventories may have the same UID.
    fn name(&self, machine_uid: &str) -> String {
        let text = match &self.cluster {
            Some(cluster) => format!("{cluster}/{machine_uid}"),
            None => machine_uid.to_owned(),
        };
        let digits = Device(sha256(text.as_bytes())).digits();
        format!("portcullis-identity-{}", digits.get(..40).unwrap_or_default())
    }

    fn labelled(&self, name: &str, kind: &str) -> Map<String, Value> {
        let mut metadata = json!({"name": name, "labels": {LABEL: kind}});
        if let (Some(cluster), Some(labels)) = (&self.cluster, metadata.pointer_mut("/labels")) {
            labels[CLUSTER_LABEL] = cluster.as_str().into();
        }
        match metadata {
            Value::Object(metadata) => metadata,
            _ => Map::new(),
        }
    }

    fn maps(&self, owner: Option<&Owner>) -> Resource {
        let namespace = owner.map_or(&self.namespace, |owner| &owner.namespace);
        Resource::new("", "v1", "configmaps").within(namespace.clone())
    }
}

fn device_name(device: Device) -> String {
    format!("portcullis-device-{}", device.digits())
}

fn text(record: &Record) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

fn read(map: ConfigMap) -> Result<Versioned, RecordError> {
    let Metadata { name, namespace, resource_version, mut labels } = map.metadata;
    let cluster = labels.remove(CLUSTER_LABEL);
    let text = map.data.get(RECORD).map(String::as_str).unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(record) => Ok(Versioned { record, namespace, resource_version, name, cluster }),
        Err(error) => {
            let why = format!("data.{RECORD} is not an identity record: {error}");
            Err(RecordError::Malformed { namespace, name, why })
        }
    }
}
