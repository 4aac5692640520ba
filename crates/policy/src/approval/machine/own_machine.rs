//! Which Machine is a node's (NB-89, NB-90, NB-114, NB-122, NB-125, NB-126, NB-127).

use super::check::Failure;
use super::cluster::Cluster;
use super::config::Config;
use super::names::same_host;
use super::object::{AddressKind, Machine, MachineKind, MachinePool};
use super::reason::Reason;

/// One machine: a Machine, or one in each of two APIs that stand for the same (NB-125).
#[derive(Clone, Debug)]
pub struct Match<'a> {
    first: &'a Machine,
    others: Vec<&'a Machine>,
}

impl<'a> Match<'a> {
    /// The Machines that stand for it; all must pass every check.
    pub fn machines(&self) -> impl Iterator<Item = &'a Machine> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The Machines' names, for people.
    pub(super) fn describe(&self) -> String {
        self.machines().map(|machine| format!("Machine {machine}")).collect::<Vec<_>>().join(" and ")
    }
}

/// The Machines that may match at all: of an API, a namespace and the cluster that are configured, with a time of
/// creation (NB-121, NB-122, NB-126).
///
/// Without a configured cluster the Machines of `cluster.x-k8s.io` count only while all are of one cluster.
pub fn of_cluster<'a>(machines: &'a [Machine], config: &Config) -> Vec<&'a Machine> {
    let is_cluster_api = |machine: &Machine| machine.kind != MachineKind::OpenShiftV1Beta1;
    let mut clusters = machines.iter().filter(|m| is_cluster_api(m)).map(|m| m.cluster_name.as_str());
    let first = clusters.next().unwrap_or_default();
    let is_one = clusters.all(|name| name == first);
    let is_own = |machine: &Machine| match (&config.cluster_name, is_cluster_api(machine)) {
        (_, false) => true,
        (Some(own), true) => machine.cluster_name == *own,
        (None, true) => is_one,
    };
    let is_read = |machine: &Machine| config.machine_apis.iter().any(|api| api.group == machine.kind.group());
    let is_in = |namespace: &str| config.machine_namespace.as_deref().is_none_or(|own| own == namespace);
    let counts = |m: &&Machine| m.created.is_some() && is_read(m) && is_in(&m.namespace) && is_own(m);
    machines.iter().filter(counts).collect()
}

/// The pools that may match (NB-127), by the same rules.
pub(super) fn pools_of_cluster<'a>(pools: &'a [MachinePool], config: &Config) -> Vec<&'a MachinePool> {
    let first = pools.first().map_or("", |pool| &pool.cluster_name);
    let is_one = pools.iter().all(|pool| pool.cluster_name == first);
    let is_read = config.machine_apis.iter().any(|api| api.group == MachineKind::ClusterV1Beta1.group());
    let is_own = |pool: &MachinePool| match &config.cluster_name {
        Some(own) => pool.cluster_name == *own,
        None => is_one,
    };
    let is_in = |namespace: &str| config.machine_namespace.as_deref().is_none_or(|own| own == namespace);
    pools.iter().filter(|pool| is_read && is_in(&pool.namespace) && is_own(pool)).collect()
}

/// The Machines without an address of type `InternalDNS`: a node can never bootstrap as one of them (NB-89).
pub fn lacking_internal_dns<'a>(machines: &'a [Machine], config: &Config) -> Vec<&'a Machine> {
    let lacks = |machine: &&Machine| machine.values(&[AddressKind::InternalDns]).next().is_none();
    of_cluster(machines, config).into_iter().filter(lacks).collect()
}

/// The Machine with this name among its internal DNS names (NB-89, NB-90).
pub(super) fn by_dns_name<'a>(
    name: &str,
    cluster: &Cluster<'a>,
    config: &Config,
) -> Result<Match<'a>, Failure> {
    let machines = read(cluster)?;
    let has_name =
        |machine: &&Machine| machine.values(&[AddressKind::InternalDns]).any(|value| same_host(value, name));
    let found: Vec<_> = of_cluster(machines, config).into_iter().filter(has_name).collect();
    match one(found)? {
        Some(found) => Ok(found),
        None if is_of_a_pool(name, cluster, config) => Err(Failure::hold(
            Reason::MachineNotFound,
            format!("{name:?} is of a MachinePool, whose members have no Machine"),
        )),
        None => Err(Failure::of(Reason::MachineNotFound, not_found(name, machines, config))),
    }
}

/// The Machine that refers to this node; nothing when none does (NB-114).
pub(super) fn by_node_ref<'a>(
    name: &str,
    cluster: &Cluster<'a>,
    config: &Config,
) -> Result<Option<Match<'a>>, Failure> {
    let is_own = |machine: &&Machine| machine.node_ref.as_deref() == Some(name);
    one(of_cluster(read(cluster)?, config).into_iter().filter(is_own).collect())
}

/// Whether a pool says that the node is one of its members (NB-127).
pub(super) fn is_of_a_pool(name: &str, cluster: &Cluster<'_>, config: &Config) -> bool {
    pools_of_cluster(cluster.pools, config).iter().any(|pool| pool.node_refs.iter().any(|node| node == name))
}

fn read<'a>(cluster: &Cluster<'a>) -> Result<&'a [Machine], Failure> {
    cluster.machines.map_err(|why| Failure::of(Reason::MachineLookupFailed, why.to_owned()))
}

/// The one machine that the matches stand for (NB-125). Two stand for one only when they are of different APIs and the
/// provider gave them the same id.
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
