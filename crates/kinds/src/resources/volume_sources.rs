//! Defaults that volumes of pods and persistent volumes, and claims and their templates, have in common (AP-113).

use super::quantities::round_requirements;
use crate::Map;
use crate::fields::Members;

/// Applies the defaults of the volume sources that both kinds of volumes have.
pub(super) fn default_sources(volume: &mut Map) {
    if let Some(source) = volume.object_mut("hostPath") {
        source.default_value("type", "");
    }
    let texts: &[(&str, &[(&str, &str)])] = &[
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ];
    for (name, defaults) in texts {
        if let Some(source) = volume.object_mut(name) {
            defaults.iter().for_each(|(member, value)| source.default_text(member, value));
        }
    }
    if let Some(source) = volume.object_mut("azureDisk") {
        source.default_value("cachingMode", "ReadWrite");
        source.default_value("kind", "Shared");
        source.default_value("fsType", "ext4");
        source.default_value("readOnly", false);
    }
}

/// Applies the defaults of the spec of a claim.
pub(super) fn default_claim_spec(spec: &mut Map) {
    spec.default_value("volumeMode", "Filesystem");
    round_requirements(spec);
}
