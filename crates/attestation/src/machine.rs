//! What the infrastructure says about a machine.

use std::collections::BTreeSet;

use crate::answer::Enrolled;
use crate::device::Device;
use crate::request::NamedMachine;

/// A machine, as an inventory or the Cluster API describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The UID of the Machine. An identity record belongs to it (AT-150).
    pub uid: String,
    /// The node name, the provider IDs, and whether it may bootstrap.
    pub named: NamedMachine,
    /// The endorsement keys that are listed for it (AT-112).
    pub endorsement_keys: BTreeSet<Device>,
    /// The endorsement key that the platform reports for it (AT-95).
    pub platform_key: Option<Device>,
    /// Its IP addresses and DNS names, for machines of an inventory. Those of a Machine are in its object (AT-175).
    pub addresses: Vec<String>,
    /// The object of the Machine API; none for a machine of an inventory.
    pub owner: Option<Owner>,
    /// How it was enrolled for challenges (AT-100).
    pub enrolled: Option<Enrolled>,
}

/// The object of a machine. Its identity record is next to it, and is deleted with it (AT-153).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The group and version of its API.
    pub api_version: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}
