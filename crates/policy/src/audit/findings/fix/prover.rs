//! Tries fixes (AU-85): applied in memory, a fix must end its finding, add none, and widen nobody's reach.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use serde_json::json;

use super::super::control_plane::{find_bootstrap_tokens, is_bootstrapper};
use super::super::found::{All, Found};
use super::super::nodes;
use super::super::standing::{Standing, is_of_nodes};
use super::super::subjects::{self, Parents};
use super::super::table::rule;
use super::super::wanted::Wanted;
use super::super::workloads::{Daemon, Place, Workloads, daemons, find_daemons, find_shared_nodes};
use super::change::{Change, Key, target};
use super::part::{Fix, FixKind, FixPart};
use super::plan::{self, Plan};
use super::{server, workload};
use crate::audit::Subject;
use crate::audit::in_force::InForce;
use crate::audit::kubelet_access::Objects;
use crate::audit::reach::{Closures, DirectReach, ReachSize, Vertex, Way};
use crate::audit::rights::Grants;

/// How often a plan is widened by what the finding still rests on.
const MAX_ROUNDS: usize = 8;

/// A fix, and how much the worst node reaches after it.
pub(in crate::audit::findings) struct Proven {
    pub(in crate::audit::findings) fix: Fix,
    pub(in crate::audit::findings) after: Option<ReachSize>,
}

/// See the module.
pub(in crate::audit::findings) struct Prover<'a> {
    standing: &'a Standing<'a>,
    wanted: &'a Wanted<'a>,
    /// The findings before any fix, by rule and subject.
    before: HashMap<(&'static str, &'a str), &'a Found>,
    objects: Objects,
    closures: Closures<'a>,
    /// The pods and templates that a rule may be about, by workload.
    places: HashMap<String, Vec<Place<'a>>>,
    daemons: Vec<Daemon>,
}

/// The state after a fix.
struct After {
    grants: Grants,
    touched: BTreeSet<Subject>,
}

impl<'a> Prover<'a> {
    pub(in crate::audit::findings) fn new(
        standing: &'a Standing<'a>,
        direct: &'a DirectReach,
        found: &'a [Found],
        closures: Closures<'a>,
        wanted: &'a Wanted<'a>,
    ) -> Self {
        let before = found.iter().map(|found| ((found.id, found.subject.as_str()), found)).collect();
        let facts = standing.state.facts();
        let mut places = HashMap::<String, Vec<Place<'a>>>::new();
        for place in Workloads::new(standing, wanted.kubelets, direct, wanted.secret_nodes).places() {
            places.entry(place.subject.clone()).or_default().push(place);
        }
        let (objects, daemons) = (facts.rbac.clone(), daemons(facts));
        Self { standing, wanted, before, objects, closures, places, daemons }
    }

    /// The fix of a finding.
    pub(in crate::audit::findings) fn fix(&mut self, found: &Found, way: Option<&Way>) -> Proven {
        let text = text_of(found);
        let manual = |text: String, check| Proven {
            fix: Fix { parts: vec![FixPart::manual(text, check)] },
            after: None,
        };
        // What the default policy grants is not to be taken away (AU-33).
        if found.is_built_in() {
            return manual("The default policy of Kubernetes grants it: change nothing.".to_owned(), None);
        }
        match found.id {
            "PC103" | "PC104" => return Proven { fix: of_kubelet(found, &text), after: None },
            "PC121" | "PC122" => {
                let places = self.places.get(&found.subject).map(Vec::as_slice).unwrap_or_default();
                let parts = workload::fix(found.id, places, &text);
                return parts
                    .map_or_else(|| manual(text, None), |parts| Proven { fix: Fix { parts }, after: None });
            }
            "PC106" | "PC108" | "PC125" if found.bindings.is_empty() => {
                let parts = server::fix(found, self.standing, &text);
                return parts.map_or_else(
                    || manual(text, Some("failed")),
                    |parts| Proven { fix: Fix { parts }, after: None },
                );
            }
            _ => {}
        }
        let Some((plan, after)) = self.plan(found) else {
            let was_tried = !plan::cuts(found.id).is_empty() || !found.bindings.is_empty();
            return manual(text, was_tried.then_some("failed"));
        };
        let lost = match plan.has_lost_wildcard {
            true => {
                " The rule has a wildcard, from which nothing can be subtracted: list what is needed, and add it."
            }
            false => "",
        };
        let parts = plan.changes.iter().map(|change| part(change, format!("{text}{lost}"))).collect();
        let size = way.and_then(|way| self.closures.after(&way.node, &after.grants, after.touched.iter()));
        Proven { fix: Fix { parts }, after: size }
    }

    /// Finds changes that pass; none if there are none.
    fn plan(&mut self, found: &Found) -> Option<(Plan, After)> {
        let mut plan = Plan::default();
        let mut current = found.clone();
        for _ in 0..MAX_ROUNDS {
            let next = self.next(&current, &plan)?;
            if next.changes.is_empty() {
                return None;
            }
            plan.has_lost_wildcard |= next.has_lost_wildcard;
            plan.changes.extend(next.changes);
            match self.check(found, &plan.changes)? {
                Checked::Passed(after) => return Some((plan, after)),
                Checked::StillThere(left) => current = *left,
            }
        }
        None
    }

    /// The changes that take away what a finding rests on, where the changes so far are applied.
    fn next(&mut self, found: &Found, so_far: &Plan) -> Option<Plan> {
        so_far.changes.iter().for_each(|change| change.apply(&mut self.objects));
        let made = self.made(found, so_far);
        so_far.changes.iter().rev().for_each(|change| change.undo(&mut self.objects));
        made
    }

    fn made(&self, found: &Found, so_far: &Plan) -> Option<Plan> {
        let digest = |text: &str| {
            let digest = (self.wanted.digest)(text.as_bytes());
            digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let subject = found.about.as_ref().and_then(Vertex::subject);
        match found.id {
            // What a log shows does not end with a binding.
            "PC107" if found.is_of_log() => None,
            "PC105" | "PC107" | "PC125" if !found.bindings.is_empty() => {
                let subject = subject.or_else(|| subject_of(&found.subject))?;
                Some(plan::remove_from(&subject, &found.bindings, &self.objects))
            }
            "PC114" => {
                let bindings = self.bindings_of(found, so_far);
                let without = |(namespace, name): &Key| {
                    plan::without(self.objects.binding(namespace, name)?, &is_bootstrapper)
                };
                let changes = bindings.iter().filter_map(without).collect();
                Some(Plan { changes, has_lost_wildcard: false })
            }
            "PC136" => self.without_meaningless(found),
            id => {
                let cuts = plan::cuts(id);
                let bindings = self.bindings_of(found, so_far);
                let grants = &self.standing.grants;
                let subject = subject.filter(|_| !cuts.is_empty())?;
                Some(plan::take_from(&subject, &bindings, &cuts, &self.objects, grants, &digest))
            }
        }
    }

    /// The bindings behind a finding: after changes its grants are those of the changed state.
    fn bindings_of(&self, found: &Found, so_far: &Plan) -> BTreeSet<Key> {
        let revised = (!so_far.changes.is_empty()).then(|| self.revised(&so_far.changes).grants);
        let grants = revised.as_ref().unwrap_or(self.standing.grants);
        let named = found.grants.iter().filter_map(|grant| grants.grant(*grant));
        named.map(|grant| (grant.binding.1.to_owned(), grant.binding.2.to_owned())).collect()
    }

    /// PC136
    fn without_meaningless(&self, found: &Found) -> Option<Plan> {
        let mut words = found.subject.split('/');
        let kind = words.next()?;
        let key: Key = match (words.next()?, words.next()) {
            (name, None) => (String::new(), name.to_owned()),
            (namespace, Some(name)) => (namespace.to_owned(), name.to_owned()),
        };
        let is_wildcard = |entry: &str| matches!(entry, "nodes/*" | "*/*");
        if kind != "rolebinding" {
            let role = plan::role_of(&self.objects, &key)?;
            let change = plan::without_meaningless(role, &is_wildcard)?;
            return Some(Plan { changes: vec![change], has_lost_wildcard: false });
        }
        let binding = self.objects.binding(&key.0, &key.1)?;
        let role_key = plan::role_key(binding);
        let of_role = self.standing.grants.bindings_of_role(&role_key.0, &role_key.1);
        let role = plan::role_of(&self.objects, &role_key)
            .filter(|_| !role_key.0.is_empty() && of_role.len() == 1)?;
        let change = plan::without_meaningless(role, &|entry| entry.starts_with("nodes/"))?;
        Some(Plan { changes: vec![change], has_lost_wildcard: false })
    }

    /// The permissions after changes. The objects must have them.
    fn revised(&self, changes: &[Change]) -> After {
        let roles = changes.iter().filter_map(Change::role).collect();
        let bindings = changes.iter().filter_map(Change::binding).collect();
        let (grants, touched) = self.standing.grants.revised(&self.objects, &roles, &bindings);
        After { grants, touched }
    }

    /// Applies changes, and looks at what is there then. None if they must not be printed.
    fn check(&mut self, found: &Found, changes: &[Change]) -> Option<Checked> {
        changes.iter().for_each(|change| change.apply(&mut self.objects));
        let checked = self.look(found, changes);
        changes.iter().rev().for_each(|change| change.undo(&mut self.objects));
        checked
    }

    fn look(&self, found: &Found, changes: &[Change]) -> Option<Checked> {
        let after = self.revised(changes);
        // Every edge of the closure is made by a permission that is there: who has none more reaches nothing more.
        let is_narrower =
            |subject: &Subject| after.grants.of(subject).are_within(&self.standing.grants.of(subject));
        if !after.touched.iter().all(is_narrower) {
            return None;
        }
        let standing = self.standing.revised(&after.grants, &after.touched);
        let all = self.found_after(found, &standing, &after);
        let is_new =
            |(id, subject): &&(&'static str, String)| !self.before.contains_key(&(*id, subject.as_str()));
        if all.keys().any(|key| is_new(&key)) {
            return None;
        }
        Some(match all.get(found.id, &found.subject) {
            Some(left) => Checked::StillThere(Box::new(left.clone())),
            None => Checked::Passed(after),
        })
    }

    /// The findings after changes that the changes can have an effect on.
    fn found_after(&self, found: &Found, standing: &Standing<'_>, after: &After) -> All {
        let mut all = All::default();
        let mut parents = Parents::new();
        let all_subjects = self.wanted.all_subjects;
        // What a group does not have any more, its members may have by themselves.
        let has_group = after.touched.iter().any(|subject| matches!(subject, Subject::Group { .. }));
        let everybody: BTreeSet<Subject>;
        let subjects = if has_group {
            everybody = after.grants.subjects().cloned().collect();
            &everybody
        } else {
            &after.touched
        };
        for subject in subjects {
            subjects::find_of(standing, subject, all_subjects, &mut parents, &mut all);
        }
        let touched = |daemon: &&Daemon| has_group || after.touched.contains(&daemon.account);
        find_daemons(standing, self.daemons.iter().filter(touched), &mut all);
        if standing.strong_accounts != self.standing.strong_accounts {
            find_shared_nodes(standing, &mut all);
        }
        if !found.bindings.is_empty() || after.touched.iter().any(is_of_nodes) {
            nodes::find(standing, &InForce::new(&self.objects), &mut all);
        }
        if found.id == "PC114" || after.touched.iter().any(is_bootstrapper) {
            find_bootstrap_tokens(standing, self.wanted.asked.is_expired, &mut all);
        }
        all
    }
}

/// What is there after changes.
enum Checked {
    /// The finding is gone.
    Passed(After),
    /// It rests on something else, too.
    StillThere(Box<Found>),
}

fn part(change: &Change, text: String) -> FixPart {
    let patch = change.patch();
    FixPart {
        kind: if patch.is_some() { FixKind::Patch } else { FixKind::Manifest },
        target: Some(change.target()),
        patch_type: patch.is_some().then_some("json"),
        patch,
        manifest: change.manifest(),
        text,
        self_check: Some("passed"),
    }
}

/// PC103, PC104: the configuration of a kubelet.
fn of_kubelet(found: &Found, text: &str) -> Fix {
    let patch = match found.id {
        "PC103" => json!({
            "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
            "authorization": {"mode": "Webhook"},
        }),
        _ => json!({"readOnlyPort": 0}),
    };
    let name = found.subject.rsplit('/').next().unwrap_or_default();
    let object =
        target("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", &(String::new(), name.to_owned()));
    Fix {
        parts: vec![FixPart {
            kind: FixKind::Config,
            target: Some(object),
            patch_type: Some("merge"),
            patch: Some(patch),
            manifest: None,
            text: text.to_owned(),
            self_check: None,
        }],
    }
}

/// What to do, and what a stolen node still reaches.
fn text_of(found: &Found) -> String {
    rule(found.id).map(|rule| format!("{} What remains: {}", rule.fix, rule.residual)).unwrap_or_default()
}

/// The subject of a finding about a user or a group.
fn subject_of(subject: &str) -> Option<Subject> {
    match subject.split_once('/')? {
        ("group", name) => Some(Subject::group(name)),
        ("user", name) => Some(Subject::of_user(name)),
        _ => None,
    }
}
