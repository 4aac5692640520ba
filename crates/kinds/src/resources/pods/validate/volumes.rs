//! Validation of volumes: their names, and that each has exactly one source.

use std::collections::BTreeMap;

use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::amount;
use crate::resources::pods::validate::{Kept, projected, sources};
use crate::schema::values;

/// The sources in validation order, each with the name that is reported if there is already another source.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Validates the volumes of a pod with this name. Returns those without an error by name; containers can only mount
/// these.
pub(super) fn validate<'a>(
    volumes: &Field<'a>,
    pod_name: &str,
    kept: &Kept,
    errors: &mut Errors,
) -> BTreeMap<&'a str, Field<'a>> {
    let mut valid: BTreeMap<&str, Field<'_>> = BTreeMap::new();
    let created: Vec<String> = volumes
        .items()
        .filter(|volume| !pod_name.is_empty() && volume.child("ephemeral").is_set())
        .map(|volume| format!("{pod_name}-{}", volume.child("name").text()))
        .collect();
    for volume in volumes.items() {
        let mut own = Errors::new();
        source(&volume, pod_name, kept, &mut own);
        let name = volume.child("name");
        own.require_syntax(&name, names::label_errors);
        own.push_if(valid.contains_key(name.text()), || name.duplicate());
        if own.is_empty() {
            valid.insert(name.text(), volume.clone());
        }
        errors.extend(own);
        let claim = volume.child("persistentVolumeClaim").child("claimName");
        if claim.is_set() && created.iter().any(|created| created == claim.text()) {
            errors.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    valid
}

fn source(volume: &Field<'_>, pod_name: &str, kept: &Kept, errors: &mut Errors) {
    let mut is_found = false;
    for (kind, reported) in SOURCES {
        let Some(source) = volume.child(kind).set() else { continue };
        if is_found {
            errors.push(volume.child(reported).forbidden("may not specify more than 1 volume type"));
        } else {
            is_found = true;
            of_kind(kind, &source, kept, errors);
            if kind == "ephemeral" {
                claim_name(volume, pod_name, errors);
            }
        }
        if kind == "iscsi" {
            iscsi_name(volume, &source, errors);
        }
    }
    errors.push_if(!is_found, || volume.required("must specify a volume type"));
}

/// The name of an ephemeral volume's claim consists of those of the pod and the volume.
fn claim_name(volume: &Field<'_>, pod_name: &str, errors: &mut Errors) {
    let name = volume.child("name");
    if !pod_name.is_empty() && !name.text().is_empty() {
        let faults = names::subdomain_errors(&format!("{pod_name}-{}", name.text()));
        errors.extend(faults.into_iter().map(|fault| name.invalid(fault)));
    }
}

fn iscsi_name(volume: &Field<'_>, source: &Field<'_>, errors: &mut Errors) {
    let name = volume.child("name");
    let length = name.text().len() + 1 + source.child("targetPortal").text().len();
    if source.child("initiatorName").is_set() && length > 64 {
        errors.push(name.invalid("<volume name>:<iscsi.targetPortal> must not be longer than 64 characters"));
    }
}

fn of_kind(kind: &str, source: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            let limit = source.child("sizeLimit");
            if amount::quantity(limit.value()).is_negative() {
                errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        }
        "projected" => projected::validate(source, kept, errors),
        "downwardAPI" => {
            projected::mode(&source.child("defaultMode"), errors);
            for file in source.child("items").items() {
                // The path is that of the source.
                projected::downward_file(&file.named(source.path()), errors);
            }
        }
        "image" => {
            errors.require(&source.child("reference"));
            errors.require_one_of(&source.child("pullPolicy"), values::PULL_POLICIES);
        }
        _ => sources::validate(kind, source, errors),
    }
}
