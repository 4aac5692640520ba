//! The defaults of volumes (AP-113).

use serde_json::json;

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::image;
use crate::resources::volume_sources::{default_claim_spec, default_sources};

/// The default mode of files in a volume, 0644.
const FILE_MODE: i64 = 0o644;

/// Applies the defaults of one volume.
pub(super) fn default_volume(volume: &mut Map) {
    let has_source = volume.iter().any(|(name, value)| name != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
        return;
    }
    for name in ["configMap", "downwardAPI", "projected", "secret"] {
        if let Some(source) = volume.object_mut(name) {
            source.default_value("defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = volume.object_mut("downwardAPI") {
        default_downward_files(source);
    }
    if let Some(source) = volume.object_mut("projected") {
        for projection in source.objects_mut("sources") {
            if let Some(token) = projection.object_mut("serviceAccountToken") {
                token.default_value("expirationSeconds", 3600);
            }
            if let Some(files) = projection.object_mut("downwardAPI") {
                default_downward_files(files);
            }
        }
    }
    default_sources(volume);
    if let Some(claim) =
        volume.object_mut("ephemeral").and_then(|source| source.object_mut("volumeClaimTemplate"))
    {
        default_claim_template(claim);
    }
    if let Some(source) = volume.object_mut("image") {
        let policy = image::default_pull_policy(source.text("reference"));
        source.default_text("pullPolicy", policy);
    }
}

fn default_downward_files(source: &mut Map) {
    for file in source.objects_mut("items") {
        if let Some(field) = file.object_mut("fieldRef") {
            field.default_text("apiVersion", "v1");
        }
        if let Some(resource) = file.object_mut("resourceFieldRef") {
            resource.default_text("divisor", "0");
        }
    }
}

fn default_claim_template(claim: &mut Map) {
    claim.default_value("metadata", json!({}));
    if let Some(spec) = claim.object_or_new("spec") {
        default_claim_spec(spec);
    }
}
