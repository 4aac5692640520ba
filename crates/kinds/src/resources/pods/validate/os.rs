//! Validation that depends on the operating system of a pod.

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::defaults::CONTAINER_LISTS;

/// Pod fields that Windows does not support.
const NOT_IN_WINDOWS_PODS: [&str; 4] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
const NOT_IN_WINDOWS_POD_CONTEXTS: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const NOT_IN_WINDOWS_CONTAINER_CONTEXTS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

pub(super) fn validate(spec: &Field<'_>, errors: &mut Errors) {
    let os = spec.child("os");
    if !os.is_set() {
        return;
    }
    let name = os.child("name");
    match name.text() {
        "" => errors.push(name.required("cannot be empty")),
        "linux" => linux(spec, errors),
        "windows" => windows(spec, errors),
        // The path is that of the parent.
        _ => errors.push(name.named(os.path()).not_supported(&["linux", "windows"])),
    }
}

fn contexts<'a>(spec: &Field<'a>) -> impl Iterator<Item = Field<'a>> {
    let lists = CONTAINER_LISTS.map(|list| spec.child(list));
    lists.into_iter().flat_map(|list| list.items()).map(|item| item.child("securityContext"))
}

fn linux(spec: &Field<'_>, errors: &mut Errors) {
    for context in std::iter::once(spec.child("securityContext")).chain(contexts(spec)) {
        let options = context.child("windowsOptions");
        errors
            .push_if(options.is_set(), || options.forbidden("windows options cannot be set for a linux pod"));
    }
}

fn windows(spec: &Field<'_>, errors: &mut Errors) {
    let detail = "cannot be set for a windows pod";
    let context = spec.child("securityContext");
    for name in NOT_IN_WINDOWS_PODS {
        let field = spec.child(name);
        // The two fields that are not optional count if they are true.
        let is_used = if name.starts_with("hostP") || name.starts_with("hostI") {
            field.is_true()
        } else {
            field.is_set()
        };
        errors.push_if(is_used, || field.forbidden(detail));
    }
    for name in NOT_IN_WINDOWS_POD_CONTEXTS {
        let field = context.child(name);
        errors.push_if(field.is_set(), || field.forbidden(detail));
    }
    for context in contexts(spec) {
        for name in NOT_IN_WINDOWS_CONTAINER_CONTEXTS {
            let field = context.child(name);
            errors.push_if(field.is_set(), || field.forbidden(detail));
        }
    }
}

/// Windows HostProcess containers: all containers of a pod or none, and with host networking.
pub(super) fn host_processes(spec: &Field<'_>, errors: &mut Errors) {
    let of_pod = host_process(&spec.child("securityContext")).flag();
    let mut containers = 0;
    let mut processes = 0;
    for context in contexts(spec) {
        let own = host_process(&context);
        containers += 1;
        if own.flag().zip(of_pod).is_some_and(|(own, of_pod)| own != of_pod) {
            errors.push(own.invalid("must be identical to that of the pod if both are specified"));
        }
        if own.flag().or(of_pod) == Some(true) {
            processes += 1;
        }
    }
    if processes == 0 {
        return;
    }
    if processes != containers {
        errors.push(spec.invalid("either all containers are HostProcess containers or none is"));
    }
    let network = spec.child("hostNetwork");
    if !network.is_true() {
        errors.push(network.invalid("must be true if pod contains any hostProcess containers"));
    }
}

fn host_process<'a>(context: &Field<'a>) -> Field<'a> {
    context.child("windowsOptions").child("hostProcess")
}
