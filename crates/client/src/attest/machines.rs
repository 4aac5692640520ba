//! Finds the machine of a node: in the inventory, or in the Machine APIs (AT-62, AT-63).
//!
//! DIVERGES: the rules of the machine approver about the age of a Machine and about Nodes of its name (NB-88 to NB-94) do not
//! hold for attested requests (AT-73): the evidence proves the machine.

use std::sync::Arc;
use std::time::Duration;

use portcullis_attestation::machine::{Machine, Owner};
use portcullis_attestation::request::NamedMachine;
use portcullis_policy::approval::machine::{self as api, AddressKind, Config, MachinePool, of_cluster};

use super::shared::{Settings, Shared};
use crate::approver::lookup::{self, Machines};
use crate::call::CallError;

/// How long a list of Machines is used again.
const HELD: Duration = Duration::from_secs(1);

/// A machine could not be looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MachineError {
    /// The API request failed.
    #[error("{0}")]
    Call(#[from] CallError),
    /// An object that may be the machine cannot be read.
    #[error("Machine {0} cannot be read")]
    Unreadable(String),
    /// Two machines have the name.
    #[error("several Machines have the name of the node")]
    Ambiguous,
}

/// Finds the machine of a node; none if there is none. What an inventory says about the keys of a node is added to its
/// Machine.
pub(super) async fn of_node(
    shared: &Shared,
    settings: &Settings,
    node_name: &str,
    is_fresh: bool,
) -> Result<Option<Machine>, MachineError> {
    let listed = settings.inventory.of_node(node_name);
    let Some(config) = &settings.machine_apis else { return Ok(listed.cloned()) };
    let found = list(shared, config, is_fresh).await?;
    if let Some(unreadable) = found.unreadable.iter().find(|machine| machine.may_be(node_name)) {
        return Err(MachineError::Unreadable(unreadable.name().to_owned()));
    }
    let mut named =
        of_cluster(&found.machines, config).into_iter().filter(|machine| is_named(machine, node_name));
    let Some(machine) = named.next() else { return Ok(member(&found, config, listed)) };
    if named.next().is_some() {
        return Err(MachineError::Ambiguous);
    }
    Ok(Some(Machine {
        uid: machine.uid.clone(),
        named: NamedMachine {
            node_name: node_name.to_owned(),
            provider_ids: machine.provider_id.iter().cloned().collect(),
            is_bootstrapped: machine.is_bootstrapped && !machine.is_deleting,
        },
        endorsement_keys: listed.map(|listed| listed.endorsement_keys.clone()).unwrap_or_default(),
        platform_key: listed.and_then(|listed| listed.platform_key),
        addresses: Vec::new(),
        owner: Some(Owner {
            api_version: machine.kind.api_version().to_owned(),
            namespace: machine.namespace.clone(),
            name: machine.name.clone(),
        }),
        enrolled: listed.and_then(|listed| listed.enrolled.clone()),
    }))
}

/// The machine of an inventory that is a member of a MachinePool: one of its provider IDs is in the list of a pool. A pool
/// alone does not say which node has which provider ID, so a name that no inventory has is not one of its members.
///
/// DIVERGES: AT-62 takes the provider ID alone, by which a member could take the name of another node.
fn member(found: &Machines, config: &Config, listed: Option<&Machine>) -> Option<Machine> {
    let listed = listed?;
    let is_own = |pool: &&MachinePool| {
        config.cluster_name.as_ref().is_none_or(|own| *own == pool.cluster_name)
            && config.machine_namespace.as_ref().is_none_or(|own| *own == pool.namespace)
            && !pool.is_deleting
    };
    let ids = |pool: &MachinePool| pool.provider_ids.iter().any(|id| listed.named.provider_ids.contains(id));
    found.pools.iter().filter(is_own).any(ids).then(|| listed.clone())
}

/// Lists the Machines. A list that is a moment old is used again, unless it must be fresh: many requests that are refused
/// must not cost a list each.
pub(super) async fn list(
    shared: &Shared,
    config: &Config,
    is_fresh: bool,
) -> Result<Arc<Machines>, CallError> {
    let now = shared.clock.running();
    let mut held = shared.machines.lock().await;
    if let Some((at, machines)) = held.as_ref().filter(|_| !is_fresh)
        && now.saturating_sub(*at) < HELD
    {
        return Ok(Arc::clone(machines));
    }
    let machines = Arc::new(lookup::machines(&shared.management, config).await?);
    *held = Some((now, Arc::clone(&machines)));
    Ok(machines)
}

/// Whether a Machine has the name of a node: it refers to it, or has it among its host names. Before it has either, the
/// name of the Machine counts.
fn is_named(machine: &api::Machine, node_name: &str) -> bool {
    if let Some(node) = &machine.node_ref {
        return node == node_name;
    }
    let kinds = [AddressKind::InternalDns, AddressKind::Hostname];
    let mut names = machine.addresses.iter().filter(|address| kinds.contains(&address.kind)).peekable();
    match names.peek() {
        Some(_) => names.any(|address| address.value.eq_ignore_ascii_case(node_name)),
        None => machine.name == node_name,
    }
}

/// Whether a machine with this UID exists.
pub(super) async fn exists(shared: &Shared, settings: &Settings, uid: &str) -> Result<bool, CallError> {
    // A member of a MachinePool is in the inventory as long as it exists.
    let is_listed = settings.inventory.has(uid);
    let Some(config) = settings.machine_apis.as_ref().filter(|_| !is_listed) else { return Ok(is_listed) };
    let found = list(shared, config, true).await?;
    // One that cannot be read may be it.
    Ok(!found.unreadable.is_empty() || found.machines.iter().any(|machine| machine.uid == uid))
}
