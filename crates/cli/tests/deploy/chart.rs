//! The chart `deploy/helm/portcullis`, rendered by Helm: the same objects as the kustomizations, and values that do what they say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Map, Value, json};

use crate::deploy::support::{
    OF_HELM, Objects, PARTS, deploy, helm, kustomize, objects, template, with, with_all, without_labels,
};

/// The parts that run on, and have metrics.
const MONITORED: [&str; 4] = ["approve", "attest", "guard", "webhook"];

fn read(name: &str) -> String {
    fs::read_to_string(deploy("helm/portcullis").join(name)).unwrap()
}

fn default_values() -> Value {
    serde_saphyr::from_str(&read("values.yaml")).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&read("values.schema.json")).unwrap()
}

/// Renders the chart, and checks that every object has the labels of Helm. Returns the objects without these labels.
fn rendered(values: &Value) -> Objects {
    let all = objects(&template(values));
    for (key, object) in &all {
        let labels = &object["metadata"]["labels"];
        for label in OF_HELM {
            assert!(labels[label].is_string(), "{key:?} has no label {label}");
        }
        assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm", "{key:?}");
    }
    without_labels(all, OF_HELM)
}

/// The namespace that the parts but the webhook share.
fn shared_namespace() -> ([String; 3], Value) {
    let all = objects(&kustomize(&deploy("")));
    let key = ["Namespace", "", "portcullis"].map(str::to_owned);
    (key.clone(), all[&key].clone())
}

#[test]
fn with_every_part_on_it_renders_what_kustomize_renders() {
    assert_eq!(rendered(&with_all()), objects(&kustomize(&deploy(""))));
}

#[test]
fn each_part_is_switched_on_alone() {
    for (part, _) in PARTS {
        let mut expected = objects(&kustomize(&deploy(part)));
        if *part != "webhook" {
            let (key, object) = shared_namespace();
            expected.insert(key, object);
        }
        assert_eq!(rendered(&with(&[part])), expected, "{part}");
    }
    let nothing = helm("template portcullis CHART", Path::new("none"), &json!({}));
    nothing.must(1, &["no part is switched on: set approve.enabled"]);
}

#[test]
fn what_few_clusters_need_is_that_of_the_files() {
    let added = |values: Value, part: &str| -> Objects {
        let without = rendered(&with(&[part]));
        rendered(&values).into_iter().filter(|(key, _)| !without.contains_key(key)).collect()
    };
    let of_file = |name: &str| objects(&fs::read_to_string(deploy(name)).unwrap());
    let added_labels = ["app.kubernetes.io/part-of"];
    let rbac = added(json!({"guard": {"enabled": true, "rbacMode": true}}), "guard");
    assert_eq!(without_labels(rbac, &added_labels), of_file("guard/rbac-mode.yaml"));
    for part in MONITORED {
        let mut values = json!({});
        values[part] = json!({"enabled": true, "monitoring": {"enabled": true}});
        let monitoring = without_labels(added(values, part), &added_labels);
        assert_eq!(monitoring, of_file(&format!("{part}/monitoring.yaml")), "{part}");
    }
}

/// The loopback address, which the probes ask, is one of all addresses.
#[test]
fn a_guard_that_is_monitored_serves_its_metrics_on_the_port_of_its_monitor() {
    let container = |values: &Value| pods("guard", values)["spec"]["containers"][0].clone();
    let mut values = with(&["guard"]);
    let before = container(&values);
    values["guard"]["monitoring"] = json!({"enabled": true});
    let after = container(&values);
    let args = |container: &Value| -> BTreeSet<String> {
        serde_json::from_value(container["args"].clone()).unwrap()
    };
    let new: Vec<_> = args(&after).difference(&args(&before)).cloned().collect();
    let gone: Vec<_> = args(&before).difference(&args(&after)).cloned().collect();
    assert_eq!(new, ["--metrics-bind-address=0.0.0.0:9192"]);
    assert_eq!(gone, ["--metrics-bind-address=127.0.0.1:9192"]);
    let monitor = &objects(&fs::read_to_string(deploy("guard/monitoring.yaml")).unwrap())
        [&["PodMonitor", "portcullis", "portcullis-guard"].map(str::to_owned)];
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    let ports = after["ports"].as_array().unwrap();
    assert!(ports.iter().any(|its| its["name"] == *port && its["containerPort"] == 9192), "{ports:?}");
    assert!(!before["ports"].as_array().unwrap().iter().any(|its| its["name"] == *port));
}

/// The namespace that Helm makes for the release is not an object of the release.
#[test]
fn the_namespace_of_the_release_is_left_to_helm() {
    let in_namespace = |namespace: &str, values: &Value| {
        let line = format!("template portcullis CHART -n {namespace}");
        let all = objects(&helm(&line, Path::new("none"), values).ok());
        all.into_keys().filter(|[kind, ..]| kind == "Namespace").map(|[_, _, name]| name).collect::<Vec<_>>()
    };
    let all = with_all();
    assert_eq!(in_namespace("default", &all), ["portcullis", "portcullis-system"]);
    assert_eq!(in_namespace("portcullis", &all), ["portcullis-system"]);
    assert_eq!(in_namespace("portcullis-system", &all), ["portcullis"]);
    let mut own = with_all();
    own["createNamespaces"] = json!(false);
    assert_eq!(in_namespace("default", &own), Vec::<String>::new());
    own["webhook"]["namespace"] = json!("portcullis");
    let together = helm("template portcullis CHART", Path::new("none"), &own);
    assert_eq!(together.code, 1, "{together:?}");
    assert!(together.stderr.contains("webhook.namespace must not be the namespace of other parts"));
}

#[test]
fn another_namespace_reaches_every_object() {
    let mut values = with_all();
    values["namespace"] = json!("boundary");
    values["webhook"]["namespace"] = json!("webhook-boundary");
    for part in MONITORED {
        values[part]["monitoring"] = json!({"enabled": true});
    }
    let text = template(&values);
    let of_kube_system = ["Role", "RoleBinding"];
    for ([kind, namespace, name], object) in &objects(&text) {
        let expected = match (name.as_str(), kind.as_str()) {
            _ if namespace.is_empty() => "",
            ("portcullis-audit", kind) if of_kube_system.contains(&kind) => "kube-system",
            ("portcullis-webhook", _) => "webhook-boundary",
            _ => "boundary",
        };
        assert_eq!(namespace, expected, "{kind} {name}");
        for subject in object["subjects"].as_array().into_iter().flatten() {
            let home = if name == "portcullis-webhook" { "webhook-boundary" } else { "boundary" };
            assert!(subject["kind"] != "ServiceAccount" || subject["namespace"] == home, "{name}: {subject}");
        }
    }
    for word in ["namespace: portcullis", "portcullis-system"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

/// The pods of a part: of its Deployment, DaemonSet or CronJob.
fn pods(part: &str, values: &Value) -> Value {
    let mut found = Vec::new();
    for ([kind, ..], object) in rendered(values) {
        match kind.as_str() {
            "Deployment" | "DaemonSet" => found.push(object["spec"]["template"].clone()),
            "CronJob" => found.push(object["spec"]["jobTemplate"]["spec"]["template"].clone()),
            _ => {}
        }
    }
    assert_eq!(found.len(), 1, "{part}");
    found.remove(0)
}

#[test]
fn the_usual_values_change_the_pods_of_every_part() {
    for (part, _) in PARTS {
        let mut values = json!({
            "image": {"repository": "example.com/portcullis", "tag": "1.2.3", "pullPolicy": "Always"},
            "imagePullSecrets": [{"name": "registry"}],
        });
        let before = pods(part, &with(&[part]));
        values[part] = json!({
            "enabled": true,
            "extraArgs": ["--more=1"],
            "extraEnv": [{"name": "MORE", "value": "1"}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "resources": {"limits": {"memory": "1Gi"}},
            "priorityClassName": "mine",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "mine", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "mine", "operator": "Exists"}]}]}}},
            "podAnnotations": {"mine": "yes"},
            "podLabels": {"more": "yes"},
        });
        let asked = values[part].clone();
        let pods = pods(part, &values);
        let (spec, container) = (&pods["spec"], &pods["spec"]["containers"][0]);
        assert_eq!(container["image"], "example.com/portcullis:1.2.3", "{part}");
        assert_eq!(container["imagePullPolicy"], "Always", "{part}");
        assert_eq!(spec["imagePullSecrets"], values["imagePullSecrets"], "{part}");
        let was = &before["spec"]["containers"][0]["args"];
        let mut arguments = was.as_array().unwrap().clone();
        arguments.push(json!("--more=1"));
        assert_eq!(container["args"], json!(arguments), "{part}");
        for (list, field, more) in [
            (container, "env", "extraEnv"),
            (container, "volumeMounts", "extraVolumeMounts"),
            (spec, "volumes", "extraVolumes"),
        ] {
            assert_eq!(list[field].as_array().unwrap().last(), Some(&asked[more][0]), "{part}: {field}");
        }
        // Maps are merged with the defaults, as Helm does.
        assert_eq!(container["resources"]["limits"], json!({"memory": "1Gi"}), "{part}");
        assert_eq!(spec["nodeSelector"]["kubernetes.io/os"], "linux", "{part}");
        assert_eq!(spec["affinity"]["nodeAffinity"], asked["affinity"]["nodeAffinity"], "{part}");
        assert_eq!(spec["priorityClassName"], "mine", "{part}");
        assert_eq!(spec["tolerations"], asked["tolerations"], "{part}");
        assert_eq!(pods["metadata"]["annotations"], asked["podAnnotations"], "{part}");
        assert_eq!(pods["metadata"]["labels"]["more"], "yes", "{part}");
        assert_eq!(pods["metadata"]["labels"]["app"], before["metadata"]["labels"]["app"], "{part}");
    }
}

#[test]
fn the_values_of_one_part_change_its_objects() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let mut values = with_all();
    values["image"] = json!({"digest": digest});
    values["commonLabels"] = json!({"team": "nodes"});
    for (part, _) in PARTS {
        values[part]["serviceAccount"] = json!({"annotations": {"mine": "yes"}});
    }
    for part in ["approve", "attest", "webhook"] {
        values[part]["replicas"] = json!(7);
    }
    values["attest"]["authoritySecret"] = json!("authority");
    values["attest"]["inventory"] = json!("machines: [{}]\n");
    values["audit"]["schedule"] = json!("0 0 * * *");
    values["audit"]["suspend"] = json!(true);
    values["guard"]["maxUnavailable"] = json!("10%");
    values["guard"]["hostPaths"] = json!({"clusterCA": "/etc/ca.crt"});
    values["webhook"]["tlsSecret"] = json!("tls");
    values["webhook"]["podDisruptionBudget"] = json!({"enabled": false});
    values["webhook"]["networkPolicy"] =
        json!({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]});
    values["webhook"]["service"] = json!({"annotations": {"mine": "yes"}});
    let all = rendered(&values);
    let get = |kind: &str, namespace: &str, name: &str| -> Value {
        let key = [kind, namespace, name].map(str::to_owned);
        all.get(&key).unwrap_or_else(|| panic!("{key:?}")).clone()
    };
    for ([kind, ..], object) in &all {
        assert_eq!(object["metadata"]["labels"]["team"], "nodes", "{kind}");
        if kind == "ServiceAccount" {
            assert_eq!(object["metadata"]["annotations"], json!({"mine": "yes"}));
        }
    }
    for (namespace, name) in [
        ("portcullis", "portcullis-approver"),
        ("portcullis", "portcullis-attest"),
        ("portcullis-system", "portcullis-webhook"),
    ] {
        let deployment = get("Deployment", namespace, name);
        assert_eq!(deployment["spec"]["replicas"], 7, "{name}");
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, &format!("portcullis@{digest}"));
    }
    let volumes = |kind: &str, namespace: &str, name: &str| -> String {
        get(kind, namespace, name)["spec"]["template"]["spec"]["volumes"].to_string()
    };
    assert!(
        volumes("Deployment", "portcullis", "portcullis-attest").contains("\"secretName\":\"authority\"")
    );
    assert!(
        volumes("Deployment", "portcullis-system", "portcullis-webhook").contains("\"secretName\":\"tls\"")
    );
    assert!(volumes("DaemonSet", "portcullis", "portcullis-guard").contains("\"path\":\"/etc/ca.crt\""));
    assert_eq!(
        get("ConfigMap", "portcullis", "portcullis-attest")["data"]["inventory.yaml"],
        "machines: [{}]\n"
    );
    let job = get("CronJob", "portcullis", "portcullis-audit");
    assert_eq!((&job["spec"]["schedule"], &job["spec"]["suspend"]), (&json!("0 0 * * *"), &json!(true)));
    let guard = get("DaemonSet", "portcullis", "portcullis-guard");
    assert_eq!(guard["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "10%");
    let policy = get("NetworkPolicy", "portcullis-system", "portcullis-webhook");
    assert_eq!(policy["spec"]["ingress"], values["webhook"]["networkPolicy"]["ingress"]);
    let service = get("Service", "portcullis-system", "portcullis-webhook");
    assert_eq!(service["metadata"]["annotations"], json!({"mine": "yes"}));
    assert!(!all.keys().any(|[kind, ..]| kind == "PodDisruptionBudget"));
}

/// Whether a schema lists all names that a map may have.
fn is_closed(schema: &Value) -> bool {
    schema["additionalProperties"] == false
}

/// Resolves a schema that refers to a definition.
fn meant<'a>(all: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => all.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    }
}

/// Values with one more name, once for every map whose names the schema lists.
fn misspelt(all: &Value, schema: &Value, values: &Value) -> Vec<Value> {
    let Some(map) = values.as_object() else { return Vec::new() };
    if !is_closed(schema) {
        return Vec::new();
    }
    let mut found = vec![{
        let mut more = map.clone();
        more.insert("misspelt".to_owned(), json!(1));
        Value::Object(more)
    }];
    for (name, value) in map {
        for wrong in misspelt(all, meant(all, &schema["properties"][name]), value) {
            let mut more = map.clone();
            more.insert(name.clone(), wrong);
            found.push(Value::Object(more));
        }
    }
    found
}

#[test]
fn names_and_types_that_the_schema_does_not_have_are_refused() {
    let (schema, defaults) = (schema(), default_values());
    let mut wrong = misspelt(&schema, &schema, &defaults);
    // The top, the image, and each part with its own maps.
    assert!(wrong.len() > 15, "{}", wrong.len());
    for (path, value) in [
        ("/image/digest", json!("sha256:1")),
        ("/image/pullPolicy", json!("Sometimes")),
        ("/namespace", json!("")),
        ("/approve/enabled", json!("yes")),
        ("/approve/replicas", json!(-1)),
        ("/attest/config", json!({"machines": {}})),
        ("/audit/schedule", json!(3)),
        ("/guard/maxUnavailable", json!("many")),
        ("/guard/hostPaths/guard", json!("relative")),
        ("/webhook/extraArgs", json!("--flag")),
        ("/webhook/nodeSelector", json!({"a": 1})),
    ] {
        let mut values = defaults.clone();
        *values.pointer_mut(path).unwrap() = value;
        wrong.push(values);
    }
    // By a validator of others, which also says that the schema is one.
    let scratch = Scratch::new();
    scratch.write("values.json", json!({"right": defaults, "wrong": wrong}).to_string());
    let script = "import json, sys, jsonschema\n\
                  schema, values = (json.load(open(path)) for path in sys.argv[1:])\n\
                  jsonschema.Draft7Validator.check_schema(schema)\n\
                  validator = jsonschema.Draft7Validator(schema)\n\
                  validator.validate(values['right'])\n\
                  print(*[index for index, wrong in enumerate(values['wrong']) if validator.is_valid(wrong)])\n";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", script]).arg(deploy("helm/portcullis/values.schema.json"));
    let done = portcullis_testkit::tool::Finished::of(python.arg(scratch.path().join("values.json")));
    assert_eq!(done.ok().trim(), "", "these are taken, of {wrong:#?}");
    // By Helm, which refuses to render.
    for values in wrong.iter().step_by(7) {
        let done = helm("template portcullis CHART", Path::new("none"), values);
        assert_eq!(done.code, 1, "{values}");
        assert!(done.stderr.contains("values don't meet the specifications of the schema"), "{done:?}");
    }
}

/// The paths of all values: `webhook.replicas`, and `PART.extraArgs` for what every part has.
fn paths(
    all: &Value,
    schema: &Value,
    values: &Map<String, Value>,
    before: &str,
    found: &mut BTreeSet<String>,
) {
    for (name, value) in values {
        let path = format!("{before}{name}");
        let schema = meant(all, &schema["properties"][name]);
        match value.as_object() {
            Some(map)
                if is_closed(schema) && !map.is_empty() && schema["properties"]["requests"].is_null() =>
            {
                paths(all, schema, map, &format!("{path}."), found);
            }
            _ => drop(found.insert(path)),
        }
    }
}

#[test]
fn the_page_of_the_chart_names_every_value_and_no_other() {
    let (schema, defaults) = (schema(), default_values());
    let mut there = BTreeSet::new();
    paths(&schema, &schema, defaults.as_object().unwrap(), "", &mut there);
    let common: BTreeSet<String> = there
        .iter()
        .filter_map(|path| path.strip_prefix("audit."))
        .filter(|rest| PARTS.iter().all(|(part, _)| there.contains(&format!("{part}.{rest}"))))
        .map(str::to_owned)
        .collect();
    assert!(common.len() > 10, "{common:?}");
    let there: BTreeSet<String> = there
        .into_iter()
        .map(|path| match path.split_once('.') {
            Some((_, rest)) if common.contains(rest) => format!("PART.{rest}"),
            _ => path,
        })
        .collect();
    let page = read("README.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: BTreeSet<String> = rows.map(|row| row.split('`').next().unwrap().to_owned()).collect();
    assert_eq!(named, there);
    // Where the default is a word or a number, the page has it.
    for row in page.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() == 2) {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let pointer = format!("/{}", cells[0].trim_matches('`').replace('.', "/"));
        let shown = match defaults.pointer(&pointer).unwrap() {
            Value::String(text) if !text.is_empty() && !text.contains('\n') => text.clone(),
            Value::Bool(value) => value.to_string(),
            Value::Number(value) => value.to_string(),
            _ => continue,
        };
        assert_eq!(cells[1], format!("`{shown}`"), "{row}");
    }
    // And the schema has no value that is not in values.yaml, but what Helm gives to charts in charts.
    let listed = schema["properties"].as_object().unwrap().keys().filter(|name| *name != "global");
    assert_eq!(listed.collect::<BTreeSet<_>>(), defaults.as_object().unwrap().keys().collect());
    for (part, _) in PARTS {
        let listed = schema["properties"][part]["properties"].as_object().unwrap().keys();
        let there = defaults[part].as_object().unwrap().keys();
        assert_eq!(listed.collect::<BTreeSet<_>>(), there.collect(), "{part}");
    }
}

#[test]
fn helm_finds_nothing_to_complain_of() {
    let done = helm("lint CHART", Path::new("none"), &with_all());
    assert_eq!((done.code, &*done.stdout), (0, ""), "{done:?}");
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    let cargo = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let version = cargo.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"');
    assert_eq!((chart["version"].as_str(), chart["appVersion"].as_str()), (Some(version), Some(version)));
}
