//! Validation of security contexts of pods and containers.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::syntax;
use crate::resources::pods::validate::{Kept, MAX_INT32};
use crate::schema::values;

/// The maximum path length of Linux, without the terminating NUL.
const MAX_PROFILE: usize = 4095;
const MAX_CREDENTIAL_SPEC: usize = 64 * 1024;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

pub(super) fn of_pod(spec: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let context = spec.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context.child(field), errors);
    }
    for group in context.child("supplementalGroups").items() {
        id(&group, errors);
    }
    // The path is that of the security context, where Kubernetes has the field in its internal type.
    let shares = spec.child("shareProcessNamespace").named(context.path().member("shareProcessNamespace"));
    if shares.is_true() && spec.child("hostPID").is_true() {
        errors.push(shares.invalid("ShareProcessNamespace and HostPID cannot both be enabled"));
    }
    sysctls(spec, kept, errors);
    errors.check_one_of(&context.child("fsGroupChangePolicy"), values::FS_GROUP_CHANGE_POLICIES);
    seccomp(&context.child("seccompProfile"), errors);
    windows_options(&context.child("windowsOptions"), errors);
    app_armor(&context.child("appArmorProfile"), errors);
    errors.check_one_of(&context.child("supplementalGroupsPolicy"), values::SUPPLEMENTAL_GROUPS_POLICIES);
    let policies: &[&str] =
        if kept.label_change_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    errors.check_one_of(&context.child("seLinuxChangePolicy"), policies);
}

pub(super) fn of_container(context: &Field<'_>, uses_host_users: bool, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup"] {
        id(&context.child(field), errors);
    }
    let mount = context.child("procMount");
    errors.check_one_of(&mount, values::PROC_MOUNTS);
    if uses_host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    seccomp(&context.child("seccompProfile"), errors);
    if context.child("allowPrivilegeEscalation").flag() == Some(false) {
        errors.push_if(context.child("privileged").is_true(), || {
            context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        });
        let added = context.child("capabilities").child("add");
        for _ in added.items().filter(|capability| capability.text() == "CAP_SYS_ADMIN") {
            errors.push(
                context.invalid("cannot set `allowPrivilegeEscalation` to false and add CAP_SYS_ADMIN"),
            );
        }
    }
    windows_options(&context.child("windowsOptions"), errors);
    app_armor(&context.child("appArmorProfile"), errors);
}

/// A user or group.
pub(in crate::resources::pods) fn id(field: &Field<'_>, errors: &mut Errors) {
    if field.number_if_set().is_some_and(|id| !(0..=MAX_INT32).contains(&id)) {
        errors.push(field.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

fn sysctls(spec: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for sysctl in spec.child("securityContext").child("sysctls").items() {
        let name = sysctl.child("name");
        let faults = syntax::sysctl(name.text());
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else if !faults.is_empty() {
            errors.extend(faults.into_iter().map(|fault| name.invalid(fault)));
        } else if seen.contains(name.text()) {
            errors.push(name.duplicate());
        }
        if !kept.host_sysctls {
            errors.extend(host_sysctl(spec, &name));
        }
        seen.insert(name.text());
    }
}

/// Refuses a sysctl of a namespace that the pod shares with its node.
fn host_sysctl(spec: &Field<'_>, name: &Field<'_>) -> Option<FieldError> {
    // The first dot or slash determines the separator; the other character is part of a name.
    let text = name.text();
    let text = match text.find(['.', '/']) {
        Some(at) if text.get(at..).is_some_and(|rest| rest.starts_with('/')) => text.replace('/', "."),
        _ => text.to_owned(),
    };
    let is_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| text.starts_with(prefix))
        || text == "kernel.sem";
    if spec.child("hostNetwork").is_true() && text.starts_with("net.") {
        return Some(name.invalid("may not be specified when 'hostNetwork' is true"));
    }
    (spec.child("hostIPC").is_true() && is_ipc)
        .then(|| name.invalid("may not be specified when 'hostIPC' is true"))
}

/// The sysctls of a spec that would affect the node.
pub(super) fn host_sysctls(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    for sysctl in spec.child("securityContext").child("sysctls").items() {
        errors.extend(host_sysctl(spec, &sysctl.child("name")));
    }
}

fn seccomp(profile: &Field<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.child("type");
    let path = profile.child("localhostProfile");
    errors.require_one_of(&kind, values::PROFILE_TYPES);
    if kind.text() != "Localhost" {
        errors.push_if(path.is_set(), || path.invalid("can only be set when seccomp type is Localhost"));
    } else if path.is_set() {
        errors.extend(path.faults(syntax::descending_path));
    } else {
        errors.push(path.required("must be set when seccomp type is Localhost"));
    }
}

pub(in crate::resources::pods) fn app_armor(profile: &Field<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.child("type");
    let name = profile.child("localhostProfile");
    errors.require_one_of(&kind, values::PROFILE_TYPES);
    match kind.text() {
        "Localhost" => {
            let trimmed = name.text().trim();
            if name.is_set() && trimmed != name.text() {
                errors.push(name.invalid("must not be padded with whitespace"));
            } else if trimmed.is_empty() {
                errors.push(name.required("must be set when AppArmor type is Localhost"));
            }
            errors
                .push_if(name.text().len() > MAX_PROFILE, || FieldError::too_long(name.path(), MAX_PROFILE));
        }
        "RuntimeDefault" | "Unconfined" if name.is_set() => {
            errors.push(name.invalid("can only be set when AppArmor type is Localhost"));
        }
        _ => {}
    }
}

fn windows_options(options: &Field<'_>, errors: &mut Errors) {
    let name = options.child("gmsaCredentialSpecName");
    if name.is_set() {
        errors.extend(name.faults(names::subdomain_errors));
    }
    let credentials = options.child("gmsaCredentialSpec");
    if credentials.is_set() && credentials.text().is_empty() {
        errors.push(credentials.invalid("must not be empty"));
    } else if credentials.text().len() > MAX_CREDENTIAL_SPEC {
        errors.push(credentials.invalid("must be under 64 KiB"));
    }
    let user = options.child("runAsUserName");
    if user.is_set() {
        errors.extend(windows_user(user.text()).into_iter().map(|fault| user.invalid(fault)));
    }
}

/// A Windows user name, optionally with a domain before a backslash.
fn windows_user(text: &str) -> Vec<&'static str> {
    if text.is_empty() {
        return vec!["must not be empty"];
    }
    if text.chars().any(|c| c.is_ascii_control()) {
        return vec!["must not contain control characters"];
    }
    let (domain, user) = match text.split_once('\\') {
        Some((_, user)) if user.contains('\\') => return vec!["must not contain more than one backslash"],
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    let mut faults = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN) {
        faults.push("the domain must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns_domain(domain)) {
        faults.push("the domain has neither the NetBios nor the DNS format");
    }
    if user.is_empty() {
        faults.push("the user must not be empty");
    } else if user.len() > MAX_USER {
        faults.push("the user must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        faults.push("the user must not consist of periods and spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        faults.push("the user must not contain any of \"/\\:;|=,+*?<>@[]");
    }
    faults
}

fn is_net_bios(domain: &str) -> bool {
    let is_allowed = |c: char| !matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && domain.chars().all(is_allowed)
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|part| {
        (1..=63).contains(&part.len())
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}
