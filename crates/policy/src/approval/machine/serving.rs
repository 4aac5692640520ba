//! The serving path: the serving certificate of a kubelet (NB-100 to NB-119). Requester, name and addresses are tied
//! together (NC-26).

use std::net::IpAddr;

use portcullis_apimachinery::names::is_dns_subdomain;

use super::names::{address, folded, is_reserved, same_host};
use super::object::{AddressKind, IP, Machine};
use super::own_machine;
use super::question::{
    Approval, Finding, Last, Question, SUBJECT_ALT_NAME, Step, content, failed, forbidden_extension, newest,
    well_formed, within_identity, within_limit,
};
use super::reason::{Outcome, Reason};
use super::renewal;
use super::request::Pkcs10;
use super::result::{Check, Failure};
use crate::approval::signer::KubeletUsages;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};

pub(super) const STEPS: &[Step] = &[
    Step { rule: "NB-100", what: "not too many requests wait", run: within_limit },
    Step { rule: "NB-75", what: "no newer request for the same name waits", run: newest },
    Step { rule: "NB-74", what: "not too many requests for this name wait", run: within_identity },
    Step { rule: "NB-101", what: "one PKCS#10 request with a sound key", run: well_formed },
    Step { rule: "NB-102", what: "asked for by a node", run: by_a_node },
    Step { rule: "NB-103", what: "the groups of a node", run: with_its_groups },
    Step { rule: "NB-104", what: "the usages of a serving certificate", run: with_usages },
    Step { rule: "NB-105", what: "the common name is the user's", run: in_its_own_name },
    Step { rule: "NB-106", what: "the organization is system:nodes alone", run: of_the_nodes },
    Step { rule: "NB-107", what: "names that a node can have", run: with_names },
    Step { rule: "NB-108", what: "the extensions that a kubelet asks for", run: with_extensions },
];

const DNS: &[AddressKind] = &[AddressKind::InternalDns, AddressKind::ExternalDns, AddressKind::Hostname];

/// Evaluates the checks, and then the three alternative authorizations in order: renewal, Machine, egress (NB-109).
pub(super) fn evaluate(question: &Question<'_>) -> (Vec<Check>, Last) {
    let mut checks: Vec<Check> = STEPS.iter().map(|step| step.carry_out(question)).collect();
    let (Ok(content), Some(name)) = (&question.request.content, question.request.node_name()) else {
        let failure = Failure::of(Reason::NotEvaluated, "the request names no node".to_owned());
        return (checks, Err(("NB-109", failure)));
    };
    let renewed = renewal::authorize(question, content, name);
    let owned = by_machine(question, content, name);
    let egress = renewal::authorize_egress(question, content);
    let mut ways = [
        ("NB-112", "the current certificate has the same names", Reason::ServingRenewed, renewed),
        ("NB-116", "the Machine has every name", Reason::ServingApproved, owned),
        ("NB-119", "the node's egress addresses", Reason::EgressApproved, egress),
    ]
    .into_iter()
    .map(|(rule, what, reason, result)| {
        checks.push(Check { rule, what, result: result.clone().into(), is_alternative: true });
        (rule, reason, result)
    })
    .collect::<Vec<_>>();
    let found = ways.iter().position(|(_, _, result)| result.is_ok());
    if let Some(found) = found
        && let (rule, reason, Ok(detail)) = ways.swap_remove(found)
    {
        return (checks, Ok(Approval { rule, reason, detail }));
    }
    let refused =
        refused(ways.into_iter().filter_map(|(rule, _, result)| Some((rule, result.err()?))).collect());
    (checks, Err(refused))
}

/// NB-109: the failure if no alternative authorizes the request. The detail contains the causes of all. The reason is
/// the one that tells what is missing: that of the Machine path, or that the network type could not be read.
fn refused(causes: Vec<(&'static str, Failure)>) -> (&'static str, Failure) {
    let detail =
        causes.iter().map(|(rule, f)| format!("{rule}: {}", f.detail)).collect::<Vec<_>>().join("; ");
    let telling = causes.into_iter().rev().find(|(_, failure)| failure.reason != Reason::NoAuthorizationPath);
    let (rule, reason) = match telling {
        Some((_, failure)) => (rule_of(failure.reason), failure.reason),
        None => ("NB-109", Reason::NoAuthorizationPath),
    };
    (rule, Failure { outcome: Outcome::Retry, reason, detail })
}

/// The rule that a reason belongs to.
fn rule_of(reason: Reason) -> &'static str {
    match reason {
        Reason::NodeRefPending => "NB-114",
        Reason::MachineAddressesPending | Reason::SANNotOwned => "NB-117",
        Reason::NetworkTypeUnknown => "NB-119",
        _ => "NB-109",
    }
}

/// NB-102.
fn by_a_node(question: &Question<'_>) -> Finding {
    let user = &question.request.username;
    match user.strip_prefix(NODE_USER_PREFIX) {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => failed(Reason::NotANodeRequest, format!("{user:?} is no node")),
    }
}

/// NB-103.
fn with_its_groups(question: &Question<'_>) -> Finding {
    let groups = &question.request.groups;
    let missing =
        [NODES_GROUP, "system:authenticated"].into_iter().find(|g| !groups.iter().any(|have| have == g));
    match missing {
        None => Ok(String::new()),
        Some(group) => failed(Reason::WrongRequesterGroups, format!("the user is not in {group}")),
    }
}

/// NB-104.
fn with_usages(question: &Question<'_>) -> Finding {
    if KubeletUsages::Serving.are(&question.request.usages) {
        return Ok(String::new());
    }
    failed(Reason::WrongUsages, format!("the usages are {:?}", question.request.usages))
}

/// NB-105.
fn in_its_own_name(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    let user = &question.request.username;
    if content.other_attributes > 0 {
        let detail = "the subject has more than one common name and organizations".to_owned();
        return failed(Reason::CommonNameMismatch, detail);
    }
    if content.common_name == *user {
        return Ok(String::new());
    }
    let detail = format!("{user:?} asks for a certificate of {:?}", content.common_name);
    failed(Reason::CommonNameMismatch, detail)
}

/// NB-106.
fn of_the_nodes(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    if content.organizations == [NODES_GROUP] {
        return Ok(String::new());
    }
    let detail = format!("the organization is {:?}, not {NODES_GROUP} alone", content.organizations);
    failed(Reason::WrongOrganization, detail)
}

/// NB-107.
fn with_names(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    let own = || question.cluster.api_server_names.iter().map(String::as_str);
    let is_no_name = |name: &&String| !is_dns_subdomain(&super::names::host_key(name));
    let is_no_host = |ip: &&IpAddr| {
        let ip = folded(**ip);
        ip.is_unspecified() || ip.is_multicast() || ip.is_loopback()
    };
    let wrong = if !content.email.is_empty() || !content.uri.is_empty() || content.other_names > 0 {
        "it asks for e-mail addresses, URIs or other names".to_owned()
    } else if content.dns.is_empty() && content.ip.is_empty() {
        "it asks for no name at all".to_owned()
    } else if let Some(name) = content.dns.iter().find(|name| name.contains('*')) {
        format!("{name:?} stands for many names")
    } else if let Some(name) = content.dns.iter().find(|name| is_reserved(name, own())) {
        format!("{name:?} is the API server's or the host's own")
    } else if let Some(name) = content.dns.iter().find(is_no_name) {
        format!("{name:?} is no DNS name")
    } else if let Some(ip) = content.ip.iter().find(is_no_host) {
        format!("{ip} is no address of a node")
    } else {
        return Ok(String::new());
    };
    failed(Reason::ForbiddenSAN, wrong)
}

/// NB-108.
fn with_extensions(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    match forbidden_extension(content, Some(SUBJECT_ALT_NAME)) {
        None => Ok(String::new()),
        Some(extension) => failed(Reason::ForbiddenExtension, format!("it asks for {extension}")),
    }
}

/// The Machine path: every name is an address of the node's Machine (NB-114 to NB-118, NB-144).
fn by_machine(question: &Question<'_>, content: &Pkcs10, name: &str) -> Result<String, Failure> {
    let (cluster, config) = (question.cluster, question.config);
    let matched =
        own_machine::by_node_ref(name, cluster, config).map_err(|failure| match failure.reason {
            Reason::AmbiguousMachine => Failure::of(Reason::NoAuthorizationPath, failure.detail),
            _ => failure,
        })?;
    let Some(matched) = matched else {
        if own_machine::is_of_a_pool(name, cluster, config) {
            let detail = format!("{name:?} is of a MachinePool, which has no addresses of its members");
            return Err(Failure::of(Reason::MachineAddressesPending, detail));
        }
        let detail = format!("no Machine's status.nodeRef is {name:?} yet");
        return Err(Failure::of(Reason::NodeRefPending, detail));
    };
    let mut used = Vec::new();
    for machine in matched.machines() {
        owns(question, content, machine, &mut used)?;
    }
    let mut detail = matched.describe();
    if !used.is_empty() {
        detail.push_str(&format!(" with extraSANs {}", used.join(", ")));
    }
    Ok(detail)
}

/// Checks whether one Machine has every name. Only addresses in the Machine object (NB-118) and those added by the
/// configuration count; of the latter, the ones that were needed are recorded.
fn owns(
    question: &Question<'_>,
    content: &Pkcs10,
    machine: &Machine,
    used: &mut Vec<String>,
) -> Result<(), Failure> {
    if machine.addresses.is_empty() {
        let detail = format!("Machine {machine} has no addresses yet");
        return Err(Failure::of(Reason::MachineAddressesPending, detail));
    }
    let extra = || {
        question.config.extra_names.iter().filter(|e| e.selector.matches(&machine.labels).unwrap_or(false))
    };
    let mut foreign = Vec::new();
    for dns in &content.dns {
        if machine.values(DNS).any(|value| same_host(value, dns)) {
            continue;
        }
        match extra().any(|e| e.dns.iter().any(|value| same_host(value, dns))) {
            true => used.push(dns.clone()),
            false => foreign.push(dns.clone()),
        }
    }
    for ip in content.ip.iter().copied().map(folded) {
        if machine.values(IP).any(|value| address(value) == Some(ip)) {
            continue;
        }
        match extra().any(|e| e.ip.iter().any(|value| folded(*value) == ip)) {
            true => used.push(ip.to_string()),
            false => foreign.push(ip.to_string()),
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    let accepted: Vec<_> = machine.values(DNS).chain(machine.values(IP)).collect();
    let detail = format!(
        "Machine {machine} does not have {}; it has {}",
        foreign.join(", "),
        if accepted.is_empty() { "none that count".to_owned() } else { accepted.join(", ") }
    );
    Err(Failure::of(Reason::SANNotOwned, detail))
}
