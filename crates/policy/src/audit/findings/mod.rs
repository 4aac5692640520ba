//! Findings: what gives a thief of a node more than the node, and what to change (section 6 of the audit's rules).
//!
//! A finding is about a subject: whoever holds a permission, a workload, a secret, a node, an API server. Each rule is a function of
//! the state; the same state gives the same findings, whatever the order of its objects. Permissions that the default policy of
//! Kubernetes grants are left out (AU-33).

mod by_rights;
mod control_plane;
mod finding;
mod fix;
mod found;
mod kubelets;
mod missing;
mod names;
mod nodes;
mod notes;
mod powers;
mod roles;
mod severity;
mod standing;
mod subjects;
mod table;
mod usage;
mod wanted;
mod workloads;

use serde::Serialize;

pub use self::finding::{Evidence, Finding, Instance, ReachChange};
pub use self::fix::{Fix, FixKind, FixPart};
use self::fix::{Proven, Prover};
use self::found::{All, Found, MAX_CHAINS};
pub use self::kubelets::Kubelets;
use self::names::object;
pub use self::notes::Note;
pub use self::severity::Severity;
use self::standing::Standing;
pub use self::table::{RULES, Rule, rule};
pub use self::usage::Usage;
pub use self::wanted::Wanted;
use self::workloads::Workloads;
use super::Incomplete;
use super::reach::{Closures, DirectReach, Universe, Vertex, Way};
use super::rights::Grants;
use super::state::State;

/// The findings of a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The findings: severity falling, id, subject (AU-131).
    pub findings: Vec<Finding>,
    /// What was missing.
    pub incomplete: Vec<Incomplete>,
    /// What is worth knowing beside them.
    pub notes: Vec<Note>,
}

/// Audits a state.
pub fn report(state: &State, wanted: &Wanted<'_>) -> Report {
    let grants = Grants::new(&state.facts().rbac);
    let direct = DirectReach::of(state);
    let standing = Standing::new(state, &grants);
    let found = find(&standing, &direct, wanted);
    let universe = Universe::new(state, &direct, &grants);
    let mut closures = Closures::new(state, &direct, &grants, &universe, &wanted.asked);
    let targets: Vec<Vertex> = found.iter().filter_map(|found| found.about.clone()).collect();
    let mut ways = closures.worst(&targets).into_iter();
    let ways: Vec<Option<Way>> =
        found.iter().map(|found| found.about.as_ref().and_then(|_| ways.next()).flatten()).collect();
    let mut prover = Prover::new(&standing, &direct, &found, closures, wanted);
    let proven: Vec<Proven> =
        found.iter().zip(&ways).map(|(found, way)| prover.fix(found, way.as_ref())).collect();
    drop(prover);
    let with_words = found.into_iter().zip(ways).zip(proven);
    let mut findings: Vec<Finding> = with_words
        .filter_map(|((found, way), proven)| in_words(found, way, proven, &grants, wanted))
        .collect();
    findings.sort_by(|a, b| a.order().cmp(&b.order()));
    let default_role = notes::default_role_missing(&standing);
    let incomplete = missing::missing(state, wanted, default_role.as_deref());
    Report { findings, incomplete, notes: notes::notes(&standing) }
}

fn find(standing: &Standing<'_>, direct: &DirectReach, wanted: &Wanted<'_>) -> Vec<Found> {
    let mut all = All::default();
    subjects::find(standing, wanted.all_subjects, wanted.include_built_in, &mut all);
    nodes::find(standing, &standing.in_force, &mut all);
    control_plane::find(standing, wanted.asked.is_expired, &mut all);
    kubelets::find(standing, wanted.kubelets, &mut all);
    Workloads::new(standing, wanted.kubelets, direct, wanted.secret_nodes).find(&mut all);
    roles::find(standing, &mut all);
    if let Some(usage) = wanted.usage {
        usage.find(wanted.unused_after, &mut all);
    }
    all.into_list()
}

/// A finding with its words, evidence and fingerprint.
fn in_words(
    found: Found,
    way: Option<Way>,
    proven: Proven,
    grants: &Grants,
    wanted: &Wanted<'_>,
) -> Option<Finding> {
    let rule = rule(found.id)?;
    let instances: Vec<Instance> = found.instances.into_iter().collect();
    let text = Finding::fingerprint_text(found.id, &found.subject, &instances);
    let digest = (wanted.digest)(text.as_bytes());
    let fingerprint = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut evidence = Vec::new();
    if let Some(way) = &way {
        evidence.push(Evidence::object(format!("node/{}", way.from)));
        let steps = way.edges.iter();
        evidence.extend(
            steps.map(|edge| Evidence { edge: Some(edge.id.clone()), ..Evidence::object(edge.to.clone()) }),
        );
    }
    evidence.extend(found.evidence.into_iter().flatten());
    // All grants are listed; a few are enough to prove it.
    for grant in found.grants.iter().take(MAX_CHAINS).filter_map(|grant| grants.grant(*grant)) {
        let (kind, namespace, name) = grant.binding;
        let of_role = if grant.role.0 == "Role" { namespace } else { "" };
        evidence.push(Evidence::object(object(kind, namespace, name)));
        evidence.push(Evidence {
            pointer: grant.rule.map(|rule| format!("/rules/{rule}")),
            value: Some(grant.rule_text()),
            ..Evidence::object(object(grant.role.0, of_role, grant.role.1))
        });
    }
    Some(Finding {
        rule,
        severity: found.severity,
        subject: found.subject,
        instances,
        evidence,
        grants: found
            .grants
            .iter()
            .filter_map(|grant| serde_json::to_value(grants.grant(*grant)?).ok())
            .collect(),
        fix: proven.fix,
        reach: way.map(|way| ReachChange { node: way.node, before: way.size, after: proven.after }),
        assumed: found.assumed.into_iter().collect(),
        fingerprint,
        references: rule.references.to_vec(),
    })
}
