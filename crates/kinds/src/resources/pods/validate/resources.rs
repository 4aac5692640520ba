//! Validation of the resource requirements of containers and pods.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::names;
use portcullis_apimachinery::quantity::Quantity;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::amount::{self, Totals};
use crate::resources::pods::defaults::CONTAINER_LISTS;
use crate::resources::pods::validate::Kept;
use crate::resources::resource_names::{
    is_counted, is_extended, is_huge_pages, is_native, is_of_containers, is_standard,
};

/// Validates the requirements of a container. `claims` are the names of the pod's resource claims.
pub(super) fn of_container(
    requirements: &Field<'_>,
    claims: &BTreeSet<&str>,
    kept: &Kept,
    errors: &mut Errors,
) {
    lists(requirements, container_name, kept, errors);
    claim_names(&requirements.child("claims"), claims, errors);
}

/// Validates the overhead of a pod: limits without requests.
pub(super) fn overhead(overhead: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    // The path is as if the overhead were the limits of resource requirements.
    let limits = overhead.named(overhead.path().member("limits"));
    let found = list(&limits, container_name, kept, errors);
    if found.huge_pages && !found.compute {
        errors.push(overhead.forbidden("HugePages require cpu or memory"));
    }
}

/// Validates pod-level requirements, which must cover those of the containers.
pub(super) fn of_pod(spec: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let requirements = spec.child("resources");
    if !requirements.is_set() {
        return;
    }
    let claims = requirements.child("claims");
    errors.push_if(claims.is_set(), || claims.forbidden("claims cannot be set for Resources at pod-level"));
    lists(&requirements, pod_name, kept, errors);
    claim_names(&claims, &claims_of_pod(spec), errors);
    let Some(spec_map) = spec.value().and_then(serde_json::Value::as_object) else { return };
    for (name, total) in Totals::of_containers(spec_map, "requests").iter() {
        let request = requirements.child("requests").key(name);
        errors.push_if(is_of_pods(name) && total > amount::quantity(request.value()), || {
            request.invalid(format!("must be at least the {total} that its containers request in all"))
        });
    }
    for (i, container) in spec.child("containers").items().enumerate() {
        for (name, limit) in container.child("resources").child("limits").entries() {
            let whole = requirements.child("limits").key(name);
            let limit_of_container = amount::quantity(limit.value());
            if whole.is_set() && limit_of_container > amount::quantity(whole.value()) {
                // The path is one of its own kind.
                let path = format!("{}.containers[{i}][{name}].limits", requirements.path());
                errors.push(limit.named(path).invalid("must be at most the limit of the pod"));
            }
        }
    }
}

type Naming = fn(&Field<'_>, &str, &mut Errors);

#[derive(Default)]
struct Found {
    compute: bool,
    huge_pages: bool,
}

fn lists(requirements: &Field<'_>, naming: Naming, kept: &Kept, errors: &mut Errors) {
    let limits = requirements.child("limits");
    let requests = requirements.child("requests");
    let of_limits = list(&limits, naming, kept, errors);
    let of_requests = list(&requests, naming, kept, errors);
    for (name, request) in requests.entries() {
        let limit = limits.key(name);
        let asked = amount::quantity(request.value());
        let may_exceed = is_overcommitted(name);
        if !limit.is_set() {
            if !may_exceed {
                errors.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            continue;
        }
        let limit = amount::quantity(limit.value());
        // The path is that of the list.
        if asked > limit || (asked != limit && !may_exceed) {
            let relation = if may_exceed { "less than or equal to" } else { "equal to" };
            errors.push(
                request.named(requests.path()).invalid(format!("must be {relation} {name} limit of {limit}")),
            );
        }
    }
    if (of_limits.huge_pages || of_requests.huge_pages) && !of_limits.compute && !of_requests.compute {
        errors.push(requirements.forbidden("HugePages require cpu or memory"));
    }
}

fn list(list: &Field<'_>, naming: Naming, kept: &Kept, errors: &mut Errors) -> Found {
    let mut found = Found::default();
    for (name, entry) in list.entries() {
        naming(&entry, name, errors);
        let quantity = amount::quantity(entry.value());
        errors.push_if(quantity.is_negative(), || entry.invalid("must be greater than or equal to 0"));
        if is_counted(name) && !quantity.is_integer() {
            errors.push(entry.invalid("must be an integer"));
        }
        found.compute |= matches!(name, "cpu" | "memory");
        if is_huge_pages(name) {
            found.huge_pages = true;
            if !kept.huge_pages {
                huge_pages(&entry, name, &quantity, errors);
            }
        }
    }
    found
}

/// Huge pages must be whole.
fn huge_pages(entry: &Field<'_>, name: &str, quantity: &Quantity, errors: &mut Errors) {
    let size = name
        .strip_prefix("hugepages-")
        .and_then(|size| Quantity::parse(size).ok())
        .map_or(0, |size| size.scaled(0));
    if !quantity.is_integer() || size <= 0 || quantity.scaled(0) % size != 0 {
        errors.push(entry.invalid(format!("is not a positive integer multiple of {name}")));
    }
}

/// The huge pages in a spec.
pub(super) fn all_huge_pages(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    let containers = CONTAINER_LISTS.iter().flat_map(|list| spec.child(list).items());
    for holder in containers.chain(std::iter::once(spec.clone())) {
        for entries in ["limits", "requests"] {
            for (name, entry) in holder.child("resources").child(entries).entries() {
                if is_huge_pages(name) {
                    huge_pages(&entry, name, &amount::quantity(entry.value()), errors);
                }
            }
        }
    }
}

/// Validates the name of any resource, up to the first fault. True if the syntax is valid.
fn name(entry: &Field<'_>, name: &str, errors: &mut Errors) -> bool {
    let faults = names::label_key_errors(name);
    let is_named = faults.is_empty();
    errors.extend(faults.into_iter().map(|fault| entry.invalid(fault)));
    if is_named && !name.contains('/') && !is_standard(name) {
        errors.push(entry.invalid("must be a standard resource type or fully qualified"));
        return false;
    }
    is_named
}

fn container_name(entry: &Field<'_>, resource: &str, errors: &mut Errors) {
    name(entry, resource, errors);
    if !resource.contains('/') {
        if !is_of_containers(resource) {
            errors.push(entry.invalid("must be a standard resource for containers"));
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errors.push(entry.invalid("doesn't follow extended resource name standard"));
    }
}

fn pod_name(entry: &Field<'_>, resource: &str, errors: &mut Errors) {
    if name(entry, resource, errors) && !is_of_pods(resource) {
        errors.push(entry.not_supported(&["cpu", "hugepages-*", "memory"]));
    }
}

/// Returns whether the resource is supported at pod level.
fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// The names of the claims of a pod.
pub(super) fn claims_of_pod<'a>(spec: &Field<'a>) -> BTreeSet<&'a str> {
    let names =
        spec.child("resourceClaims").items().map(|claim| claim.child("name").text()).collect::<Vec<_>>();
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

fn is_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Validates the claims of a container: each claim, or each request of it, once.
fn claim_names(claims: &Field<'_>, known: &BTreeSet<&str>, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    // How many of those seen are requests of a claim.
    let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in claims.items() {
        let name = claim.child("name").named(claim.path());
        let request = claim.child("request");
        if name.text().is_empty() {
            errors.push(name.required(""));
            continue;
        }
        if seen.contains(name.text()) {
            errors.push(name.duplicate());
        } else {
            let mut key = name.text().to_owned();
            if !request.text().is_empty() {
                errors.extend(request.faults(names::label_errors));
                key = format!("{key}/{}", request.text());
            }
            if seen.contains(&key) {
                errors.push(name.duplicate());
            } else if request.text().is_empty() {
                let count = parts.get(name.text()).copied().unwrap_or_default();
                errors.extend((0..count).map(|_| name.duplicate()));
            }
            let claim = match name.text().split_once('/') {
                Some((claim, _)) => Some(claim),
                None => (!request.text().is_empty()).then_some(name.text()),
            };
            if seen.insert(key)
                && let Some(claim) = claim
            {
                *parts.entry(claim).or_default() += 1;
            }
        }
        errors.push_if(!known.contains(name.text()), || name.not_found());
    }
}
