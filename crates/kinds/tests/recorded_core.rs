//! Recorded requests about the kinds of the core group go through their rows as through a server, and come out as
//! Kubernetes answered them: objects, causes of refusals, rows of tables.

#![allow(clippy::disallowed_macros, reason = "prints what was compared")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what the recordings hold is known, and a test may stop"
)]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::time::Instant;
use portcullis_kinds::Map;
use portcullis_kinds::decode;
use portcullis_kinds::meta;
use portcullis_kinds::patch::{self, PatchKind};
use portcullis_kinds::resource::{Refusal, Resource};
use portcullis_kinds::resources;
use portcullis_kinds::resources::core::{
    events, namespaces, persistent_volume_claims, persistent_volumes, services,
};
use portcullis_testkit::recorded;
use serde_json::{Value, json};

/// The kinds that are held to the recordings here.
const KINDS: &[&str] = &[
    "configmaps",
    "endpoints",
    "events",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "secrets",
    "serviceaccounts",
    "services",
];

/// Members that the recordings lack, since they differ from run to run.
const DROPPED: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "eventTime",
    "firstTimestamp",
    "generation",
    "kubeProxyVersion",
    "lastHeartbeatTime",
    "lastTimestamp",
    "lastTransitionTime",
    "managedFields",
    "message",
    "resourceVersion",
    "uid",
];

fn cleaned(value: &Value) -> Value {
    recorded::without(value, DROPPED)
}

/// Whether one value is contained in another, as the recordings' checker has it.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| is_within(value, whole)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_within(part, whole))
        }
        (part, whole) => part == whole,
    }
}

/// What a path names.
struct Target {
    resource: &'static Resource,
    namespace: String,
    name: Option<String>,
    subresource: Option<String>,
}

fn target(line: &Value) -> Option<Target> {
    let path = line["path"].as_str().unwrap().split('?').next().unwrap();
    let (group, rest) = match path.strip_prefix("/api/v1/") {
        Some(rest) => ("", rest),
        None => ("events.k8s.io", path.strip_prefix("/apis/events.k8s.io/v1/")?),
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let (namespace, parts) = match parts.as_slice() {
        ["namespaces", _, "status" | "finalize"] => ("", parts.as_slice()),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        parts => ("", parts),
    };
    let plural = parts.first().filter(|plural| KINDS.contains(plural))?;
    let resource = resources::ALL.iter().copied().find(|row| row.group == group && row.plural == *plural)?;
    if resource.is_namespaced == namespace.is_empty() {
        return None;
    }
    let part = |i: usize| parts.get(i).map(|part| (*part).to_owned());
    Some(Target { resource, namespace: namespace.to_owned(), name: part(1), subresource: part(2) })
}

/// What a server would answer.
enum Outcome {
    Object(Map),
    Invalid(FieldErrors),
}

/// The default ranges of kube-apiserver.
static RANGES: LazyLock<services::ServiceRanges> = LazyLock::new(services::ServiceRanges::default);

/// The objects of a server, in the form in which they are stored.
#[derive(Default)]
struct Store(BTreeMap<(String, String, String), Map>);

impl Store {
    fn key(target: &Target, name: &str) -> (String, String, String) {
        (target.resource.plural.to_owned(), target.namespace.clone(), name.to_owned())
    }

    fn load(&self, target: &Target, name: &str) -> Option<Map> {
        let object = self.0.get(&Self::key(target, name))?.clone();
        Some(if target.resource.group.is_empty() { object } else { events::from_core(object) })
    }

    fn save(&mut self, target: &Target, object: Map) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let stored = if target.resource.group.is_empty() { object } else { events::to_core(object) };
        self.0.insert(Self::key(target, &name), stored);
    }

    fn classes(&self) -> Vec<Map> {
        self.0
            .iter()
            .filter(|((plural, ..), _)| plural == "storageclasses")
            .map(|(_, class)| class.clone())
            .collect()
    }

    fn pool(&self) -> services::FreePool<'static> {
        let services =
            self.0.iter().filter(|((plural, ..), _)| plural == "services").map(|(_, service)| service);
        services::FreePool::of(&RANGES, services)
    }

    fn create(&self, target: &Target, mut object: Map) -> Outcome {
        let resource = target.resource;
        meta::settle_namespace(&mut object, &target.namespace).unwrap();
        // A request that names the uid of an object says it so.
        meta::begin(&mut object, "${uid}", Instant::of_seconds(0));
        (resource.default)(&mut object);
        (resource.prepare_create)(&mut object);
        match resource.plural {
            "persistentvolumes" => persistent_volumes::stamp_phase(&mut object, None, "2026-01-01T00:00:00Z"),
            "persistentvolumeclaims" if persistent_volume_claims::takes_default_class(&object) => {
                if let Some(class) = persistent_volume_claims::default_class(self.classes().iter()) {
                    persistent_volume_claims::set_class(&mut object, class);
                }
            }
            "services" => match services::allocate(&mut object, None, &mut self.pool()) {
                Ok(()) => {}
                Err(Refusal::Invalid(errors)) => return Outcome::Invalid(errors),
                Err(Refusal::Internal(why)) => panic!("{why}"),
            },
            _ => {}
        }
        let mut errors = meta::validate(&object, resource);
        errors.extend((resource.validate_create)(&object));
        if errors.is_empty() { Outcome::Object(object) } else { Outcome::Invalid(errors) }
    }

    fn update(&self, target: &Target, mut object: Map, old: &Map) -> Outcome {
        let resource = target.resource;
        meta::settle_namespace(&mut object, &target.namespace).unwrap();
        meta::carry_over(&mut object, old);
        (resource.default)(&mut object);
        let is_whole = target.subresource.is_none();
        let of_kind = match target.subresource.as_deref() {
            None => {
                (resource.prepare_update)(&mut object, old);
                if resource.plural == "services" {
                    services::allocate(&mut object, Some(old), &mut self.pool()).unwrap();
                }
                (resource.validate_update)(&object, old)
            }
            Some("status") => {
                (resource.prepare_status)(&mut object, old);
                if resource.plural == "persistentvolumes" {
                    persistent_volumes::stamp_phase(&mut object, Some(old), "2026-01-01T00:00:00Z");
                }
                (resource.validate_status)(&object, old)
            }
            Some("finalize") => {
                namespaces::prepare_finalize(&mut object, old);
                namespaces::validate_finalize(&object)
            }
            Some(other) => panic!("{other}"),
        };
        let mut errors = meta::validate_update(&object, old, resource, !is_whole);
        errors.extend(of_kind);
        if errors.is_empty() { Outcome::Object(object) } else { Outcome::Invalid(errors) }
    }
}

/// What was compared.
#[derive(Debug, Default)]
struct Counts {
    objects: usize,
    refusals: usize,
    reads: usize,
    rows: usize,
    growths: usize,
    /// Where the recordings were not met.
    differences: Vec<String>,
}

impl Counts {
    fn expect(&mut self, holds: bool, difference: impl FnOnce() -> String) {
        if !holds {
            self.differences.push(difference());
        }
    }

    fn expect_same<T: std::fmt::Debug + PartialEq>(&mut self, place: &str, is: &T, wanted: &T) {
        self.expect(is == wanted, || format!("{place}\n   wanted {wanted:?}\n   is     {is:?}"));
    }
}

fn causes(errors: &[FieldError]) -> Vec<(String, String)> {
    let mut causes: Vec<_> =
        errors.iter().map(|error| (error.field.clone(), error.reason.as_str().to_owned())).collect();
    causes.sort();
    causes
}

fn recorded_causes(body: &Value) -> Vec<(String, String)> {
    let text = |cause: &Value, member: &str| cause[member].as_str().unwrap_or_default().to_owned();
    let mut causes: Vec<_> = body["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| (text(cause, "field"), text(cause, "reason")))
        .filter(|(field, _)| {
            !matches!(field.as_str(), "patch" | "fieldValidation" | "dryRun" | "fieldManager")
        })
        .collect();
    causes.sort();
    causes
}

/// The row's functions must have come to what was recorded.
fn compare(place: &str, line: &Value, outcome: &Outcome, counts: &mut Counts) {
    let expected = &line["expect"]["body"];
    match (outcome, line["expect"]["code"].as_u64().unwrap()) {
        (Outcome::Object(object), 200 | 201) => {
            let (is, wanted) = (cleaned(&Value::Object(object.clone())), cleaned(expected));
            match line["compare"].as_str() {
                None | Some("full") => counts.expect_same(place, &is.to_string(), &wanted.to_string()),
                Some("subset") => {
                    counts
                        .expect(is_within(&wanted, &is), || format!("{place}: {wanted} is not within {is}"));
                }
                _ => {}
            }
            counts.objects += 1;
        }
        (Outcome::Invalid(errors), 422) => {
            counts.expect_same(place, &causes(errors), &recorded_causes(expected));
            counts.refusals += 1;
        }
        // The query or the patch was refused; nothing is wrong with the object.
        (Outcome::Object(_), 422) => counts.expect_same(place, &Vec::new(), &recorded_causes(expected)),
        (Outcome::Object(_), _) => {}
        (Outcome::Invalid(errors), code) => {
            counts.expect(false, || format!("{place}: {code}, but {errors:?}"))
        }
    }
}

/// The document of a request: what it holds, or what it makes of the old object. Nothing where it is refused before.
fn document(line: &Value, target: &Target, old: Option<&Map>) -> Option<Map> {
    let (schema, body) = (target.resource.schema, &line["body"]);
    let media = line["headers"]["Content-Type"].as_str().unwrap_or("application/json");
    let decoded = match (PatchKind::of_media_type(media), body) {
        (Some(kind), body) => {
            let patch = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            decode::value(
                Value::Object(patch::apply(kind, old?.clone(), patch.as_bytes(), schema).ok()?),
                schema,
            )
        }
        (None, Value::String(text)) => decode::json(text.as_bytes(), schema),
        (None, body) => decode::value(body.clone(), schema),
    };
    let mut object = decoded.ok()?.object;
    object.entry("apiVersion").or_insert_with(|| target.resource.api_version().into());
    object.entry("kind").or_insert_with(|| target.resource.kind.into());
    Some(object)
}

fn run(file: &str, counts: &mut Counts) {
    let mut store = Store::default();
    for line in recorded::lines(file) {
        let place = format!("{file} {}", line["id"]);
        let (method, code) = (line["method"].as_str().unwrap(), line["expect"]["code"].as_u64().unwrap());
        if line["path"].as_str().unwrap().contains("/storageclasses") {
            keep_class(&mut store, &line);
        }
        let Some(target) = target(&line) else { continue };
        if matches!(target.subresource.as_deref(), Some("token" | "proxy")) {
            continue;
        }
        let is_stored = !line["path"].as_str().unwrap().contains("dryRun");
        let name = target.name.clone().unwrap_or_default();
        match method {
            "POST" if matches!(code, 201 | 422) && target.name.is_none() => {
                let Some(object) = document(&line, &target, None) else { continue };
                if object["metadata"]["name"].is_null() {
                    continue;
                }
                let outcome = store.create(&target, object);
                compare(&place, &line, &outcome, counts);
                if let (Outcome::Object(object), 201, true) = (outcome, code, is_stored) {
                    store.save(&target, object);
                }
            }
            "PUT" | "PATCH" if matches!(code, 200 | 403 | 422) => {
                let Some(old) = store.load(&target, &name) else { continue };
                let Some(object) = document(&line, &target, Some(&old)) else { continue };
                if code == 403 {
                    check_growth(&place, &target, &object, &old, counts);
                    continue;
                }
                let outcome = store.update(&target, object, &old);
                compare(&place, &line, &outcome, counts);
                if let (Outcome::Object(object), 200, true) = (outcome, code, is_stored) {
                    store.save(&target, object);
                }
            }
            "DELETE" => {
                delete(&mut store, &target, &line);
            }
            "GET" if code == 200 && target.name.is_some() => {
                let Some(object) = store.load(&target, &name) else { continue };
                let accept = line["headers"]["Accept"].as_str().unwrap_or_default();
                if accept.contains("as=Table;v=v1;") && !accept.contains(',') {
                    check_table(&place, &line, target.resource, &object, counts);
                    counts.rows += 1;
                } else if accept.is_empty() && line["compare"].is_null() && target.subresource.is_none() {
                    let wanted = cleaned(&line["expect"]["body"]);
                    counts.expect_same(
                        &place,
                        &cleaned(&Value::Object(object)).to_string(),
                        &wanted.to_string(),
                    );
                    counts.reads += 1;
                }
            }
            "GET" if code == 200 => {
                check_columns(&place, &line, target.resource, counts);
            }
            _ => {}
        }
    }
}

/// An object that a delete returns as still there is kept.
fn delete(store: &mut Store, target: &Target, line: &Value) {
    let Some(name) = &target.name else { return };
    match decode::value(line["expect"]["body"].clone(), target.resource.schema) {
        Ok(answer) if line["expect"]["body"]["kind"] == target.resource.kind && line["compare"].is_null() => {
            let mut object = answer.object;
            if object["metadata"].get("deletionGracePeriodSeconds").is_none() {
                drop(store.0.remove(&Store::key(target, name)));
                return;
            }
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            store.save(target, object);
        }
        _ => drop(store.0.remove(&Store::key(target, name))),
    }
}

fn keep_class(store: &mut Store, line: &Value) {
    let body = &line["body"];
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let path = line["path"].as_str().unwrap();
    let name = if name.is_empty() { path.rsplit('/').next().unwrap() } else { name };
    let key = ("storageclasses".to_owned(), String::new(), name.to_owned());
    match (line["method"].as_str().unwrap(), line["expect"]["code"].as_u64()) {
        ("POST", Some(201)) => drop(store.0.insert(key, body.as_object().unwrap().clone())),
        ("DELETE", Some(200)) => drop(store.0.remove(&key)),
        _ => {}
    }
}

/// AP-133: what grows is refused unless its class can expand. No recorded claim is of such a class.
fn check_growth(place: &str, target: &Target, object: &Map, old: &Map, counts: &mut Counts) {
    let size = |claim: &Map| claim["spec"]["resources"]["requests"]["storage"].clone();
    if target.resource.plural != "persistentvolumeclaims"
        || target.subresource.is_some()
        || size(object) == size(old)
    {
        return;
    }
    assert!(persistent_volume_claims::growth_refusal(object, old, |_| false).is_some(), "{place}");
    counts.growths += 1;
}

fn check_columns(place: &str, line: &Value, resource: &Resource, counts: &mut Counts) {
    let Some(recorded) = line["expect"]["body"]["columnDefinitions"].as_array() else { return };
    let columns: Vec<Value> = resource
        .columns
        .iter()
        .map(|it| json!({ "name": it.name, "type": it.kind, "format": it.format, "priority": it.priority }))
        .collect();
    counts.expect_same(place, &Value::Array(columns), &cleaned(&Value::Array(recorded.clone())));
    assert!(resource.columns.iter().all(|column| column.description.ends_with('.')), "{place}");
}

/// AP-91, AP-92; ages are of the run.
fn check_table(place: &str, line: &Value, resource: &Resource, object: &Map, counts: &mut Counts) {
    check_columns(place, line, resource, counts);
    let row = (resource.row)(object, 0);
    let recorded = line["expect"]["body"]["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(row.cells.len(), recorded.len(), "{place}");
    for ((column, is), wanted) in resource.columns.iter().zip(&row.cells).zip(recorded) {
        if column.name != "Age" {
            counts.expect_same(&format!("{place} {}", column.name), is, wanted);
        }
    }
}

#[test]
fn recorded_requests_about_the_core_group_are_answered_as_kubernetes_did() {
    let mut counts = Counts::default();
    // What is applied depends on who manages the fields.
    for name in recorded::exchanges().into_iter().filter(|name| !name.starts_with("http/apply-")) {
        run(&name, &mut counts);
    }
    assert!(counts.differences.is_empty(), "{}", counts.differences.join("\n"));
    println!("{counts:?}");
    assert!(counts.objects > 200, "{counts:?}");
    assert!(counts.refusals > 25, "{counts:?}");
    assert!(counts.reads > 10, "{counts:?}");
    assert!(counts.rows > 5, "{counts:?}");
    assert!(counts.growths > 0, "{counts:?}");
}

#[test]
fn recorded_field_selectors_name_selectable_fields_ap_74() {
    let mut selectors = 0;
    for name in recorded::exchanges() {
        for line in recorded::lines(&name) {
            let Some(target) = target(&line).filter(|target| target.name.is_none()) else { continue };
            let query = line["path"].as_str().unwrap().split_once('?').map_or("", |(_, query)| query);
            let Some(selector) = query.split('&').find_map(|pair| pair.strip_prefix("fieldSelector=")) else {
                continue;
            };
            let selector = selector.replace("%3D", "=").replace("%2C", ",").replace("%21", "!");
            let fields: Option<Vec<&str>> = selector
                .trim_end_matches(',')
                .split(',')
                .map(|term| term.split_once('=').map(|(field, _)| field.trim_end_matches('!')))
                .collect();
            let resource = target.resource;
            let is_known = |field: &&str| {
                *field == "metadata.name"
                    || *field == "metadata.namespace" && resource.selects_namespace
                    || resource.selectable.iter().any(|it| it.name == *field)
            };
            let Some(fields) = fields else { continue };
            if line["expect"]["code"] == 200 {
                assert!(fields.iter().all(is_known), "{name} {}", line["id"]);
                selectors += 1;
            }
            if line["expect"]["code"] == 400
                && fields.len() == 1
                && !selector.contains('%')
                && !selector.contains('\\')
            {
                let is_refused_for_its_form = selector.matches('=').count() > 1 && !selector.contains("==");
                assert!(is_refused_for_its_form || !fields.iter().all(is_known), "{name} {}", line["id"]);
                selectors += 1;
            }
        }
    }
    assert!(selectors > 10, "{selectors}");
}
