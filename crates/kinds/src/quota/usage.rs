//! How much an object uses of what quotas count, by its kind.

use portcullis_apimachinery::quantity::Quantity;

use super::amounts::{Usage, add};
use super::pods;
use crate::Map;
use crate::fields::Members;
use crate::resource::Resource;
use crate::resources::core::events::{CORE_EVENTS, EVENTS};
use crate::resources::core::persistent_volume_claims::{self, PERSISTENT_VOLUME_CLAIMS};
use crate::resources::core::services::{self, SERVICES};
use crate::resources::dra::RESOURCE_CLAIMS;
use crate::resources::pods::PODS;
use crate::resources::quantities::quantity;

/// Between the name of a storage class and what is counted of its claims.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// After the name of a device class, in the name of the number of its devices.
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The most devices that a request for all devices can get.
const MOST_DEVICES: i64 = 32;
/// The kinds of the core group that quotas also count by their names alone.
const COUNTED_BY_NAME: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Whether quotas count more than the number of objects of a kind.
pub fn is_measured(resource: &Resource) -> bool {
    [&PODS, &SERVICES, &PERSISTENT_VOLUME_CLAIMS, &RESOURCE_CLAIMS].contains(&resource)
}

/// Whether quotas never count the objects of a kind: events, as in Kubernetes.
pub(super) fn is_ignored(resource: &Resource) -> bool {
    *resource == CORE_EVENTS || *resource == EVENTS
}

/// Whether an object of a kind may use what has this name.
pub(super) fn is_tracked(resource: &Resource, counted: &str) -> bool {
    if is_number_of(resource, counted) {
        return true;
    }
    match resource {
        row if *row == PODS => pods::is_tracked(counted),
        row if *row == SERVICES => matches!(counted, "services.loadbalancers" | "services.nodeports"),
        row if *row == PERSISTENT_VOLUME_CLAIMS => {
            counted == "requests.storage" || counted.contains(OF_STORAGE_CLASS)
        }
        row if *row == RESOURCE_CLAIMS => counted.ends_with(OF_DEVICE_CLASS),
        _ => false,
    }
}

/// Whether the name stands for the number of objects of a kind: `count/deployments.apps`, or `services`.
fn is_number_of(resource: &Resource, counted: &str) -> bool {
    let by_name = is_counted_by_name(resource) && *resource != PODS;
    (by_name && counted == resource.plural) || counted.strip_prefix("count/") == Some(&*qualified(resource))
}

/// Pods are counted by name as well, but for those that have ended.
fn is_counted_by_name(resource: &Resource) -> bool {
    let is_core = resource.group.is_empty();
    is_core
        && (COUNTED_BY_NAME.contains(&resource.plural)
            || [&SERVICES, &PERSISTENT_VOLUME_CLAIMS].contains(&resource))
}

fn qualified(resource: &Resource) -> String {
    match resource.group {
        "" => resource.plural.to_owned(),
        group => format!("{}.{group}", resource.plural),
    }
}

/// How much an object uses. `now` is the time in seconds since 1970.
pub(super) fn of(resource: &Resource, object: &Map, now: i64) -> Usage {
    let mut usage = of_number(resource, 1);
    match resource {
        row if *row == PODS => pods::add_usage(&mut usage, object, now),
        row if *row == SERVICES => add_service(&mut usage, object),
        row if *row == PERSISTENT_VOLUME_CLAIMS => add_claim(&mut usage, object),
        row if *row == RESOURCE_CLAIMS => add_devices(&mut usage, object),
        _ => {}
    }
    usage
}

/// How much so many objects of a kind use, whatever is in them.
pub(super) fn of_number(resource: &Resource, number: i64) -> Usage {
    let amount = || Quantity::from_integer(number);
    let mut usage = Usage::from([(format!("count/{}", qualified(resource)), amount())]);
    if is_counted_by_name(resource) {
        usage.insert(resource.plural.to_owned(), amount());
    }
    usage
}

fn add_service(usage: &mut Usage, service: &Map) {
    let (balancers, ports) = services::counted_by_quotas(service);
    usage.insert("services.loadbalancers".to_owned(), Quantity::from_integer(balancers));
    usage.insert("services.nodeports".to_owned(), Quantity::from_integer(ports));
}

fn add_claim(usage: &mut Usage, claim: &Map) {
    let requested = quantity(claim.object("spec").object("resources").object("requests"), "storage");
    // While a claim is expanded, or an expansion is given up, the larger of both is allocated.
    let allocated = quantity(claim.object("status").object("allocatedResources"), "storage");
    let storage = requested.max(allocated).unwrap_or_default();
    let class = persistent_volume_claims::storage_class(claim);
    if !class.is_empty() {
        let of_class = |what: &str| format!("{class}{OF_STORAGE_CLASS}{what}");
        usage.insert(of_class("persistentvolumeclaims"), Quantity::from_integer(1));
        usage.insert(of_class("requests.storage"), storage.clone());
    }
    usage.insert("requests.storage".to_owned(), storage);
}

fn add_devices(usage: &mut Usage, claim: &Map) {
    for request in claim.object("spec").object("devices").objects("requests") {
        // Of alternatives, the worst case of each class counts.
        let mut worst = Usage::new();
        let alternatives = request.objects("firstAvailable").chain(request.object_if_set("exactly"));
        for wanted in alternatives {
            let devices = match wanted.text("allocationMode") {
                "ExactCount" => wanted.number("count").max(0),
                "All" => MOST_DEVICES,
                _ => continue,
            };
            let counted = format!("{}{OF_DEVICE_CLASS}", wanted.text("deviceClassName"));
            let most = worst.entry(counted).or_default();
            *most = most.clone().max(Quantity::from_integer(devices));
        }
        for (counted, devices) in worst {
            add(usage, counted, &devices);
        }
    }
}
