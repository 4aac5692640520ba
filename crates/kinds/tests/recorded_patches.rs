//! The recorded patches, applied to the recorded objects, give the recorded results: the object, or every fault.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeMap;

use portcullis_kinds::patch::{self, PatchKind};
use portcullis_kinds::resource::Resource;
use portcullis_kinds::{Map, decode, meta, resources};
use portcullis_testkit::recorded;
use serde_json::Value;

/// One recorded patch with what was stored before.
struct Case<'a> {
    kind: PatchKind,
    patch: &'a [u8],
    current: &'a Map,
    resource: &'static Resource,
    is_status: bool,
    is_strict: bool,
}

/// What an update answers: the object, or the code and the causes.
type Outcome = Result<Map, (u64, Vec<(String, String)>)>;

/// The group, the plural name, what names the object, and the subresource that a path is about.
fn object_of(path: &str) -> Option<(&str, &str, String, &str)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..]
            if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) =>
        {
            (*namespace, rest)
        }
        rest => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural, name] => (plural, name, ""),
        [plural, name, subresource] => (plural, name, *subresource),
        _ => return None,
    };
    Some((group, plural, format!("{group}/{plural}/{namespace}/{name}"), subresource))
}

/// What an update with the result of a patch answers, apart from admission: the object, or the code and the causes.
fn update(case: &Case<'_>) -> Outcome {
    let of_patch = || (422, vec![("patch".to_owned(), "FieldValueInvalid".to_owned())]);
    let patched = patch::apply(case.kind, case.current.clone(), case.patch, case.resource.schema)
        .map_err(|error| (u64::from(error.code()), Vec::new()))?;
    let decoded = decode::value(Value::Object(patched), case.resource.schema).map_err(|_| of_patch())?;
    let problems = patch::problems(case.kind, case.patch);
    if case.is_strict && !(problems.is_empty() && decoded.problems.is_empty()) {
        return Err(of_patch());
    }
    let (mut new, old) = (decoded.object, case.current);
    if meta::name(&new) != meta::name(old) || meta::namespace(&new) != meta::namespace(old) {
        return Err((400, Vec::new()));
    }
    (case.resource.default)(&mut new);
    meta::carry_over(&mut new, old);
    let (prepare, validate) = match case.is_status {
        true => (case.resource.prepare_status, case.resource.validate_status),
        false => (case.resource.prepare_update, case.resource.validate_update),
    };
    prepare(&mut new, old);
    let mut errors = meta::validate_update(&new, old, case.resource, case.is_status);
    errors.extend(validate(&new, old));
    let mut causes: Vec<(String, String)> =
        errors.into_iter().map(|error| (error.field, error.reason.as_str().to_owned())).collect();
    causes.sort();
    if causes.is_empty() { Ok(new) } else { Err((422, causes)) }
}

/// Whether an answer shows an object as it is.
fn is_whole(body: &Map) -> bool {
    let is_other = matches!(body["kind"].as_str(), Some("Status" | "Table" | "PartialObjectMetadata"));
    body["apiVersion"].is_string() && body["metadata"]["name"].is_string() && !is_other
}

/// The recorded outcome; nothing for an object that is not shown.
fn recorded_outcome(expected: &Value) -> Option<Outcome> {
    let (code, body) = (expected["code"].as_u64().unwrap(), &expected["body"]);
    if code == 200 {
        return body.as_object().filter(|body| is_whole(body)).cloned().map(Ok);
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<_> = causes.map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect();
    causes.sort();
    Some(Err((code, causes)))
}

/// The row of a kind in the version that is stored.
fn find(group: &str, plural: &str) -> Option<&'static Resource> {
    resources::ALL.iter().copied().find(|row| row.group == group && row.plural == plural)
}

/// How many answers were compared.
#[derive(Default)]
struct Compared {
    objects: usize,
    refusals: usize,
}

/// Follows one recording. An object is known as the last answer shows it; after a patch as we made it, which has what
/// recordings leave out.
fn follow(recording: &str, compared: &mut Compared) {
    let mut stored: BTreeMap<String, Map> = BTreeMap::new();
    for line in recorded::lines(recording) {
        let id = format!("{recording} {}", line["id"].as_str().unwrap());
        let target = line["path"].as_str().unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (method, expected) = (line["method"].as_str().unwrap(), &line["expect"]);
        let name = expected["body"]["metadata"]["name"].as_str().unwrap_or_default();
        let path = if method == "POST" { format!("{path}/{name}") } else { path.to_owned() };
        let Some((group, plural, key, subresource)) = object_of(&path) else { continue };
        let media_type = line["headers"]["Content-Type"].as_str().unwrap_or_default();
        let patch = line["body"].as_str().map_or_else(|| line["body"].to_string(), str::to_owned);
        let mut made = None;
        if let (Some(kind), Some(current), Some(resource)) =
            (PatchKind::of_media_type(media_type), stored.get(&key), find(group, plural))
            && is_comparable(&patch, subresource, expected)
        {
            let is_strict = query.contains("fieldValidation=Strict");
            let is_status = subresource == "status";
            let case = Case { kind, patch: patch.as_bytes(), current, resource, is_status, is_strict };
            let outcome = update(&case);
            match (&outcome, recorded_outcome(expected)) {
                (Ok(_), None) => {}
                (Ok(got), Some(Ok(want))) => {
                    compared.objects += 1;
                    assert_eq!(
                        recorded::cleaned(&Value::Object(got.clone())),
                        Value::Object(want),
                        "{id}: {patch}"
                    );
                }
                (_, want) => {
                    compared.refusals += 1;
                    assert_eq!(Some(&outcome), want.as_ref(), "{id}: {patch}");
                }
            }
            made = outcome.ok();
        }
        if method == "GET" || query.contains("dryRun") || expected["code"].as_u64().unwrap() >= 300 {
            continue;
        }
        // What an answer does not show is not known any more.
        let shown = expected["body"].as_object().filter(|body| is_whole(body));
        match made.or_else(|| shown.cloned()).filter(|_| method != "DELETE" || shown.is_some()) {
            Some(mut object) => {
                // A deletion has begun where there is a grace period.
                let meta = object["metadata"].as_object_mut().unwrap();
                if meta.contains_key("deletionGracePeriodSeconds") {
                    meta.insert("deletionTimestamp".to_owned(), "2026-01-01T00:00:00Z".into());
                }
                stored.insert(key, object);
            }
            None => drop(stored.remove(&key)),
        }
    }
}

/// Whether nothing but the patch decides: neither admission nor a part that recordings leave out.
fn is_comparable(patch: &str, subresource: &str, expected: &Value) -> bool {
    let depends = ["${", "certificate", "resourceVersion"].iter().any(|part| patch.contains(part));
    let is_decided = matches!(expected["code"].as_u64(), Some(200 | 400 | 413 | 422 | 500));
    !depends && is_decided && matches!(subresource, "" | "status")
}

#[test]
fn recorded_patches_give_the_recorded_results_ap_60_to_ap_64() {
    let mut compared = Compared::default();
    // What custom kinds do is not in these rows, controllers change definitions between requests, and who manages fields is
    // not a matter of the patch alone.
    let is_other = |name: &String| ["http/crd-", "http/apply-"].iter().any(|start| name.starts_with(start));
    for recording in recorded::exchanges().into_iter().filter(|name| !is_other(name)) {
        follow(&recording, &mut compared);
    }
    assert!(compared.objects > 100, "{}", compared.objects);
    assert!(compared.refusals > 50, "{}", compared.refusals);
}
