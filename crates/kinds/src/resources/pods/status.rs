//! Validation of the pod status (AP-124).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use portcullis_apimachinery::names;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Field, Members};
use crate::resources::pods::validate::{Kept, annotations, ips, security};

/// How many errors of one list of statuses repeat each other: those of statuses with the same name, which Kubernetes
/// reports once for each pair. An answer shows no more.
const MAX_REPEATED: usize = 1_000;

/// Validates an update of the status. The arguments are the new and the old pod.
pub(super) fn validate_status(pod: &Map, old: &Map) -> Errors {
    let mut errors = Errors::new();
    annotations::validate_update(pod, old, &Kept::of_annotations(old), &mut errors);
    let status = Field::root(pod, "status");
    let old_status = Field::root(old, "status");
    let spec = Field::root(old, "spec");
    conditions(&status.child("conditions"), &mut errors);
    nominated_node(&status, &old_status, &spec, &mut errors);
    let observed = status.child("observedGeneration");
    if observed.number_if_set().is_some_and(|generation| generation < 0) {
        errors.push(observed.invalid("must be greater than or equal to 0"));
    }
    let class = status.child("qosClass");
    errors
        .push_if(class.text() != old_status.child("qosClass").text(), || class.invalid("field is immutable"));
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        restarts(&status.child(list), &old_status.child(list), &spec, containers, &mut errors);
    }
    resource_claims(&status.child("resourceClaimStatuses"), &spec, &mut errors);
    if let Some(claim) = status.child("extendedResourceClaimStatus").set() {
        extended_claim(&claim, &spec, &mut errors);
    }
    pod_ips(&status, &old_status, &mut errors);
    host_ips(&status, &old_status, &mut errors);
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    for list in lists {
        for container in status.child(list).items() {
            user(&container.child("user").child("linux"), &spec, &mut errors);
        }
    }
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        allocated(&status.child(list), &spec.child(containers), &mut errors);
    }
    for container in status.child("ephemeralContainerStatuses").items() {
        let allocated = container.child("allocatedResourcesStatus");
        if !allocated.is_empty() {
            errors.push(allocated.forbidden("must not be specified in container status"));
        }
    }
    errors
}

fn conditions(conditions: &Field<'_>, errors: &mut Errors) {
    for condition in conditions.items() {
        let kind = condition.child("type");
        if !matches!(kind.text(), "Initialized" | "PodScheduled" | "Ready") {
            // The path has a capital letter.
            errors.extend(kind.named(condition.path().member("Type")).faults(names::label_key_errors));
        }
        let observed = condition.child("observedGeneration");
        if observed.number_if_set().is_some_and(|generation| generation < 0) {
            errors.push(observed.invalid("must be greater than or equal to 0"));
        }
    }
}

fn nominated_node(status: &Field<'_>, old: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let node = status.child("nominatedNodeName");
    if node.text().is_empty() || node.text() == old.child("nominatedNodeName").text() {
        return;
    }
    errors.extend(node.faults(names::subdomain_errors));
    if !spec.child("nodeName").text().is_empty() {
        errors.push(node.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// A terminated container stays terminated, unless it may be restarted. `containers` is the list in the spec, empty for
/// containers that are never restarted.
fn restarts(new: &Field<'_>, old: &Field<'_>, spec: &Field<'_>, containers: &str, errors: &mut Errors) {
    let mut running: HashMap<&str, usize> = HashMap::new();
    for new in new.items().filter(|new| terminated(new).is_none()) {
        *running.entry(new.child("name").text()).or_default() += 1;
    }
    let containers = by_name(&spec.child(containers));
    let mut left = MAX_REPEATED;
    for (i, old) in old.items().enumerate() {
        let Some(end) = terminated(&old) else { continue };
        let name = old.child("name").text();
        let Some(revived) = running.get(name).copied() else { continue };
        let code = end.child("exitCode").number();
        if containers.get(name).is_some_and(|container| is_restarted(container, spec, code)) {
            continue;
        }
        let revived = revived.min(left);
        left = left.saturating_sub(revived);
        for _ in 0..revived {
            let state = new.named(format!("{}[{i}].state", new.path()));
            errors.push(state.forbidden("may not be transitioned to non-terminated state"));
        }
    }
}

/// The entries of a list by name; of several with one name the first.
fn by_name<'a>(list: &Field<'a>) -> HashMap<&'a str, Field<'a>> {
    let mut entries = HashMap::with_capacity(list.len());
    for entry in list.items() {
        entries.entry(entry.child("name").text()).or_insert(entry);
    }
    entries
}

fn terminated<'a>(status: &Field<'a>) -> Option<Field<'a>> {
    status.child("state").child("terminated").set()
}

fn is_restarted(container: &Field<'_>, spec: &Field<'_>, code: i64) -> bool {
    let own = container.child("restartPolicy");
    if own.is_set() {
        let is_matching = |rule: &Field<'_>| {
            let codes = rule.child("exitCodes");
            let is_listed = codes.child("values").items().any(|value| value.number_if_set() == Some(code));
            match codes.child("operator").text() {
                "In" => is_listed,
                "NotIn" => codes.is_set() && !is_listed,
                _ => false,
            }
        };
        let rule = container.child("restartPolicyRules").items().find(is_matching);
        if rule.is_some_and(|rule| rule.child("action").text() == "Restart") {
            return true;
        }
    }
    let policy = if own.is_set() { own.text() } else { spec.child("restartPolicy").text() };
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

fn resource_claims(statuses: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let claims = by_name(&spec.child("resourceClaims"));
    let mut seen = BTreeSet::new();
    for status in statuses.items() {
        let name = status.child("name");
        if !claims.contains_key(name.text()) {
            errors.push(name.invalid("must match the name of an entry in `spec.resourceClaims`"));
        }
        errors.push_if(!seen.insert(name.text()), || name.duplicate());
        // The path is that of the other name.
        let claim = status.child("resourceClaimName");
        if claim.is_set() {
            errors.extend(claim.named(name.path()).faults(names::subdomain_errors));
        }
    }
}

fn extended_claim(claim: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let mut containers: BTreeMap<&str, Field<'_>> = BTreeMap::new();
    for list in ["initContainers", "containers"] {
        containers
            .extend(spec.child(list).items().map(|container| (container.child("name").text(), container)));
    }
    let mappings = claim.child("requestMappings");
    errors.push_if(mappings.is_empty(), || mappings.required("at least one request mapping is required"));
    let mut seen = BTreeSet::new();
    for mapping in mappings.items() {
        let names = ["containerName", "resourceName", "requestName"].map(|name| mapping.child(name));
        let [container, resource, request] = &names;
        match containers.get(container.text()) {
            None => errors.push(container.invalid("must match the name of a container")),
            Some(found) if found.child("resources").child("requests").key(resource.text()).is_set() => {}
            Some(_) => errors.push(resource.invalid("must match a resource that the container requests")),
        }
        errors.extend(request.named(claim.path().member("requestName")).faults(names::label_errors));
        if !seen.insert(names.clone().map(|name| name.text())) {
            errors.extend(names.iter().map(Field::duplicate));
        }
    }
    errors.require_syntax(&claim.child("resourceClaimName"), names::subdomain_errors);
}

fn addresses<'a>(list: &Field<'a>) -> Vec<&'a str> {
    list.items().map(|entry| entry.child("ip").text()).collect()
}

/// Checks that the addresses are valid and at most one per family; old ones may remain. Errors have the paths of the
/// entries.
fn ip_list(list: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let kept = addresses(old).into_iter().map(str::to_owned).collect();
    for entry in list.items() {
        ips::address(&entry, entry.child("ip").text(), &kept, errors);
    }
    if list.len() > 1 && !ips::are_of_two_families(&addresses(list)) {
        errors.push(list.invalid("may specify no more than one IP for each IP family"));
    }
}

fn pod_ips(status: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    ip_list(&status.child("podIPs"), &old.child("podIPs"), errors);
}

fn host_ips(status: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let list = status.child("hostIPs");
    if let Some(first) = list.items().next()
        && first.child("ip").text() != status.child("hostIP").text()
    {
        errors.push(first.child("ip").invalid("must be equal to `hostIP`"));
    }
    ip_list(&list, &old.child("hostIPs"), errors);
}

fn user(user: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    if !user.is_set() {
        return;
    }
    match spec.child("os").child("name").text() {
        "windows" => errors.push(user.forbidden("cannot be set for a windows pod")),
        "" | "linux" => {
            security::id(&user.child("uid"), errors);
            security::id(&user.child("gid"), errors);
            for group in user.child("supplementalGroups").items() {
                security::id(&group, errors);
            }
        }
        _ => {}
    }
}

/// Validates the health of devices: only of resources that the container requests, each device once.
fn allocated(statuses: &Field<'_>, containers: &Field<'_>, errors: &mut Errors) {
    const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
    let containers = by_name(containers);
    let mut asked: HashMap<&str, Asked<'_>> = HashMap::new();
    for status in statuses.items() {
        let resources = status.child("allocatedResourcesStatus");
        if resources.is_empty() {
            continue;
        }
        let name = status.child("name").text();
        if let Some(container) = containers.get(name) {
            asked.entry(name).or_insert_with(|| Asked::by(container));
        }
        let asked = asked.get(name);
        for resource in resources.items() {
            let name = resource.child("name");
            if asked.is_some_and(|asked| !asked.has(name.text())) {
                errors.push(name.invalid("must match one of the container's resource requests or claims"));
            }
            let mut seen = BTreeSet::new();
            for device in resource.child("resources").items() {
                let health = device.child("health");
                errors.push_if(!HEALTH.contains(&health.text()), || health.not_supported(&HEALTH));
                let id = device.child("resourceID");
                errors.push_if(!seen.insert(id.text()), || id.duplicate());
            }
        }
    }
}

/// The resources that a container asks for.
struct Asked<'a> {
    requests: Field<'a>,
    /// As the status of a container names them.
    claims: HashSet<String>,
}

impl<'a> Asked<'a> {
    fn by(container: &Field<'a>) -> Self {
        let requirements = container.child("resources");
        let claims = requirements.child("claims").items().map(|claim| {
            let (claim, request) = (claim.child("name").text(), claim.child("request").text());
            if request.is_empty() { format!("claim:{claim}") } else { format!("claim:{claim}/{request}") }
        });
        Self { claims: claims.collect(), requests: requirements.child("requests") }
    }

    fn has(&self, name: &str) -> bool {
        match name.starts_with("claim:") {
            true => self.claims.contains(name),
            false => self.requests.key(name).is_set(),
        }
    }
}

/// Returns whether a pod is finished.
pub(crate) fn is_finished(pod: &Map) -> bool {
    matches!(pod.object("status").text("phase"), "Failed" | "Succeeded")
}

/// Sets a condition, keeping the time of its last transition if it does not change. `now` is a formatted time.
pub(super) fn set_condition(pod: &mut Map, mut condition: Map, now: &str) {
    let generation = pod.metadata().number_if_set("generation").unwrap_or(0);
    if generation > 0 {
        condition.insert("observedGeneration".to_owned(), generation.into());
    }
    condition.insert("lastProbeTime".to_owned(), Value::Null);
    condition.insert("lastTransitionTime".to_owned(), now.into());
    let Some(status) = pod.object_or_new("status") else { return };
    let kind = condition.text("type").to_owned();
    if let Some(old) = status.objects_mut("conditions").find(|old| old.text("type") == kind) {
        if old.text("status") == condition.text("status") {
            condition.copy("lastTransitionTime", old);
        }
        *old = condition;
        return;
    }
    status.push_to("conditions", Value::Object(condition));
}
