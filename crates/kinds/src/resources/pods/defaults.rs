//! The defaults of pods (AP-110 to AP-113), and synchronization of redundant fields (AP-65, AP-110). Nothing here
//! depends on other objects.

use serde_json::{Value, json};

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::amount::Totals;
use crate::resources::pods::image;
use crate::resources::pods::volume_defaults;
use crate::resources::quantities::{round_amounts, round_requirements};

/// Annotations of old releases, which are dropped.
const OLD_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

/// The container lists of a spec, in Kubernetes' order.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Applies the defaults of a pod. Idempotent.
pub(super) fn default(pod: &mut Map) {
    drop_old_annotations(pod);
    if let Some(spec) = pod.object_or_new("spec") {
        default_spec(spec);
    }
    if let Some(status) = pod.object_or_new("status") {
        align_pod_ips(status);
        for list in ["containerStatuses", "ephemeralContainerStatuses", "initContainerStatuses"] {
            for container in status.objects_mut(list) {
                round_amounts(container, "allocatedResources");
                round_requirements(container);
            }
        }
        round_amounts(status, "allocatedResources");
        round_requirements(status);
    }
}

/// Applies the defaults of a pod template. Idempotent.
pub(in crate::resources) fn default_template(template: &mut Map) {
    drop_old_annotations(template);
    template.default_value("metadata", Map::new());
    if let Some(spec) = template.object_or_new("spec") {
        default_template_spec(spec);
    }
}

fn drop_old_annotations(pod: &mut Map) {
    if let Some(annotations) =
        pod.object_mut("metadata").and_then(|metadata| metadata.object_mut("annotations"))
    {
        annotations.retain(|name, _| !OLD_ANNOTATIONS.contains(&name.as_str()));
    }
}

/// The defaults of a pod that a template does not get.
fn default_spec(spec: &mut Map) {
    default_template_spec(spec);
    for list in ["containers", "initContainers"] {
        for container in spec.objects_mut(list) {
            if let Some(requirements) = container.object_mut("resources") {
                requests_from_limits(requirements);
            }
        }
    }
    default_pod_resources(spec);
    if spec.is_true("hostNetwork") {
        for list in ["containers", "initContainers"] {
            spec.objects_mut(list).for_each(default_host_ports);
        }
    }
    spec.default_value("enableServiceLinks", true);
    // A pod template keeps a negative period; a pod does not.
    if spec.number_if_set("terminationGracePeriodSeconds").is_some_and(|period| period < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
}

/// The defaults of pods and templates.
fn default_template_spec(spec: &mut Map) {
    align_service_account(spec);
    for list in CONTAINER_LISTS {
        for container in spec.objects_mut(list) {
            default_container(container);
        }
    }
    round_requirements(spec);
    round_amounts(spec, "overhead");
    for volume in spec.objects_mut("volumes") {
        volume_defaults::default_volume(volume);
    }
    spec.default_text("dnsPolicy", "ClusterFirst");
    spec.default_text("restartPolicy", "Always");
    spec.default_text("schedulerName", "default-scheduler");
    spec.default_value("securityContext", json!({}));
    spec.default_value("terminationGracePeriodSeconds", 30);
}

/// `serviceAccount` is the old name of `serviceAccountName`, which takes precedence (AP-110).
fn align_service_account(spec: &mut Map) {
    let name = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount"),
        name => name,
    }
    .to_owned();
    for field in ["serviceAccount", "serviceAccountName"] {
        if name.is_empty() {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), name.as_str().into());
        }
    }
}

/// AP-65: `podIP` is the first of `podIPs`; when they disagree, `podIP` is right.
fn align_pod_ips(status: &mut Map) {
    let first = status.list("podIPs").first().and_then(|ip| ip.get("ip")).and_then(Value::as_str);
    match (status.text("podIP"), first) {
        ("", Some(first)) if !first.is_empty() => {
            let first = first.to_owned();
            status.insert("podIP".to_owned(), first.into());
        }
        ("", _) => {}
        (ip, first) if first != Some(ip) => {
            let ip = ip.to_owned();
            status.insert("podIPs".to_owned(), json!([{ "ip": ip }]));
        }
        _ => {}
    }
}

/// AP-111.
fn default_container(container: &mut Map) {
    let policy = image::default_pull_policy(container.text("image"));
    container.default_text("imagePullPolicy", policy);
    container.default_text("terminationMessagePath", "/dev/termination-log");
    container.default_text("terminationMessagePolicy", "File");
    container.default_value("resources", json!({}));
    for port in container.objects_mut("ports") {
        port.default_text("protocol", "TCP");
    }
    for variable in container.objects_mut("env") {
        let Some(source) = variable.object_mut("valueFrom") else { continue };
        if let Some(field) = source.object_mut("fieldRef") {
            field.default_text("apiVersion", "v1");
        }
        if let Some(resource) = source.object_mut("resourceFieldRef") {
            resource.default_text("divisor", "0");
        }
        if let Some(file) = source.object_mut("fileKeyRef") {
            file.default_value("optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.object_mut(probe) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = container.object_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.object_mut(hook) {
                default_http_get(hook);
            }
        }
    }
    round_requirements(container);
}

fn default_probe(probe: &mut Map) {
    default_http_get(probe);
    if let Some(grpc) = probe.object_mut("grpc") {
        grpc.default_value("service", "");
    }
    probe.default_number("timeoutSeconds", 1);
    probe.default_number("periodSeconds", 10);
    probe.default_number("successThreshold", 1);
    probe.default_number("failureThreshold", 3);
}

fn default_http_get(handler: &mut Map) {
    if let Some(get) = handler.object_mut("httpGet") {
        get.default_text("path", "/");
        get.default_text("scheme", "HTTP");
    }
}

fn default_host_ports(container: &mut Map) {
    for port in container.objects_mut("ports") {
        if let Some(number) = port.number_if_set("containerPort").filter(|number| *number != 0) {
            port.default_number("hostPort", number);
        }
    }
}

/// Requests default to the limits.
fn requests_from_limits(requirements: &mut Map) {
    let limits = requirements.object("limits").clone();
    if limits.is_empty() {
        return;
    }
    if let Some(requests) = requirements.object_or_new("requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Defaults of pod-level resources, if some are set: requests default to the sum of the containers' requests, else to
/// the pod's limits; limits default to the sum of the containers' limits, if every container has one.
fn default_pod_resources(spec: &mut Map) {
    let has = |spec: &Map, list| !spec.object("resources").object(list).is_empty();
    if has(spec, "limits") || has(spec, "requests") {
        let limits = Totals::of_containers(spec, "limits");
        let is_wanted = |name: &str| name.starts_with("hugepages-");
        let is_asked = |requirements: &Map, name: &str| requirements.object("requests").contains_key(name);
        fill(spec, "limits", &limits, |requirements, name| is_wanted(name) && !is_asked(requirements, name));
    }
    if has(spec, "limits") {
        let requests = Totals::of_containers(spec, "requests");
        fill(spec, "requests", &requests, |_, name| matches!(name, "cpu" | "memory"));
        if let Some(requirements) = spec.object_mut("resources") {
            requests_from_limits(requirements);
        }
    } else if has(spec, "requests") {
        let limits = Totals::of_containers(spec, "limits");
        let limited: Vec<&str> =
            ["cpu", "memory"].into_iter().filter(|name| is_limited_everywhere(spec, name)).collect();
        fill(spec, "limits", &limits, |_, name| limited.contains(&name));
    }
}

fn is_limited_everywhere(spec: &Map, name: &str) -> bool {
    let is_limited = |container: &Value| {
        let limits = container.get("resources").and_then(|resources| resources.get("limits"));
        limits.and_then(|limits| limits.get(name)).is_some()
    };
    spec.list("containers").iter().chain(spec.list("initContainers")).all(is_limited)
}

fn fill(spec: &mut Map, list: &str, totals: &Totals, is_wanted: impl Fn(&Map, &str) -> bool) {
    let Some(requirements) = spec.object_mut("resources") else { return };
    for (name, quantity) in totals.iter() {
        let is_there = requirements.object(list).contains_key(name);
        if is_there || !is_wanted(requirements, name) {
            continue;
        }
        if let Some(entries) = requirements.object_or_new(list) {
            entries.insert(name.to_owned(), quantity.to_string().into());
        }
    }
}
