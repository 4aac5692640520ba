//! Validation of containers of all three kinds.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::syntax;
use crate::resources::pods::validate::{Kept, env, mounts, probes, resources, security};
use crate::schema::values;

/// Fields that ephemeral containers must not have: non-empty lists and requirements, and any optional field that is
/// set.
const NOT_EPHEMERAL: [(&str, bool); 9] = [
    ("ports", false),
    ("resources", false),
    ("resizePolicy", false),
    ("restartPolicy", true),
    ("restartPolicyRules", false),
    ("livenessProbe", true),
    ("readinessProbe", true),
    ("startupProbe", true),
    ("lifecycle", true),
];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// The context of a container in its pod.
#[derive(Debug)]
pub(super) struct Around<'a> {
    spec: Field<'a>,
    /// The valid volumes by name.
    volumes: &'a BTreeMap<&'a str, Field<'a>>,
    claims: BTreeSet<&'a str>,
    grace: Option<i64>,
    uses_host_users: bool,
    kept: &'a Kept,
}

impl<'a> Around<'a> {
    pub(super) fn new(spec: &Field<'a>, volumes: &'a BTreeMap<&'a str, Field<'a>>, kept: &'a Kept) -> Self {
        Self {
            spec: spec.clone(),
            volumes,
            claims: resources::claims_of_pod(spec),
            grace: spec.child("terminationGracePeriodSeconds").number_if_set(),
            uses_host_users: spec.child("hostUsers").flag() != Some(false),
            kept,
        }
    }

    fn names(&self, list: &'static str) -> Vec<&'a str> {
        self.spec.child(list).items().map(|container| container.child("name").text()).collect()
    }
}

pub(super) fn validate(around: &Around<'_>, errors: &mut Errors) {
    regular(around, errors);
    init(around, errors);
    ephemeral(around, errors);
}

fn regular(around: &Around<'_>, errors: &mut Errors) {
    let containers = around.spec.child("containers");
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        common(around, &container, errors);
        let name = container.child("name");
        errors.push_if(!names.insert(name.text()), || name.duplicate());
        probes::of_container(&container, around.grace, errors);
        restart_policy(&container, errors);
    }
    host_ports(&containers, errors);
}

fn init(around: &Around<'_>, errors: &mut Errors) {
    let containers = around.spec.child("initContainers");
    let mut names: BTreeSet<&str> = around.names("containers").into_iter().collect();
    for container in containers.items() {
        common(around, &container, errors);
        restart_policy(&container, errors);
        let is_sidecar = container.child("restartPolicy").text() == "Always";
        if is_sidecar && !around.kept.rules_of_sidecars {
            sidecar_rule(&container, errors);
        }
        let name = container.child("name");
        errors.push_if(!name.text().is_empty() && !names.insert(name.text()), || name.duplicate());
        // Init containers run one by one, so ports are checked for each alone. The index in the path is therefore
        // always 0.
        let mut seen = BTreeSet::new();
        for (j, port) in container.child("ports").items().enumerate() {
            let port = port.named(format!("{}[0].ports[{j}]", containers.path()));
            host_port(&port, &mut seen, errors);
        }
        if is_sidecar {
            probes::of_container(&container, around.grace, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                let field = container.child(field);
                errors.push_if(field.is_set(), || {
                    field.forbidden("may not be set for init containers without restartPolicy=Always")
                });
            }
            let resize = container.child("resizePolicy");
            if resize.items().any(|policy| policy.child("restartPolicy").text() == "RestartContainer") {
                errors.push(resize.invalid("must not be 'RestartContainer' for non-sidecar init containers"));
            }
        }
    }
}

fn ephemeral(around: &Around<'_>, errors: &mut Errors) {
    let mut others: BTreeSet<&str> = around.names("containers").into_iter().collect();
    others.extend(around.names("initContainers"));
    let mut names = others.clone();
    for container in around.spec.child("ephemeralContainers").items() {
        common(around, &container, errors);
        image_without_padding(&container, errors);
        let name = container.child("name");
        errors.push_if(!names.insert(name.text()), || name.duplicate());
        let target = container.child("targetContainerName");
        errors.push_if(!target.text().is_empty() && !others.contains(target.text()), || target.not_found());
        for (field, is_optional) in NOT_EPHEMERAL {
            let field = container.child(field);
            let is_used = if is_optional { field.is_set() } else { !field.is_empty() };
            errors.push_if(is_used, || field.forbidden("cannot be set for an Ephemeral Container"));
        }
        for mount in container.child("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                let field = mount.child(field);
                if !field.text().is_empty() {
                    errors.push(field.forbidden("cannot be set for an Ephemeral Container"));
                }
            }
        }
    }
}

/// Rules for containers of any kind.
fn common(around: &Around<'_>, container: &Field<'_>, errors: &mut Errors) {
    errors.require_syntax(&container.child("name"), names::label_errors);
    errors.require(&container.child("image"));
    errors.require_one_of(&container.child("terminationMessagePolicy"), values::TERMINATION_MESSAGE_POLICIES);
    ports(&container.child("ports"), errors);
    env::variables(&container.child("env"), errors);
    env::sources(&container.child("envFrom"), errors);
    mounts::mounts(container, around.volumes, errors);
    mounts::devices(container, around.volumes, errors);
    errors.require_one_of(&container.child("imagePullPolicy"), values::PULL_POLICIES);
    resources::of_container(&container.child("resources"), &around.claims, around.kept, errors);
    resize_policy(around, &container.child("resizePolicy"), errors);
    security::of_container(&container.child("securityContext"), around.uses_host_users, errors);
}

fn ports(ports: &Field<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.child("name");
        if !name.text().is_empty() {
            let faults = syntax::port_name(name.text());
            errors.push_if(faults.is_empty() && !names.insert(name.text()), || name.duplicate());
            errors.extend(faults.into_iter().map(|fault| name.invalid(fault)));
        }
        let number = port.child("containerPort");
        match number.number() {
            0 => errors.push(number.required("")),
            1..=65535 => {}
            _ => errors.push(number.invalid("must be between 1 and 65535, inclusive")),
        }
        let host = port.child("hostPort");
        if !(0..=65535).contains(&host.number()) {
            errors.push(host.invalid("must be between 1 and 65535, inclusive"));
        }
        errors.require_one_of(&port.child("protocol"), values::PROTOCOLS);
    }
}

/// Host ports of these containers must be unique.
fn host_ports(containers: &Field<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for container in containers.items() {
        for port in container.child("ports").items() {
            host_port(&port, &mut seen, errors);
        }
    }
}

fn host_port<'a>(port: &Field<'a>, seen: &mut BTreeSet<(&'a str, &'a str, i64)>, errors: &mut Errors) {
    let number = port.child("hostPort");
    let value = number.number();
    let key = (port.child("protocol").text(), port.child("hostIP").text(), value);
    errors.push_if(value != 0 && !seen.insert(key), || number.duplicate());
}

fn restart_policy(container: &Field<'_>, errors: &mut Errors) {
    let policy = container.child("restartPolicy");
    let rules = container.child("restartPolicyRules");
    if policy.is_set() {
        if !matches!(policy.text(), "Always" | "Never" | "OnFailure") {
            errors.push(policy.not_supported(&["Always", "Never", "OnFailure"]));
        }
    } else if !rules.is_empty() {
        errors.push(policy.required("must be set when restart rules are used"));
    }
    errors.push_if(rules.len() > MAX_RULES, || FieldError::too_many(rules.path(), rules.len(), MAX_RULES));
    for rule in rules.items() {
        let action = rule.child("action");
        errors.push_if(action.text() != "Restart", || action.not_supported(&["Restart"]));
        let codes = rule.child("exitCodes");
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        let operator = codes.child("operator");
        errors
            .push_if(!matches!(operator.text(), "In" | "NotIn"), || operator.not_supported(&["In", "NotIn"]));
        let values = codes.child("values");
        if values.len() > MAX_EXIT_CODES {
            errors.push(FieldError::too_many(values.path(), values.len(), MAX_EXIT_CODES));
        }
    }
}

/// A sidecar always restarts.
fn sidecar_rule(container: &Field<'_>, errors: &mut Errors) {
    let rules = container.child("restartPolicyRules");
    if !rules.is_empty() {
        errors.push(rules.forbidden("may not be set for init containers with restartPolicy=Always"));
    }
}

/// The restart rules of the sidecars in a spec.
pub(super) fn sidecar_rules(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    for container in spec.child("initContainers").items() {
        if container.child("restartPolicy").text() == "Always" {
            sidecar_rule(&container, errors);
        }
    }
}

fn resize_policy(around: &Around<'_>, policies: &Field<'_>, errors: &mut Errors) {
    let never_restarts = around.spec.child("restartPolicy").text() == "Never";
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let resource = policy.child("resourceName");
        let restart = policy.child("restartPolicy");
        errors.push_if(!seen.insert(resource.text()), || resource.named(policy.path()).duplicate());
        // The other paths are that of the list.
        errors.require_one_of(&resource.named(policies.path()), &["cpu", "memory"]);
        errors.require_one_of(&restart.named(policies.path()), &["NotRequired", "RestartContainer"]);
        if never_restarts && restart.text() != "NotRequired" {
            let restart = restart.named(policies.path());
            errors.push(restart.invalid("must be 'NotRequired' when `restartPolicy` is 'Never'"));
        }
    }
}

/// The image names of a pod, unlike those of a template, must have no surrounding white space.
pub(in crate::resources::pods) fn image_without_padding(container: &Field<'_>, errors: &mut Errors) {
    let image = container.child("image");
    if image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}
