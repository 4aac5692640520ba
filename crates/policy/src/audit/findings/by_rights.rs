//! Findings that follow from what a subject may do (table 6.2 of the audit's rules).

use super::finding::Instance;
use super::powers::{Hit, binds, escalates, of_nodes, proxies, scope, signs, signs_clients};
use super::severity::Severity;
use super::standing::{Standing, is_of_nodes};
use crate::audit::Subject;
use crate::audit::rights::{Ask, GrantId, Held, Names, Rights, Verbs};
use crate::audit::state::WORKLOADS;
use crate::chain::MASTERS_GROUP;

/// Whom a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Everybody.
    Anybody,
    /// Exposed subjects (AU-35).
    Exposed,
}

/// A rule: where it holds for whoever has some rights.
pub(super) struct RightsRule {
    pub(super) id: &'static str,
    pub(super) about: About,
    pub(super) hits: fn(&Standing<'_>, &Rights) -> Vec<Hit>,
}

const fn exposed(id: &'static str, hits: fn(&Standing<'_>, &Rights) -> Vec<Hit>) -> RightsRule {
    RightsRule { id, about: About::Exposed, hits }
}

/// The rules. PC109 is about full identities too, the others are not (AU-36).
pub(super) const RULES: [RightsRule; 15] = [
    RightsRule { id: "PC101", about: About::Anybody, hits: |_, rights| proxies(rights) },
    exposed("PC109", administers),
    exposed("PC110", creates_tokens),
    exposed("PC111", reads_secrets),
    exposed("PC112", impersonates),
    exposed("PC113", |_, rights| signs_clients(rights)),
    exposed("PC115", |_, rights| signs(rights, &["kubernetes.io/kubelet-serving"], Severity::High)),
    exposed("PC116", changes_nodes),
    exposed("PC117", moves_pods),
    exposed("PC118", runs_code),
    exposed("PC119", creates_pods),
    RightsRule { id: "PC128", about: About::Anybody, hits: reads_kubelets },
    exposed("PC129", writes_admission),
    exposed("PC131", changes_pod_status),
    exposed("PC137", creates_volumes),
];

/// PC109
fn administers(standing: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    if let Some(grant) = rights.full {
        return vec![Hit::new(Instance::Cluster, Severity::Critical, [grant])];
    }
    let mut hits = escalates(rights);
    hits.extend(binds(rights, &standing.strong_roles));
    hits
}

/// PC110
fn creates_tokens(standing: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let mut hits = Vec::new();
    for held in rights.of(Ask::Token, Verbs::CREATE) {
        for instance in powerful_accounts(standing, held) {
            hits.push(Hit::new(instance, Severity::Critical, [held.grant]));
        }
    }
    hits
}

/// Where a right on service accounts is one on powerful accounts: on all of the cluster, on those of a privileged namespace, or on
/// a strong one by name.
fn powerful_accounts(standing: &Standing<'_>, held: &Held) -> Vec<Instance> {
    let inside = |namespace: &str| Instance::Namespace(namespace.to_owned());
    match (&held.names, held.namespace.as_deref()) {
        (Names::Free, None) => vec![Instance::Cluster],
        (Names::Free, Some(namespace)) => {
            standing.is_privileged(namespace).then(|| inside(namespace)).into_iter().collect()
        }
        (Names::Only(names), Some(namespace)) => {
            let is_strong =
                |name: &String| standing.strong_accounts.contains(&(namespace.to_owned(), name.clone()));
            names.iter().any(is_strong).then(|| inside(namespace)).into_iter().collect()
        }
        (Names::Only(_), None) => {
            let strong = standing.strong_accounts.iter().filter(|(_, name)| held.names.hold_for(name));
            strong.map(|(namespace, _)| inside(namespace)).collect()
        }
    }
}

/// PC111
fn reads_secrets(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let held = rights.everywhere(Ask::Secrets, Verbs::READ).filter(|held| held.is_free());
    held.map(|held| Hit::new(Instance::Cluster, Severity::Critical, [held.grant])).collect()
}

/// PC112
fn impersonates(standing: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let hit = |instance, grants: Vec<GrantId>| Hit::new(instance, Severity::Critical, grants);
    let mut hits = Vec::new();
    let is_strong_user = |name: &String| {
        let subject = Subject::of_user(name);
        // To act as a service account takes a right on `serviceaccounts`, whatever its user name is.
        let is_account = matches!(subject, Subject::ServiceAccount { .. });
        !is_account && !is_of_nodes(&subject) && standing.is_strong(&subject)
    };
    let users: Vec<&Held> = rights.everywhere(Ask::Users, Verbs::IMPERSONATE).collect();
    for held in &users {
        let is_powerful = match &held.names {
            Names::Free => true,
            Names::Only(names) => names.iter().any(is_strong_user),
        };
        if is_powerful {
            hits.push(hit(Instance::Cluster, vec![held.grant]));
        }
    }
    let accounts: Vec<&Held> = rights.of(Ask::Accounts, Verbs::IMPERSONATE).collect();
    for held in &accounts {
        let instances = powerful_accounts(standing, held).into_iter();
        hits.extend(instances.map(|instance| hit(instance, vec![held.grant])));
    }
    let Some(beside) = users.iter().chain(&accounts).map(|held| held.grant).min() else { return hits };
    for held in rights.everywhere(Ask::Groups, Verbs::IMPERSONATE) {
        let is_strong_group = |name: &String| {
            let subject = Subject::group(name.as_str());
            name == MASTERS_GROUP || (!is_of_nodes(&subject) && standing.is_strong(&subject))
        };
        let is_powerful = match &held.names {
            Names::Free => true,
            Names::Only(names) => names.iter().any(is_strong_group),
        };
        if is_powerful {
            hits.push(hit(Instance::Cluster, vec![held.grant, beside]));
        }
    }
    hits
}

/// PC116
fn changes_nodes(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let nodes = rights.everywhere(Ask::Nodes, Verbs::CHANGE);
    let status = rights.everywhere(Ask::NodeStatus, Verbs::CHANGE);
    let nodes = nodes.flat_map(|held| of_nodes(held, Severity::High));
    nodes.chain(status.flat_map(|held| of_nodes(held, Severity::Medium))).collect()
}

/// PC117
fn moves_pods(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let Some(change) = rights.some(Ask::Nodes, Verbs::CHANGE) else { return Vec::new() };
    let deletes = rights.of(Ask::Pods, Verbs::DELETE);
    let collections = rights.of(Ask::Pods, Verbs::DELETE_COLLECTION).filter(|held| held.is_free());
    let moves = deletes.chain(collections).chain(rights.of(Ask::Eviction, Verbs::CREATE));
    moves.map(|held| Hit::new(scope(held), Severity::High, [change, held.grant])).collect()
}

/// PC118
fn runs_code(standing: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let hit = |held: &Held| Hit::new(scope(held), Severity::High, [held.grant]);
    let servers = standing.state.api_servers();
    let mut hits: Vec<Hit> = rights.of(Ask::EphemeralContainers, Verbs::CHANGE).map(hit).collect();
    for ask in [Ask::Exec, Ask::Attach] {
        hits.extend(rights.of(ask, Verbs::CREATE).map(hit));
        if servers.may_get_containers() {
            let assumed = servers.release().is_none().then_some("kube-apiserver is older than 1.35");
            hits.extend(rights.of(ask, Verbs::GET).map(|held| Hit { assumed, ..hit(held) }));
        }
    }
    hits
}

/// PC119
fn creates_pods(standing: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let pods = rights.of(Ask::Pods, Verbs::CREATE).filter(|held| held.is_free());
    let workloads = WORKLOADS.iter().flat_map(|row| rights.of(Ask::Workload(row.0), Verbs::WRITE));
    let writes = pods.chain(workloads.filter(|held| held.writes()));
    let is_privileged = |held: &&Held| match held.namespace.as_deref() {
        None => true,
        Some(namespace) => standing.is_privileged(namespace),
    };
    let hit = |held: &Held| Hit::new(scope(held), Severity::Critical, [held.grant]);
    writes.filter(is_privileged).map(hit).collect()
}

/// PC128
fn reads_kubelets(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let reads = [Ask::NodeLog, Ask::NodeConfig].into_iter();
    let reads = reads.flat_map(|ask| rights.everywhere(ask, Verbs::GET));
    let held = reads.chain(rights.everywhere(Ask::NodeCheckpoint, Verbs::CREATE));
    held.flat_map(|held| of_nodes(held, Severity::Medium)).collect()
}

/// PC129
fn writes_admission(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let asks = [
        Ask::MutatingWebhooks,
        Ask::ValidatingWebhooks,
        Ask::MutatingPolicies,
        Ask::MutatingPolicyBindings,
        Ask::ValidatingPolicies,
        Ask::ValidatingPolicyBindings,
    ];
    let held = asks.into_iter().flat_map(|ask| rights.everywhere(ask, Verbs::WRITE));
    let writes = held.filter(|held| held.writes());
    writes.map(|held| Hit::new(Instance::Cluster, Severity::High, [held.grant])).collect()
}

/// PC131
fn changes_pod_status(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let held = rights.of(Ask::PodStatus, Verbs::CHANGE);
    held.map(|held| Hit::new(scope(held), Severity::Medium, [held.grant])).collect()
}

/// PC137
fn creates_volumes(_: &Standing<'_>, rights: &Rights) -> Vec<Hit> {
    let held = rights.everywhere(Ask::Volumes, Verbs::CREATE).filter(|held| held.is_free());
    held.map(|held| Hit::new(Instance::Cluster, Severity::High, [held.grant])).collect()
}
