//! Volumes: held until no claim is bound to them.

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS;
use kinds::resources::core::persistent_volumes::{FINALIZER, PERSISTENT_VOLUMES};
use portcullis_store::Event;
use serde_json::Value;

use super::Todo;
use crate::controller::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::{meta, storage, write};

/// See the module.
pub(in crate::controller) struct VolumeProtection {
    backend: Arc<Backend>,
}

impl VolumeProtection {
    pub(in crate::controller) fn new(backend: Arc<Backend>) -> Self {
        Self { backend }
    }

    /// Returns whether a claim is bound to a volume.
    ///
    /// DIVERGES: in Kubernetes the phase alone decides. Nothing here changes the phase when the claim is gone, which
    /// kube-controller-manager does there, and the volume would be held for ever.
    async fn is_used(&self, volume: &Map) -> Result<bool, Status> {
        let status = volume.get("status").and_then(|status| status.get("phase"));
        if status.and_then(Value::as_str) != Some("Bound") {
            return Ok(false);
        }
        let Some(claim) = volume.get("spec").and_then(|spec| spec.get("claimRef")) else { return Ok(true) };
        let text = |field: &str| claim.get(field).and_then(Value::as_str).unwrap_or_default();
        let found =
            write::find(&self.backend, &PERSISTENT_VOLUME_CLAIMS, text("namespace"), text("name")).await?;
        let uid = text("uid");
        Ok(found.is_some_and(|found| uid.is_empty() || meta::text(&found.object, "uid") == uid))
    }
}

impl Controller for VolumeProtection {
    const NAME: &'static str = "persistentvolume-protection-controller";
    const LISTED: &'static str = "/core/persistentvolumes/";
    const WATCHED: &'static str = "/core/persistentvolume";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        if let Some(volume) = event.key().strip_prefix(Self::LISTED) {
            let todo = Todo::at_first_sight(&event.entry.as_ref()?.value, FINALIZER);
            return (todo != Todo::Nothing).then(|| volume.to_owned());
        }
        // A claim that is gone frees its volume.
        let claim = event.previous.as_ref().filter(|_| event.entry.is_none())?;
        let claim = storage::decode(&claim.value).ok()?;
        let volume = claim.get("spec")?.get("volumeName")?.as_str()?;
        (!volume.is_empty()).then(|| volume.to_owned())
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = write::find(&self.backend, &PERSISTENT_VOLUMES, "", name).await? else {
            return Ok(Next::OnChange);
        };
        let mut volume = stored.object.clone();
        match Todo::of(&volume, FINALIZER) {
            Todo::Nothing => return Ok(Next::OnChange),
            Todo::Add => meta::add_finalizer(&mut volume, FINALIZER),
            Todo::Remove if self.is_used(&volume).await? => return Ok(Next::OnChange),
            Todo::Remove => meta::remove_finalizer(&mut volume, FINALIZER),
        }
        let write = write::change(&PERSISTENT_VOLUMES, &stored, volume)?;
        let is_written = write::commit(&self.backend, vec![write]).await?;
        Ok(if is_written { Next::OnChange } else { Next::Later })
    }
}
