//! Patches of all formats: an object and a patch, separated by a tab. The result has a bounded size and decodes to the
//! same again, and a pod can be validated. Patches of a large object come to an end as well.

use std::sync::LazyLock;

use portcullis_kinds::patch::{self, MAX_COPIED, PatchError, PatchKind};
use portcullis_kinds::resources::pods::PODS;
use portcullis_kinds::{Map, decode, meta};
use serde_json::{Value, json};

pub(super) const PATCH: &[&str] = &[
    "\t",
    "[{\"op\":\"copy\",\"from\":\"/spec\",\"path\":\"/spec/x\"}]",
    "{\"op\":\"add\",\"path\":\"/spec/containers/-\",\"value\":{}},",
    "{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/b/a\"},",
    "{\"op\":\"remove\",\"path\":\"/spec/containers/-1\"},",
    "\"$patch\":\"replace\",",
    "\"$patch\":\"delete\",",
    "\"$retainKeys\":[\"name\"],",
    "\"$setElementOrder/containers\":[{\"name\":\"c\"}],",
    "\"$deleteFromPrimitiveList/finalizers\":[\"a\"],",
    "\"finalizers\":[\"a\",\"b\"],",
    "\"containers\":[{\"name\":\"c\"}],",
    "\"metadata\":{",
    "\"spec\":{",
    "~01",
    "null",
];

pub(super) fn patch(input: &[u8]) -> bool {
    let mut parts = input.splitn(2, |byte| *byte == b'\t');
    let (Some(current), Some(patch)) = (parts.next(), parts.next()) else { return false };
    let pods = &PODS;
    let Ok(current) = decode::json(current, pods.schema) else { return false };
    let mut taken = false;
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        let _ = patch::problems(kind, patch);
        match patch::apply(kind, current.object.clone(), patch, pods.schema) {
            Ok(patched) => {
                taken = true;
                promise_to_be_bounded(&patched, input.len());
                judge(patched, &current.object);
            }
            Err(error) => promise_a_reason(&error),
        }
    }
    taken
}

/// A pod with long lists of all kinds: merged by a key, of plain values, and replaced as a whole.
static LARGE: LazyLock<Map> = LazyLock::new(|| {
    let list = |entry: fn(usize) -> Value| (0..2_000).map(entry).collect::<Value>();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "finalizers": list(|i| json!(format!("example.com/{i}"))),
            "labels": (0..2_000).map(|i| (format!("key{i}"), json!("a"))).collect::<Map>(),
        },
        "spec": {
            "containers": list(|i| json!({ "name": format!("c{i}"), "args": [i.to_string()] })),
            "tolerations": list(|i| json!({ "key": format!("t{i}"), "operator": "Exists" })),
            "volumes": list(|i| json!({ "name": format!("v{i}"), "emptyDir": {} })),
        },
    });
    decode::value(pod, PODS.schema).expect("a pod").object
});

pub(super) fn patch_of_large_object(patch: &[u8]) -> bool {
    let mut taken = false;
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        match patch::apply(kind, LARGE.clone(), patch, PODS.schema) {
            Ok(patched) => {
                taken = true;
                let unpatched = 1_000_000;
                promise_to_be_bounded(&patched, patch.len() + unpatched / 64);
            }
            Err(error) => promise_a_reason(&error),
        }
    }
    taken
}

fn promise_to_be_bounded(patched: &Map, input: usize) {
    let text = serde_json::to_string(patched).expect("an object prints");
    // Escapes and the decoder's output always make an object longer than it was written.
    assert!(text.len() <= 64 * input + MAX_COPIED, "{} bytes of {input}", text.len());
}

fn promise_a_reason(error: &PatchError) {
    assert!(matches!(error.code(), 400 | 413 | 422 | 500), "{error:?}");
    assert!(!error.to_string().is_empty(), "{error:?}");
}

/// Validates the result as an update does.
fn judge(patched: Map, current: &Map) {
    let pods = &PODS;
    let Ok(decoded) = decode::value(Value::Object(patched), pods.schema) else { return };
    let mut pod = decoded.object;
    (pods.default)(&mut pod);
    meta::carry_over(&mut pod, current);
    (pods.prepare_update)(&mut pod, current);
    let _ = meta::validate_update(&pod, current, pods, false);
    let _ = (pods.validate_update)(&pod, current);
    let _ = (pods.row)(&pod, 0);
}
