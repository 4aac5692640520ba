//! Deployments and what goes with them, over the network: scales, budgets, priorities, the older autoscalers.

use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::common::{Setup, Started, ask, done, start_with};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/web/scale";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn start() -> Started {
    start_with(Setup { is_cluster: true, ..Setup::default() })
}

#[track_caller]
fn get(server: &Started, path: &str) -> Value {
    done(server, "GET", path, &Value::Null, 200)
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "c:1"}]},
            },
        },
    })
}

#[test]
fn a_scale_is_read_and_written_like_an_object() {
    let server = start();
    let made = done(&server, "POST", DEPLOYMENTS, &deployment(), 201);
    let scale = get(&server, SCALE);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=web"}));
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        assert_eq!(scale["metadata"][member], made["metadata"][member], "{member}");
    }

    // A patch, and a replacement, which is refused after somebody else's.
    let patched = done(&server, "PATCH", SCALE, &json!({"spec": {"replicas": 3}}), 200);
    assert_eq!(patched["spec"]["replicas"], 3);
    let mut late = scale.clone();
    late["spec"]["replicas"] = json!(4);
    ask(&server, "PUT", SCALE, &late).assert_status(409, "Conflict");
    let mut newer = patched.clone();
    newer["spec"]["replicas"] = json!(4);
    assert_eq!(done(&server, "PUT", SCALE, &newer, 200)["spec"]["replicas"], 4);

    // The deployment itself is stored, so a new number of replicas is a new generation.
    let stored = get(&server, &format!("{DEPLOYMENTS}/web"));
    assert_eq!((&stored["kind"], &stored["spec"]["replicas"]), (&json!("Deployment"), &json!(4)));
    assert_eq!(stored["metadata"]["generation"], 3);
    assert_eq!(stored["spec"]["template"], made["spec"]["template"]);

    // Invalid scales.
    let refused = ask(&server, "PATCH", SCALE, &json!({"spec": {"replicas": -1}}));
    let refused = refused.assert_status(422, "Invalid");
    assert_eq!(refused["details"]["kind"], "Scale");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.replicas");
    let absent = SCALE.replace("web", "gone");
    ask(&server, "GET", &absent, &Value::Null).assert_status(404, "NotFound");
    ask(&server, "PUT", &absent, &json!({"metadata": {"name": "gone"}})).assert_status(404, "NotFound");
    ask(&server, "DELETE", SCALE, &Value::Null).assert_status(405, "MethodNotAllowed");
    let dry = done(&server, "PATCH", &format!("{SCALE}?dryRun=All"), &json!({"spec": {"replicas": 9}}), 200);
    assert_eq!(dry["spec"]["replicas"], 9);
    assert_eq!(get(&server, SCALE)["spec"]["replicas"], 4);
}

#[test]
fn the_selector_of_a_deployment_stays_and_selects_its_template() {
    let server = start();
    done(&server, "POST", DEPLOYMENTS, &deployment(), 201);
    let other = json!({"spec": {"selector": {"matchLabels": {"tier": "x"}}}});
    let refused = ask(&server, "PATCH", &format!("{DEPLOYMENTS}/web"), &other).assert_status(422, "Invalid");
    let fields: Vec<&Value> =
        refused["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, ["spec.template.metadata.labels", "spec.selector"]);
    let mut none = deployment();
    none["metadata"]["name"] = json!("none");
    none["spec"].as_object_mut().unwrap().remove("selector");
    let refused = ask(&server, "POST", DEPLOYMENTS, &none).assert_status(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.selector");
}

/// Pods need an account, which a controller makes.
fn await_account(server: &Started) {
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    wait::until("the account of the namespace is there", || {
        ask(server, "GET", account, &Value::Null).code == 200
    });
}

/// A pod that its kubelet has started.
fn ready_pod(server: &Started, name: &str) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "c:1"}]},
    });
    done(server, "POST", PODS, &pod, 201);
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    server.kubelet("n1").must(200, "PATCH", &format!("{PODS}/{name}/status"), Some(&ready));
}

#[test]
fn a_budget_lets_go_as_many_pods_as_it_says_ap_121() {
    let server = start();
    await_account(&server);
    ["a", "b"].into_iter().for_each(|name| ready_pod(&server, name));
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    done(&server, "POST", BUDGETS, &budget, 201);
    let evict = |name: &str, query: &str| {
        ask(
            &server,
            "POST",
            &format!("{PODS}/{name}/eviction{query}"),
            &json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}),
        )
    };

    // The controller has not looked at the budget yet.
    let refused = evict("a", "").assert_status(429, "TooManyRequests");
    assert_eq!(refused["details"]["causes"][0]["reason"], "DisruptionBudget");
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    done(&server, "PATCH", &format!("{BUDGETS}/web/status"), &status, 200);
    assert_eq!(evict("a", "?dryRun=All").code, 201);
    assert_eq!(evict("a", "").code, 201);
    evict("b", "").assert_status(429, "TooManyRequests");
    let budget = get(&server, &format!("{BUDGETS}/web"));
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["a"].is_string(), "{budget}");

    // A second budget for the pod is one too many; without any the pod goes.
    let mut second = budget.clone();
    second["metadata"] = json!({"name": "second"});
    done(&server, "POST", BUDGETS, &second, 201);
    evict("b", "").assert_status(500, "InternalError");
    done(&server, "DELETE", BUDGETS, &Value::Null, 200);
    assert_eq!(evict("b", "").code, 201);
}

#[test]
fn pods_have_the_priority_of_their_class_ap_110() {
    let server = start();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    await_account(&server);
    let pod = |name: &str, class: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"priorityClassName": class, "containers": [{"name": "c", "image": "c:1"}]},
        })
    };
    let priority = |pod: &Value| (pod["spec"]["priorityClassName"].clone(), pod["spec"]["priority"].clone());
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        assert_eq!(get(&server, &format!("{classes}/{name}"))["value"], value);
        let made = done(&server, "POST", PODS, &pod(name, name), 201);
        assert_eq!(priority(&made), (json!(name), json!(value)));
    }
    let plain = done(&server, "POST", PODS, &pod("plain", ""), 201);
    assert_eq!(plain["spec"]["priority"], 0);
    ask(&server, "POST", PODS, &pod("high", "high")).assert_status(403, "Forbidden");
    done(&server, "POST", classes, &json!({"metadata": {"name": "high"}, "value": 7}), 201);
    let usual = json!({"metadata": {"name": "usual"}, "value": 3, "globalDefault": true});
    done(&server, "POST", classes, &usual, 201);
    let made = done(&server, "POST", PODS, &pod("high", "high"), 201);
    assert_eq!(priority(&made), (json!("high"), json!(7)));
    let made = done(&server, "POST", PODS, &pod("default", ""), 201);
    assert_eq!(priority(&made), (json!("usual"), json!(3)));
    let system = json!({"metadata": {"name": "system-mine"}, "value": 1});
    ask(&server, "POST", classes, &system).assert_status(422, "Invalid");
}

#[test]
fn an_autoscaler_of_the_older_version_is_one_of_the_newer() {
    let server = start();
    let [old, new] = ["v1", "v2"]
        .map(|version| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"));
    let autoscaler = json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 4,
            "targetCPUUtilizationPercentage": 50,
        },
    });
    let made = done(&server, "POST", &old, &autoscaler, 201);
    assert_eq!((&made["apiVersion"], &made["spec"]["minReplicas"]), (&json!("autoscaling/v1"), &json!(1)));
    let stored = get(&server, &format!("{new}/web"));
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    assert_eq!(stored["spec"]["metrics"], json!([cpu]));

    // Fields that only the newer version has survive a write in the older one.
    let target = json!({"type": "AverageValue", "averageValue": "5"});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": target}});
    let metrics = json!({"spec": {"metrics": [cpu, pods]}});
    done(&server, "PATCH", &format!("{new}/web"), &metrics, 200);
    let shown = get(&server, &format!("{old}/web"));
    assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 50);
    assert!(shown["spec"].get("metrics").is_none(), "{shown}");
    let more = json!({"spec": {"maxReplicas": 9, "targetCPUUtilizationPercentage": 60}});
    done(&server, "PATCH", &format!("{old}/web"), &more, 200);
    let stored = get(&server, &format!("{new}/web"));
    assert_eq!(stored["spec"]["maxReplicas"], 9);
    let mut found = stored["spec"]["metrics"].as_array().unwrap().clone();
    found.sort_by_key(|metric| metric["type"].as_str().unwrap().to_owned());
    assert_eq!(found[0], pods);
    assert_eq!(found[1]["resource"]["target"]["averageUtilization"], 60);
    assert!(stored["metadata"].get("annotations").is_none(), "{stored}");
}

#[test]
fn a_namespace_that_goes_takes_all_its_kinds_with_it() {
    let server = start();
    done(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}), 201);
    let deployments = DEPLOYMENTS.replace("default", "shop");
    done(&server, "POST", &deployments, &deployment(), 201);
    let quotas = "/api/v1/namespaces/shop/resourcequotas";
    done(&server, "POST", quotas, &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}), 201);
    for path in [deployments.as_str(), quotas] {
        assert_eq!(get(&server, path)["items"].as_array().unwrap().len(), 1);
    }
    done(&server, "DELETE", "/api/v1/namespaces/shop", &Value::Null, 200);
    wait::until("the namespace is gone", || {
        ask(&server, "GET", "/api/v1/namespaces/shop", &Value::Null).code == 404
    });
    for path in [deployments.as_str(), quotas] {
        assert_eq!(get(&server, path)["items"], json!([]));
    }
}
