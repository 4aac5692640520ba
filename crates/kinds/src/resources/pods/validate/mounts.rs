//! Validation of volume mounts and block devices of containers.

use std::collections::{BTreeMap, BTreeSet};

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::syntax;
use crate::schema::values;

fn pairs<'a>(list: &Field<'a>, path: &'static str) -> BTreeMap<&'a str, &'a str> {
    list.items().map(|entry| (entry.child("name").text(), entry.child(path).text())).collect()
}

pub(super) fn mounts(container: &Field<'_>, volumes: &BTreeMap<&str, Field<'_>>, errors: &mut Errors) {
    let mounts = container.child("volumeMounts");
    let devices = pairs(&container.child("volumeDevices"), "devicePath");
    let paths: BTreeSet<&str> = devices.values().copied().collect();
    let mut points = BTreeSet::new();
    for mount in mounts.items() {
        let name = mount.child("name");
        let point = mount.child("mountPath");
        errors.require(&name);
        errors.push_if(!volumes.contains_key(name.text()), || name.not_found());
        errors.require(&point);
        errors.push_if(!points.insert(point.text()), || point.invalid("must be unique"));
        if devices.contains_key(name.text()) {
            errors.push(name.invalid("must not already exist in volumeDevices"));
        }
        if paths.contains(point.text()) {
            errors.push(point.invalid("must not already exist as a path in volumeDevices"));
        }
        sub_paths(&mounts, &mount, errors);
        propagation(container, &mounts, &mount, errors);
    }
}

/// These errors have the path of the list, unless set otherwise.
fn sub_paths(mounts: &Field<'_>, mount: &Field<'_>, errors: &mut Errors) {
    let of_list = |name: &'static str| mount.child(name).named(mounts.path().member(name));
    let sub_path = of_list("subPath");
    errors.check_syntax(&sub_path, syntax::descending_path);
    let expression = of_list("subPathExpr");
    if expression.text().is_empty() {
        return;
    }
    if !sub_path.text().is_empty() {
        errors.push(mount.child("subPathExpr").invalid("subPathExpr and subPath are mutually exclusive"));
    }
    errors.extend(expression.faults(syntax::descending_path));
}

/// These errors have the path of the list.
fn propagation(container: &Field<'_>, mounts: &Field<'_>, mount: &Field<'_>, errors: &mut Errors) {
    let of_list = |name: &'static str| mount.child(name).named(mounts.path().member(name));
    let propagation = of_list("mountPropagation");
    if propagation.is_set() {
        if !values::MOUNT_PROPAGATIONS.contains(&propagation.text()) {
            errors.push(propagation.not_supported(values::MOUNT_PROPAGATIONS));
        }
        let is_privileged = container.child("securityContext").child("privileged").is_true();
        if propagation.text() == "Bidirectional" && !is_privileged {
            errors.push(propagation.forbidden("is available only to privileged containers"));
        }
    }
    let recursive = of_list("recursiveReadOnly");
    match recursive.text() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.child("readOnly").is_true() {
                errors.push(recursive.forbidden("may only be specified when readOnly is true"));
            }
            errors.push_if(propagation.is_set() && propagation.text() != "None", || {
                recursive.forbidden("may only be specified when mountPropagation is None or not specified")
            });
        }
        _ if recursive.is_set() => {
            errors.push(recursive.not_supported(&["Disabled", "Enabled", "IfPossible"]))
        }
        _ => {}
    }
}

pub(super) fn devices(container: &Field<'_>, volumes: &BTreeMap<&str, Field<'_>>, errors: &mut Errors) {
    let mounts = pairs(&container.child("volumeMounts"), "mountPath");
    let points: BTreeSet<&str> = mounts.values().copied().collect();
    let mut names = BTreeSet::new();
    let mut paths = BTreeSet::new();
    for device in container.child("volumeDevices").items() {
        let name = device.child("name");
        let path = device.child("devicePath");
        errors.require(&name);
        errors.push_if(names.contains(name.text()), || name.invalid("must be unique"));
        match volumes.get(name.text()) {
            None => errors.push(name.not_found()),
            Some(volume)
                if volume.child("persistentVolumeClaim").is_set() || volume.child("ephemeral").is_set() => {}
            Some(_) => errors.push(name.invalid("can only be a PersistentVolumeClaim or Ephemeral volume")),
        }
        errors.require(&path);
        errors.push_if(paths.contains(path.text()), || path.invalid("must be unique"));
        if syntax::no_backsteps(path.text()).is_empty() {
            paths.insert(path.text());
        } else {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        }
        if mounts.contains_key(name.text()) {
            errors.push(name.invalid("must not already exist in volumeMounts"));
        }
        if points.contains(path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeMounts"));
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}
