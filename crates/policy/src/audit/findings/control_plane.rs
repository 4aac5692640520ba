//! Findings about API servers, certificate requests and bootstrap tokens (PC106, PC107 b, PC108, PC114, PC125 a).

use std::collections::BTreeSet;

use super::finding::{Evidence, Instance};
use super::found::{All, Found};
use super::severity::Severity;
use super::standing::Standing;
use crate::audit::Subject;
use crate::audit::reach::{Vertex, VertexType};
use crate::audit::rights::{Ask, Verbs};
use crate::audit::state::{ApiServer, Release};
use crate::chain::Mode;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};

/// The first release whose Node authorizer limits lists to the own node, and the first in which no gate undoes that (PC108).
const SELECTORS: (Release, Release) = ((1, 32), (1, 34));
/// The first release that restricts audiences by default (PC125).
pub(super) const AUDIENCES: Release = (1, 33);
pub(super) const AUDIENCE_GATE: &str = "ServiceAccountNodeAudienceRestriction";
pub(super) const SELECTOR_GATES: [&str; 2] = ["AuthorizeNodeWithSelectors", "AuthorizeWithSelectors"];
/// The groups of bootstrap tokens.
const BOOTSTRAPPERS: &str = "system:bootstrappers";

/// Finds them. A bootstrap token that expires at a time for which `is_expired` says so is no longer valid.
pub(super) fn find(standing: &Standing<'_>, is_expired: &dyn Fn(&str) -> bool, all: &mut All) {
    for server in standing.state.api_servers().servers() {
        find_of_server(standing, server, all);
    }
    find_certificate_requests(standing, all);
    find_bootstrap_tokens(standing, is_expired, all);
}

/// The subject of findings about an API server: its pod.
pub(super) fn subject_of(server: &ApiServer) -> String {
    format!("pod/{}/{}", server.pod.0, server.pod.1)
}

/// The findings about one API server.
pub(super) fn find_of_server(standing: &Standing<'_>, server: &ApiServer, all: &mut All) {
    let subject = subject_of(server);
    let mut found = |id, severity, value: String| {
        let evidence = Evidence::field(subject.clone(), "/spec/containers", value);
        all.add(Found::of_object(id, severity, subject.clone(), Instance::Cluster, evidence));
    };
    let release = server.release.or(standing.state.api_servers().version);
    let servers = standing.state.api_servers();
    let modes = servers.modes(server).unwrap_or_default().join(",");
    if servers.has_mode(server, Mode::AlwaysAllow) == Some(true) {
        let value = if modes.is_empty() { "no --authorization-mode".to_owned() } else { modes };
        found("PC106", Severity::Critical, value);
    } else if servers.has_mode(server, Mode::Node) == Some(false) {
        let value = match server.flag("authorization-config") {
            [] => format!("--authorization-mode={modes}"),
            _ => format!("--authorization-config: {modes}"),
        };
        found("PC106", Severity::High, value);
    }
    if !server.has_node_restriction() {
        let enabled = server.flag("enable-admission-plugins").join(",");
        found("PC106", Severity::High, format!("--enable-admission-plugins={enabled}"));
    }
    let is_off = |gates: &[&str]| gates.iter().any(|gate| server.gate(gate) == Some(false));
    let is_node_on = servers.has_mode(server, Mode::Node) == Some(true);
    if let Some(release) = release.filter(|_| is_node_on)
        && (release < SELECTORS.0 || (release < SELECTORS.1 && is_off(&SELECTOR_GATES)))
    {
        found("PC108", Severity::High, version(release));
    }
    let is_unrestricted = |release| match server.gate(AUDIENCE_GATE) {
        Some(is_on) => !is_on,
        None => release < AUDIENCES,
    };
    if let Some(release) =
        release.filter(|release| server.has_node_restriction() && is_unrestricted(*release))
    {
        found("PC125", Severity::High, version(release));
    }
}

fn version((major, minor): Release) -> String {
    format!("version {major}.{minor}")
}

/// PC107 b: granted requests for client certificates with only one half of a node's identity.
fn find_certificate_requests(standing: &Standing<'_>, all: &mut All) {
    for (name, request) in &standing.state.facts().certificate_requests {
        let is_client = request.signer.starts_with("kubernetes.io/kube-apiserver-client");
        let Ok((common_name, organizations)) = &request.subject else { continue };
        let has_group = organizations.iter().any(|organization| organization == NODES_GROUP);
        let has_name = common_name.strip_prefix(NODE_USER_PREFIX).is_some_and(|node| !node.is_empty());
        if is_client && request.is_granted && has_group != has_name {
            let subject = format!("certificatesigningrequest/{name}");
            let value = format!("CN={common_name}, O={}", organizations.join(","));
            let evidence = Evidence::field(subject.clone(), "/spec/request", value);
            all.add(Found::of_object("PC107", Severity::High, subject, Instance::Cluster, evidence));
        }
    }
}

/// Whether a subject is a group of bootstrap tokens.
pub(super) fn is_bootstrapper(subject: &Subject) -> bool {
    matches!(subject, Subject::Group { name }
        if name.strip_prefix(BOOTSTRAPPERS).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')))
}

/// PC114
pub(super) fn find_bootstrap_tokens(
    standing: &Standing<'_>,
    is_expired: &dyn Fn(&str) -> bool,
    all: &mut All,
) {
    let secrets = standing.state.facts().secrets.values();
    let of_tokens = secrets.filter_map(|secret| secret.bootstrap.as_ref()).flat_map(|token| &token.groups);
    let of_tokens = of_tokens.map(|group| Subject::group(group.as_str()));
    let bound = standing.grants.subjects().filter(|subject| is_bootstrapper(subject)).cloned();
    let bootstrappers: BTreeSet<Subject> = bound.chain(of_tokens).collect();
    let approved = bootstrappers.iter().find_map(|subject| {
        let grant = standing.grants.of(subject).free(Ask::NodeClient, Verbs::CREATE)?;
        Some((subject, grant))
    });
    let Some((group, grant)) = approved else { return };
    for ((namespace, name), secret) in &standing.state.facts().secrets {
        let Some(token) = &secret.bootstrap else { continue };
        if !token.expiration.is_empty() && is_expired(&token.expiration) {
            continue;
        }
        let subject = format!("secret/{namespace}/{name}");
        let until =
            if token.expiration.is_empty() { "never expires".to_owned() } else { token.expiration.clone() };
        let evidence = vec![
            Evidence::field(subject.clone(), "/data/expiration", until),
            Evidence::object(group.to_string()),
        ];
        let mut found = Found::of_object("PC114", Severity::High, subject, Instance::Cluster, evidence);
        found.about = Some(Vertex::new(VertexType::Secret, namespace, name));
        found.grants.insert(grant);
        all.add(found);
    }
}
