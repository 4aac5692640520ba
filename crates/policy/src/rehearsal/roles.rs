//! Roles that keep working what would be refused (AU-125): one for each subject and namespace, with what the log shows in use and
//! nothing else.
//!
//! A role is never made for all nodes or for clients without credentials: it would grant to many what one of them used.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::names::is_dns_label;
use serde_json::{Value, json};

use super::example::Change;
use super::needs::{Names, Needs, Places, What};
use super::tally::{Key, Tally};
use crate::audit::Subject;
use crate::identity::{ANONYMOUS, NODES_GROUP, UNAUTHENTICATED};
use crate::objects::rbac::{PolicyRule, RBAC_GROUP};

/// The roles for one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Who gets them.
    pub subject: Subject,
    /// What to know before they are applied.
    pub remarks: Vec<String>,
    /// Roles and ClusterRoles, each with its binding; empty if no role helps.
    pub objects: Vec<Value>,
}

/// The rules of one role while they are collected.
#[derive(Default)]
struct Rules {
    /// The verbs by API group, resource and names; no names are all names.
    resources: BTreeMap<(String, String, Vec<String>), BTreeSet<String>>,
    /// The verbs by path.
    paths: BTreeMap<String, BTreeSet<String>>,
}

/// Makes the roles, sorted by subject. The same counts give the same roles.
pub(super) fn roles(tally: &Tally) -> Vec<Kept> {
    let refused = tally.rows.iter().filter(|(key, _)| key.change == Change::NewlyRefused);
    let mut by_subject = BTreeMap::<&Subject, BTreeMap<&Key, Option<&Needs>>>::new();
    for (key, row) in refused {
        by_subject.entry(&key.subject).or_default().insert(key, row.needs.as_ref());
    }
    let mut taken = BTreeSet::new();
    by_subject.into_iter().map(|(subject, rows)| kept(subject, &rows, &mut taken)).collect()
}

fn kept(subject: &Subject, rows: &BTreeMap<&Key, Option<&Needs>>, taken: &mut BTreeSet<String>) -> Kept {
    let mut remarks = Vec::new();
    let mut roles = BTreeMap::<String, Rules>::new();
    if let Some(why) = never(subject) {
        remarks.push(why.to_owned());
        return Kept { subject: subject.clone(), remarks, objects: Vec::new() };
    }
    for (Key { verb, resource, .. }, needs) in rows {
        match needs {
            None => remarks.push(format!("{verb} {resource}: refused by a rule that denies; no role helps")),
            Some(needs) => add(&mut roles, verb, resource, needs, &mut remarks),
        }
    }
    let name = subject.role_name("preflight", taken);
    let objects = roles.into_iter().flat_map(|(namespace, rules)| objects(subject, &name, &namespace, rules));
    Kept { subject: subject.clone(), remarks, objects: objects.collect() }
}

/// Why a subject gets no role.
fn never(subject: &Subject) -> Option<&'static str> {
    match subject {
        Subject::Group { name } if name == NODES_GROUP => Some(
            "no role: every node would get it. What a node may reach is decided by mode Node, through its pods",
        ),
        Subject::Group { name } if name == UNAUTHENTICATED => Some(FOR_EVERYBODY),
        Subject::User { name } if name == ANONYMOUS => Some(FOR_EVERYBODY),
        _ => None,
    }
}

const FOR_EVERYBODY: &str = "no role: everybody without credentials would get it";

fn add(
    roles: &mut BTreeMap<String, Rules>,
    verb: &str,
    resource: &str,
    needs: &Needs,
    remarks: &mut Vec<String>,
) {
    let verb = verb.to_owned();
    match (&needs.what, &needs.places) {
        (What::Unnameable, _) => {
            remarks.push(format!("{verb} {resource}: no rule can name it: it is too long, or has a *"))
        }
        (What::Path(path), _) => {
            roles.entry(String::new()).or_default().paths.entry(path.clone()).or_default().insert(verb);
        }
        (What::Resource { group, resource: of }, Places::Everywhere) => {
            remarks.push(format!(
                "{verb} {resource}: used in so many namespaces that the rule is for all of them"
            ));
            let rule = (group.clone(), of.clone(), Vec::new());
            roles.entry(String::new()).or_default().resources.entry(rule).or_default().insert(verb);
        }
        (What::Resource { group, resource: of }, Places::Some(places)) => {
            for (namespace, names) in places {
                if !namespace.is_empty() && !is_dns_label(namespace) {
                    remarks.push(format!("{verb} {resource}: no namespace can be called {namespace:?}"));
                    continue;
                }
                let names = match names {
                    Names::Some(names) => names.iter().cloned().collect(),
                    Names::All => Vec::new(),
                };
                let rule = (group.clone(), of.clone(), names);
                let rules = roles.entry(namespace.clone()).or_default();
                rules.resources.entry(rule).or_default().insert(verb.clone());
            }
        }
    }
}

impl Rules {
    /// As few rules as there are different verbs and names.
    fn into_rules(self) -> Vec<PolicyRule> {
        let mut merged = BTreeMap::<(String, Vec<String>, Vec<String>), Vec<String>>::new();
        for ((group, resource, names), verbs) in self.resources {
            merged.entry((group, names, verbs.into_iter().collect())).or_default().push(resource);
        }
        let of_resources = merged.into_iter().map(|((group, resource_names, verbs), resources)| PolicyRule {
            verbs,
            api_groups: vec![group],
            resources,
            resource_names,
            ..PolicyRule::default()
        });
        let mut by_verbs = BTreeMap::<BTreeSet<String>, Vec<String>>::new();
        for (path, verbs) in self.paths {
            by_verbs.entry(verbs).or_default().push(path);
        }
        let of_paths = by_verbs.into_iter().map(|(verbs, paths)| PolicyRule {
            verbs: verbs.into_iter().collect(),
            non_resource_urls: paths,
            ..PolicyRule::default()
        });
        of_resources.chain(of_paths).collect()
    }
}

/// A role and its binding.
fn objects(subject: &Subject, name: &str, namespace: &str, rules: Rules) -> [Value; 2] {
    let version = format!("{RBAC_GROUP}/v1");
    let (role, binding, metadata) = match namespace {
        "" => ("ClusterRole", "ClusterRoleBinding", json!({"name": name})),
        _ => ("Role", "RoleBinding", json!({"name": name, "namespace": namespace})),
    };
    let role_ref = json!({"apiGroup": RBAC_GROUP, "kind": role, "name": name});
    [
        json!({"apiVersion": version, "kind": role, "metadata": metadata, "rules": rules.into_rules()}),
        json!({
            "apiVersion": version, "kind": binding, "metadata": metadata, "roleRef": role_ref,
            "subjects": [subject.in_binding()],
        }),
    ]
}
