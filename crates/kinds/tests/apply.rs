//! Server-side apply against naive models: sets of paths, and objects as flat maps of fields.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use portcullis_kinds::apply::schema::{Key, Scalar, Structure};
use portcullis_kinds::apply::{
    Application, ApplyError, Comparison, Endpoint, FieldSet, Schema, Typed, Versions, Write, fields,
};
use portcullis_kinds::resource::Keeps;
use portcullis_kinds::schema::core::pod::POD;
use portcullis_kinds::{Map, decode, protobuf};
use proptest::prelude::*;
use serde_json::{Value, json};

type Path = Vec<String>;
type Paths = BTreeSet<Path>;

/// The `fieldsV1` of a set of paths of steps.
fn fields_v1(paths: &Paths) -> Value {
    fn at(paths: &Paths) -> Map {
        let mut below: BTreeMap<&String, Paths> = BTreeMap::new();
        for path in paths {
            if let Some((first, rest)) = path.split_first() {
                below.entry(first).or_default().insert(rest.to_vec());
            }
        }
        let mut members = Map::new();
        for (step, paths) in below {
            let mut inner = at(&paths);
            if paths.contains(&Vec::new()) && paths.len() > 1 {
                inner.insert(".".to_owned(), json!({}));
            }
            members.insert(step.clone(), inner.into());
        }
        members
    }
    at(paths).into()
}

/// The paths of a `fieldsV1`.
fn paths_of(fields: &Value) -> Paths {
    fn walk(fields: &Value, path: &Path, found: &mut Paths) {
        for (step, below) in fields.as_object().unwrap() {
            if step == "." {
                found.insert(path.clone());
                continue;
            }
            let path: Path = path.iter().chain([step]).cloned().collect();
            if below == &json!({}) {
                found.insert(path);
            } else {
                walk(below, &path, found);
            }
        }
    }
    let mut found = Paths::new();
    walk(fields, &Vec::new(), &mut found);
    found
}

fn paths() -> impl Strategy<Value = Paths> {
    let step = prop_oneof!["f:[a-c]", Just(r#"k:{"name":"x"}"#.to_owned()), Just(r#"v:"<""#.to_owned())]
        .prop_map(|step| step.replace('<', "\\u003c"));
    prop::collection::btree_set(prop::collection::vec(step, 1..4), 0..8)
}

fn set(paths: &Paths) -> FieldSet {
    FieldSet::parse(Some(&fields_v1(paths))).unwrap()
}

proptest! {
    #[test]
    fn field_sets_are_sets_and_survive_their_text(one in paths(), two in paths()) {
        let (a, b) = (set(&one), set(&two));
        prop_assert_eq!(a.print(), fields_v1(&one));
        prop_assert_eq!(FieldSet::parse(Some(&a.print())).unwrap(), a.clone());
        let mut union = a.clone();
        union.add(b.clone());
        prop_assert_eq!(paths_of(&union.print()), &one | &two);
        let mut difference = a.clone();
        difference.subtract(&b);
        prop_assert_eq!(paths_of(&difference.print()), &one - &two);
        prop_assert_eq!(paths_of(&a.common(&b).print()), &one & &two);
        prop_assert_eq!(a.is_within(&b), one.is_subset(&two));
        let mut deep = a;
        deep.subtract_deep(&b);
        let is_below = |path: &&Path| two.iter().any(|other| path.starts_with(other));
        let left: Paths = one.iter().filter(|path| !is_below(path)).cloned().collect();
        prop_assert_eq!(paths_of(&deep.print()), left);
    }
}

/// A kind with one field of every sort.
#[derive(Clone, Copy, PartialEq)]
enum Toy {
    Object,
    Scalar,
    Labels,
    Entries,
    Entry,
    Tags,
    Atomic,
    Part,
}

impl Schema for Toy {
    fn structure(self) -> Structure {
        match self {
            Self::Object | Self::Entry | Self::Labels | Self::Part => Structure::Map,
            Self::Scalar => Structure::Scalar(Scalar::Any),
            Self::Entries => Structure::KeyedList,
            Self::Tags => Structure::Set,
            Self::Atomic => Structure::AtomicList,
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Object, "plain") | (Self::Entry, "name" | "value") | (Self::Part, "plain") => {
                Some(Self::Scalar)
            }
            (Self::Object | Self::Part, "labels") => Some(Self::Labels),
            (Self::Object, "entries") => Some(Self::Entries),
            (Self::Object, "tags") => Some(Self::Tags),
            (Self::Object, "atomic") => Some(Self::Atomic),
            (Self::Object, "part") => Some(Self::Part),
            _ => None,
        }
    }

    fn inner(self) -> Option<Self> {
        match self {
            Self::Labels | Self::Tags | Self::Atomic => Some(Self::Scalar),
            Self::Entries => Some(Self::Entry),
            _ => None,
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        (*self == Self::Entries).then_some(Key { name: "name", default: None }).into_iter()
    }
}

struct OneVersion;

impl Versions for OneVersion {
    type Schema = Toy;

    fn schema(&self, version: &str) -> Option<Toy> {
        (version == "v1").then_some(Toy::Object)
    }

    fn convert<'o>(&self, object: Cow<'o, Map>, _: &str, _: &str) -> Option<Cow<'o, Map>> {
        Some(object)
    }
}

const ENDPOINT: Endpoint<'static, OneVersion> = Endpoint {
    versions: &OneVersion,
    version: "v1",
    subresource: "",
    keeps: Keeps::ALL,
    now: "2026-01-02T03:04:05Z",
};

fn word() -> impl Strategy<Value = String> {
    "[xyz]"
}

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(word(), word(), 1..3).prop_map(|labels| json!(labels))
}

/// An object without empty parts, which the model does not know.
fn objects() -> impl Strategy<Value = Map> {
    let entries = prop::collection::btree_map(word(), prop::option::of(word()), 1..4).prop_map(|entries| {
        let entry = |(name, value): (String, Option<String>)| match value {
            Some(value) => json!({"name": name, "value": value}),
            None => json!({"name": name}),
        };
        entries.into_iter().map(entry).collect::<Value>()
    });
    let part = (prop::option::of(word()), labels()).prop_map(|(plain, labels)| match plain {
        Some(plain) => json!({"plain": plain, "labels": labels}),
        None => json!({"labels": labels}),
    });
    let tags = prop::collection::btree_set(word(), 1..4).prop_map(|tags| json!(tags));
    let atomic = prop::collection::vec(word(), 1..3).prop_map(|items| json!(items));
    let members = (
        prop::option::of(word().prop_map(Value::from)),
        prop::option::of(labels()),
        prop::option::of(entries),
        prop::option::of(tags),
        prop::option::of(atomic),
        prop::option::of(part),
    );
    members.prop_map(|(plain, labels, entries, tags, atomic, part)| {
        let names = ["plain", "labels", "entries", "tags", "atomic", "part"];
        let values = [plain, labels, entries, tags, atomic, part];
        let given = names.into_iter().zip(values).filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.collect()
    })
}

/// An object as a flat map: every plain value, entry and list with one owner, by its path of steps.
fn flat(object: &Map) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    let step = |name: &str| format!("f:{name}");
    let mut put = |path: &[&str], value: &Value| {
        found.insert(path.iter().map(|step| (*step).to_owned()).collect::<Path>(), value.clone());
    };
    for (name, value) in object {
        let top = step(name);
        match (name.as_str(), value) {
            (_, Value::Null) | ("metadata", _) => {}
            ("labels", Value::Object(labels)) => {
                labels.iter().for_each(|(key, value)| put(&[&top, &step(key)], value));
            }
            ("part", Value::Object(part)) => {
                for (key, value) in part {
                    match value {
                        Value::Null => {}
                        Value::Object(labels) => labels
                            .iter()
                            .for_each(|(label, value)| put(&[&top, &step(key), &step(label)], value)),
                        value => put(&[&top, &step(key)], value),
                    }
                }
            }
            ("entries", Value::Array(entries)) => {
                for entry in entries {
                    let key = format!("k:{{\"name\":{}}}", entry["name"]);
                    put(&[&top, &key], &Value::Null);
                    let members = entry.as_object().unwrap();
                    members.iter().for_each(|(member, value)| put(&[&top, &key, &step(member)], value));
                }
            }
            ("tags", Value::Array(tags)) => {
                tags.iter().for_each(|tag| put(&[&top, &format!("v:{tag}")], &Value::Null));
            }
            (_, value) => put(&[&top], value),
        }
    }
    found
}

/// The containers, which the model does not know.
fn is_container(path: &Path) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path.as_slice(), ["f:labels" | "f:entries" | "f:tags" | "f:part"] | ["f:part", "f:labels"])
}

type Managers = BTreeMap<(String, String), Paths>;

fn managers(object: &Map) -> Managers {
    let entries = object.get("metadata").and_then(|metadata| metadata["managedFields"].as_array());
    let mut found = Managers::new();
    for entry in entries.into_iter().flatten() {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        let mut paths = paths_of(&entry["fieldsV1"]);
        paths.retain(|path| !is_container(path));
        if !paths.is_empty() {
            found.insert((text("manager"), text("operation")), paths);
        }
    }
    found
}

#[derive(Clone, Debug)]
enum Step {
    Apply { manager: String, forces: bool, config: Map },
    Update { manager: String, object: Map },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let apply = ("[ab]", any::<bool>(), objects()).prop_map(|(manager, forces, config)| Step::Apply {
        manager,
        forces,
        config,
    });
    let update = ("[mn]", objects()).prop_map(|(manager, object)| Step::Update { manager, object });
    prop::collection::vec(prop_oneof![2 => apply, 1 => update], 1..8)
}

/// The naive model.
#[derive(Default)]
struct Model {
    is_there: bool,
    fields: BTreeMap<Path, Value>,
    managers: Managers,
}

impl Model {
    fn drop_empty(&mut self) {
        self.managers.retain(|_, paths| !paths.is_empty());
    }

    /// Whether a path or an entry above it is gone.
    fn forget(&mut self, gone: &Paths) {
        let is_gone = |path: &Path| gone.iter().any(|above| path.starts_with(above));
        self.fields.retain(|path, _| !is_gone(path));
        for paths in self.managers.values_mut() {
            paths.retain(|path| !is_gone(path));
        }
        self.drop_empty();
    }

    fn update(&mut self, manager: &str, new: BTreeMap<Path, Value>) {
        let is_tracked = !self.is_there || !self.managers.is_empty();
        self.is_there = true;
        let old = std::mem::replace(&mut self.fields, new);
        if !is_tracked {
            return;
        }
        let changed: Paths = self
            .fields
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(value))
            .map(|(p, _)| p.clone())
            .collect();
        let gone: Paths = old.keys().filter(|path| !self.fields.contains_key(*path)).cloned().collect();
        for paths in self.managers.values_mut() {
            paths.retain(|path| !changed.contains(path) && !gone.contains(path));
        }
        self.managers.entry((manager.to_owned(), "Update".to_owned())).or_default().extend(changed);
        self.drop_empty();
    }

    /// Returns the conflicts, and changes nothing then.
    fn apply(&mut self, manager: &str, forces: bool, config: &BTreeMap<Path, Value>) -> usize {
        let own = (manager.to_owned(), "Apply".to_owned());
        let mut managers = self.managers.clone();
        if self.is_there && managers.is_empty() && !self.fields.is_empty() {
            let all = self.fields.keys().cloned().collect();
            managers.insert(("before-first-apply".to_owned(), "Update".to_owned()), all);
        }
        let is_changed =
            |path: &Path| config.get(path).is_some_and(|value| self.fields.get(path) != Some(value));
        let others = || managers.iter().filter(|(manager, _)| **manager != own);
        let conflicts: usize =
            others().map(|(_, paths)| paths.iter().filter(|path| is_changed(path)).count()).sum();
        if conflicts > 0 && !forces {
            return conflicts;
        }
        let wanted: Paths = config.keys().cloned().collect();
        let changed: Paths = wanted.iter().filter(|path| is_changed(path)).cloned().collect();
        let last = managers.get(&own).cloned().unwrap_or_default();
        let held: Paths = others().flat_map(|(_, paths)| paths.clone()).chain(wanted.clone()).collect();
        let gone: Paths = last.difference(&held).cloned().collect();
        for (_, paths) in managers.iter_mut().filter(|(manager, _)| **manager != own) {
            paths.retain(|path| !changed.contains(path));
        }
        managers.insert(own, wanted);
        self.managers = managers;
        self.fields.extend(config.clone());
        self.is_there = true;
        self.forget(&gone);
        0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Every field that an object has is the one of the model, and so is every manager; what is applied twice changes
    /// nothing.
    #[test]
    fn applying_and_updating_agree_with_a_model_of_flat_fields(steps in steps()) {
        let (mut object, mut model) = (Map::new(), Model::default());
        for step in steps {
            match step {
                Step::Update { manager, object: mut new } => {
                    ENDPOINT.update(&manager, Write { live: &object, is_new: object.is_empty() }, &mut new);
                    model.update(&manager, flat(&new));
                    object = new;
                    if object.is_empty() {
                        object.insert("metadata".to_owned(), json!({}));
                    }
                }
                Step::Apply { manager, forces, config } => {
                    let empty = Map::new();
                    let apply = |live: &Map| {
                        ENDPOINT.apply(Application { live, empty: &empty, config: &config, manager: &manager, forces })
                    };
                    let conflicts = model.apply(&manager, forces, &flat(&config));
                    match apply(&object) {
                        Ok(applied) => {
                            prop_assert_eq!(conflicts, 0);
                            object = applied;
                            if object.is_empty() {
                                object.insert("metadata".to_owned(), json!({}));
                            }
                            prop_assert_eq!(&apply(&object).unwrap(), &object);
                        }
                        Err(ApplyError::Conflicts(found)) => prop_assert_eq!(found.list().len(), conflicts),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            prop_assert_eq!(&flat(&object), &model.fields);
            prop_assert_eq!(&managers(&object), &model.managers);
        }
    }

    /// A comparison finds exactly the fields that differ, and none between an object and itself.
    #[test]
    fn comparing_finds_what_differs(old in objects(), new in objects()) {
        prop_assert!(Comparison::of(Toy::Object, &old, &old).is_empty());
        let found = Comparison::of(Toy::Object, &old, &new);
        let leaves = |set: &FieldSet| -> Paths {
            paths_of(&set.print()).into_iter().filter(|path| !is_container(path)).collect()
        };
        let (was, is) = (flat(&old), flat(&new));
        let only = |one: &BTreeMap<Path, Value>, other: &BTreeMap<Path, Value>| -> Paths {
            one.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
        };
        prop_assert_eq!(leaves(&found.added), only(&is, &was));
        prop_assert_eq!(leaves(&found.removed), only(&was, &is));
        let differs = |(path, value): &(&Path, &Value)| was.get(*path).is_some_and(|old| old != *value);
        prop_assert_eq!(leaves(&found.modified), is.iter().filter(differs).map(|(p, _)| p.clone()).collect::<Paths>());
        let mut all = leaves(&fields(Toy::Object, &new));
        all.retain(|path| !is_container(path));
        prop_assert_eq!(all, is.into_keys().collect::<Paths>());
    }
}

/// The order that Kubernetes gives lists: that of the configuration, with what others added in between.
#[test]
fn lists_are_in_the_order_of_the_configuration() {
    let merged = |live: &[&str], config: &[&str]| {
        let object = |tags: &[&str]| Map::from_iter([("tags".to_owned(), json!(tags))]);
        let (live, config) = (object(live), object(config));
        let empty = Map::new();
        let application =
            Application { live: &live, empty: &empty, config: &config, manager: "a", forces: true };
        ENDPOINT.apply(application).unwrap()["tags"].clone()
    };
    assert_eq!(merged(&["1", "2", "3"], &["3", "1"]), json!(["2", "3", "1"]));
    assert_eq!(merged(&["a", "b"], &["b", "c", "a"]), json!(["b", "c", "a"]));
    assert_eq!(merged(&["a", "x", "b"], &["a", "b", "c"]), json!(["a", "x", "b", "c"]));
    assert_eq!(merged(&[], &["b", "a"]), json!(["b", "a"]));
}

/// A list of many entries is merged and compared in time that grows with its length: ten thousand in far less than what
/// comparing each with each would take.
#[test]
fn long_lists_are_not_compared_entry_by_entry() {
    let entry = |index: usize, image: &str| json!({"name": format!("c{index}"), "image": image});
    let pod = |image: &str| -> Map {
        let containers: Vec<Value> = (0..10_000).map(|index| entry(index, image)).collect();
        Map::from_iter([("spec".to_owned(), json!({"containers": containers}))])
    };
    let (old, new) = (pod("a"), pod("b"));
    let schema = Typed::of(&POD);
    let changed = Comparison::of(schema, &old, &new);
    assert_eq!(paths_of(&changed.modified.print()).len(), 10_000);
    assert!(changed.added.is_empty() && changed.removed.is_empty());
}

/// In protobuf, `fieldsV1` is JSON in bytes, as kube-apiserver stores it.
#[test]
fn managed_fields_survive_protobuf() {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "managedFields": [{
            "manager": "kubectl",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}},
        }]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let pod = decode::value(pod, &POD).unwrap().object;
    let bytes = protobuf::encode(&pod, &POD).unwrap();
    assert_eq!(protobuf::decode(&bytes, &POD).unwrap(), pod);
}
