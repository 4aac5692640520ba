//! The IP families of services, and the consistency of `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`. The
//! cluster has one family, or both.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::ranges::{self, IPV4, IPV6};
use super::spec::{EXTERNAL_NAME, HEADLESS, is_headless};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::addresses;
use crate::schema::values;

/// How many errors show the whole list that has changed. Kubernetes reports each entry. An answer shows no more.
const MAX_REPEATED: usize = 1_000;
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Sets the policy and the IP families of a new or updated service. `cluster` holds the families that the cluster has, its
/// default first.
///
/// # Errors
/// Inconsistent fields. No other errors are reported then.
pub(super) fn fill_in(service: &mut Map, old: Option<&Map>, cluster: &[&'static str]) -> Result<(), Errors> {
    let Some(spec) = service.object_or_new("spec") else { return Ok(()) };
    let old = old.map(|old| old.object("spec"));
    if spec.text("type") == EXTERNAL_NAME || old.is_some_and(|old| stays_preferred(spec, old)) {
        return Ok(());
    }
    default_policy(spec, old);
    none_or(errors(spec))?;
    let mut errors = match old {
        Some(old) => release(spec, old),
        None => Errors::new(),
    };
    errors.extend(single_errors(spec));
    infer(spec, cluster, &mut errors);
    none_or(errors)?;
    // Such a service may have both families in any cluster: whoever writes its endpoints decides.
    let is_open = spec.text("clusterIP") == HEADLESS && spec.object("selector").is_empty();
    if !is_open {
        none_or(cluster_errors(spec, cluster))?;
    }
    default_families(spec, cluster);
    if spec.text("ipFamilyPolicy") != SINGLE && (is_open || cluster.len() == 2) {
        add_other_family(spec);
    }
    Ok(())
}

fn none_or(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns whether a service that prefers dual-stack is left unchanged, so that it does not gain or lose a family when
/// the cluster does.
pub(super) fn stays_preferred(spec: &Map, old: &Map) -> bool {
    let prefers = |spec: &Map| spec.text("ipFamilyPolicy") == PREFER;
    spec.text("type") == old.text("type")
        && prefers(spec)
        && (prefers(old) || !old.has("ipFamilyPolicy"))
        && is_same(spec, old, "clusterIPs")
        && is_same(spec, old, "ipFamilies")
}

fn is_same(spec: &Map, old: &Map, member: &str) -> bool {
    spec.list(member) == old.list(member)
}

fn default_policy(spec: &mut Map, old: Option<&Map>) {
    if spec.has("ipFamilyPolicy") {
        return;
    }
    if let Some(old) = old.filter(|old| old.has("ipFamilyPolicy")) {
        spec.copy("ipFamilyPolicy", old);
        return;
    }
    let is_open = spec.text("clusterIP") == HEADLESS && spec.object("selector").is_empty();
    let policy = if is_open { REQUIRE } else { SINGLE };
    spec.insert("ipFamilyPolicy".to_owned(), Value::from(policy));
}

fn default_families(spec: &mut Map, cluster: &[&'static str]) {
    if let Some(default) = cluster.first().filter(|_| spec.list("ipFamilies").is_empty()) {
        spec.insert("ipFamilies".to_owned(), json!([default]));
    }
}

/// Adds the family that a service with a single family does not have.
fn add_other_family(spec: &mut Map) {
    let both = match spec.texts("ipFamilies").collect::<Vec<_>>().as_slice() {
        [IPV4] => [IPV4, IPV6],
        [IPV6] => [IPV6, IPV4],
        _ => return,
    };
    spec.insert("ipFamilies".to_owned(), json!(both));
}

/// Setting the policy to SingleStack drops the second address and family. Dropping them without that policy is an
/// error.
fn release(spec: &mut Map, old: &Map) -> Errors {
    let members = ["clusterIPs", "ipFamilies"];
    if spec.text("ipFamilyPolicy") == SINGLE {
        for member in members {
            if is_same(spec, old, member)
                && let Some(Value::Array(entries)) = spec.get_mut(member)
            {
                entries.truncate(1);
            }
        }
        return Errors::new();
    }
    let is_reduced = |member: &&str| {
        let count = spec.list(member).len();
        count > 0 && count < old.list(member).len()
    };
    let detail = "must be 'SingleStack' to release the secondary one";
    members.iter().filter(|member| is_reduced(member)).map(|_| policy_error(spec, detail)).collect()
}

fn policy_error(spec: &Map, detail: &str) -> FieldError {
    FieldError::invalid("spec.ipFamilyPolicy", spec.text("ipFamilyPolicy"), detail)
}

fn single_errors(spec: &Map) -> Errors {
    if spec.text("ipFamilyPolicy") != SINGLE {
        return Errors::new();
    }
    let detail = "must be 'RequireDualStack' or 'PreferDualStack' when there are two of them";
    let doubled = ["clusterIPs", "ipFamilies"].into_iter().filter(|member| spec.list(member).len() == 2);
    doubled.map(|_| policy_error(spec, detail)).collect()
}

/// Infers missing families from the addresses.
fn infer(spec: &mut Map, cluster: &[&'static str], errors: &mut Errors) {
    let mut families: Vec<String> = spec.texts("ipFamilies").map(str::to_owned).collect();
    for (i, ip) in spec.texts("clusterIPs").enumerate() {
        if ip == HEADLESS {
            break;
        }
        if i < families.len() {
            continue;
        }
        match family_of(ip) {
            Some(family) if cluster.contains(&family) => families.push(family.to_owned()),
            _ => errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{i}]"),
                ip,
                "its family is not configured on this cluster",
            )),
        }
    }
    if !families.is_empty() {
        spec.insert("ipFamilies".to_owned(), Value::from(families));
    }
}

/// Returns errors for families that the cluster does not have.
fn cluster_errors(spec: &Map, cluster: &[&'static str]) -> Errors {
    let mut errors = Errors::new();
    if spec.text("ipFamilyPolicy") == REQUIRE && cluster.len() < 2 {
        errors.push(policy_error(spec, "this cluster is not configured for dual-stack services"));
    }
    for (i, family) in spec.texts("ipFamilies").enumerate() {
        if !cluster.contains(&family) {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(FieldError::invalid(field, family, "not configured on this cluster"));
        }
    }
    errors
}

fn family_of(ip: &str) -> Option<&'static str> {
    addresses::parse(ip).map(ranges::family_of)
}

/// Validates that the addresses and families of a service are consistent.
pub(super) fn errors(spec: &Map) -> Errors {
    if spec.text("type") == EXTERNAL_NAME {
        return Errors::new();
    }
    let field = "spec.clusterIPs";
    let ips: Vec<&str> = spec.texts("clusterIPs").collect();
    let shown = || spec.get("clusterIPs").unwrap_or(&Value::Null);
    let mut errors = Errors::new();
    match (spec.text("clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(field, shown(), detail));
        }
        (_, None) => errors.push(FieldError::required(field, "")),
        (ip, Some(first)) if ip != *first => {
            errors.push(FieldError::invalid(field, shown(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    family_errors(spec, &mut errors);
    match spec.text("ipFamilyPolicy") {
        "" if !spec.has("ipFamilyPolicy") => {}
        known if values::IP_FAMILY_POLICIES.contains(&known) => {}
        policy => {
            errors.push(FieldError::not_supported("spec.ipFamilyPolicy", policy, values::IP_FAMILY_POLICIES));
        }
    }
    let mut has_invalid = false;
    for (i, ip) in ips.iter().enumerate() {
        let error = match *ip {
            HEADLESS if i == 0 && ips.len() == 1 => continue,
            HEADLESS if i == 0 => {
                Some(FieldError::invalid(field, shown(), "'None' must be the first and only value"))
            }
            ip => addresses::errors(&format!("{field}[{i}]"), ip),
        };
        has_invalid |= error.is_some();
        errors.extend(error);
    }
    errors.push_if(ips.len() > 2, || FieldError::invalid(field, shown(), "may only hold up to 2 values"));
    if has_invalid {
        return errors;
    }
    let families: BTreeSet<_> = ips.iter().map(|ip| family_of(ip)).collect();
    let detail = "may specify no more than one IP for each IP family";
    errors.push_if(ips.len() > 1 && families.len() < 2, || FieldError::invalid(field, shown(), detail));
    if !is_headless(spec) {
        errors.extend(match_errors(spec, &ips));
    }
    errors
}

fn family_errors(spec: &Map, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, family) in spec.texts("ipFamilies").enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        if !matches!(family, IPV4 | IPV6) {
            errors.push(FieldError::not_supported(&field, family, &[IPV4, IPV6]));
        }
        errors.push_if(!seen.insert(family), || FieldError::duplicate(field, family));
    }
}

/// Checks that each address has the family at the same index.
fn match_errors(spec: &Map, ips: &[&str]) -> Errors {
    let pairs = ips.iter().zip(spec.texts("ipFamilies")).enumerate();
    let differing =
        pairs.filter(|(_, (ip, family))| matches!(*family, IPV4 | IPV6) && family_of(ip) != Some(*family));
    differing
        .map(|(i, (ip, family))| {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            FieldError::invalid(format!("spec.clusterIPs[{i}]"), *ip, detail)
        })
        .collect()
}

/// Returns errors for forbidden changes of addresses and families.
pub(super) fn change_errors(spec: &Map, old: &Map) -> Errors {
    if [spec, old].into_iter().any(|spec| spec.text("type") == EXTERNAL_NAME) {
        return Errors::new();
    }
    let (is_headless_now, was_headless) = (is_headless(spec), is_headless(old));
    let mut errors = Errors::new();
    if !(is_headless_now && was_headless) {
        errors.extend(list_change_errors(spec, old, "clusterIPs"));
    }
    if !is_headless_now && !was_headless {
        errors.extend(list_change_errors(spec, old, "ipFamilies"));
    }
    errors
}

fn list_change_errors(spec: &Map, old: &Map, member: &str) -> Errors {
    let (is, was): (Vec<&str>, Vec<&str>) = (spec.texts(member).collect(), old.texts(member).collect());
    let shown = || spec.get(member).unwrap_or(&Value::Null);
    let invalid =
        |i: usize, detail: &str| FieldError::invalid(format!("spec.{member}[{i}]"), shown(), detail);
    if is.len() == was.len() {
        let pairs = is.iter().zip(&was).enumerate().filter(|(_, (is, was))| is != was);
        // Kubernetes reports all families with the path of the first.
        let place = |i| if member == "ipFamilies" { 0 } else { i };
        let errors = pairs.map(|(i, _)| invalid(place(i), "may not change once set"));
        return errors.take(MAX_REPEATED).collect();
    }
    let mut errors = Errors::new();
    let is_released = is.len() < was.len();
    if is_released && spec.list("clusterIPs").is_empty() {
        errors.push(invalid(0, "the primary one can not be unset"));
    }
    if let (Some(is), Some(was)) = (is.first(), was.first())
        && is != was
    {
        errors.push(invalid(0, "may not change once set"));
    }
    if is_released && is.len() == 1 && spec.text("ipFamilyPolicy") != SINGLE {
        errors.push(policy_error(spec, "must be set to 'SingleStack' when releasing the secondary one"));
    }
    errors
}
