//! State that the parts of the controller share.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use portcullis_attestation::config::Config;
use portcullis_attestation::inventory::Inventory;
use portcullis_attestation::judge::Rules;
use portcullis_pki::{CertificateAuthority, sha256};
use portcullis_policy::approval::machine::Config as MachineConfig;
use tokio::sync::Notify;

use super::fleet::Fleet;
use super::metrics::AttestMetrics;
use super::records::Records;
use crate::approver::lookup::Machines;
use crate::clock::Clock;
use crate::connect::Connection;

/// What a cluster asks of its nodes, and the machines that it knows.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// The rules that follow from it.
    pub rules: Rules,
    /// The machines of an inventory file.
    pub inventory: Inventory,
    /// The Machine APIs; none if all machines are in the inventory.
    pub machine_apis: Option<MachineConfig>,
}

/// How many locks there are for the names of nodes.
const LOCKS: usize = 64;

/// What the parts of a controller share.
pub(super) struct Shared {
    pub(super) workload: Connection,
    pub(super) management: Connection,
    pub(super) records: Records,
    /// The clusters that have their records in the same place.
    pub(super) fleet: Arc<Fleet>,
    pub(super) namespace: String,
    pub(super) settings: ArcSwap<Settings>,
    pub(super) authority: Arc<CertificateAuthority>,
    pub(super) serving_authority: Option<Arc<CertificateAuthority>>,
    pub(super) metrics: AttestMetrics,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) is_ready: AtomicBool,
    /// The challenges that this process issued: until when, by the UID of the request.
    pub(super) offers: Mutex<HashMap<String, SystemTime>>,
    /// The Machines as they were listed last, and when.
    pub(super) machines: tokio::sync::Mutex<Option<(Duration, Arc<Machines>)>>,
    /// Locks for the names of nodes, of which several may share one.
    pub(super) nodes: [tokio::sync::Mutex<()>; LOCKS],
    /// Notified when the settings change.
    pub(super) reconfigured: Notify,
}

impl Shared {
    /// The lock for the name of a node.
    pub(super) fn node(&self, name: &str) -> &tokio::sync::Mutex<()> {
        let [byte, ..] = sha256(name.as_bytes());
        let [first, ..] = &self.nodes;
        self.nodes.get(usize::from(byte) % LOCKS).unwrap_or(first)
    }

    /// Until when the challenge of a request can be answered; none if this process issued none.
    pub(super) fn offered(&self, uid: &str) -> Option<SystemTime> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).get(uid).copied()
    }

    pub(super) fn keep_offer(&self, uid: &str, until: SystemTime) {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), until);
    }

    pub(super) fn forget_offer(&self, uid: &str) {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}
