//! The examples of the Kubernetes documentation ("Configure Memory and CPU Quotas for a Namespace" and its neighbours), and
//! properties of charging and counting.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::resources::core::config_maps::CONFIG_MAPS;
use crate::resources::core::events::{CORE_EVENTS, EVENTS};
use crate::resources::core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS;
use crate::resources::core::services::SERVICES;
use crate::resources::dra::RESOURCE_CLAIMS;
use crate::resources::workloads::DEPLOYMENTS;

const NOW: i64 = 1_800_000_000;

fn map(value: Value) -> Map {
    value.as_object().unwrap().clone()
}

/// A quota whose status is settled, with nothing used.
fn quota(name: &str, mut spec: Value) -> Map {
    let hard = spec["hard"].clone();
    let used: Map = hard.as_object().unwrap().keys().map(|name| (name.clone(), json!("0"))).collect();
    spec["hard"] = hard.clone();
    map(json!({"metadata": {"name": name}, "spec": spec, "status": {"hard": hard, "used": used}}))
}

fn pod(requests: Value, limits: Value) -> Map {
    let resources = json!({"requests": requests, "limits": limits});
    map(json!({"spec": {"containers": [{"name": "main", "resources": resources}]}}))
}

fn take(quota: &Map, resource: &'static Resource, object: &Map, old: Option<&Map>) -> Result<Map, String> {
    let Some(demand) = Demand::of(resource, object, old, NOW) else { return Ok(quota.clone()) };
    Ok(demand.take_from(quota)?.unwrap_or_else(|| quota.clone()))
}

fn used(quota: &Map) -> Value {
    quota.object("status").get("used").unwrap().clone()
}

#[test]
fn memory_and_cpu_as_in_the_documentation() {
    let limits =
        json!({"requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi"});
    let quota = quota("mem-cpu-demo", json!({"hard": limits}));
    let first = pod(json!({"memory": "600Mi", "cpu": "400m"}), json!({"memory": "800Mi", "cpu": "800m"}));
    let quota = take(&quota, &PODS, &first, None).unwrap();
    let expected = json!({"requests.cpu": "400m", "requests.memory": "600Mi", "limits.cpu": "800m", "limits.memory": "800Mi"});
    assert_eq!(used(&quota), expected);
    let second = pod(json!({"memory": "700Mi", "cpu": "400m"}), json!({"memory": "1Gi", "cpu": "800m"}));
    assert_eq!(
        take(&quota, &PODS, &second, None).unwrap_err(),
        "exceeded quota: mem-cpu-demo, requested: requests.memory=700Mi, used: requests.memory=600Mi, \
         limited: requests.memory=1Gi"
    );
}

#[test]
fn pods_as_in_the_documentation() {
    let mut quota = quota("pod-demo", json!({"hard": {"pods": "2"}}));
    for _ in 0..2 {
        quota = take(&quota, &PODS, &pod(json!({}), json!({})), None).unwrap();
    }
    let refused = take(&quota, &PODS, &pod(json!({}), json!({})), None).unwrap_err();
    assert_eq!(refused, "exceeded quota: pod-demo, requested: pods=1, used: pods=2, limited: pods=2");
}

#[test]
fn pods_must_state_the_cpu_and_memory_that_a_quota_counts() {
    let limits = json!({"requests.cpu": "1", "limits.memory": "2Gi", "pods": "9"});
    let quota = quota("compute", json!({"hard": limits}));
    let mut silent = pod(json!({"cpu": "1m"}), json!({}));
    silent.object_mut("spec").unwrap().push_to("containers", json!({"name": "another"}));
    assert_eq!(
        take(&quota, &PODS, &silent, None).unwrap_err(),
        "failed quota: compute: must specify limits.memory for: another,main; requests.cpu for: another"
    );
    let of_pod = json!({"requests": {"cpu": "5m"}, "limits": {"memory": "1Gi"}});
    silent.object_mut("spec").unwrap().insert("resources".to_owned(), of_pod);
    let taken = take(&quota, &PODS, &silent, None).unwrap();
    assert_eq!(used(&taken), json!({"requests.cpu": "5m", "limits.memory": "1Gi", "pods": "1"}));
}

#[test]
fn few_of_many_containers_are_named() {
    let quota = quota("compute", json!({"hard": {"requests.cpu": "1"}}));
    let containers: Vec<Value> = (0..1000).map(|i| json!({"name": format!("c{i}")})).collect();
    let pod = map(json!({"spec": {"containers": containers}}));
    let refused = take(&quota, &PODS, &pod, None).unwrap_err();
    assert!(refused.ends_with(",and 980 more") && refused.len() < 300, "{refused}");
}

#[test]
fn a_pod_that_was_there_before_the_quota_can_still_be_changed() {
    let quota = quota("compute", json!({"hard": {"requests.cpu": "1", "pods": "1"}}));
    let silent = pod(json!({}), json!({}));
    assert!(take(&quota, &PODS, &silent, None).is_err());
    let mut labelled = silent.clone();
    labelled.insert("metadata".to_owned(), json!({"labels": {"a": "b"}}));
    assert_eq!(take(&quota, &PODS, &labelled, Some(&silent)), Ok(quota));
}

#[test]
fn mirror_pods_count_like_all_others_mp_24() {
    let quota = quota("pods", json!({"hard": {"pods": "0"}}));
    let mut mirror = pod(json!({}), json!({}));
    mirror.insert("metadata".to_owned(), json!({"annotations": {"kubernetes.io/config.mirror": "x"}}));
    assert!(take(&quota, &PODS, &mirror, None).is_err());
}

#[test]
fn pods_that_have_ended_count_as_objects_alone() {
    let quota = quota("q", json!({"hard": {"count/pods": "9", "pods": "9"}}));
    let usage = |extra: Value| {
        let mut pod = pod(json!({}), json!({}));
        pod.extend(map(extra));
        used(&take(&quota, &PODS, &pod, None).unwrap())["pods"].clone()
    };
    assert_eq!(usage(json!({})), "1");
    assert_eq!(usage(json!({"status": {"phase": "Succeeded"}})), "0");
    assert_eq!(usage(json!({"status": {"phase": "Failed"}})), "0");
    let deleted =
        |time: &str| json!({"metadata": {"deletionTimestamp": time, "deletionGracePeriodSeconds": 30}});
    assert_eq!(usage(deleted("2027-01-15T08:00:00Z")), "1", "NOW is that second");
    assert_eq!(usage(deleted("2027-01-15T07:59:00Z")), "0");
}

#[test]
fn a_pod_uses_the_largest_of_its_init_containers_its_overhead_and_what_it_still_has() {
    let limits = json!({"requests.memory": "9Gi", "limits.memory": "9Gi", "requests.example.com/gpu": "4",
        "requests.hugepages-2Mi": "1Gi", "hugepages-2Mi": "1Gi"});
    let quota = quota("q", json!({"hard": limits}));
    let resources = |memory: &str| json!({"requests": {"memory": memory}, "limits": {"memory": memory}});
    let pod = map(json!({
        "spec": {
            "containers": [
                {"name": "a", "resources": resources("1Gi")},
                {"name": "b", "resources": {
                    "requests": {"memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
                    "limits": {"memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
                }},
            ],
            "initContainers": [{"name": "c", "resources": resources("3Gi")}],
            "overhead": {"memory": "512Mi"},
        },
        "status": {"containerStatuses": [
            {"name": "a", "allocatedResources": {"memory": "2560Mi"}, "resources": resources("2Gi")},
        ]},
    }));
    let expected = json!({"requests.memory": "4Gi", "limits.memory": "3584Mi", "requests.example.com/gpu": "2",
        "requests.hugepages-2Mi": "4Mi", "hugepages-2Mi": "4Mi"});
    assert_eq!(used(&take(&quota, &PODS, &pod, None).unwrap()), expected);
}

#[test]
fn scopes_choose_pods() {
    let in_scope = |spec: Value, pod: &Map| {
        let mut spec = spec;
        spec["hard"] = json!({"pods": "9"});
        used(&take(&quota("q", spec), &PODS, pod, None).unwrap())["pods"] == "1"
    };
    let with = |extra: Value| {
        let mut pod = pod(json!({}), json!({}));
        pod.object_mut("spec").unwrap().extend(map(extra));
        pod
    };
    let plain = pod(json!({}), json!({}));
    let burstable = pod(json!({"cpu": "1"}), json!({}));
    let short = with(json!({"activeDeadlineSeconds": 0}));
    let scope = |name: &str| json!({"scopes": [name]});
    for (name, other, fits, does_not) in [
        ("Terminating", "NotTerminating", &short, &plain),
        ("BestEffort", "NotBestEffort", &plain, &burstable),
    ] {
        assert!(in_scope(scope(name), fits) && !in_scope(scope(name), does_not), "{name}");
        assert!(!in_scope(scope(other), fits) && in_scope(scope(other), does_not), "{other}");
    }
    let selector = |scope: &str, operator: &str, values: &[&str]| {
        let expression = json!({"scopeName": scope, "operator": operator, "values": values});
        json!({"scopeSelector": {"matchExpressions": [expression]}})
    };
    let high = with(json!({"priorityClassName": "high"}));
    let class = |operator: &str, values: &[&str]| selector("PriorityClass", operator, values);
    for (spec, of_high, of_plain) in [
        (class("Exists", &[]), true, false),
        (class("DoesNotExist", &[]), false, true),
        (class("In", &["low", "high"]), true, false),
        (class("NotIn", &["low"]), true, true),
        (class("NotIn", &["high"]), false, true),
    ] {
        assert_eq!(
            (in_scope(spec.clone(), &high), in_scope(spec.clone(), &plain)),
            (of_high, of_plain),
            "{spec}"
        );
    }
    let term = json!({"namespaces": ["other"], "topologyKey": "x"});
    let preferred = json!([{"weight": 1, "podAffinityTerm": {"namespaceSelector": {}, "topologyKey": "x"}}]);
    for affinity in [
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}),
        json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}),
    ] {
        let pod = with(json!({"affinity": affinity}));
        assert!(in_scope(selector("CrossNamespacePodAffinity", "Exists", &[]), &pod), "{affinity}");
    }
    assert!(!in_scope(scope("CrossNamespacePodAffinity"), &plain));
}

#[test]
fn objects_without_scopes_are_not_counted_by_quotas_with_scopes() {
    let quota = quota("q", json!({"hard": {"count/configmaps": "0"}, "scopes": ["BestEffort"]}));
    assert_eq!(take(&quota, &CONFIG_MAPS, &Map::new(), None), Ok(quota.clone()));
}

#[test]
fn services_claims_and_devices_count_as_what_they_have() {
    let limits = json!({"services": "9", "count/services": "9", "services.nodeports": "9", "services.loadbalancers": "9"});
    let services = quota("q", json!({"hard": limits}));
    for (spec, ports, balancers) in [
        (json!({"type": "ClusterIP"}), "0", "0"),
        (json!({"type": "NodePort"}), "2", "0"),
        (json!({"type": "LoadBalancer"}), "2", "1"),
        (json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}), "1", "1"),
    ] {
        let mut spec = spec;
        spec["ports"] = json!([{"port": 1, "nodePort": 30000}, {"port": 2}]);
        let taken = used(&take(&services, &SERVICES, &map(json!({"spec": spec.clone()})), None).unwrap());
        let expected = json!({"services": "1", "count/services": "1", "services.nodeports": ports,
            "services.loadbalancers": balancers});
        assert_eq!(taken, expected, "{spec}");
    }
    let limits = json!({"requests.storage": "9Gi", "persistentvolumeclaims": "9",
        "gold.storageclass.storage.k8s.io/requests.storage": "3Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "5"});
    let storage = quota("q", json!({"hard": limits}));
    let claim = |class: &str, size: &str| {
        let resources = json!({"requests": {"storage": size}});
        map(json!({"spec": {"storageClassName": class, "resources": resources}}))
    };
    let (small, large) = (claim("gold", "2Gi"), claim("gold", "4Gi"));
    let taken = take(&storage, &PERSISTENT_VOLUME_CLAIMS, &small, None).unwrap();
    let expected = json!({"requests.storage": "2Gi", "persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1"});
    assert_eq!(used(&taken), expected);
    assert_eq!(
        take(&taken, &PERSISTENT_VOLUME_CLAIMS, &large, Some(&small)).unwrap_err(),
        "exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=2Gi, used: \
         gold.storageclass.storage.k8s.io/requests.storage=2Gi, limited: \
         gold.storageclass.storage.k8s.io/requests.storage=3Gi"
    );
    assert!(take(&storage, &PERSISTENT_VOLUME_CLAIMS, &claim("tin", "4Gi"), None).is_ok());
    let devices = quota("q", json!({"hard": {"gpu.deviceclass.resource.k8s.io/devices": "99"}}));
    let wanted =
        |mode: &str, count: i64| json!({"deviceClassName": "gpu", "allocationMode": mode, "count": count});
    let requests = json!([
        {"name": "a", "exactly": wanted("ExactCount", 3)},
        {"name": "b", "firstAvailable": [wanted("ExactCount", 5), wanted("ExactCount", 7)]},
        {"name": "c", "exactly": wanted("All", 0)},
    ]);
    let claim = map(json!({"spec": {"devices": {"requests": requests}}}));
    let taken = used(&take(&devices, &RESOURCE_CLAIMS, &claim, None).unwrap());
    assert_eq!(taken, json!({"gpu.deviceclass.resource.k8s.io/devices": "42"}));
}

#[test]
fn any_kind_can_be_counted_but_events() {
    let limits = json!({"count/deployments.apps": "1", "configmaps": "1", "count/events": "0", "count/events.events.k8s.io": "0"});
    let mut quota = quota("q", json!({"hard": limits}));
    for kind in [&DEPLOYMENTS, &CONFIG_MAPS] {
        quota = take(&quota, kind, &Map::new(), None).unwrap();
        assert!(take(&quota, kind, &Map::new(), None).is_err());
        assert!(take(&quota, kind, &Map::new(), Some(&Map::new())).is_ok(), "updates are free");
    }
    for kind in [&CORE_EVENTS, &EVENTS] {
        assert_eq!(take(&quota, kind, &Map::new(), None), Ok(quota.clone()));
    }
}

#[test]
fn a_pod_that_changes_to_another_scope_is_taken_from_the_one_and_given_back_to_the_other() {
    let of = |scope: &str| quota(scope, json!({"hard": {"pods": "1"}, "scopes": [scope]}));
    let plain = pod(json!({}), json!({}));
    let mut short = plain.clone();
    short.object_mut("spec").unwrap().insert("activeDeadlineSeconds".to_owned(), json!(1));
    let long_lived = take(&of("NotTerminating"), &PODS, &plain, None).unwrap();
    assert_eq!(used(&take(&long_lived, &PODS, &short, Some(&plain)).unwrap()), json!({"pods": "0"}));
    let short_lived = take(&of("Terminating"), &PODS, &short, Some(&plain)).unwrap();
    assert_eq!(used(&short_lived), json!({"pods": "1"}));
    assert!(take(&short_lived, &PODS, &short, Some(&plain)).is_err());
}

#[test]
fn a_quota_is_settled_when_its_status_has_all_limits() {
    let settled = quota("q", json!({"hard": {"pods": "2", "cpu": "1"}}));
    assert!(is_settled(&settled));
    for change in [
        json!({"hard": {"pods": "2"}, "used": {"pods": "0", "cpu": "0"}}),
        json!({"hard": {"pods": "3", "cpu": "1"}, "used": {"pods": "0", "cpu": "0"}}),
        json!({"hard": {"pods": "2", "cpu": "1"}, "used": {"pods": "0"}}),
        json!({"hard": {"pods": "2", "cpu": "1"}, "used": {"pods": "0", "cpu": "0", "memory": "0"}}),
        json!({}),
    ] {
        let mut changed = settled.clone();
        changed.insert("status".to_owned(), change.clone());
        assert!(!is_settled(&changed), "{change}");
    }
}

/// A random object: its kind, and how large it is.
fn objects() -> impl Strategy<Value = Vec<(&'static Resource, Map)>> {
    let pod =
        (0..3_i64, any::<bool>(), any::<bool>(), 0..3_usize).prop_map(|(cpu, is_short, has_class, phase)| {
            let phases = ["Pending", "Running", "Succeeded"];
            let mut pod = pod(json!({"cpu": cpu.to_string()}), json!({"cpu": "3"}));
            let spec = pod.object_mut("spec").unwrap();
            if is_short {
                spec.insert("activeDeadlineSeconds".to_owned(), json!(1));
            }
            if has_class {
                spec.insert("priorityClassName".to_owned(), json!("high"));
            }
            pod.insert("status".to_owned(), json!({"phase": phases[phase]}));
            (&PODS, pod)
        });
    let service = (0..3_usize, 0..3_usize).prop_map(|(kind, ports)| {
        let kind = ["ClusterIP", "NodePort", "LoadBalancer"][kind];
        (&SERVICES, map(json!({"spec": {"type": kind, "ports": vec![json!({"port": 1}); ports]}})))
    });
    let configuration = Just((&CONFIG_MAPS, Map::new()));
    proptest::collection::vec(prop_oneof![pod, service, configuration], 0..20)
}

fn quotas() -> Vec<Map> {
    vec![
        quota(
            "all",
            json!({"hard": {"pods": "4", "requests.cpu": "6", "services.nodeports": "5", "count/pods": "7"}}),
        ),
        quota("short", json!({"hard": {"pods": "2", "limits.cpu": "6"}, "scopes": ["Terminating"]})),
        quota("objects", json!({"hard": {"configmaps": "3", "count/services": "4"}})),
    ]
}

proptest! {
    /// What is charged object by object is what is counted afterwards, in any order; and nothing is above its limit.
    #[test]
    fn charged_is_counted(objects in objects()) {
        let mut charged = quotas();
        let mut stored = Vec::new();
        for (resource, object) in &objects {
            let taken: Result<Vec<Map>, String> =
                charged.iter().map(|quota| take(quota, resource, object, None)).collect();
            if let Ok(taken) = taken {
                charged = taken;
                stored.push((*resource, object));
            }
        }
        let unsettled = quotas();
        let mut tally = Tally::new(&unsettled);
        for (resource, object) in stored.iter().rev() {
            match is_measured(resource) {
                true => tally.add(resource, object, NOW),
                false => tally.add_number(resource, 1),
            }
        }
        for (charged, counted) in charged.iter().zip(tally.settled()) {
            let values = |quota: &Map| -> Usage {
                let used = quota.object("status").object("used");
                used.keys().map(|name| (name.clone(), quantity(used, name).unwrap())).collect()
            };
            prop_assert_eq!(values(charged), values(&counted));
            for (name, used) in values(charged) {
                prop_assert!(used <= quantity(charged.object("spec").object("hard"), &name).unwrap());
            }
        }
    }

    /// An update takes the difference: afterwards as much is used as if the object had been new like that.
    #[test]
    fn updates_take_the_difference(objects in objects()) {
        for ((resource, before), (other, after)) in objects.iter().zip(objects.iter().skip(1)) {
            if resource != other || !is_measured(resource) {
                continue;
            }
            for quota in quotas() {
                let Ok(first) = take(&quota, resource, before, None) else { continue };
                let (Ok(updated), Ok(new)) =
                    (take(&first, resource, after, Some(before)), take(&quota, resource, after, None)) else { continue };
                prop_assert_eq!(used(&updated), used(&new));
            }
        }
    }
}

fn covered(
    resource: &'static Resource,
    object: &Map,
    old: Option<&Map>,
    limited: &[LimitedResource],
    quotas: &[Map],
) -> Result<(), String> {
    Demand::of(resource, object, old, NOW).map_or(Ok(()), |demand| demand.is_covered(limited, quotas.iter()))
}

fn limited(resource: &str, contains: &[&str], scopes: Value) -> LimitedResource {
    LimitedResource {
        group: String::new(),
        resource: resource.to_owned(),
        contains: contains.iter().map(ToString::to_string).collect(),
        scopes: scopes.as_array().unwrap().iter().cloned().map(map).collect(),
    }
}

fn of_class(class: &str) -> Map {
    let mut pod = pod(json!({"cpu": "1"}), json!({}));
    pod.object_mut("spec").unwrap().insert("priorityClassName".to_owned(), json!(class));
    pod
}

/// "Limit Priority Class consumption by default" of the Kubernetes documentation. The message is that of kube-apiserver.
#[test]
fn pods_of_a_limited_priority_class_need_a_quota_for_priority_classes() {
    let class =
        json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services", "more"]}]);
    let limits = [limited("pods", &[], class)];
    let (high, other) = (of_class("cluster-services"), of_class("other"));
    let why = "insufficient quota to match these scopes: [{PriorityClass In [cluster-services more]}]";
    let check = |pod: &Map, quotas: &[Map]| covered(&PODS, pod, None, &limits, quotas);
    assert_eq!(check(&high, &[]).unwrap_err(), why);
    assert_eq!(check(&other, &[]), Ok(()));
    let selected = |operator: &str, values: Value| {
        let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        let selector = json!({"matchExpressions": [expression]});
        quota("of-class", json!({"hard": {"pods": "9"}, "scopeSelector": selector}))
    };
    assert_eq!(check(&high, &[selected("In", json!(["cluster-services"]))]), Ok(()));
    assert_eq!(
        check(&high, &[quota("of-class", json!({"hard": {"pods": "9"}, "scopes": ["PriorityClass"]}))]),
        Ok(())
    );
    // A quota for others, for another scope, or for everything does not do.
    for no in [
        selected("In", json!(["other"])),
        quota("all", json!({"hard": {"pods": "9"}})),
        quota("some", json!({"hard": {"pods": "9"}, "scopes": ["NotBestEffort"]})),
    ] {
        assert_eq!(check(&high, &[no]).unwrap_err(), why);
    }
    // As in kube-apiserver the scopes count, whatever kind they were written for; but not for kinds without scopes.
    let claims =
        [limited("persistentvolumeclaims", &[], json!([{"scopeName": "BestEffort", "operator": "Exists"}]))];
    let told = "insufficient quota to match these scopes: [{BestEffort Exists []}]";
    assert_eq!(covered(&PODS, &pod(json!({}), json!({})), None, &claims, &[]).unwrap_err(), told);
    assert!(
        claims[0].is_about(&PODS)
            && claims[0].is_about(&PERSISTENT_VOLUME_CLAIMS)
            && !claims[0].is_about(&SERVICES)
    );
    assert_eq!(covered(&SERVICES, &map(json!({})), None, &claims, &[]), Ok(()));
}

/// "Limiting storage of any class by default" of the Kubernetes documentation of the configuration.
#[test]
fn what_is_used_under_limited_names_needs_a_quota_with_that_name() {
    let limits =
        [limited("persistentvolumeclaims", &[".storageclass.storage.k8s.io/requests.storage"], json!([]))];
    let claim = |class: &str| {
        map(json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}}))
    };
    let check =
        |claim: &Map, quotas: &[Map]| covered(&PERSISTENT_VOLUME_CLAIMS, claim, None, &limits, quotas);
    let gold = "gold.storageclass.storage.k8s.io/requests.storage";
    assert_eq!(check(&claim("gold"), &[]).unwrap_err(), format!("insufficient quota to consume: {gold}"));
    assert_eq!(check(&claim(""), &[]), Ok(()));
    assert_eq!(check(&claim("gold"), &[quota("q", json!({"hard": {gold: "5Gi"}}))]), Ok(()));
    for other in [
        json!({"requests.storage": "5Gi"}),
        json!({"silver.storageclass.storage.k8s.io/requests.storage": "1"}),
    ] {
        assert!(check(&claim("gold"), &[quota("q", json!({"hard": other}))]).is_err());
    }

    let limits = [limited("pods", &["cpu", "memory"], json!([]))];
    let wanted = pod(json!({"cpu": "1", "memory": "0"}), json!({"cpu": "2"}));
    let why = covered(&PODS, &wanted, None, &limits, &[]).unwrap_err();
    assert_eq!(why, "insufficient quota to consume: cpu,limits.cpu,requests.cpu");
    let some = [quota("a", json!({"hard": {"cpu": "9"}})), quota("b", json!({"hard": {"limits.cpu": "9"}}))];
    let why = covered(&PODS, &wanted, None, &limits, &some).unwrap_err();
    assert_eq!(why, "insufficient quota to consume: requests.cpu");
    // A quota counts only if the pod is in its scopes.
    let scoped = quota("c", json!({"hard": {"requests.cpu": "9"}, "scopes": ["Terminating"]}));
    assert!(covered(&PODS, &wanted, None, &limits, &[some[0].clone(), some[1].clone(), scoped]).is_err());
    let rest = quota("c", json!({"hard": {"requests.cpu": "9"}}));
    assert_eq!(covered(&PODS, &wanted, None, &limits, &[some[0].clone(), some[1].clone(), rest]), Ok(()));
    // Another kind, and another group of the same name, are not limited.
    assert_eq!(covered(&SERVICES, &map(json!({})), None, &limits, &[]), Ok(()));
    let of_group = [LimitedResource { group: "example.com".to_owned(), ..limits[0].clone() }];
    assert_eq!(covered(&PODS, &wanted, None, &of_group, &[]), Ok(()));
}

#[test]
fn a_write_that_uses_no_more_than_before_needs_no_quota() {
    let limits = [limited("services", &["services"], json!([]))];
    let service = |kind: &str| map(json!({"spec": {"type": kind, "ports": [{"port": 80}]}}));
    let (inside, outside) = (service("ClusterIP"), service("LoadBalancer"));
    assert!(covered(&SERVICES, &inside, None, &limits, &[]).is_err());
    assert_eq!(covered(&SERVICES, &inside, Some(&inside), &limits, &[]), Ok(()));
    assert_eq!(covered(&SERVICES, &inside, Some(&outside), &limits, &[]), Ok(()));
    let why = covered(&SERVICES, &outside, Some(&inside), &limits, &[]).unwrap_err();
    assert!(
        why.starts_with("insufficient quota to consume: count/services,services,services.loadbalancers"),
        "{why}"
    );
}
