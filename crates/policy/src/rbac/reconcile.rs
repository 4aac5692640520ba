//! Computes the writes that reconcile the default policy at start-up (RB-100 to RB-109).
//!
//! Reconciliation only adds missing objects, permissions and subjects. It keeps everything that an administrator has
//! added, and skips objects with the annotation (RB-106). This module never writes and never retries.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::covers::covers;
use super::default_policy::{self, AUTOUPDATE_ANNOTATION};
use super::escalation::describe;
use crate::features::FeatureGates;
use crate::objects::Kind;
use crate::objects::rbac::{Binding, LabelSelector, Role, Subject};

/// A JSON object.
pub type Map = serde_json::Map<String, Value>;

/// The changes to make at start-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, in order.
    pub changes: Vec<Change>,
    /// Warnings about missing items that must not be added (RB-106), and about unreadable objects.
    pub warnings: Vec<String>,
}

/// One object to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The kind of the write.
    pub action: Action,
    /// The object's kind.
    pub kind: Kind,
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object, with `apiVersion` and `kind`. On update, the stored one with the missing items added; otherwise
    /// without system metadata.
    pub object: Map,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object does not exist (RB-102).
    Create,
    /// The object exists but lacks something (RB-103, RB-104).
    Update,
    /// The binding exists but refers to another role: delete it, with its UID as a precondition, then create this one
    /// (RB-105).
    Recreate,
}

/// The roles that are aggregated today, and the roles that contain their own rules (RB-107).
const AGGREGATED: [(&str, &str); 3] = [
    ("admin", "system:aggregate-to-admin"),
    ("edit", "system:aggregate-to-edit"),
    ("view", "system:aggregate-to-view"),
];

/// The binding that was split, and the new one (RB-108).
const SPLIT: (&str, &str) = ("system:discovery", "system:public-info-viewer");

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

impl Plan {
    /// The namespaces that these changes need; the caller must create missing ones first (RB-109).
    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.changes.iter().map(|change| change.namespace.as_str()).filter(|ns| !ns.is_empty()).collect()
    }
}

/// Compares the stored roles and bindings with the default policy. Other kinds are ignored.
///
/// # Errors
/// Never in practice: the default policy can always be serialized as JSON.
pub fn plan<'a>(
    gates: FeatureGates,
    stored: impl IntoIterator<Item = (Kind, &'a Map)>,
) -> Result<Plan, serde_json::Error> {
    let mut stored = Stored::of(stored);
    stored.migrate_to_aggregation();
    let documents = default_policy::documents(gates)?;
    let documents = documents.into_iter().filter_map(|document| match document {
        Value::Object(object) => Some((kind_of(&object)?, object)),
        _ => None,
    });
    let documents: Vec<(Kind, Map)> = documents.collect();
    stored.split_discovery(&documents);
    let mut plan = Plan::default();
    for (kind, expected) in documents {
        stored.reconcile(kind, expected, &mut plan);
    }
    // Migrated objects that are no longer part of the default policy, if there are any.
    plan.changes
        .extend(stored.migrated.into_iter().map(|(kind, object)| change(Action::Create, kind, object)));
    Ok(plan)
}

/// The stored objects, with those that migrations add.
struct Stored<'a> {
    objects: BTreeMap<(Kind, String, String), &'a Map>,
    migrated: Vec<(Kind, Map)>,
}

impl<'a> Stored<'a> {
    fn of(objects: impl IntoIterator<Item = (Kind, &'a Map)>) -> Self {
        let key = |kind: Kind, object: &Map| (kind, field(object, "namespace"), field(object, "name"));
        let objects = objects.into_iter().map(|(kind, object)| (key(kind, object), object)).collect();
        Self { objects, migrated: Vec::new() }
    }

    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<&'a Map> {
        self.objects.get(&(kind, namespace.to_owned(), name.to_owned())).copied()
    }

    /// RB-107: moves the rules of a role that is not aggregated yet to the role that it will aggregate.
    fn migrate_to_aggregation(&mut self) {
        for (name, feeder) in AGGREGATED {
            if self.find(Kind::ClusterRole, "", feeder).is_some() {
                continue;
            }
            let Some(role) = self.find(Kind::ClusterRole, "", name) else { continue };
            if role.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
                return;
            }
            let mut copy = without_system_metadata(role);
            with_metadata(&mut copy, |metadata| metadata.insert("name".to_owned(), json!(feeder)));
            self.migrated.push((Kind::ClusterRole, copy));
        }
    }

    /// RB-108: users who could read all of discovery keep access to the public part.
    fn split_discovery(&mut self, documents: &[(Kind, Map)]) {
        let (from, to) = SPLIT;
        let kind = Kind::ClusterRoleBinding;
        if self.find(kind, "", to).is_some() {
            return;
        }
        let Some(from) = self.find(kind, "", from) else { return };
        let is_new = |(k, object): &&(Kind, Map)| *k == kind && field(object, "name") == to;
        let Some((_, binding)) = documents.iter().find(is_new) else { return };
        let mut binding = binding.clone();
        set(&mut binding, "subjects", from.get("subjects").cloned());
        for key in ["labels", "annotations"] {
            let value = from.get("metadata").and_then(|metadata| metadata.get(key)).cloned();
            with_metadata(&mut binding, |metadata| set(metadata, key, value));
        }
        self.migrated.push((kind, binding));
    }

    fn reconcile(&mut self, kind: Kind, expected: Map, plan: &mut Plan) {
        let (namespace, name) = (field(&expected, "namespace"), field(&expected, "name"));
        let is_this = |(k, object): &(Kind, Map)| *k == kind && field(object, "name") == name;
        let migrated = self.migrated.iter().position(is_this).map(|place| self.migrated.swap_remove(place).1);
        let is_migrated = migrated.is_some();
        let Some(present) = migrated.or_else(|| self.find(kind, &namespace, &name).cloned()) else {
            plan.changes.push(change(Action::Create, kind, expected));
            return;
        };
        let reconciled = match kind {
            Kind::Role | Kind::ClusterRole => reconciled_role(&present, &expected),
            _ => reconciled_binding(&present, &expected),
        };
        let place = || match namespace.as_str() {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {name} in namespace {namespace}"),
        };
        match reconciled {
            Err(error) => {
                plan.warnings.push(format!("{} is left as it is: it cannot be read: {error}", place()))
            }
            Ok(Some((_, _, missing))) if is_protected(&present) => {
                plan.warnings.push(format!(
                    "{} is left as it is, because annotation {AUTOUPDATE_ANNOTATION} is \"false\"; it lacks {missing}",
                    place()
                ));
                if is_migrated {
                    plan.changes.push(change(Action::Create, kind, present));
                }
            }
            Ok(Some((action, object, _))) => {
                let action = if is_migrated { Action::Create } else { action };
                plan.changes.push(change(action, kind, object));
            }
            Ok(None) if is_migrated => plan.changes.push(change(Action::Create, kind, present)),
            Ok(None) => {}
        }
    }
}

/// The write, and a description of what was missing; `None` if nothing is.
type Reconciled = Result<Option<(Action, Map, String)>, serde_json::Error>;

/// RB-103.
fn reconciled_role(present: &Map, expected: &Map) -> Reconciled {
    let (old, new): (Role, Role) = (read(present)?, read(expected)?);
    let mut object = present.clone();
    let mut missing = merge_metadata(&mut object, expected);
    let (_, rules) = covers(&old.rules, &new.rules);
    if !rules.is_empty() {
        missing.extend(rules.iter().map(|rule| describe(rule).to_string()));
        append(&mut object, "rules", &rules)?;
    }
    let selectors = |role: &Role| -> Vec<LabelSelector> {
        role.aggregation_rule.iter().flat_map(|rule| rule.cluster_role_selectors.clone()).collect()
    };
    let (old_selectors, mut new_selectors) = (selectors(&old), selectors(&new));
    new_selectors.retain(|selector| !old_selectors.iter().any(|old| is_same_selector(old, selector)));
    if new.aggregation_rule.is_none() && old.aggregation_rule.is_some() {
        missing.push("rules of its own, it aggregates those of others".to_owned());
        object.remove("aggregationRule");
    } else if !new_selectors.is_empty() {
        missing.push("selectors of its aggregation rule".to_owned());
        let rule = object.entry("aggregationRule").or_insert(Value::Null);
        with_map(rule, |rule| append(rule, "clusterRoleSelectors", &new_selectors))?;
    }
    Ok(answer(Action::Update, object, &missing))
}

/// RB-104, RB-105.
fn reconciled_binding(present: &Map, expected: &Map) -> Reconciled {
    let (mut old, mut new): (Binding, Binding) = (read(present)?, read(expected)?);
    old.set_defaults();
    new.set_defaults();
    if old.role_ref != new.role_ref {
        let missing = [format!("the reference to {} {}", new.role_ref.kind, new.role_ref.name)];
        return Ok(answer(Action::Recreate, expected.clone(), &missing));
    }
    let mut object = present.clone();
    let mut missing = merge_metadata(&mut object, expected);
    let subjects: Vec<Subject> = new.subjects.into_iter().filter(|s| !old.subjects.contains(s)).collect();
    if !subjects.is_empty() {
        missing.extend(subjects.iter().map(|subject| format!("{} {}", subject.kind, subject.name)));
        append(&mut object, "subjects", &subjects)?;
    }
    Ok(answer(Action::Update, object, &missing))
}

fn answer(action: Action, object: Map, missing: &[String]) -> Option<(Action, Map, String)> {
    (!missing.is_empty()).then(|| (action, object, missing.join(", ")))
}

/// RB-106: only the exact text `false` counts.
fn is_protected(object: &Map) -> bool {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(|a| a.get(AUTOUPDATE_ANNOTATION)).and_then(Value::as_str) == Some("false")
}

/// Adds missing labels and annotations; existing values take precedence (RB-103). Returns those that were missing.
fn merge_metadata(object: &mut Map, expected: &Map) -> Vec<String> {
    let mut missing = Vec::new();
    for (part, word) in [("labels", "label"), ("annotations", "annotation")] {
        let Some(Value::Object(wanted)) = expected.get("metadata").and_then(|metadata| metadata.get(part))
        else {
            continue;
        };
        for (key, value) in wanted {
            let is_there = |object: &Map| {
                object
                    .get("metadata")
                    .and_then(|metadata| metadata.get(part))
                    .is_some_and(|p| p.get(key).is_some())
            };
            if is_there(object) {
                continue;
            }
            with_metadata(object, |metadata| {
                with_map(metadata.entry(part).or_insert(Value::Null), |part| {
                    part.insert(key.clone(), value.clone())
                })
            });
            missing.push(format!("{word} {key}"));
        }
    }
    missing
}

/// Absent and empty are the same, and labels have no order.
fn is_same_selector(a: &LabelSelector, b: &LabelSelector) -> bool {
    let labels = |selector: &LabelSelector| selector.match_labels.iter().cloned().collect::<BTreeMap<_, _>>();
    labels(a) == labels(b) && a.match_expressions == b.match_expressions
}

fn change(action: Action, kind: Kind, mut object: Map) -> Change {
    object.insert("apiVersion".to_owned(), json!(API_VERSION));
    object.insert("kind".to_owned(), json!(kind.as_str()));
    let (namespace, name) = (field(&object, "namespace"), field(&object, "name"));
    Change { action, kind, namespace, name, object }
}

fn kind_of(object: &Map) -> Option<Kind> {
    Kind::of(object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?)
}

fn read<T: serde::de::DeserializeOwned>(object: &Map) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(object.clone()))
}

/// Appends items to a list that may be absent or `null`.
fn append<T: serde::Serialize>(object: &mut Map, key: &str, items: &[T]) -> Result<(), serde_json::Error> {
    let list = object.entry(key).or_insert(Value::Null);
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        for item in items {
            list.push(serde_json::to_value(item)?);
        }
    }
    Ok(())
}

/// A string of the metadata; empty if not set.
fn field(object: &Map, key: &str) -> String {
    let value = object.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

fn with_metadata<T>(object: &mut Map, change: impl FnOnce(&mut Map) -> T) -> T {
    with_map(object.entry("metadata").or_insert(Value::Null), change)
}

/// Changes the object in a value, which is replaced by an empty object if it is something else.
fn with_map<T>(place: &mut Value, change: impl FnOnce(&mut Map) -> T) -> T {
    let mut map = match place.take() {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let result = change(&mut map);
    *place = Value::Object(map);
    result
}

fn set(object: &mut Map, key: &str, value: Option<Value>) {
    match value {
        Some(value) => object.insert(key.to_owned(), value),
        None => object.remove(key),
    };
}

/// A copy without system metadata, as a client would create it.
fn without_system_metadata(object: &Map) -> Map {
    const FILLED_IN: [&str; 6] =
        ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];
    let mut copy = object.clone();
    with_metadata(&mut copy, |metadata| metadata.retain(|key, _| !FILLED_IN.contains(&key.as_str())));
    copy
}
