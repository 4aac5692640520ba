//! Removes the bindings by which a bootstrap token, or a node for itself, gets a certificate without evidence, and restores
//! them when attestation is switched off (AT-131, AT-132).
//!
//! Nobody is locked out: nothing is removed before a machine got a certificate by its evidence, and the API server accepts
//! certificates of the authority.
//!
//! DIVERGES: AT-132 waits until a certificate is used by its node, which a controller cannot see. Here the controller uses one
//! of its own, for a user without rights.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use portcullis_attestation::record::Record;
use portcullis_attestation::time::instant;
use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::{KeyPair, pem};
use serde::Deserialize;
use serde_json::{Value, json};

use super::done::Done;
use super::records;
use crate::attest::shared::{Settings, Shared};
use crate::call::{CallError, Resource};
use crate::connect::Credential;

/// The bindings of kubeadm: for bootstrap tokens, and for renewals.
const BINDINGS: [&str; 2] =
    ["kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"];
/// The ConfigMap with what was removed.
const SAVED: &str = "portcullis-removed-bindings";
/// The user of the certificate that is tried. It has no rights.
const CANARY: &str = "portcullis:attestation-canary";
/// How long this certificate is valid.
const CANARY_LIFETIME: Duration = Duration::from_secs(60);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Saved {
    data: BTreeMap<String, String>,
}

pub(super) async fn keep(shared: &Shared, settings: &Settings, is_new: bool) -> Result<Done, String> {
    let text = |error: CallError| error.to_string();
    if settings.config.remove_auto_approval {
        remove(shared, settings, is_new).await
    } else {
        restore(shared).await.map(|()| Done::Yes).map_err(text)
    }
}

fn bindings() -> Resource {
    Resource::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
}

/// The name of the ConfigMap with what was removed.
fn saved_name(shared: &Shared) -> String {
    match shared.records.cluster() {
        Some(cluster) => format!("{SAVED}-{cluster}"),
        None => SAVED.to_owned(),
    }
}

fn saved(shared: &Shared) -> Resource {
    Resource::new("", "v1", "configmaps").within(shared.namespace.clone())
}

async fn remove(shared: &Shared, settings: &Settings, is_new: bool) -> Result<Done, String> {
    let text = |error: CallError| error.to_string();
    let mut present = Vec::new();
    for name in BINDINGS {
        if let Some(binding) = shared.workload.find::<Value>(&bindings(), name).await.map_err(text)? {
            present.push((name, binding));
        }
    }
    if present.is_empty() {
        return Ok(Done::Yes);
    }
    if !has_attested(shared, settings).await? {
        if is_new {
            tracing::info!("automatic approval stays until a machine got a certificate by its evidence");
        }
        return Ok(Done::NotYet);
    }
    try_canary(shared).await?;
    for (name, binding) in present {
        save(shared, name, &binding).await.map_err(text)?;
        let uid = binding.pointer("/metadata/uid").cloned().unwrap_or_default();
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
        let body = Some(("application/json", options.to_string().into_bytes()));
        match shared.workload.call::<Value>(Method::DELETE, &bindings().object(name), body).await {
            Ok(_) => {
                tracing::info!(binding = name, "removed automatic approval: every certificate needs evidence")
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(text(error)),
        }
    }
    Ok(Done::Yes)
}

/// Whether a machine has a certificate that it got by its evidence.
async fn has_attested(shared: &Shared, settings: &Settings) -> Result<bool, String> {
    let now = instant(shared.clock.now());
    let has_live = |record: &Record| {
        let mut certificates = record.issued.iter().filter_map(|issued| issued.certificate.as_ref());
        certificates.any(|certificate| certificate.not_after > now)
    };
    let records = records::all(shared, settings).await?;
    Ok(records.iter().any(|versioned| has_live(&versioned.record)))
}

/// Tries a certificate of the authority: the API server must accept it, else nodes could not use theirs.
async fn try_canary(shared: &Shared) -> Result<(), String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let template = Template {
        common_name: CANARY.to_owned(),
        organizations: Vec::new(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        usage: Usage::Client,
        lifetime: CANARY_LIFETIME,
    };
    let certificate = shared.authority.issue(&template, &key, shared.clock.now());
    let certificate = certificate.map_err(|error| error.to_string())?;
    let credential = Credential::Certificate {
        certificate: pem::encode("CERTIFICATE", &certificate).into_bytes(),
        key: key.to_pem().into_bytes(),
    };
    let connection = shared.workload.with_credential(credential).await.map_err(|error| error.to_string())?;
    let reviews = Resource::new("authentication.k8s.io", "v1", "selfsubjectreviews");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let not_trusted =
        "the API server does not accept certificates of the authority; automatic approval stays";
    let answer: Value =
        connection.create(&reviews, &review).await.map_err(|error| format!("{not_trusted}: {error}"))?;
    match answer.pointer("/status/userInfo/username").and_then(Value::as_str) {
        Some(CANARY) => Ok(()),
        other => Err(format!("{not_trusted}: it takes the certificate for {other:?}")),
    }
}

/// Keeps what is needed to restore a binding.
async fn save(shared: &Shared, name: &str, binding: &Value) -> Result<(), CallError> {
    let metadata = json!({
        "name": name,
        "labels": binding.pointer("/metadata/labels"),
        "annotations": binding.pointer("/metadata/annotations"),
    });
    let kept = json!({"metadata": metadata, "roleRef": binding["roleRef"], "subjects": binding["subjects"]});
    let data = json!({key(name): kept.to_string()});
    let maps = saved(shared);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": saved_name(shared)}, "data": data});
    match shared.management.create::<Value>(&maps, &object).await {
        Err(error) if error.is_already_exists() => shared
            .management
            .merge::<Value>(&maps.object(&saved_name(shared)), &json!({"data": data}))
            .await
            .map(drop),
        created => created.map(drop),
    }
}

/// A key of a ConfigMap has no colon.
fn key(name: &str) -> String {
    name.replace(':', ".")
}

/// Creates the bindings that were removed.
async fn restore(shared: &Shared) -> Result<(), CallError> {
    let maps = saved(shared);
    let Some(saved) = shared.management.find::<Saved>(&maps, &saved_name(shared)).await? else {
        return Ok(());
    };
    for name in BINDINGS {
        let Some(binding) = saved.data.get(&key(name)) else { continue };
        let Ok(binding) = serde_json::from_str::<Value>(binding) else { continue };
        match shared.workload.create::<Value>(&bindings(), &binding).await {
            Ok(_) => tracing::info!(binding = name, "restored automatic approval"),
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error),
        }
    }
    shared.management.call::<Value>(Method::DELETE, &maps.object(&saved_name(shared)), None).await.map(drop)
}
