//! The client path: the first certificate of a node (NB-80 to NB-99).

use std::collections::BTreeSet;

use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_apimachinery::time::Instant;

use super::config::Config;
use super::intake::is_bootstrap_user;
use super::object::Machine;
use super::own_machine::Match;
use super::question::{
    Approval, Finding, Last, Question, Step, content, failed, forbidden_extension, newest, uncontested,
    well_formed, within_identity, within_limit,
};
use super::reason::Reason;
use super::result::{Check, CheckResult};
use super::rivals::Span;
use crate::approval::signer::KubeletUsages;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};

pub(super) const STEPS: &[Step] = &[
    Step { rule: "NB-80", what: "not too many requests wait", run: within_limit },
    Step { rule: "NB-75", what: "no newer request for the same name waits", run: newest },
    Step { rule: "NB-74", what: "not too many requests for this name wait", run: within_identity },
    Step { rule: "NB-81", what: "approval of client certificates is enabled", run: enabled },
    Step { rule: "NB-82", what: "one PKCS#10 request with a sound key", run: well_formed },
    Step { rule: "NB-83", what: "what a kubelet asks for", run: of_a_kubelet },
    Step { rule: "NB-84", what: "not a renewal", run: not_a_renewal },
    Step { rule: "NB-85", what: "asked for by the bootstrap user", run: by_the_bootstrap_user },
    Step { rule: "NB-86", what: "the bootstrap user's groups", run: with_its_groups },
    Step { rule: "NB-87", what: "a name that a node can have", run: named },
    Step { rule: "NB-88", what: "the Node does not exist", run: unregistered },
    Step { rule: "NB-89", what: "a Machine has the name", run: has_machine },
    Step { rule: "NB-90", what: "only one Machine has the name", run: unambiguous },
    Step { rule: "NB-91", what: "the Machine has no node", run: unlinked },
    Step { rule: "NB-92", what: "the Machine is neither deleted nor failed", run: live },
    Step { rule: "NB-93", what: "asked for when the Machine was created", run: in_time },
    Step { rule: "NB-94", what: "no other key has the identity", run: ungranted },
    Step { rule: "NB-75a", what: "no other key is asked for with the name", run: uncontested },
    Step { rule: "NB-95", what: "attestation", run: |_| Err(CheckResult::NotRequired("not configured")) },
];

/// Evaluates the checks. If all pass, NB-96 approves.
pub(super) fn evaluate(question: &Question<'_>) -> (Vec<Check>, Last) {
    let checks = STEPS.iter().map(|step| step.carry_out(question)).collect();
    let detail = question.machine.as_ref().map(Match::describe).unwrap_or_default();
    (checks, Ok(Approval { rule: "NB-96", reason: Reason::ClientApproved, detail }))
}

/// NB-81.
fn enabled(question: &Question<'_>) -> Finding {
    if question.config.client_approval_disabled {
        let detail = "nodeClientCert.disabled is true".to_owned();
        return failed(Reason::ClientApprovalDisabled, detail);
    }
    Ok(String::new())
}

/// NB-83.
fn of_a_kubelet(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    let wrong = if content.other_attributes > 0 {
        format!(
            "the subject has {} attributes besides one common name and the organization",
            content.other_attributes
        )
    } else if content.organizations != [NODES_GROUP] {
        format!("the organization is {:?}, not {NODES_GROUP} alone", content.organizations)
    } else if !(content.dns.is_empty() && content.email.is_empty()) {
        "it asks for DNS names or e-mail addresses".to_owned()
    } else if !(content.ip.is_empty() && content.uri.is_empty() && content.other_names == 0) {
        "it asks for IP addresses, URIs or other names".to_owned()
    } else if !content.common_name.starts_with(NODE_USER_PREFIX) {
        format!("the common name {:?} does not begin with {NODE_USER_PREFIX}", content.common_name)
    } else if !KubeletUsages::Client.are(&question.request.usages) {
        format!("the usages are {:?}", question.request.usages)
    } else if let Some(extension) = forbidden_extension(content, None) {
        format!("it asks for {extension}")
    } else {
        return Ok(String::new());
    };
    failed(Reason::NotKubeletClient, wrong)
}

/// NB-84.
fn not_a_renewal(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    if question.request.username == content.common_name {
        let detail = format!("{} asks for its own next certificate", content.common_name);
        return failed(Reason::ClientRenewal, detail);
    }
    Ok(String::new())
}

/// NB-85.
fn by_the_bootstrap_user(question: &Question<'_>) -> Finding {
    let user = &question.request.username;
    if !is_bootstrap_user(user, question.config) {
        let detail = format!("{user:?} may not bootstrap nodes");
        return failed(Reason::WrongRequester, detail);
    }
    Ok(user.clone())
}

/// NB-86: the groups of the service account's token, or of the bootstrap certificate while its CA is published.
fn with_its_groups(question: &Question<'_>) -> Finding {
    let groups = &question.request.groups;
    let own = question.config.bootstrap_users.iter().find(|u| u.to_string() == question.request.username);
    let Some(user) = own else { return Err(CheckResult::NotEvaluated("it is not by the bootstrap user")) };
    let of_namespace = format!("system:serviceaccounts:{}", user.namespace);
    let have: BTreeSet<&str> = groups.iter().map(String::as_str).collect();
    if have == BTreeSet::from([&*of_namespace, "system:serviceaccounts", "system:authenticated"]) {
        return Ok("with a token".to_owned());
    }
    let is_by_certificate = have == BTreeSet::from([&*of_namespace, "system:authenticated"]);
    if is_by_certificate && question.cluster.has_bootstrap_ca {
        return Ok("with the bootstrap certificate".to_owned());
    }
    let detail = if is_by_certificate {
        "the groups are those of the bootstrap certificate, whose authority is not published".to_owned()
    } else {
        format!("the groups are {have:?}")
    };
    failed(Reason::WrongRequesterGroups, detail)
}

/// NB-87.
fn named(question: &Question<'_>) -> Finding {
    let content = content(question)?;
    match content.common_name.strip_prefix(NODE_USER_PREFIX) {
        None => Err(CheckResult::NotEvaluated("the common name is no node's")),
        Some(name) if is_dns_subdomain(name) => Ok(name.to_owned()),
        Some(name) => {
            let detail = format!("{name:?} is not a lower-case DNS subdomain of at most 253 bytes");
            failed(Reason::BadNodeName, detail)
        }
    }
}

/// NB-88.
fn unregistered(question: &Question<'_>) -> Finding {
    match question.cluster.node {
        Ok(None) => Ok(String::new()),
        Ok(Some(node)) => {
            let detail =
                format!("there is a Node {:?}; its kubelet renews with its own certificate", node.name);
            failed(Reason::NodeAlreadyExists, detail)
        }
        Err(why) => failed(Reason::NodeLookupFailed, why.to_owned()),
    }
}

/// NB-89.
fn has_machine(question: &Question<'_>) -> Finding {
    match &question.machine {
        Ok(machine) => Ok(machine.describe()),
        Err(failure) if failure.reason == Reason::AmbiguousMachine => Ok(String::new()),
        Err(failure) if failure.reason == Reason::NotEvaluated => {
            Err(CheckResult::NotEvaluated("the request names no node"))
        }
        Err(failure) => Err(failure.clone().into()),
    }
}

/// NB-90.
fn unambiguous(question: &Question<'_>) -> Finding {
    match &question.machine {
        Ok(_) => Ok(String::new()),
        Err(failure) if failure.reason == Reason::AmbiguousMachine => Err(failure.clone().into()),
        Err(_) => Err(NO_MACHINE),
    }
}

const NO_MACHINE: CheckResult = CheckResult::NotEvaluated("there is not one Machine to look at");

/// NB-91.
fn unlinked(question: &Question<'_>) -> Finding {
    let Ok(matched) = &question.machine else { return Err(NO_MACHINE) };
    for machine in matched.machines() {
        if let Some(node) = &machine.node_ref {
            let detail = format!("Machine {machine} already is node {node:?}");
            return failed(Reason::MachineHasNode, detail);
        }
    }
    Ok(String::new())
}

/// NB-92.
fn live(question: &Question<'_>) -> Finding {
    let Ok(matched) = &question.machine else { return Err(NO_MACHINE) };
    for machine in matched.machines() {
        let wrong = match (machine.is_deleting, machine.has_failed()) {
            (true, _) => "is being deleted",
            (false, true) => "has failed",
            (false, false) => continue,
        };
        let detail = format!("Machine {machine} {wrong}");
        return failed(Reason::MachineNotLive, detail);
    }
    Ok(String::new())
}

/// NB-93: strictly after the Machine's creation less the skew, and strictly before its creation and the window. Both
/// times are the API server's.
fn in_time(question: &Question<'_>) -> Finding {
    let Ok(matched) = &question.machine else { return Err(NO_MACHINE) };
    let config = question.config;
    let outside = |detail| failed(Reason::OutsideMachineWindow, detail);
    let Some(asked) = question.request.created else {
        return outside("the request has no time of creation".to_owned());
    };
    for machine in matched.machines() {
        let Some(created) = machine.created else {
            return outside(format!("Machine {machine} has no time of creation"));
        };
        let detail = || format!("asked for at {asked}, Machine {machine} was created at {created}");
        let (first, last) = window(machine, created, config);
        if asked < first || asked > last {
            return outside(detail());
        }
    }
    Ok(String::new())
}

/// The first and the last time at which a request for this Machine may have been created (NB-93).
fn window(machine: &Machine, created: Instant, config: &Config) -> (Instant, Instant) {
    let created = i128::from(created.seconds) * SECOND + i128::from(created.nanoseconds);
    let first = created - config.machine_clock_skew + 1;
    let last = created + config.window_of(machine) - 1;
    (instant(first), instant(last))
}

const SECOND: i128 = 1_000_000_000;

fn instant(nanoseconds: i128) -> Instant {
    let end = if nanoseconds < 0 { i64::MIN } else { i64::MAX };
    Instant {
        seconds: i64::try_from(nanoseconds.div_euclid(SECOND)).unwrap_or(end),
        nanoseconds: u32::try_from(nanoseconds.rem_euclid(SECOND)).unwrap_or_default(),
    }
}

/// Which other requests for the name of this one pass their own checks; none if no request for it does, because of the
/// Node, the Machine or an earlier approval.
pub(super) fn span(question: &Question<'_>) -> Option<Span> {
    let matched = question.machine.as_ref().ok()?;
    if [unregistered, unlinked, live].into_iter().any(|check| check(question).is_err()) {
        return None;
    }
    let windows = matched.machines().map(|machine| Some(window(machine, machine.created?, question.config)));
    let times = windows.reduce(|one, other| {
        let ((first, last), (second_first, second_last)) = (one?, other?);
        Some((first.max(second_first), last.min(second_last)))
    })??;
    let cluster = question.cluster;
    let created = matched.machines().filter_map(|machine| machine.created).min()?;
    let mut keys = cluster.grants.keys(question.request.common_name(), created, cluster.now);
    let key = keys.next();
    if keys.any(|other| Some(other) != key) || times.0 > times.1 {
        return None;
    }
    Some(Span { times: Some(times), key: key.copied(), has_authority: cluster.has_bootstrap_ca })
}

/// NB-94.
fn ungranted(question: &Question<'_>) -> Finding {
    let Ok(matched) = &question.machine else { return Err(NO_MACHINE) };
    let content = content(question)?;
    let cluster = question.cluster;
    let Some(created) = matched.machines().filter_map(|machine| machine.created).min() else {
        return Err(NO_MACHINE);
    };
    match cluster.grants.barring(&content.common_name, &content.key_hash, created, cluster.now) {
        None => Ok(String::new()),
        Some(grant) => {
            let at = grant.at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string());
            let detail = format!("another key was approved for {} at {at}", grant.common_name);
            failed(Reason::IdentityAlreadyGranted, detail)
        }
    }
}
