//! Validation of host names, DNS, addresses and host namespaces of pods.

use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::defaults::CONTAINER_LISTS;
use crate::resources::pods::syntax;
use crate::resources::pods::validate::{Kept, ips};

/// The limit of the libc resolver.
const MAX_NAME_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
/// The kernel's limit for host names.
const MAX_HOSTNAME: usize = 64;

pub(super) fn host_network_ports(spec: &Field<'_>, errors: &mut Errors) {
    if !spec.child("hostNetwork").is_true() {
        return;
    }
    for container in spec.child("containers").items() {
        for port in container.child("ports").items() {
            let host = port.child("hostPort");
            if host.number() != port.child("containerPort").number() {
                errors.push(host.invalid("must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}

pub(super) fn dns_config(spec: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let config = spec.child("dnsConfig");
    let servers = config.child("nameservers");
    if spec.child("dnsPolicy").text() == "None" {
        if !config.is_set() {
            errors.push(config.required("must be set when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            errors.push(servers.required("must have an entry when `dnsPolicy` is None"));
            return;
        }
    }
    if servers.len() > MAX_NAME_SERVERS {
        errors.push(servers.invalid("must not have more than 3 nameservers"));
    }
    for server in servers.items() {
        ips::address(&server, server.text(), &kept.addresses, errors);
    }
    let searches = config.child("searches");
    if searches.len() > MAX_SEARCHES {
        errors.push(searches.invalid("must not have more than 32 search paths"));
    }
    let characters: usize = searches.items().map(|search| search.text().len()).sum();
    errors.push_if(characters + searches.len().saturating_sub(1) > MAX_SEARCH_CHARACTERS, || {
        searches.invalid("must not have more than 2048 characters (including spaces) in the search list")
    });
    for search in searches.items() {
        if search.text() != "." {
            let text = search.text().strip_suffix('.').unwrap_or(search.text());
            errors.extend(syntax::search_domain(text).into_iter().map(|fault| search.invalid(fault)));
        }
    }
    for option in config.child("options").items() {
        errors.push_if(option.child("name").text().is_empty(), || option.required("must not be empty"));
    }
}

pub(super) fn host_users(spec: &Field<'_>, errors: &mut Errors) {
    if spec.child("hostUsers").flag() != Some(false) {
        return;
    }
    let detail = "when `pod.Spec.HostUsers` is false";
    // Two of the paths are capitalized.
    for (field, name) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        errors.push_if(spec.child(field).is_true(), || spec.child(name).forbidden(detail));
    }
}

/// A pod in a user namespace cannot use block devices.
pub(super) fn user_namespace_devices(spec: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    if kept.devices_of_user_namespaces || spec.child("hostUsers").flag() != Some(false) {
        return;
    }
    for list in CONTAINER_LISTS {
        for container in spec.child(list).items() {
            let devices = container.child("volumeDevices");
            errors.push_if(!devices.is_empty(), || devices.forbidden("when `pod.Spec.HostUsers` is false"));
        }
    }
}

pub(super) fn hostnames(spec: &Field<'_>, errors: &mut Errors) {
    for field in ["hostname", "subdomain"] {
        errors.check_syntax(&spec.child(field), names::label_errors);
    }
    let Some(name) = spec.child("hostnameOverride").set() else { return };
    errors.extend(name.faults(names::subdomain_errors));
    errors.push_if(name.text().len() > MAX_HOSTNAME, || name.invalid("must be no more than 64 characters"));
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        let other = spec.child(other);
        errors.push_if(other.is_true(), || other.forbidden("may not be true when `hostnameOverride` is set"));
    }
}

pub(super) fn host_aliases(aliases: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    for alias in aliases.items() {
        let ip = alias.child("ip");
        ips::address(&ip, ip.text(), &kept.addresses, errors);
        for hostname in alias.child("hostnames").items() {
            errors.extend(hostname.faults(names::subdomain_errors));
        }
    }
}
