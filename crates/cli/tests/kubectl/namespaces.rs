//! Pod Security Standards and LimitRanges, by kubectl.

use portcullis_testkit::tool::Finished;
use serde_json::{Value, json};

use crate::kubectl::support::Served;

const PLAIN: &str = "run plain --image=i";

fn create(served: &Served, object: &Value) -> Finished {
    served.kubectl_with("create -f -", &object.to_string())
}

fn pod(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec})
}

/// A pod that the level `restricted` takes.
fn careful(name: &str) -> Value {
    pod(
        name,
        &json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "c",
                "image": "i",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        }),
    )
}

fn privileged(name: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "securityContext": {"privileged": true}});
    pod(name, &json!({"hostNetwork": true, "containers": [container]}))
}

#[test]
fn the_page_about_namespaces_shows_what_happens() {
    let served = Served::start(&[]);
    served.types("docs/namespaces.md", &["kubectl"], served.scratch.path(), "");
}

#[test]
fn a_namespace_takes_the_pods_that_its_labels_allow() {
    let served = Served::start(&[]);
    served.ok("create namespace team");
    assert_eq!(create(&served, &privileged("before")).code, 0);
    served.ok("-n team run before-too --image=i --privileged");

    let labelled = served.kubectl("label namespace team pod-security.kubernetes.io/enforce=baseline");
    assert_eq!(labelled.code, 0, "{labelled:?}");
    for warning in [
        "Warning: existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "Warning: before: host namespaces, privileged",
        "Warning: before-too: privileged",
    ] {
        assert!(labelled.stderr.lines().any(|line| line == warning), "{}", labelled.stderr);
    }
    let refused = create(&served, &privileged("after")).stderr;
    let why = "pods \"after\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces \
               (hostNetwork=true), privileged (container \"c\" must not set securityContext.privileged=true)";
    assert!(refused.contains(why), "{refused}");
    // What is there already stays, and can be changed where the standards do not look.
    served.ok("-n team label pod before a=b");
    assert!(served.fails("-n team set image pod/before c=other").contains("violates PodSecurity"));
    served.ok(&format!("-n team {PLAIN}"));
    // MP-24: a mirror pod is no exception.
    let mut mirror = privileged("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    mirror["spec"]["nodeName"] = json!("node-1");
    let refused = create(&served, &mirror).stderr;
    assert!(refused.contains("pods \"mirror\" is forbidden: violates PodSecurity"), "{refused}");

    // An ephemeral container counts as well.
    let debug = json!({"spec": {"ephemeralContainers": [
        {"name": "shell", "image": "i", "securityContext": {"privileged": true}},
    ]}});
    let refused =
        served.fails(&format!("-n team patch pod plain --subresource=ephemeralcontainers -p '{debug}'"));
    assert!(
        refused.contains("container \"shell\" must not set securityContext.privileged=true"),
        "{refused}"
    );

    served.ok("label namespace team pod-security.kubernetes.io/enforce=restricted --overwrite");
    let refused = served.fails(&format!("-n team {}", PLAIN.replace("plain", "second")));
    assert!(
        refused.contains("violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false")
    );
    assert_eq!(create(&served, &careful("careful")).code, 0);

    // Without the plugin the labels mean nothing.
    let served = served.restart(&["--disable-admission-plugins=PodSecurity"]);
    assert_eq!(create(&served, &privileged("after")).code, 0);
}

#[test]
fn warnings_are_about_pods_and_templates_and_refuse_nothing() {
    let served = Served::start(&[]);
    served.ok("create namespace team");
    served.ok("label namespace team pod-security.kubernetes.io/warn=restricted pod-security.kubernetes.io/warn-version=v1.24");
    let warned = |line: &str| {
        let done = served.kubectl(&format!("-n team {line}"));
        assert_eq!(done.code, 0, "{done:?}");
        done.stderr
    };
    let warning =
        "Warning: would violate PodSecurity \"restricted:v1.24\": allowPrivilegeEscalation != false";
    for line in [
        PLAIN,
        "create deployment web --image=i",
        "create job once --image=i",
        "create cronjob often --image=i --schedule=@daily",
    ] {
        let stderr = warned(line);
        assert!(stderr.starts_with(warning), "{line}: {stderr}");
    }
    for line in ["scale deployment web --replicas=2", "label pod plain a=b", "create configmap c"] {
        assert_eq!(warned(line), "", "{line}");
    }
}

#[test]
fn labels_that_say_nothing_are_refused() {
    let served = Served::start(&[]);
    served.ok("create namespace team");
    for (label, why) in [
        ("enforce=strict", "must be one of privileged, baseline, restricted"),
        ("audit-version=1.30", "must be \"latest\" or \"v1.x\""),
    ] {
        let refused = served.fails(&format!("label namespace team pod-security.kubernetes.io/{label}"));
        assert!(refused.contains(why), "{refused}");
        assert!(refused.contains("is invalid: metadata.labels[pod-security.kubernetes.io/"), "{refused}");
    }
}

#[test]
fn limit_ranges_fill_in_what_pods_do_not_say_and_bound_what_they_do() {
    let served = Served::start(&[]);
    served.ok("create namespace team");
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "team"},
        "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
            {"type": "Pod", "max": {"cpu": "1500m"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        ]},
    });
    assert_eq!(create(&served, &range).code, 0);
    served.ok(&format!("-n team {PLAIN}"));
    let plain = served.json("-n team get pod plain");
    let resources = &plain["spec"]["containers"][0]["resources"];
    assert_eq!(resources, &json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}));
    assert_eq!(plain["status"]["qosClass"], "Burstable");
    assert_eq!(
        plain["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container plain; cpu limit for container plain"
    );
    let container =
        |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"limits": {"cpu": cpu}}});
    let large = pod("large", &json!({"containers": [container("a", "1001m")]}));
    let refused = create(&served, &large).stderr;
    let why_large = "pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 1001m";
    assert!(refused.contains(why_large), "{refused}");
    let several = pod("several", &json!({"containers": [container("a", "1"), container("b", "600m")]}));
    let refused = create(&served, &several).stderr;
    assert!(refused.contains("maximum cpu usage per Pod is 1500m, but limit is 1600m"), "{refused}");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "team"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    });
    let refused = create(&served, &claim).stderr;
    let why = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi";
    assert!(refused.contains(why), "{refused}");
    // The same with a LimitRange that is so large that it is applied on a thread of its own.
    let names: serde_json::Map<String, Value> =
        (0..1000).map(|i| (format!("example.com/resource-{i}"), json!("1"))).collect();
    let many = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "many", "namespace": "team"},
        "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": names}]},
    });
    assert_eq!(create(&served, &many).code, 0);
    served.ok("-n team run beside --image=i");
    assert_eq!(served.json("-n team get pod beside")["spec"]["containers"][0]["resources"], *resources);
    assert!(create(&served, &large).stderr.contains(why_large), "the bound still holds");
    // A LimitRange of another namespace counts for nobody else.
    served.ok("run plain --image=i");
    assert_eq!(served.json("get pod plain")["spec"]["containers"][0]["resources"], json!({}));

    let served = served.restart(&["--disable-admission-plugins=LimitRanger"]);
    assert_eq!(create(&served, &large).code, 0);
}
