//! Admission of pods, as far as it depends only on the pod and on objects that the caller looked up. The order is that
//! of the API server: service account, NodeRestriction (implemented elsewhere), priority, tolerations, RuntimeClass.
//! Every refusal is a 403.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::amount;
use crate::resources::pods::defaults::CONTAINER_LISTS;
use crate::resources::pods::mirror::is_mirror;

/// The mount path of the service account token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";
/// The lifetime of a projected token, in seconds. It is longer than clients keep a token, so that the use of old ones
/// is noticed.
const TOKEN_SECONDS: i64 = 3607;
/// The default toleration of nodes that are not ready, in seconds.
const TOLERATION_SECONDS: i64 = 300;
/// With this annotation, pods of a service account may use only the secrets that it lists.
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Returns the name of a new pod's service account, for the caller to look up. `None` for a mirror pod, which has none
/// (MP-19).
pub fn service_account(pod: &Map) -> Option<&str> {
    if is_mirror(pod) {
        return None;
    }
    match pod.object("spec").text("serviceAccountName") {
        "" => Some("default"),
        name => Some(name),
    }
}

/// Sets a new pod's service account, and adds the account's token volume and pull secrets (AP-110). `account` is the
/// account with the name from [`service_account`]. `suffix` is the end of the token volume's name: five random
/// characters.
///
/// # Errors
/// The message of the 403 response: the account does not exist, or a mirror pod refers to an account or secrets
/// (MP-20).
pub fn admit_service_account(pod: &mut Map, account: Option<&Map>, suffix: &str) -> Result<(), String> {
    if is_mirror(pod) {
        return mirror_refusal(pod).map_or(Ok(()), |refusal| Err(refusal.to_owned()));
    }
    let name = service_account(pod).unwrap_or_default().to_owned();
    let Some(account) = account else {
        let namespace = pod.metadata().text("namespace");
        return Err(format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        ));
    };
    let Some(spec) = pod.object_or_new("spec") else { return Ok(()) };
    for field in ["serviceAccount", "serviceAccountName"] {
        spec.insert(field.to_owned(), name.as_str().into());
    }
    let field = "automountServiceAccountToken";
    if spec.flag(field).or_else(|| account.flag(field)).unwrap_or(true) {
        mount_token(spec, suffix);
    }
    if spec.list("imagePullSecrets").is_empty() && !account.list("imagePullSecrets").is_empty() {
        spec.copy("imagePullSecrets", account);
    }
    unlisted_secret(spec, account).map_or(Ok(()), Err)
}

/// Why new ephemeral containers are refused, of mirror pods too (MP-22): their pod's account lists the secrets that may
/// be used. `account` is the
/// account of the pod, if it has one.
///
/// # Errors
/// The message of the 403 response.
pub fn admit_ephemeral_containers(pod: &Map, account: Option<&Map>) -> Result<(), String> {
    let (Some(spec), Some(account)) = (pod.object_if_set("spec"), account) else { return Ok(()) };
    unlisted_secret(spec, account).map_or(Ok(()), Err)
}

/// MP-20.
fn mirror_refusal(pod: &Map) -> Option<&'static str> {
    let spec = pod.object_if_set("spec")?;
    if !spec.text("serviceAccountName").is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if secret_names(&Value::Object(spec.clone())).iter().any(|name| !name.is_empty()) {
        return Some("a mirror pod may not reference secrets");
    }
    let mut sources = spec
        .list("volumes")
        .iter()
        .filter_map(|volume| volume.get("projected").and_then(|projected| projected.get("sources")))
        .filter_map(Value::as_array)
        .flatten();
    sources
        .any(|source| source.get("serviceAccountToken").is_some_and(|token| !token.is_null()))
        .then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// The names of all secrets that a spec refers to (NA-59).
fn secret_names(spec: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let Some(spec) = spec.as_object() else { return names };
    let mut add = |name: Option<&Value>| names.extend(name.and_then(Value::as_str).map(str::to_owned));
    for secret in spec.list("imagePullSecrets") {
        add(secret.get("name"));
    }
    for list in CONTAINER_LISTS {
        for container in spec.objects(list) {
            for source in container.list("envFrom") {
                add(source.get("secretRef").and_then(|secret| secret.get("name")));
            }
            for variable in container.list("env") {
                let key = variable.get("valueFrom").and_then(|source| source.get("secretKeyRef"));
                add(key.and_then(|key| key.get("name")));
            }
        }
    }
    for volume in spec.list("volumes") {
        add(volume.get("azureFile").and_then(|source| source.get("secretName")));
        add(volume.get("secret").and_then(|source| source.get("secretName")));
        add(volume
            .get("csi")
            .and_then(|source| source.get("nodePublishSecretRef"))
            .and_then(|s| s.get("name")));
        for source in ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"] {
            let secret = volume.get(source).and_then(|source| source.get("secretRef"));
            add(secret.and_then(|secret| secret.get("name")));
        }
        let sources = volume.get("projected").and_then(|projected| projected.get("sources"));
        for source in sources.and_then(Value::as_array).into_iter().flatten() {
            add(source.get("secret").and_then(|secret| secret.get("name")));
        }
    }
    names
}

/// Adds a token volume, and mounts it into every container that has no mount at its path.
fn mount_token(spec: &mut Map, suffix: &str) {
    let existing = spec
        .list("volumes")
        .iter()
        .filter_map(|volume| volume.get("name").and_then(Value::as_str))
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let is_new = existing.is_none();
    let name = existing.unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.objects_mut(list) {
            let is_taken = |mount: &Value| mount.get("mountPath").and_then(Value::as_str) == Some(TOKEN_PATH);
            if container.list("volumeMounts").iter().any(is_taken) {
                continue;
            }
            is_mounted = true;
            let mount = json!({ "mountPath": TOKEN_PATH, "name": name, "readOnly": true });
            container.push_to("volumeMounts", mount);
        }
    }
    if is_new && is_mounted {
        spec.push_to("volumes", token_volume(&name));
    }
}

fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
                { "configMap": { "items": [{ "key": "ca.crt", "path": "ca.crt" }], "name": "kube-root-ca.crt" } },
                { "downwardAPI": { "items": [{
                    "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                    "path": "namespace",
                }] } },
            ],
        },
    })
}

/// Returns the error of a pod that uses secrets which its service account does not list.
fn unlisted_secret(spec: &Map, account: &Map) -> Option<String> {
    let annotations = account.metadata().object_if_set("annotations");
    let enforce = annotations.map_or("", |annotations| annotations.text(ENFORCE_SECRETS));
    if !matches!(enforce, "1" | "t" | "T" | "true" | "TRUE" | "True") {
        return None;
    }
    let names = |list: &str| -> HashSet<&str> {
        account.list(list).iter().filter_map(|secret| secret.get("name").and_then(Value::as_str)).collect()
    };
    let (mountable, pullable) = (names("secrets"), names("imagePullSecrets"));
    let pulls: Vec<&str> = spec
        .list("imagePullSecrets")
        .iter()
        .filter_map(|secret| secret.get("name").and_then(Value::as_str))
        .collect();
    if let Some(name) = pulls.iter().find(|name| !pullable.contains(*name)) {
        return Some(format!("imagePullSecret {name:?} is not referenced by the pod's service account"));
    }
    let mut rest = spec.clone();
    rest.remove("imagePullSecrets");
    let mounts = secret_names(&Value::Object(rest));
    let name = mounts.iter().find(|name| !name.is_empty() && !mountable.contains(name.as_str()))?;
    Some(format!("secret {name:?} is not referenced by the pod's service account"))
}

/// The priority of a pod, from its PriorityClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The priority; pods with a higher value are scheduled first.
    pub value: i64,
    /// The preemption policy: `PreemptLowerPriority` or `Never`.
    pub preemption: String,
}

impl Priority {
    /// The priority and preemption policy of a PriorityClass.
    pub fn of_class(class: &Map) -> Self {
        Self { value: class.number("value"), preemption: class.text("preemptionPolicy").to_owned() }
    }
}

/// Returns the name of a new pod's priority class, for the caller to look up; empty if it names none.
pub fn priority_class(pod: &Map) -> &str {
    pod.object("spec").text("priorityClassName")
}

/// The class of pods that name none: of those that are marked so, the one with the lowest priority (AP-110).
pub fn default_priority_class(classes: &[Map]) -> Option<&Map> {
    let defaults = classes.iter().filter(|class| class.is_true("globalDefault"));
    defaults.min_by_key(|class| class.number("value"))
}

/// Gives a new pod the class of pods that name none.
pub fn set_priority_class(pod: &mut Map, class: &Map) {
    let name = class.metadata().text("name").to_owned();
    if let Some(spec) = pod.object_or_new("spec") {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
}

/// The priority classes that every cluster has (AP-110).
pub fn built_in_priority(class: &str) -> Option<Priority> {
    let value = match class {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => return None,
    };
    Some(Priority { value, preemption: "PreemptLowerPriority".to_owned() })
}

/// Gives a new pod its priority (AP-110), mirror pods too (MP-24). `class` looks a priority class up by name.
///
/// # Errors
/// The message of the 403 response: there is no such class, or the pod has another priority or policy.
pub fn admit_priority(pod: &mut Map, class: impl FnOnce(&str) -> Option<Priority>) -> Result<(), String> {
    let Some(spec) = pod.object_or_new("spec") else { return Ok(()) };
    let priority = match spec.text("priorityClassName") {
        "" => Priority { value: 0, preemption: "PreemptLowerPriority".to_owned() },
        name => class(name).ok_or_else(|| format!("no PriorityClass with name {name} was found"))?,
    };
    if let Some(given) = spec.number_if_set("priority").filter(|given| *given != priority.value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            priority.value
        ));
    }
    if spec.has("preemptionPolicy") && spec.text("preemptionPolicy") != priority.preemption {
        return Err(format!(
            "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission \
             controller computed {} from the given PriorityClass name",
            spec.text("preemptionPolicy"),
            priority.preemption
        ));
    }
    spec.insert("priority".to_owned(), priority.value.into());
    spec.insert("preemptionPolicy".to_owned(), priority.preemption.into());
    Ok(())
}

/// Restores the priority that admission set at creation if an update omits it. For PUT and PATCH of a pod.
pub fn keep_priority(pod: &mut Map, old: &Map) {
    let Some(old) = old.object_if_set("spec") else { return };
    let Some(spec) = pod.object_or_new("spec") else { return };
    for field in ["preemptionPolicy", "priority"] {
        if let Some(value) = old.get(field) {
            spec.default_value(field, value.clone());
        }
    }
}

/// Adds tolerations of five minutes for nodes that are not ready or unreachable, unless the pod has its own (AP-110).
/// For creates and updates of pods.
pub fn default_tolerations(pod: &mut Map) {
    let Some(spec) = pod.object_or_new("spec") else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let text = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            (text("key") == key || text("key").is_empty()) && matches!(text("effect"), "" | "NoExecute")
        };
        if spec.list("tolerations").iter().any(tolerates) {
            continue;
        }
        let toleration = json!({
            "effect": "NoExecute",
            "key": key,
            "operator": "Exists",
            "tolerationSeconds": TOLERATION_SECONDS,
        });
        spec.push_to("tolerations", toleration);
    }
}

/// Returns the name of a new pod's RuntimeClass, for the caller to look up.
pub fn runtime_class(pod: &Map) -> Option<&str> {
    let spec = pod.object_if_set("spec")?;
    spec.has("runtimeClassName").then(|| spec.text("runtimeClassName"))
}

/// Applies the RuntimeClass of a new pod (AP-115). `class` is the class with the name from [`runtime_class`].
///
/// # Errors
/// The message of the 403 response: the class does not exist, or conflicts with the pod.
pub fn admit_runtime_class(pod: &mut Map, class: Option<&Map>) -> Result<(), String> {
    if let (Some(name), None) = (runtime_class(pod), class) {
        return Err(format!("pod rejected: RuntimeClass {name:?} not found"));
    }
    let Some(spec) = pod.object_or_new("spec") else { return Ok(()) };
    let overhead =
        class.and_then(|class| class.object_if_set("overhead")).map(|overhead| overhead.get("podFixed"));
    match overhead {
        None if spec.has("overhead") => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned());
        }
        None => {}
        Some(fixed) => {
            let as_overhead = |value: Option<&Value>| value.map(|value| json!({ "overhead": value }));
            let (given, fixed_as) = (as_overhead(spec.get("overhead")), as_overhead(fixed));
            if given.is_some() && !amount::same_optional(given.as_ref(), fixed_as.as_ref()) {
                let detail = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
                return Err(detail.to_owned());
            }
            if let Some(fixed) = fixed {
                spec.insert("overhead".to_owned(), fixed.clone());
            }
        }
    }
    match class.and_then(|class| class.object_if_set("scheduling")) {
        Some(scheduling) => admit_scheduling(spec, scheduling),
        None => Ok(()),
    }
}

fn admit_scheduling(spec: &mut Map, scheduling: &Map) -> Result<(), String> {
    if let Some(selector) = scheduling.object_if_set("nodeSelector").filter(|selector| !selector.is_empty())
        && let Some(own) = spec.object_or_new("nodeSelector")
    {
        for (key, value) in selector {
            if let Some(given) = own.get(key).filter(|given| *given != value) {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = \
                     {given}"
                ));
            }
        }
        own.extend(selector.clone());
    }
    let all: Vec<Value> =
        spec.list("tolerations").iter().chain(scheduling.list("tolerations")).cloned().collect();
    let merged = merge_tolerations(&all);
    if merged.is_empty() {
        spec.remove("tolerations");
    } else {
        spec.insert("tolerations".to_owned(), Value::Array(merged));
    }
    Ok(())
}

/// The maximum number of tolerations that are compared with each other.
///
/// DIVERGES: Kubernetes compares any number of them, each with each.
const MAX_MERGED: usize = 500;

/// Removes tolerations that others cover. The first of equal ones is kept.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    if all.len() > MAX_MERGED {
        return all.to_vec();
    }
    let mut merged: Vec<Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|kept| covers(kept, toleration));
        let mut later = all.iter().skip(i + 1);
        if !is_covered && !later.any(|other| other != toleration && covers(other, toleration)) {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Returns whether a toleration covers another.
fn covers(toleration: &Value, other: &Value) -> bool {
    fn text<'a>(toleration: &'a Value, name: &str) -> &'a str {
        toleration.get(name).and_then(Value::as_str).unwrap_or_default()
    }
    if toleration == other {
        return true;
    }
    let (key, operator, effect) =
        (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
    if text(other, "key") != key && !(key.is_empty() && operator == "Exists") {
        return false;
    }
    if text(other, "effect") != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    if effect == "NoExecute"
        && let Some(limit) = seconds(toleration)
        && seconds(other).is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match operator {
        "" | "Equal" => {
            text(other, "operator") == operator && text(other, "value") == text(toleration, "value")
        }
        "Exists" => true,
        _ => false,
    }
}
