//! How much a pod uses, and which quotas cover it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_apimachinery::quantity::Quantity;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

use super::amounts::Usage;
use crate::Map;
use crate::fields::Members;
use crate::resources::pods::amount::Totals;
use crate::resources::pods::{is_best_effort, is_finished};
use crate::resources::quantities::quantity;
use crate::resources::resource_names::{is_extended, is_huge_pages};

/// The requests and limits that every container needs if a quota limits them.
pub(crate) const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// The resources that can be requested for a pod as a whole.
const OF_PODS: [&str; 2] = ["cpu", "memory"];
/// The most containers that a refusal names. DIVERGES: Kubernetes names all.
const MOST_NAMED: usize = 20;
/// The resources that quotas count as requests, with and without `requests.`, and as limits.
const COMPUTE: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];

/// Whether pods may use what has this name.
pub(super) fn is_tracked(counted: &str) -> bool {
    if counted == "pods" || COMPUTE.contains(&counted) || is_huge_pages(counted) {
        return true;
    }
    match (counted.strip_prefix("requests."), counted.strip_prefix("limits.")) {
        (Some(requested), _) => {
            COMPUTE.contains(&requested) || is_huge_pages(requested) || is_extended(requested)
        }
        (None, Some(limited)) => COMPUTE.contains(&limited),
        (None, None) => false,
    }
}

/// Adds what a pod uses. One that has ended, or should have by now, uses nothing but its place in the store.
pub(super) fn add_usage(usage: &mut Usage, pod: &Map, now: i64) {
    if is_finished(pod) || is_overdue(pod, now) {
        return;
    }
    usage.insert("pods".to_owned(), Quantity::from_integer(1));
    let spec = with_allocated(pod);
    add_amounts(usage, &whole(&spec, "requests"), &whole(&spec, "limits"));
}

/// Whether a pod should have ended by now: its node is lost, say.
fn is_overdue(pod: &Map, now: i64) -> bool {
    let metadata = pod.metadata();
    let deleted = Instant::parse(metadata.text("deletionTimestamp")).ok();
    let grace = metadata.number_if_set("deletionGracePeriodSeconds");
    deleted.zip(grace).is_some_and(|(deleted, grace)| now > deleted.seconds.saturating_add(grace))
}

fn add_amounts(usage: &mut Usage, requests: &Usage, limits: &Usage) {
    for (name, amount) in requests {
        let is_compute = COMPUTE.contains(&&**name) || is_huge_pages(name);
        if is_compute {
            usage.insert(name.clone(), amount.clone());
        }
        if is_compute || is_extended(name) {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| COMPUTE.contains(&&***name)) {
        usage.insert(format!("limits.{name}"), amount.clone());
    }
}

/// The requests or limits of a pod: those of the pod itself, else those of its containers; with its overhead.
fn whole(spec: &Map, list: &str) -> Usage {
    let of_containers = Totals::of_containers(spec, list);
    let mut all: Usage = of_containers.iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
    let own = spec.object("resources").object(list);
    all.extend(own.keys().filter_map(|name| Some((name.clone(), quantity(own, name)?))));
    let overhead = spec.object("overhead");
    for name in overhead.keys() {
        let Some(amount) = quantity(overhead, name) else { continue };
        match all.get_mut(name) {
            Some(used) if list == "requests" || !used.is_zero() => *used = used.plus(&amount),
            None if list == "requests" => drop(all.insert(name.clone(), amount)),
            _ => {}
        }
    }
    all
}

/// The spec with what the containers have now, where that is more than what they ask for: a pod that is being resized uses the
/// larger of both.
fn with_allocated(pod: &Map) -> Cow<'_, Map> {
    let spec = pod.object("spec");
    let status = pod.object("status");
    let mut held: HashMap<&str, &Map> = HashMap::new();
    for list in ["containerStatuses", "initContainerStatuses"] {
        let known = status.objects(list).filter(|has| has.has("resources") || has.has("allocatedResources"));
        held.extend(known.map(|container| (container.text("name"), container)));
    }
    if held.is_empty() {
        return Cow::Borrowed(spec);
    }
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec.objects_mut(list) {
            let Some(has) = held.get(container.text("name")) else { continue };
            let Some(resources) = container.object_or_new("resources") else { continue };
            raise(resources, "requests", has.object("allocatedResources"));
            for list in ["requests", "limits"] {
                raise(resources, list, has.object("resources").object(list));
            }
        }
    }
    Cow::Owned(spec)
}

fn raise(resources: &mut Map, list: &str, to: &Map) {
    if to.is_empty() {
        return;
    }
    let Some(amounts) = resources.object_or_new(list) else { return };
    for (name, amount) in to {
        if quantity(to, name) > quantity(amounts, name) {
            amounts.insert(name.clone(), amount.clone());
        }
    }
}

/// Checks that a pod states how much it needs of what a quota counts, of CPU and memory: for the pod or for each container.
///
/// # Errors
/// The missing requests and limits, with the names of the containers.
pub(super) fn requirements_met<'a>(pod: &Map, counted: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let required: BTreeSet<&str> = counted.filter(|counted| REQUIRED.contains(counted)).collect();
    if required.is_empty() {
        return Ok(());
    }
    let spec = pod.object("spec");
    let stated = |holder: &Map| {
        let resources = holder.object("resources");
        let list = |list: &str| -> Usage {
            let amounts = resources.object(list);
            amounts.keys().map(|name| (name.clone(), Quantity::default())).collect()
        };
        let mut stated = Usage::new();
        add_amounts(&mut stated, &list("requests"), &list("limits"));
        stated
    };
    let of_pod = stated(spec);
    let by_pod =
        |counted: &str| OF_PODS.iter().any(|name| counted.ends_with(name)) && of_pod.contains_key(counted);
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.objects("containers").chain(spec.objects("initContainers")) {
        let stated = stated(container);
        for counted in required.iter().filter(|counted| !stated.contains_key(**counted) && !by_pod(counted)) {
            missing.entry(counted).or_default().insert(container.text("name"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let told = missing.into_iter().map(|(counted, containers)| {
        let more = containers.len().saturating_sub(MOST_NAMED);
        let mut names: Vec<String> = containers.into_iter().take(MOST_NAMED).map(str::to_owned).collect();
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        format!("{counted} for: {}", names.join(","))
    });
    Err(format!("must specify {}", told.collect::<Vec<_>>().join("; ")))
}

/// Whether a pod is in a scope, apart from what the scope says of values.
pub(super) fn is_in_scope(pod: &Map, scope: &str) -> bool {
    let spec = pod.object("spec");
    let is_terminating = || spec.number_if_set("activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => is_terminating(),
        "NotTerminating" => !is_terminating(),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => !spec.text("priorityClassName").is_empty(),
        "CrossNamespacePodAffinity" => has_terms_of_other_namespaces(spec.object("affinity")),
        _ => false,
    }
}

fn has_terms_of_other_namespaces(affinity: &Map) -> bool {
    let is_of_others = |term: &Map| !term.list("namespaces").is_empty() || term.has("namespaceSelector");
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = affinity.object(kind);
        let preferred = terms.objects("preferredDuringSchedulingIgnoredDuringExecution");
        terms.objects("requiredDuringSchedulingIgnoredDuringExecution").any(is_of_others)
            || preferred.map(|preferred| preferred.object("podAffinityTerm")).any(is_of_others)
    })
}

/// The priority class of a pod; nothing if it has none.
pub(super) fn priority_class(pod: &Map) -> Option<&str> {
    pod.object("spec").get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty())
}
