//! Which Machines and pools may match a node at all (NB-121, NB-122, NB-126, NB-127).

use super::config::Config;
use super::object::{AddressKind, Machine, MachineKind, MachinePool};

/// The Machines that may match: of a configured API, namespace and cluster, and with a creation time (NB-121, NB-122,
/// NB-126).
///
/// Without a configured cluster, the Machines of `cluster.x-k8s.io` are used only if all belong to one cluster.
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

/// The Machines without an address of type `InternalDNS`. No node can bootstrap as one of them (NB-89).
pub fn lacking_internal_dns<'a>(machines: &'a [Machine], config: &Config) -> Vec<&'a Machine> {
    let lacks = |machine: &&Machine| machine.values(&[AddressKind::InternalDns]).next().is_none();
    of_cluster(machines, config).into_iter().filter(lacks).collect()
}
