//! Which of its names a definition gets: those that no other definition of its group has.

use std::collections::HashSet;

use kinds::Map;
use kinds::resources::definitions::status::{Condition, holds, set};
use serde_json::{Value, json};

/// Whether a definition has all the names that it wants.
pub(super) fn are_accepted(definition: &Map) -> bool {
    holds(definition, "NamesAccepted")
        && at(definition, &["spec", "names"]) == at(definition, &["status", "acceptedNames"])
}

/// The names that a definition has.
#[derive(Debug)]
pub(super) struct Names {
    group: String,
    /// The names of its resource: plural, singular and short ones.
    resources: Vec<String>,
    /// The names of its kind and of the lists of it.
    kinds: Vec<String>,
}

impl Names {
    pub(super) fn of(definition: &Map) -> Self {
        let names = at(definition, &["status", "acceptedNames"]);
        let name =
            |name: &str| names.and_then(|names| names.get(name)).and_then(Value::as_str).map(str::to_owned);
        let resources = ["plural", "singular"].into_iter().filter_map(name);
        Self {
            group: text(definition, &["spec", "group"]).to_owned(),
            resources: resources.chain(texts(names, "shortNames")).collect(),
            kinds: ["kind", "listKind"].into_iter().filter_map(name).collect(),
        }
    }
}

/// Gives a definition those of its names that no other has, and says whether these are all.
pub(super) fn accept<'d>(definition: &mut Map, others: impl Iterator<Item = &'d Names>, now: i64) {
    let group = text(definition, &["spec", "group"]).to_owned();
    let mut resources = HashSet::new();
    let mut kinds = HashSet::new();
    for other in others.filter(|other| other.group == group) {
        resources.extend(other.resources.iter().map(String::as_str));
        kinds.extend(other.kinds.iter().map(String::as_str));
    }
    let wanted = at(definition, &["spec", "names"]).cloned().unwrap_or_default();
    let mut names = at(definition, &["status", "acceptedNames"]).cloned().unwrap_or_default();
    let mut conflict = None;
    for (name, taken, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        let own: HashSet<String> = match name {
            "shortNames" => texts(Some(&names), name).collect(),
            name => names.get(name).and_then(Value::as_str).map(str::to_owned).into_iter().collect(),
        };
        let asked: Vec<String> = match name {
            "shortNames" => texts(Some(&wanted), name).collect(),
            name => wanted.get(name).and_then(Value::as_str).map(str::to_owned).into_iter().collect(),
        };
        let used: Vec<&String> =
            asked.iter().filter(|name| !own.contains(*name) && taken.contains(name.as_str())).collect();
        match used.is_empty() {
            true => copy(&mut names, &wanted, name),
            false => {
                let used: Vec<String> =
                    used.iter().map(|name| format!("{name:?} is already in use")).collect();
                conflict = Some((reason, used.join(", ")));
            }
        }
    }
    copy(&mut names, &wanted, "categories");
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".to_owned(), names);
    }
    let (reason, message) = conflict.clone().unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    let is_accepted = conflict.is_none();
    let accepted = Condition { kind: "NamesAccepted", holds: is_accepted, reason, message: &message };
    set(definition, accepted, now);
    if holds(definition, "Established") {
        return;
    }
    let (reason, message) = match is_accepted {
        true => ("Installing", "the initial names have been accepted"),
        false => ("NotAccepted", "not all names are accepted"),
    };
    set(definition, Condition { kind: "Established", holds: false, reason, message }, now);
}

fn at<'o>(object: &'o Map, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(*name))
}

fn text<'o>(object: &'o Map, path: &[&str]) -> &'o str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

fn texts(names: Option<&Value>, list: &str) -> impl Iterator<Item = String> + use<> {
    let list = names.and_then(|names| names.get(list)).and_then(Value::as_array).cloned().unwrap_or_default();
    list.into_iter().filter_map(|name| name.as_str().map(str::to_owned))
}

fn copy(names: &mut Value, wanted: &Value, name: &str) {
    if names.is_null() {
        *names = json!({});
    }
    let Some(names) = names.as_object_mut() else { return };
    match wanted.get(name) {
        Some(value) => names.insert(name.to_owned(), value.clone()),
        None => names.remove(name),
    };
}
