//! Validation of scheduling: affinity, topology spread, tolerations.

use std::collections::{BTreeSet, HashMap, HashSet};

use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::validate::{Kept, selectors};
use crate::schema::values;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    node_affinity(&affinity.child("nodeAffinity"), kept.node_affinity_values, errors);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let kind = affinity.child(kind);
        for term in kind.child(REQUIRED).items() {
            pod_affinity_term(&term, kept, errors);
        }
        for weighted in kind.child(PREFERRED).items() {
            weight(&weighted, errors);
            pod_affinity_term(&weighted.child("podAffinityTerm"), kept, errors);
        }
    }
}

fn node_affinity(affinity: &Field<'_>, keeps_values: bool, errors: &mut Errors) {
    if let Some(selector) = affinity.child(REQUIRED).set() {
        node_selector(&selector, keeps_values, errors);
    }
    for preferred in affinity.child(PREFERRED).items() {
        weight(&preferred, errors);
        node_selector_term(&preferred.child("preference"), true, errors);
    }
}

fn weight(term: &Field<'_>, errors: &mut Errors) {
    let weight = term.child("weight");
    errors.push_if(!(1..=100).contains(&weight.number()), || weight.invalid("must be in the range 1-100"));
}

fn node_selector(selector: &Field<'_>, keeps_values: bool, errors: &mut Errors) {
    let terms = selector.child("nodeSelectorTerms");
    errors.push_if(terms.is_empty(), || terms.required("must have at least one node selector term"));
    for term in terms.items() {
        node_selector_term(&term, keeps_values, errors);
    }
}

fn node_selector_term(term: &Field<'_>, keeps_values: bool, errors: &mut Errors) {
    for requirement in term.child("matchExpressions").items() {
        label_requirement(&requirement, keeps_values, errors);
    }
    for requirement in term.child("matchFields").items() {
        field_requirement(&requirement, errors);
    }
}

fn label_requirement(requirement: &Field<'_>, keeps_values: bool, errors: &mut Errors) {
    let operator = requirement.child("operator");
    let values = requirement.child("values");
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must have values for In and NotIn"))
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(values.forbidden("may not have values for Exists and DoesNotExist"));
        }
        "Gt" | "Lt" if values.len() != 1 => errors.push(values.required("must have one value for Gt and Lt")),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(operator.invalid("not a valid selector operator")),
    }
    errors.extend(requirement.child("key").faults(names::label_key_errors));
    if !keeps_values {
        for value in values.items() {
            errors.extend(value.faults(names::label_value_errors));
        }
    }
}

fn field_requirement(requirement: &Field<'_>, errors: &mut Errors) {
    let operator = requirement.child("operator");
    let values = requirement.child("values");
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            errors.push(values.required("must have one value for In and NotIn"))
        }
        "In" | "NotIn" => {}
        _ => errors.push(operator.invalid("not a valid selector operator")),
    }
    let key = requirement.child("key");
    if key.text() != "metadata.name" {
        errors.push(key.invalid("not a valid field selector key"));
        return;
    }
    for value in values.items() {
        errors.extend(value.faults(names::subdomain_errors));
    }
}

fn pod_affinity_term(term: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    term_selectors(term, kept.affinity_selectors, errors);
    for namespace in term.child("namespaces").items() {
        // The path has no index, and a different field name.
        errors.extend(namespace.named(term.path().member("namespace")).faults(names::label_errors));
    }
    label_keys(term, errors);
    let topology = term.child("topologyKey");
    errors.push_if(topology.text().is_empty(), || topology.required("can not be empty"));
    errors.extend(topology.faults(names::label_key_errors));
}

fn term_selectors(term: &Field<'_>, keeps_values: bool, errors: &mut Errors) {
    selectors::selector(&term.child("labelSelector"), keeps_values, errors);
    selectors::selector(&term.child("namespaceSelector"), keeps_values, errors);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`. The selector already contains the expressions made from them, so
/// a key that the selector also has on its own occurs twice.
fn label_keys(term: &Field<'_>, errors: &mut Errors) {
    let selector = term.child("labelSelector");
    let matched = term.child("matchLabelKeys");
    let mismatched = term.child("mismatchLabelKeys");
    for keys in [&matched, &mismatched] {
        if keys.is_empty() {
            continue;
        }
        if !selector.is_set() {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        for key in keys.items() {
            errors.extend(key.faults(names::label_key_errors));
        }
    }
    // Of several equal keys, the last counts.
    let places: HashMap<&str, usize> =
        matched.items().enumerate().map(|(at, key)| (key.text(), at)).collect();
    let mut selected: BTreeSet<&str> = selector.child("matchLabels").entries().map(|(key, _)| key).collect();
    for expression in selector.child("matchExpressions").items() {
        let key = expression.child("key");
        if let Some(at) = places.get(key.text())
            && selected.contains(key.text())
        {
            let path = format!("{}[{at}]", term.path());
            errors.push(key.named(path).invalid("exists in both matchLabelKeys and labelSelector"));
        }
        selected.insert(key.text());
    }
    let other: HashSet<&str> = mismatched.items().map(|key| key.text()).collect();
    for key in matched.items() {
        if other.contains(key.text()) {
            errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

pub(super) fn spread(constraints: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let identity = |constraint: &Field<'_>| {
        ["topologyKey", "whenUnsatisfiable"].map(|name| constraint.child(name).text().to_owned())
    };
    // The last of several equal ones is none that is repeated.
    let last: HashMap<_, usize> =
        constraints.items().enumerate().map(|(i, constraint)| (identity(&constraint), i)).collect();
    for (i, constraint) in constraints.items().enumerate() {
        let skew = constraint.child("maxSkew");
        errors.push_if(skew.number() <= 0, || skew.invalid("must be greater than zero"));
        let topology = constraint.child("topologyKey");
        errors.push_if(topology.text().is_empty(), || topology.required("can not be empty"));
        let action = constraint.child("whenUnsatisfiable");
        if !values::UNSATISFIABLE_ACTIONS.contains(&action.text()) {
            errors.push(action.not_supported(values::UNSATISFIABLE_ACTIONS));
        }
        if last.get(&identity(&constraint)).is_some_and(|last| *last > i) {
            errors.push(constraint.child("{topologyKey, whenUnsatisfiable}").duplicate());
        }
        let domains = constraint.child("minDomains");
        if domains.number_if_set().is_some_and(|domains| domains <= 0) {
            errors.push(domains.invalid("must be greater than zero"));
        }
        if domains.is_set() && action.text() != "DoNotSchedule" {
            errors.push(domains.invalid("can only be used if whenUnsatisfiable is DoNotSchedule"));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.check_one_of(&constraint.child(policy), values::NODE_INCLUSION_POLICIES);
        }
        if !kept.spread_keys {
            label_keys(&constraint, errors);
        }
        if !kept.spread_selectors {
            selectors::selector(&constraint.child("labelSelector"), false, errors);
        }
    }
}

pub(in crate::resources::pods) fn tolerations(tolerations: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    for toleration in tolerations.items() {
        let key = toleration.child("key");
        let operator = toleration.child("operator");
        let value = toleration.child("value");
        let effect = toleration.child("effect");
        errors.check_syntax(&key, names::label_key_errors);
        if key.text().is_empty() && operator.text() != "Exists" {
            errors.push(operator.invalid("must be Exists when `key` is empty, which means all keys"));
        }
        if toleration.child("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            errors.push(effect.invalid("must be 'NoExecute' when `tolerationSeconds` is set"));
        }
        match operator.text() {
            "" | "Equal" => {
                let fault = names::label_value_errors(value.text()).join("; ");
                errors.push_if(!fault.is_empty(), || value.named(operator.path()).invalid(fault));
            }
            "Exists" if !value.text().is_empty() => {
                errors.push(
                    value.named(operator.path()).invalid("value must be empty when `operator` is 'Exists'"),
                );
            }
            "Exists" => {}
            "Gt" | "Lt" if kept.comparing_tolerations => {
                if value.text().parse::<i64>().is_err() {
                    errors.push(value.named(operator.path()).invalid("value must be an integer"));
                }
            }
            _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.text().is_empty() && !values::TAINT_EFFECTS.contains(&effect.text()) {
            errors.push(effect.not_supported(values::TAINT_EFFECTS));
        }
    }
}

/// The selectors in the affinity of a spec.
pub(super) fn affinity_selectors(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let kind = spec.child("affinity").child(kind);
        for term in kind.child(REQUIRED).items() {
            term_selectors(&term, false, errors);
        }
        for weighted in kind.child(PREFERRED).items() {
            term_selectors(&weighted.child("podAffinityTerm"), false, errors);
        }
    }
}

/// The values in the required node affinity of a spec.
pub(super) fn required_node_values(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    let terms = spec.child("affinity").child("nodeAffinity").child(REQUIRED).child("nodeSelectorTerms");
    for term in terms.items() {
        for requirement in term.child("matchExpressions").items() {
            for value in requirement.child("values").items() {
                errors.extend(value.faults(names::label_value_errors));
            }
        }
    }
}

/// The selectors in the topology spread constraints of a spec.
pub(super) fn spread_selectors(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    for constraint in spec.child("topologySpreadConstraints").items() {
        selectors::selector(&constraint.child("labelSelector"), false, errors);
    }
}

/// The label keys in the topology spread constraints of a spec.
pub(super) fn spread_keys(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    for constraint in spec.child("topologySpreadConstraints").items() {
        label_keys(&constraint, errors);
    }
}
