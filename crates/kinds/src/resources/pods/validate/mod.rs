//! Validation of new and updated pods, with errors in the order of Kubernetes. Metadata is validated elsewhere, except
//! for the pod annotations.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::{FieldError, NO_FIELD};
use portcullis_apimachinery::names;

use crate::Map;
use crate::fields::{ErrorList, Errors, Field, Members};
use crate::resources::pods::mirror::is_mirror;
use crate::schema::values;

pub(super) mod annotations;
mod common;
pub(super) mod containers;
mod env;
pub(super) mod ips;
mod mounts;
mod network;
mod os;
mod probes;
mod projected;
pub(super) mod resources;
pub(super) mod scheduling;
pub(super) mod security;
mod selectors;
mod sources;
mod volumes;

pub(super) use common::{Kept, MAX_INT32};

impl Kept {
    /// The annotation values that an update of this pod may keep.
    pub(super) fn of_annotations(old: &Map) -> Self {
        Self { deletion_cost: annotations::deletion_cost(old).is_some(), ..Self::default() }
    }

    /// The values that an update of this pod may keep.
    pub(super) fn of(old: &Map) -> Self {
        let spec = Field::root(old, "spec");
        let faulty = |check: fn(&Field<'_>, &Kept, &mut Errors)| {
            let mut errors = Errors::new();
            check(&spec, &Kept::default(), &mut errors);
            !errors.is_empty()
        };
        let aliases = spec.child("hostAliases");
        let servers = spec.child("dnsConfig").child("nameservers");
        let addresses = aliases.items().map(|alias| alias.child("ip")).chain(servers.items());
        Self {
            deletion_cost: annotations::deletion_cost(old).is_some(),
            affinity_selectors: faulty(scheduling::affinity_selectors),
            node_affinity_values: faulty(scheduling::required_node_values),
            spread_selectors: faulty(scheduling::spread_selectors),
            spread_keys: faulty(scheduling::spread_keys),
            token_paths: faulty(projected::token_paths),
            host_sysctls: faulty(security::host_sysctls),
            huge_pages: faulty(resources::all_huge_pages),
            label_change_policy: spec.child("securityContext").child("seLinuxChangePolicy").is_set(),
            comparing_tolerations: spec
                .child("tolerations")
                .items()
                .any(|toleration| matches!(toleration.child("operator").text(), "Gt" | "Lt")),
            devices_of_user_namespaces: faulty(network::user_namespace_devices),
            rules_of_sidecars: faulty(containers::sidecar_rules),
            addresses: addresses.map(|address| address.text().to_owned()).collect(),
        }
    }
}

/// Validates a new pod.
pub(super) fn validate_create(pod: &Map) -> Errors {
    let mut errors = Errors::new();
    pod_and_spec(pod, &Kept::default(), &mut errors);
    let spec = Field::root(pod, "spec");
    let ephemeral = spec.child("ephemeralContainers");
    errors.push_if(!ephemeral.is_empty(), || ephemeral.forbidden("cannot be set on create"));
    let node = spec.child("nodeName");
    if !node.text().is_empty() && !spec.child("schedulingGates").is_empty() {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
    annotations::match_fields(pod, &mut errors);
    errors
}

/// Validates a new or updated pod on its own.
pub(super) fn pod_and_spec(pod: &Map, kept: &Kept, errors: &mut Errors) {
    annotations::validate(pod, kept, errors);
    spec(pod, kept, errors);
    let spec = Field::root(pod, "spec");
    if spec.child("serviceAccountName").text().is_empty() {
        projected::tokens_without_account(&spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.child(list).items() {
            containers::image_without_padding(&container, errors);
        }
    }
}

/// Validates a template of pods, which is what a pod is without a name. `old` is the template that it replaces. The
/// labels are validated elsewhere.
pub(in crate::resources) fn template_errors(field: &str, template: &Map, old: Option<&Map>) -> Errors {
    let kept = old.map(Kept::of).unwrap_or_default();
    let mut errors = Errors::new();
    annotations::validate(template, &kept, &mut errors);
    spec(template, &kept, &mut errors);
    let ephemeral = Field::root(template, "spec").child("ephemeralContainers");
    errors.push_if(!ephemeral.is_empty(), || {
        ephemeral.forbidden("ephemeral containers not allowed in pod template")
    });
    for error in errors.iter_mut().filter(|error| error.field != NO_FIELD) {
        let of_metadata = error.field.strip_prefix("metadata.");
        error.field = format!("{field}.{}", of_metadata.unwrap_or(&error.field));
    }
    errors
}

fn spec(pod: &Map, kept: &Kept, errors: &mut Errors) {
    let spec = Field::root(pod, "spec");
    let grace = spec.child("terminationGracePeriodSeconds");
    errors.push_if(!grace.is_set(), || grace.required(""));
    let volumes = volumes::validate(&spec.child("volumes"), pod.metadata().text("name"), kept, errors);
    resource_claims(&spec.child("resourceClaims"), is_mirror(pod), errors);
    containers::validate(&containers::Around::new(&spec, &volumes, kept), errors);
    resources::of_pod(&spec, kept, errors);
    network::host_network_ports(&spec, errors);
    errors.require_one_of(&spec.child("restartPolicy"), values::RESTART_POLICIES);
    errors.require_one_of(&spec.child("dnsPolicy"), values::DNS_POLICIES);
    selectors::labels(&spec.child("nodeSelector"), errors);
    security::of_pod(&spec, kept, errors);
    scheduling::affinity(&spec.child("affinity"), kept, errors);
    network::dns_config(&spec, kept, errors);
    for gate in spec.child("readinessGates").items() {
        errors.extend(gate.child("conditionType").faults(names::label_key_errors));
    }
    scheduling_gates(&spec.child("schedulingGates"), errors);
    scheduling::spread(&spec.child("topologySpreadConstraints"), kept, errors);
    os::host_processes(&spec, errors);
    network::host_users(&spec, errors);
    network::user_namespace_devices(&spec, kept, errors);
    for (field, syntax) in [
        ("serviceAccountName", names::subdomain_errors as fn(&str) -> _),
        ("nodeName", names::subdomain_errors),
    ] {
        errors.check_syntax(&spec.child(field), syntax);
    }
    let deadline = spec.child("activeDeadlineSeconds");
    if deadline.number_if_set().is_some_and(|seconds| !(1..=MAX_INT32).contains(&seconds)) {
        errors.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    network::hostnames(&spec, errors);
    scheduling::tolerations(&spec.child("tolerations"), kept, errors);
    network::host_aliases(&spec.child("hostAliases"), kept, errors);
    errors.check_syntax(&spec.child("priorityClassName"), names::subdomain_errors);
    let runtime_class = spec.child("runtimeClassName");
    if runtime_class.is_set() {
        errors.extend(runtime_class.faults(names::subdomain_errors));
    }
    let preemption = spec.child("preemptionPolicy");
    if preemption.is_set() {
        errors.require_one_of(&preemption, values::PREEMPTION_POLICIES);
    }
    resources::overhead(&spec.child("overhead"), kept, errors);
    os::validate(&spec, errors);
    env::files(&spec, errors);
}

fn scheduling_gates(gates: &Field<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for gate in gates.items() {
        let name = gate.child("name");
        errors.extend(name.named(gate.path()).faults(names::label_key_errors));
        errors.push_if(!seen.insert(name.text()), || name.named(gate.path()).duplicate());
    }
}

/// MP-17: a mirror pod must not have any; each is a single error that replaces all others about it.
fn resource_claims(claims: &Field<'_>, is_mirror: bool, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in claims.items() {
        if is_mirror {
            errors.push(FieldError::forbidden(NO_FIELD, "static pods do not support resource claims"));
            continue;
        }
        let name = claim.child("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        } else {
            errors.extend(name.faults(names::label_errors));
        }
        let sources = [claim.child("resourceClaimName"), claim.child("resourceClaimTemplateName")];
        errors.push_if(sources.iter().filter(|source| source.is_set()).count() != 1, || {
            claim.invalid("must have one of `resourceClaimName` and `resourceClaimTemplateName`")
        });
        for source in sources.iter().filter(|source| source.is_set()) {
            errors.extend(source.faults(names::subdomain_errors));
        }
    }
}
