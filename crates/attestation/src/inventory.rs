//! An inventory of machines, for clusters without a Machine API (AT-100, AT-112).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_pki::evidence::MAX_PROVIDER_ID_BYTES;
use portcullis_pki::pem;
use serde::Deserialize;

use crate::answer::Enrolled;
use crate::device::Device;
use crate::machine::Machine;
use crate::request::NamedMachine;

/// The most machines of an inventory.
const MAX_MACHINES: usize = 100_000;

/// A document with machines, as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryFile {
    machines: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    node_name: String,
    #[serde(rename = "providerID")]
    provider_id: String,
    uid: Option<String>,
    #[serde(default)]
    endorsement_keys: Vec<String>,
    platform_endorsement_key: Option<String>,
    public_key: Option<String>,
    secret_digest: Option<String>,
    #[serde(default)]
    addresses: Vec<String>,
}

/// The machines by the names of their nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    machines: BTreeMap<String, Machine>,
}

impl Inventory {
    /// Checks a document: no two machines have a node name, UID, provider ID, endorsement key or enrolled key in common.
    ///
    /// # Errors
    /// What is wrong, and with which machine.
    pub fn new(file: InventoryFile) -> Result<Self, String> {
        if file.machines.len() > MAX_MACHINES {
            return Err(format!("more than {MAX_MACHINES} machines"));
        }
        let mut machines = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for entry in file.machines {
            let name = entry.node_name.clone();
            let wrong = |why: String| format!("machine {name:?}: {why}");
            // Before the rest, which is equal as well when a machine is enrolled again.
            if machines.contains_key(&name) {
                return Err(wrong("it is in the inventory already".to_owned()));
            }
            let machine = machine(entry).map_err(wrong)?;
            let keys = machine.endorsement_keys.iter().chain(&machine.platform_key);
            let keys: BTreeSet<String> = keys.map(ToString::to_string).collect();
            let enrolled = machine.enrolled.iter().map(|enrolled| format!("{enrolled:?}"));
            let ids = machine.named.provider_ids.iter().map(|id| format!("provider ID {id:?}"));
            let uid = format!("UID {:?}", machine.uid);
            for unique in keys.into_iter().chain(enrolled).chain(ids).chain([uid]) {
                if !taken.insert(unique.clone()) {
                    return Err(wrong(format!("another machine has the same {unique}")));
                }
            }
            machines.insert(name, machine);
        }
        Ok(Self { machines })
    }

    /// The machine of a node; none if the inventory does not have it.
    pub fn of_node(&self, node_name: &str) -> Option<&Machine> {
        self.machines.get(node_name)
    }

    /// Whether a machine has this UID.
    pub fn has(&self, uid: &str) -> bool {
        self.machines.values().any(|machine| machine.uid == uid)
    }

    /// How many machines there are.
    pub fn len(&self) -> usize {
        self.machines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }
}

fn machine(entry: Entry) -> Result<Machine, String> {
    if !is_dns_subdomain(&entry.node_name) {
        return Err("nodeName is not the name of a node".to_owned());
    }
    if !(1..=MAX_PROVIDER_ID_BYTES).contains(&entry.provider_id.len()) {
        return Err(format!("providerID must have 1 to {MAX_PROVIDER_ID_BYTES} bytes"));
    }
    let is_address = |text: &&String| text.parse::<IpAddr>().is_ok() || is_dns_subdomain(text);
    if let Some(wrong) = entry.addresses.iter().find(|text| !is_address(text)) {
        return Err(format!("addresses: {wrong:?} is neither an IP address nor a DNS name"));
    }
    let enrolled = match (&entry.public_key, &entry.secret_digest) {
        (None, None) => None,
        (Some(key), None) => Some(Enrolled::PublicKey(public_key(key)?)),
        (None, Some(digest)) => Some(Enrolled::Secret(device("secretDigest", digest)?.0)),
        (Some(_), Some(_)) => return Err("it has both publicKey and secretDigest".to_owned()),
    };
    let keys = entry.endorsement_keys.iter().map(|key| endorsement_key("endorsementKeys", key));
    let platform_key = entry.platform_endorsement_key.as_deref();
    Ok(Machine {
        uid: entry.uid.unwrap_or_else(|| format!("inventory/{}", entry.node_name)),
        named: NamedMachine {
            node_name: entry.node_name,
            provider_ids: BTreeSet::from([entry.provider_id]),
            is_bootstrapped: true,
        },
        endorsement_keys: keys.collect::<Result<_, _>>()?,
        platform_key: platform_key.map(|key| endorsement_key("platformEndorsementKey", key)).transpose()?,
        addresses: entry.addresses,
        owner: None,
        enrolled,
    })
}

fn device(field: &str, text: &str) -> Result<Device, String> {
    Device::parse(text).ok_or_else(|| format!("{field}: expected sha256: and 64 hexadecimal digits"))
}

/// The digest of an endorsement key, or the key itself in PEM form (AT-95).
fn endorsement_key(field: &str, text: &str) -> Result<Device, String> {
    match text.trim_start().starts_with("-----BEGIN") {
        true => Ok(Device(portcullis_pki::sha256(&public_key(text)?))),
        false => device(field, text),
    }
}

fn public_key(text: &str) -> Result<Vec<u8>, String> {
    let block = pem::first(text.as_bytes()).filter(|block| block.label == "PUBLIC KEY");
    let block = block.ok_or("expected a public key in PEM form (-----BEGIN PUBLIC KEY-----)")?;
    Ok(block.der)
}
