//! Applies LimitRanges to pods and claims: fills in requests and limits, and checks bounds.
//! Bounds are compared exactly.
//!
//! DIVERGES: a LimitRange fills in at most so many values, and few of many refusals are told. In Kubernetes a small pod with
//! many containers and a LimitRange with many defaults become an object of any size.

use std::collections::HashMap;

use portcullis_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::amount::Totals;
use crate::resources::quantities::quantity;

/// In this annotation of a pod stands what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The most requests and limits that are filled in.
const FILLED: usize = 10_000;
/// The most refusals that are told.
const REFUSALS: usize = 20;

/// The limits of a LimitRange for one type: `Container`, `Pod` or `PersistentVolumeClaim`.
fn limits<'a>(range: &'a Map, kind: &'static str) -> impl Iterator<Item = &'a Map> {
    range.object("spec").objects("limits").filter(move |item| item.text("type") == kind)
}

/// Gives the containers of a pod the requests and limits that they do not have, and notes which.
///
/// # Errors
/// The pod has so many containers, and the LimitRange so many defaults, that filling them in would take more than
/// 10,000 values. Then the pod is half changed, and must be refused.
pub fn fill_in(pod: &mut Map, range: &Map) -> Result<(), String> {
    let mut notes = Vec::new();
    let mut room = FILLED;
    let Some(spec) = pod.object_mut("spec") else { return Ok(()) };
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        for container in spec.objects_mut(list) {
            let name = container.text("name").to_owned();
            let Some(resources) = container.object_or_new("resources") else { continue };
            for (from, to, noun) in
                [("defaultRequest", "requests", "request"), ("default", "limits", "limit")]
            {
                let mut set = Vec::new();
                for (resource, amount) in limits(range, "Container").flat_map(|item| item.object(from)) {
                    if resources.object(to).contains_key(resource) {
                        continue;
                    }
                    room = room.checked_sub(1).ok_or_else(too_many)?;
                    set.push(resource.as_str());
                    if let Some(amounts) = resources.object_or_new(to) {
                        amounts.insert(resource.clone(), amount.clone());
                    }
                }
                set.sort_unstable();
                if !set.is_empty() {
                    notes.push(format!("{} {noun} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if notes.is_empty() {
        return Ok(());
    }
    let note = format!("LimitRanger plugin set: {}", notes.join("; "));
    let metadata = pod.object_or_new("metadata").and_then(|metadata| metadata.object_or_new("annotations"));
    if let Some(annotations) = metadata {
        annotations.insert(ANNOTATION.to_owned(), note.into());
    }
    Ok(())
}

fn too_many() -> String {
    format!("the limit ranges of the namespace would fill in more than {FILLED} requests and limits")
}

/// Returns the reasons for which a LimitRange refuses a pod, at most 20; empty if it accepts the pod.
pub fn pod_refusals(pod: &Map, range: &Map) -> Vec<String> {
    let spec = pod.object("spec");
    let of_containers = limits(range, "Container").flat_map(|item| {
        let containers = ["containers", "initContainers"].into_iter().flat_map(|list| spec.objects(list));
        containers.flat_map(move |container| {
            let resources = container.object("resources");
            let used = move |list: &str, name: &str| quantity(resources.object(list), name);
            refusals("Container", item, used)
        })
    });
    let of_pod = limits(range, "Pod").flat_map(|item| {
        let [requests, limits] = ["requests", "limits"].map(|list| whole(spec, list));
        refusals("Pod", item, move |list: &str, name: &str| {
            let of = if list == "requests" { &requests } else { &limits };
            of.get(name).cloned()
        })
    });
    of_containers.chain(of_pod).take(REFUSALS).collect()
}

/// Returns the reasons for which a LimitRange refuses a claim, at most 20; empty if it accepts the claim.
pub fn claim_refusals(claim: &Map, range: &Map) -> Vec<String> {
    const KIND: &str = "PersistentVolumeClaim";
    let requests = claim.object("spec").object("resources").object("requests");
    let refusals = limits(range, KIND).flat_map(|item| {
        let least =
            item.object("min").iter().filter_map(|(name, bound)| at_least(KIND, name, bound, requests));
        let most = item.object("max").iter().filter_map(|(name, bound)| {
            let bound_amount = quantity(item.object("max"), name)?;
            let asked = quantity(requests, name)?;
            (asked > bound_amount).then(|| above(KIND, name, bound, &format!("request is {asked}")))
        });
        least.chain(most)
    });
    refusals.take(REFUSALS).collect()
}

/// The requests or limits of a pod: those of the pod itself, else the sum over its containers.
fn whole(spec: &Map, list: &str) -> HashMap<String, Quantity> {
    let of_containers = Totals::of_containers(spec, list);
    let own = spec.object("resources").object(list);
    let own = own.keys().filter_map(|name| Some((name.clone(), quantity(own, name)?)));
    of_containers.iter().map(|(name, amount)| (name.to_owned(), amount)).chain(own).collect()
}

/// The bounds that what is used breaks. `used` is what is used of a resource: the requests or the limits.
fn refusals<'a>(
    kind: &'static str,
    item: &'a Map,
    used: impl Fn(&str, &str) -> Option<Quantity> + Clone + 'a,
) -> impl Iterator<Item = String> + 'a {
    let (of_min, of_max, of_ratio) = (used.clone(), used.clone(), used);
    let least = item.object("min").iter().filter_map(move |(name, bound)| {
        let (request, limit) = (of_min("requests", name), of_min("limits", name));
        let least = quantity(item.object("min"), name)?;
        match (request, limit) {
            (None, _) => Some(below(kind, name, bound, "no request is specified")),
            (Some(request), _) if request < least => {
                Some(below(kind, name, bound, &format!("request is {request}")))
            }
            (_, Some(limit)) if limit < least => Some(below(kind, name, bound, &format!("limit is {limit}"))),
            _ => None,
        }
    });
    let most = item.object("max").iter().filter_map(move |(name, bound)| {
        let (request, limit) = (of_max("requests", name), of_max("limits", name));
        let most = quantity(item.object("max"), name)?;
        match (limit, request) {
            (None, _) => Some(above(kind, name, bound, "no limit is specified")),
            (Some(limit), _) if limit > most => Some(above(kind, name, bound, &format!("limit is {limit}"))),
            (_, Some(request)) if request > most => {
                Some(above(kind, name, bound, &format!("request is {request}")))
            }
            _ => None,
        }
    });
    let ratio = item.object("maxLimitRequestRatio").iter().filter_map(move |(name, bound)| {
        let is_used = |amount: &Quantity| !amount.is_zero();
        let request = of_ratio("requests", name).filter(is_used);
        let limit = of_ratio("limits", name).filter(is_used);
        let most = quantity(item.object("maxLimitRequestRatio"), name)?;
        let why = match (request, limit) {
            (None, _) => "no request is specified or request is 0".to_owned(),
            (_, None) => "no limit is specified or limit is 0".to_owned(),
            (Some(request), Some(limit)) if is_above_ratio(&request, &limit, &most) => {
                format!("limit is {limit} and request is {request}")
            }
            _ => return None,
        };
        Some(format!("{name} max limit to request ratio per {kind} is {}, but {why}", shown(bound)))
    });
    least.chain(most).chain(ratio)
}

/// Whether `limit / request > most`, without a division.
fn is_above_ratio(request: &Quantity, limit: &Quantity, most: &Quantity) -> bool {
    let thousandths = |amount: &Quantity| i128::from(amount.scaled(-3));
    let (request, limit, most) = (thousandths(request), thousandths(limit), thousandths(most));
    limit.saturating_mul(1000) > most.saturating_mul(request)
}

fn at_least(kind: &str, name: &str, bound: &Value, requests: &Map) -> Option<String> {
    let least = Quantity::from_json(bound).ok()?;
    match quantity(requests, name) {
        None => Some(below(kind, name, bound, "no request is specified")),
        Some(asked) if asked < least => Some(below(kind, name, bound, &format!("request is {asked}"))),
        Some(_) => None,
    }
}

fn below(kind: &str, name: &str, bound: &Value, why: &str) -> String {
    format!("minimum {name} usage per {kind} is {}, but {why}", shown(bound))
}

fn above(kind: &str, name: &str, bound: &Value, why: &str) -> String {
    format!("maximum {name} usage per {kind} is {}, but {why}", shown(bound))
}

fn shown(bound: &Value) -> &str {
    bound.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limits: Value) -> Map {
        json!({"spec": {"limits": limits}}).as_object().unwrap().clone()
    }

    fn pod(resources: Value) -> Map {
        let pod = json!({"spec": {"containers": [{"name": "a", "resources": resources}]}});
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn containers_get_what_they_do_not_have() {
        let range = range(json!([
            {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}},
            {"type": "Pod", "max": {"cpu": "8"}},
        ]));
        let mut filled = pod(json!({"limits": {"cpu": "3"}}));
        filled.object_mut("spec").unwrap().insert("initContainers".to_owned(), json!([{"name": "b"}]));
        fill_in(&mut filled, &range).unwrap();
        let spec = filled.object("spec");
        let expected = json!({"limits": {"cpu": "3", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(spec.get("containers").unwrap()[0]["resources"], expected);
        let expected = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(spec.get("initContainers").unwrap()[0]["resources"], expected);
        assert_eq!(
            filled.metadata().object("annotations").text(ANNOTATION),
            "LimitRanger plugin set: cpu request for container a; memory limit for container a; \
             cpu request for init container b; cpu, memory limit for init container b"
        );
        let before = filled.clone();
        fill_in(&mut filled, &range).unwrap();
        assert_eq!(filled, before);
    }

    #[test]
    fn a_small_limit_range_and_pod_cannot_make_a_huge_object() {
        let names: Map = (0..200).map(|i| (format!("example.com/{i}"), json!("1"))).collect();
        let range = range(json!([{"type": "Container", "default": names}]));
        let containers: Vec<Value> = (0..60).map(|i| json!({"name": format!("c{i}")})).collect();
        let mut pod = json!({"spec": {"containers": containers}}).as_object().unwrap().clone();
        assert!(fill_in(&mut pod, &range).is_err());
    }

    #[test]
    fn bounds_of_containers_are_exact_and_need_a_value() {
        let range = range(json!([{
            "type": "Container",
            "min": {"cpu": "100m"},
            "max": {"memory": "1Gi"},
            "maxLimitRequestRatio": {"cpu": "2.5"},
        }]));
        let refusals = |resources: Value| pod_refusals(&pod(resources), &range).len();
        let (none, one) = (0, 1);
        for (requests, limits, count) in [
            (json!({"cpu": "0.1"}), json!({"cpu": "250m", "memory": "1024Mi"}), none),
            (json!({"cpu": "99m"}), json!({"cpu": "200m", "memory": "1Gi"}), one),
            (json!({"cpu": "100m"}), json!({"cpu": "251m", "memory": "1Gi"}), one),
            (json!({"cpu": "100m"}), json!({"cpu": "200m", "memory": "1073741825"}), one),
            (json!({"cpu": "100m", "memory": "2Gi"}), json!({"cpu": "200m", "memory": "1Gi"}), one),
            (json!({"cpu": "100m"}), json!({"cpu": "200m"}), one),
            (json!({"cpu": "100m"}), json!({"memory": "1Gi"}), one),
            (json!({}), json!({"cpu": "200m", "memory": "1Gi"}), 2),
            (json!({"cpu": "0"}), json!({"cpu": "0", "memory": "1Gi"}), 2),
        ] {
            let resources = json!({"requests": requests, "limits": limits});
            assert_eq!(refusals(resources.clone()), count, "{resources}");
        }
        let [told] = &pod_refusals(
            &pod(json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "100m", "memory": "1Gi"}})),
            &range,
        )[..] else {
            panic!()
        };
        assert_eq!(told, "minimum cpu usage per Container is 100m, but request is 50m");
    }

    #[test]
    fn bounds_of_pods_are_about_all_containers_or_the_pod_itself() {
        let range = range(json!([{"type": "Pod", "max": {"cpu": "1"}}]));
        let two = |amount: &str| {
            let container = json!({"resources": {"limits": {"cpu": amount}}});
            json!({"spec": {"containers": [container.clone(), container]}}).as_object().unwrap().clone()
        };
        assert!(pod_refusals(&two("500m"), &range).is_empty());
        assert_eq!(pod_refusals(&two("501m"), &range).len(), 1);
        let mut whole = two("501m");
        whole.object_mut("spec").unwrap().insert("resources".to_owned(), json!({"limits": {"cpu": "1"}}));
        assert!(pod_refusals(&whole, &range).is_empty());
    }

    #[test]
    fn bounds_of_claims_are_about_what_they_request() {
        let range = range(json!([
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        ]));
        for (asked, count) in [("1Gi", 0), ("2Gi", 0), ("1023Mi", 1), ("2049Mi", 1)] {
            let claim = json!({"spec": {"resources": {"requests": {"storage": asked}}}});
            assert_eq!(claim_refusals(claim.as_object().unwrap(), &range).len(), count, "{asked}");
        }
        assert_eq!(claim_refusals(&Map::new(), &range).len(), 1);
    }

    #[test]
    fn few_of_many_refusals_are_told() {
        let range = range(json!([{"type": "Container", "min": {"cpu": "1"}}]));
        let containers = vec![json!({}); 5000];
        let pod = json!({"spec": {"containers": containers}}).as_object().unwrap().clone();
        assert_eq!(pod_refusals(&pod, &range).len(), REFUSALS);
    }
}
