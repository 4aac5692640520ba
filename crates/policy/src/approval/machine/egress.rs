//! The egress path: the egress addresses of pods, which move between nodes (NB-119).

use super::cluster::Network;
use super::question::Question;
use super::reason::Reason;
use super::renewal::{all_folded, current, is_permutation};
use super::request::Pkcs10;
use super::result::Failure;

/// NB-119.
pub(super) fn authorize(question: &Question<'_>, content: &Pkcs10) -> Result<String, Failure> {
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
    let same = is_permutation(&leaf.dns, &content.dns)
        && is_permutation(&leaf.email, &content.email)
        && is_permutation(&leaf.uri, &content.uri);
    if !same {
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
