//! The renewal and egress paths: the kubelet currently serves a certificate with the same names (NB-110 to NB-113), or with
//! the same but for egress addresses (NB-119).

use std::net::{IpAddr, SocketAddr};

use super::candidates::pools_of_cluster;
use super::cluster::{Cluster, Current, Leaf, Network};
use super::config::Config;
use super::names::folded;
use super::object::IP;
use super::own_machine;
use super::question::Question;
use super::reason::Reason;
use super::request::{Pkcs10, Request};
use super::result::Failure;

/// The address at which a kubelet is dialled, and the host name that its certificate must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialTarget {
    /// The address, which is also the name that is verified.
    pub host: IpAddr,
    /// The port.
    pub port: u16,
}

impl DialTarget {
    /// Address and port.
    pub fn socket(self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

/// Returns the address at which the kubelet of a request's node may be dialled (NB-110, NB-111).
///
/// The address comes from the Node's status, which the node itself writes. It must also be an address of the node's
/// Machine, or lie in a configured address range of nodes. Otherwise a node could make the approver connect anywhere.
///
/// # Errors
/// Why it is not dialled.
pub fn dial_target(request: &Request, cluster: &Cluster<'_>, config: &Config) -> Result<DialTarget, String> {
    let name = request.node_name().ok_or("the request names no node")?;
    let node = cluster.node.map_err(str::to_owned)?.ok_or("there is no Node")?;
    let first = node.internal_ips.first().ok_or("the Node has no address of type InternalIP")?;
    let host: IpAddr = first.parse().map_err(|_| format!("the Node's address {first:?} is no IP address"))?;
    if node.kubelet_port == 0 {
        return Err("the Node does not say where its kubelet listens".to_owned());
    }
    let matched = own_machine::by_node_ref(name, cluster, config).ok().flatten();
    let is_of_machine = matched.is_some_and(|matched| {
        let mut values = matched.machines().flat_map(|machine| machine.values(IP));
        values.any(|value| super::names::address(value) == Some(folded(host)))
    });
    if !is_of_machine && !config.node_cidrs.iter().any(|range| range.contains(host)) {
        return Err(format!("{host} is neither an address of the node's Machine nor in nodeCIDRs"));
    }
    Ok(DialTarget { host, port: node.kubelet_port })
}

/// NB-112, NB-113.
pub(super) fn authorize(question: &Question<'_>, content: &Pkcs10, name: &str) -> Result<String, Failure> {
    let failed = |detail: String| Failure::of(Reason::NoAuthorizationPath, detail);
    let leaf = current(question, content).map_err(failed)?;
    if !has_same_names(leaf, content) || !is_permutation(&all_folded(&leaf.ip), &all_folded(&content.ip)) {
        return Err(failed("the current certificate has other names".to_owned()));
    }
    if question.config.renewal_requires_machine && !has_live_machine(question, name) {
        return Err(failed(
            "no live Machine refers to the node, and renewalRequiresMachine is set".to_owned(),
        ));
    }
    Ok(format!("the certificate that is valid until {} has the same names", leaf.not_after))
}

/// NB-119: the egress addresses of pods, which move between nodes.
pub(super) fn authorize_egress(question: &Question<'_>, content: &Pkcs10) -> Result<String, Failure> {
    let failed = |detail: String| Failure::of(Reason::NoAuthorizationPath, detail);
    // Without a current certificate the network type does not matter, and the request is not retried for it.
    let leaf = current(question, content).map_err(failed)?;
    let subnet = match question.cluster.network {
        Network::Unknown(why) => {
            let detail = format!("the type of the cluster's network could not be read: {why}");
            return Err(Failure::of(Reason::NetworkTypeUnknown, detail));
        }
        Network::Other => return Err(failed("the cluster's network is not OpenShiftSDN".to_owned())),
        Network::OpenShiftSdn(subnet) => subnet,
    };
    if !has_same_names(leaf, content) {
        return Err(failed("the current certificate has other names than addresses".to_owned()));
    }
    let (held, egress) =
        (all_folded(&leaf.ip), subnet.map(|s| all_folded(&s.egress_ips)).unwrap_or_default());
    let in_range =
        |ip| subnet.is_some_and(|subnet| subnet.egress_cidrs.iter().any(|range| range.contains(ip)));
    let foreign = all_folded(&content.ip)
        .into_iter()
        .find(|ip| !held.contains(ip) && !egress.contains(ip) && !in_range(*ip));
    match foreign {
        Some(ip) => Err(failed(format!("{ip} is no egress address of the node"))),
        None => Ok("the current certificate and the node's egress addresses have every name".to_owned()),
    }
}

/// Returns whether a certificate has the requested names, addresses aside.
fn has_same_names(leaf: &Leaf, content: &Pkcs10) -> bool {
    is_permutation(&leaf.dns, &content.dns)
        && is_permutation(&leaf.email, &content.email)
        && is_permutation(&leaf.uri, &content.uri)
}

/// The certificate that the kubelet serves, if it is currently valid and belongs to the same node (NB-112).
fn current<'a>(question: &Question<'a>, content: &Pkcs10) -> Result<&'a Leaf, String> {
    let leaf = match question.cluster.current {
        Current::Verified(leaf) => leaf,
        Current::Unavailable(why) => return Err(format!("no current certificate: {why}")),
    };
    if leaf.common_name != content.common_name || leaf.common_name != question.request.username {
        return Err(format!("the current certificate is that of {:?}", leaf.common_name));
    }
    let now = question.cluster.now;
    if now < leaf.not_before || now > leaf.not_after {
        return Err(format!(
            "the current certificate is valid from {} to {}",
            leaf.not_before, leaf.not_after
        ));
    }
    Ok(leaf)
}

fn has_live_machine(question: &Question<'_>, name: &str) -> bool {
    let (cluster, config) = (question.cluster, question.config);
    match own_machine::by_node_ref(name, cluster, config) {
        Ok(Some(matched)) => matched.machines().all(|machine| !machine.is_deleting && !machine.has_failed()),
        Ok(None) => pools_of_cluster(cluster.pools, config)
            .iter()
            .any(|pool| !pool.is_deleting && pool.node_refs.iter().any(|node| node == name)),
        Err(_) => false,
    }
}

/// Normalizes addresses.
fn all_folded(addresses: &[IpAddr]) -> Vec<IpAddr> {
    addresses.iter().copied().map(folded).collect()
}

/// Returns whether two lists have the same elements, each equally often, in any order.
fn is_permutation<T: Ord>(left: &[T], right: &[T]) -> bool {
    let sorted = |items: &[T]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|&i| items.get(i));
        order
    };
    left.len() == right.len()
        && sorted(left).into_iter().zip(sorted(right)).all(|(l, r)| left.get(l) == right.get(r))
}
