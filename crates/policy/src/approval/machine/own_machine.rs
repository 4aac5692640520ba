//! Which Machine is a node's (NB-89, NB-90, NB-114, NB-125, NB-127).

use super::candidates::{lacking_internal_dns, of_cluster, pools_of_cluster};
use super::cluster::Cluster;
use super::config::Config;
use super::names::same_host;
use super::object::{AddressKind, Machine};
use super::reason::Reason;
use super::result::Failure;
use super::unreadable::Unreadable;

/// One machine: a Machine, or two of different APIs that represent the same machine (NB-125).
#[derive(Clone, Debug)]
pub struct Match<'a> {
    first: &'a Machine,
    others: Vec<&'a Machine>,
}

impl<'a> Match<'a> {
    /// The Machine objects of this machine; all must pass every check.
    pub fn machines(&self) -> impl Iterator<Item = &'a Machine> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The Machines' names, for people.
    pub(super) fn describe(&self) -> String {
        self.machines().map(|machine| format!("Machine {machine}")).collect::<Vec<_>>().join(" and ")
    }
}

/// The Machine with this name among its internal DNS names (NB-89, NB-90).
pub(super) fn by_dns_name<'a>(
    name: &str,
    cluster: &Cluster<'a>,
    config: &Config,
) -> Result<Match<'a>, Failure> {
    let machines = read(cluster)?;
    legible(name, cluster)?;
    match one(named(name, machines, config))? {
        Some(found) => Ok(found),
        None if is_of_a_pool(name, cluster, config) => Err(Failure::hold(
            Reason::MachineNotFound,
            format!("{name:?} is of a MachinePool, whose members have no Machine"),
        )),
        None => {
            all_legible(cluster)?;
            Err(Failure::of(Reason::MachineNotFound, not_found(name, machines, config)))
        }
    }
}

/// The Machines with this name among their internal DNS names.
pub fn named<'a>(name: &str, machines: &'a [Machine], config: &Config) -> Vec<&'a Machine> {
    let has_name =
        |machine: &&Machine| machine.values(&[AddressKind::InternalDns]).any(|value| same_host(value, name));
    of_cluster(machines, config).into_iter().filter(has_name).collect()
}

/// Fails if a Machine that cannot be read may have this name.
fn legible(name: &str, cluster: &Cluster<'_>) -> Result<(), Failure> {
    match cluster.unreadable.iter().find(|machine| machine.may_be(name)) {
        Some(machine) => Err(unreadable(machine)),
        None => Ok(()),
    }
}

/// Fails if a Machine cannot be read: then no other can be said to be missing.
fn all_legible(cluster: &Cluster<'_>) -> Result<(), Failure> {
    cluster.unreadable.first().map_or(Ok(()), |machine| Err(unreadable(machine)))
}

fn unreadable(machine: &Unreadable) -> Failure {
    Failure::of(Reason::MachineUnreadable, format!("Machine {} cannot be read", machine.name()))
}

/// The Machine that refers to this node; `None` if there is none (NB-114).
pub(super) fn by_node_ref<'a>(
    name: &str,
    cluster: &Cluster<'a>,
    config: &Config,
) -> Result<Option<Match<'a>>, Failure> {
    let is_own = |machine: &&Machine| machine.node_ref.as_deref() == Some(name);
    let machines = read(cluster)?;
    legible(name, cluster)?;
    let found = one(of_cluster(machines, config).into_iter().filter(is_own).collect())?;
    if found.is_none() {
        all_legible(cluster)?;
    }
    Ok(found)
}

/// Returns whether a pool lists the node as a member (NB-127).
pub(super) fn is_of_a_pool(name: &str, cluster: &Cluster<'_>, config: &Config) -> bool {
    pools_of_cluster(cluster.pools, config).iter().any(|pool| pool.node_refs.iter().any(|node| node == name))
}

fn read<'a>(cluster: &Cluster<'a>) -> Result<&'a [Machine], Failure> {
    cluster.machines.map_err(|why| Failure::of(Reason::MachineLookupFailed, why.to_owned()))
}

/// The single machine that the matches represent (NB-125). Two Machines represent one only if they are of different
/// APIs and have the same provider ID.
fn one(found: Vec<&Machine>) -> Result<Option<Match<'_>>, Failure> {
    let mut found = found.into_iter();
    let Some(first) = found.next() else { return Ok(None) };
    let mut matched = Match { first, others: Vec::new() };
    for machine in found {
        let is_same_object = matched.machines().any(|m| !m.uid.is_empty() && m.uid == machine.uid);
        if is_same_object {
            continue;
        }
        let is_other_api = matched.machines().all(|m| m.kind.group() != machine.kind.group());
        let has_same_id = machine.provider_id.is_some() && machine.provider_id == first.provider_id;
        if !(is_other_api && has_same_id) {
            return Err(Failure::of(
                Reason::AmbiguousMachine,
                format!("{} and Machine {machine} both match", matched.describe()),
            ));
        }
        matched.others.push(machine);
    }
    Ok(Some(matched))
}

fn not_found(name: &str, machines: &[Machine], config: &Config) -> String {
    let lacking = lacking_internal_dns(machines, config);
    let mut detail = format!("no Machine has {name:?} as an address of type InternalDNS");
    if let Some(machine) = lacking.first() {
        detail.push_str(&format!(
            "; MachineLacksInternalDNS: {} have none at all, the first is {machine}",
            lacking.len()
        ));
    }
    detail
}
