//! Nodes that are lost, and what becomes of their pods; volumes in use; old events. Periods are short here, and waited for.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::{Setup, Started, start_with};
use portcullis_server::controller::settings::ControllerSettings;
use portcullis_testkit::https::Client;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const SHORT: Duration = Duration::from_millis(300);
const NEVER: Duration = Duration::from_secs(3600);

struct Server {
    admin: Client,
    /// The kubelets that have sent something, by node.
    kubelets: HashMap<String, Client>,
    started: Started,
}

impl Server {
    /// A server whose periods are long, but those that `change` makes short.
    fn start(change: impl FnOnce(&mut ControllerSettings)) -> Self {
        let mut controllers = ControllerSettings {
            node_monitor_grace_period: NEVER,
            node_monitor_period: SHORT,
            node_startup_grace_period: NEVER,
            missing_node_grace_period: NEVER,
            ..ControllerSettings::default()
        };
        change(&mut controllers);
        let started = start_with(Setup { is_cluster: true, controllers, ..Setup::default() });
        let mut server = Self { admin: started.client(&started.admin()), kubelets: HashMap::new(), started };
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        wait::until("pods can be created", || server.get(path).is_some());
        server
    }

    fn get(&mut self, path: &str) -> Option<Value> {
        let answer = self.admin.ask("GET", path, None).unwrap();
        (answer.code == 200).then(|| answer.json())
    }

    fn create(&mut self, collection: &str, object: Value) -> Value {
        self.admin.must(201, "POST", collection, Some(&object))
    }

    fn put(&mut self, path: &str, change: impl Fn(&mut Value)) {
        put(&mut self.admin, path, change);
    }

    fn kubelet(&mut self, node: &str) -> &mut Client {
        self.kubelets.entry(node.to_owned()).or_insert_with(|| self.started.kubelet(node))
    }

    /// A node that its kubelet registers, with the status of its readiness.
    fn node(&mut self, name: &str, ready: &str) {
        let conditions =
            json!([{"type": "Ready", "status": ready, "lastHeartbeatTime": "2020-01-01T00:00:00Z"}]);
        let node = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
        self.kubelet(name).must(201, "POST", NODES, Some(&node));
    }

    fn pod(&mut self, name: &str, node: &str, fields: Value) -> Value {
        let mut pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        for part in ["metadata", "spec"] {
            for (name, value) in fields[part].as_object().into_iter().flatten() {
                pod[part][name] = value.clone();
            }
        }
        self.create(PODS, pod)
    }

    /// The kubelet of the pod's node reports its status.
    fn status(&mut self, pod: &str, status: Value) {
        let node = self.get(&format!("{PODS}/{pod}")).unwrap()["spec"]["nodeName"].clone();
        let kubelet = self.kubelet(node.as_str().unwrap());
        put(kubelet, &format!("{PODS}/{pod}/status"), |pod| pod["status"] = status.clone());
    }

    /// The kubelet of a node reports its conditions.
    fn conditions(&mut self, node: &str, conditions: &Value) {
        let path = format!("{NODES}/{node}/status");
        put(self.kubelet(node), &path, |node| node["status"]["conditions"] = conditions.clone());
    }

    fn gone(&mut self, path: &str) {
        wait::until(&format!("{path} is gone"), || self.get(path).is_none());
    }

    fn taints(&mut self, node: &str) -> Vec<String> {
        let node = self.get(&format!("{NODES}/{node}")).unwrap();
        let text = |taint: &Value, member: &str| taint[member].as_str().unwrap().to_owned();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let taints = taints.iter().map(|taint| format!("{}:{}", text(taint, "key"), text(taint, "effect")));
        let mut taints: Vec<String> =
            taints.map(|taint| taint.trim_start_matches("node.kubernetes.io/").to_owned()).collect();
        taints.sort();
        taints
    }

    #[track_caller]
    fn tainted(&mut self, node: &str, taints: &[&str]) {
        wait::until_ok(&format!("{node} has the taints {taints:?}"), || {
            let found = self.taints(node);
            if found == taints { Ok(()) } else { Err(found) }
        });
    }

    fn readiness(&mut self, node: &str) -> Value {
        let node = self.get(&format!("{NODES}/{node}")).unwrap();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
    }

    fn heartbeat(&mut self, node: &str, ready: &str, at: &str) {
        self.conditions(node, &json!([{"type": "Ready", "status": ready, "lastHeartbeatTime": at}]));
    }
}

/// Reads an object, changes and writes it, again until nobody else has written meanwhile.
fn put(client: &mut Client, path: &str, change: impl Fn(&mut Value)) {
    wait::until(&format!("{path} is written"), || {
        let mut object = client.must(200, "GET", path.trim_end_matches("/status"), None);
        change(&mut object);
        client.ask("PUT", path, Some(&object)).unwrap().code == 200
    });
}

#[test]
fn the_pods_of_a_node_that_does_not_exist_are_deleted() {
    let mut server = Server::start(|settings| settings.missing_node_grace_period = SHORT);
    server.node("here", "True");
    server.node("leaving", "True");
    server.pod("kept", "here", json!({}));
    server.pod("orphan", "nowhere", json!({}));
    server.pod("held", "leaving", json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let mirror_pod = json!({"metadata": {"name": "mirror", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"nodeName": "leaving", "containers": [{"name": "c", "image": "i"}]}});
    server.create(PODS, mirror_pod);
    server.gone(&format!("{PODS}/orphan"));
    server.admin.must(200, "DELETE", &format!("{NODES}/leaving"), None);
    server.gone(&format!("{PODS}/mirror"));
    wait::until("the held pod is marked", || {
        let pod = server.get(&format!("{PODS}/held")).unwrap();
        pod["metadata"]["deletionGracePeriodSeconds"] == 0
    });
    let held = server.get(&format!("{PODS}/held")).unwrap();
    assert_eq!(held["status"]["phase"], "Failed");
    let conditions = held["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&target["reason"], &target["status"]), (&json!("DeletionByPodGC"), &json!("True")));
    assert!(server.get(&format!("{PODS}/kept")).is_some());
}

#[test]
fn pods_stay_while_their_node_may_come_back() {
    let mut server = Server::start(|_| {});
    server.pod("early", "late", json!({}));
    server.node("late", "True");
    server.pod("other", "late", json!({}));
    server.admin.must(200, "DELETE", &format!("{NODES}/late"), None);
    server.pod("unbound", "", json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    server.admin.must(200, "DELETE", &format!("{PODS}/unbound"), None);
    wait::until("the controller has gone on", || {
        server.get(&format!("{PODS}/unbound")).unwrap()["status"]["phase"] == "Failed"
    });
    for pod in ["early", "other"] {
        assert!(server.get(&format!("{PODS}/{pod}")).is_some(), "{pod}");
    }
}

#[test]
fn terminating_pods_of_a_node_that_is_out_of_service_are_removed() {
    let mut server = Server::start(|_| {});
    server.node("n", "False");
    server.pod("leaving", "n", json!({}));
    server.pod("staying", "n", json!({}));
    server.admin.must(200, "DELETE", &format!("{PODS}/leaving"), None);
    assert!(server.get(&format!("{PODS}/leaving")).is_some(), "it has a grace period");
    server.put(&format!("{NODES}/n"), |node| {
        let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoSchedule"});
        node["spec"]["taints"] = json!([taint]);
    });
    server.gone(&format!("{PODS}/leaving"));
    assert!(server.get(&format!("{PODS}/staying")).is_some());
    server.admin.must(200, "DELETE", &format!("{PODS}/staying"), None);
    server.gone(&format!("{PODS}/staying"));
}

#[test]
fn of_pods_that_have_ended_the_evicted_and_the_oldest_go_first() {
    let mut server = Server::start(|settings| settings.terminated_pod_gc_threshold = 2);
    server.node("n", "True");
    for name in ["a", "b", "c", "evicted", "running"] {
        server.pod(name, "n", json!({}));
    }
    server.status("a", json!({"phase": "Succeeded"}));
    server.status("evicted", json!({"phase": "Failed", "reason": "Evicted"}));
    server.status("b", json!({"phase": "Failed"}));
    server.gone(&format!("{PODS}/evicted"));
    server.status("c", json!({"phase": "Succeeded"}));
    server.gone(&format!("{PODS}/a"));
    for pod in ["b", "c", "running"] {
        assert!(server.get(&format!("{PODS}/{pod}")).is_some(), "{pod}");
    }
}

#[test]
fn a_silent_node_becomes_unreachable_and_comes_back_with_its_kubelet() {
    let mut server = Server::start(|settings| settings.node_monitor_grace_period = Duration::from_secs(6));
    server.node("silent", "True");
    let lease = |at: usize| {
        json!({"metadata": {"name": "alive"},
        "spec": {"holderIdentity": "alive", "renewTime": format!("2020-01-01T00:{:02}:{:02}.000000Z", at / 60, at % 60)}})
    };
    server.node("alive", "True");
    server.kubelet("alive").must(201, "POST", LEASES, Some(&lease(0)));
    server.pod("ready", "silent", json!({}));
    server.status("ready", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
    let mut renewals = 0;
    let mut renew = |server: &mut Server| {
        renewals += 1;
        let path = format!("{LEASES}/alive");
        let mut lease = lease(renewals);
        let kubelet = server.kubelet("alive");
        let stored = kubelet.must(200, "GET", &path, None);
        lease["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        kubelet.must(200, "PUT", &path, Some(&lease));
    };
    wait::until("the node is unreachable", || {
        renew(&mut server);
        server.taints("silent") == ["unreachable:NoExecute", "unreachable:NoSchedule"]
    });
    let ready = server.readiness("silent");
    assert_eq!(ready["status"], "Unknown");
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    wait::until("its pod is not ready", || {
        renew(&mut server);
        let pod = server.get(&format!("{PODS}/ready")).unwrap();
        pod["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "False")
    });
    assert_eq!(server.readiness("alive")["status"], "True", "its lease was renewed all the time");
    assert!(server.taints("alive").is_empty());
    server.heartbeat("silent", "True", "2020-01-01T00:00:01Z");
    wait::until("the taints are gone", || {
        renew(&mut server);
        server.taints("silent").is_empty()
    });
}

#[test]
fn the_last_node_is_not_emptied() {
    let mut server = Server::start(|settings| settings.node_monitor_grace_period = SHORT);
    server.node("only", "True");
    server.tainted("only", &["unreachable:NoSchedule"]);
    server.pod("p", "only", json!({"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}));
    server.node("other", "False");
    server.tainted("other", &["unreachable:NoSchedule"]);
    assert_eq!(server.taints("only"), ["unreachable:NoSchedule"]);
    assert!(server.get(&format!("{PODS}/p")).is_some());
}

#[test]
fn taints_follow_conditions_and_cordons() {
    let mut server = Server::start(|_| {});
    server.node("n", "True");
    server.node("other", "True");
    server.tainted("n", &[]);
    server.put(&format!("{NODES}/n"), |node| node["spec"]["unschedulable"] = true.into());
    server.tainted("n", &["unschedulable:NoSchedule"]);
    let pressed = json!([{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]);
    server.conditions("n", &pressed);
    let expected = [
        "disk-pressure:NoSchedule",
        "not-ready:NoExecute",
        "not-ready:NoSchedule",
        "unschedulable:NoSchedule",
    ];
    server.tainted("n", &expected);
    server.put(&format!("{NODES}/n"), |node| node["spec"]["unschedulable"] = false.into());
    server.conditions("n", &json!([{"type": "Ready", "status": "True"}]));
    server.tainted("n", &[]);
}

#[test]
fn a_node_that_never_reported_is_unreachable_in_the_end() {
    let mut server = Server::start(|settings| settings.node_startup_grace_period = SHORT);
    server.node("other", "True");
    server.kubelet("never").must(201, "POST", NODES, Some(&json!({"metadata": {"name": "never"}})));
    server.tainted("never", &["unreachable:NoExecute", "unreachable:NoSchedule"]);
    assert_eq!(server.readiness("never")["reason"], "NodeStatusNeverUpdated");
}

#[test]
fn pods_leave_a_node_whose_taint_they_do_not_tolerate_or_no_longer() {
    let mut server = Server::start(|_| {});
    server.node("n", "True");
    server.node("other", "True");
    let tolerates = |seconds: Option<u64>| {
        let mut toleration = json!({"key": "k", "operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds {
            toleration["tolerationSeconds"] = seconds.into();
        }
        json!({"spec": {"tolerations": [toleration], "terminationGracePeriodSeconds": 30}})
    };
    server.pod("never", "n", json!({}));
    server.pod("soon", "n", tolerates(Some(1)));
    server.pod("late", "n", tolerates(Some(3600)));
    server.pod("always", "n", tolerates(None));
    server.pod("elsewhere", "other", json!({}));
    server.put(&format!("{NODES}/n"), |node| {
        node["spec"]["taints"] = json!([{"key": "k", "effect": "NoExecute"}]);
    });
    server.pod("newcomer", "n", json!({}));
    for name in ["never", "soon", "newcomer"] {
        let pod = wait::until_some(&format!("{name} is deleted"), || {
            let pod = server.get(&format!("{PODS}/{name}")).unwrap();
            pod["metadata"]["deletionTimestamp"].is_string().then_some(pod)
        });
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
        assert_eq!(target["reason"], "DeletionByTaintManager", "{name}");
    }
    for name in ["late", "always", "elsewhere"] {
        let pod = server.get(&format!("{PODS}/{name}")).unwrap();
        assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null, "{name}");
    }
}

#[test]
fn a_claim_stays_while_a_bound_pod_uses_it_ap_57() {
    let mut server = Server::start(|_| {});
    server.node("n", "True");
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
    };
    for name in ["used", "unbound", "free"] {
        server.create(CLAIMS, claim(name));
    }
    let volume = |claim: &str| json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}});
    server.pod("user", "n", volume("used"));
    server.pod("waiting", "", volume("unbound"));
    let owner = server.pod(
        "generic",
        "n",
        json!({"spec": {"volumes": [{"name": "v", "ephemeral":
        {"volumeClaimTemplate": {"spec": claim("x")["spec"]}}}]}}),
    );
    let mut ephemeral = claim("generic-v");
    ephemeral["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "generic",
        "uid": owner["metadata"]["uid"], "controller": true}]);
    server.create(CLAIMS, ephemeral);
    for name in ["used", "generic-v", "unbound", "free"] {
        server.admin.must(200, "DELETE", &format!("{CLAIMS}/{name}"), None);
    }
    server.gone(&format!("{CLAIMS}/unbound"));
    server.gone(&format!("{CLAIMS}/free"));
    for name in ["used", "generic-v"] {
        assert!(server.get(&format!("{CLAIMS}/{name}")).is_some(), "{name}");
    }
    for (pod, claim) in [("user", "used"), ("generic", "generic-v")] {
        let now = json!({"gracePeriodSeconds": 0});
        server.admin.must(200, "DELETE", &format!("{PODS}/{pod}"), Some(&now));
        server.gone(&format!("{CLAIMS}/{claim}"));
    }
}

#[test]
fn a_volume_stays_while_a_claim_is_bound_to_it_ap_57() {
    let mut server = Server::start(|_| {});
    let volume = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
    };
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "bound",
        "resources": {"requests": {"storage": "1Gi"}}}});
    let uid = server.create(CLAIMS, claim)["metadata"]["uid"].clone();
    server.create(VOLUMES, volume("free"));
    let mut bound = volume("bound");
    bound["spec"]["claimRef"] = json!({"namespace": "default", "name": "c", "uid": uid});
    server.create(VOLUMES, bound);
    server.put(&format!("{VOLUMES}/bound/status"), |volume| volume["status"]["phase"] = "Bound".into());
    for name in ["bound", "free"] {
        server.admin.must(200, "DELETE", &format!("{VOLUMES}/{name}"), None);
    }
    server.gone(&format!("{VOLUMES}/free"));
    assert!(server.get(&format!("{VOLUMES}/bound")).is_some());
    server.admin.must(200, "DELETE", &format!("{CLAIMS}/c"), None);
    server.gone(&format!("{CLAIMS}/c"));
    server.gone(&format!("{VOLUMES}/bound"));
}

#[test]
fn events_go_when_nobody_has_written_them_for_their_lifetime() {
    let mut server = Server::start(|settings| settings.event_ttl = Duration::from_secs(1));
    let event = |name: &str| {
        json!({"metadata": {"name": name}, "reason": "Test", "message": "x",
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "x"}})
    };
    for i in 0..250 {
        server.create(EVENTS, event(&format!("e-{i}")));
    }
    wait::until("all are gone", || {
        let events = server.get(EVENTS).unwrap();
        let mut names = events["items"].as_array().unwrap().iter().map(|event| &event["metadata"]["name"]);
        !names.any(|name| name.as_str().unwrap().starts_with("e-"))
    });
}
