//! PATCH.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use http::header::WARNING;
use kinds::Map;
use kinds::patch::{self, PatchKind};

use super::render::View;
use super::request::Request;
use crate::http::status::{Answer, Status};
use crate::http::{negotiate, warning};
use crate::registry::options::{self, FieldValidation, WriteKind, WriteOptions};
use crate::registry::patch::Patch;
use crate::registry::update::{self, Create, How};
use crate::registry::{apply, part};

const READ: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";
/// The patches of custom objects.
const READ_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const APPLY: &str = "application/apply-patch+yaml";

/// Patches an object.
pub(crate) async fn answer(request: &Request<'_>, view: &View, bytes: Bytes) -> Result<Answer, Status> {
    view.allow(false)?;
    let media_type = negotiate::content_type(&request.head.headers).to_ascii_lowercase();
    let is_custom = request.scope.target.served.custom.is_some()
        || request.scope.part.is_some_and(|part| part.custom.is_some());
    if is_custom && PatchKind::of_media_type(&media_type) == Some(PatchKind::Strategic) {
        return Err(Status::unsupported_media_type(READ_CUSTOM));
    }
    if media_type == APPLY {
        let options = options::write(&request.query, WriteKind::Apply)?;
        let config = apply::read(&request.scope.documents(), &bytes, options.validation)?;
        request.note(|| config.object.clone().into());
        let (object, manager) = (&config.object, options.manager());
        let how = apply::How { manager, forces: options.forces };
        let make = |old: &Map| apply::apply(&request.scope, old, object, how);
        let how = How { creates: Create::Always, leaves_managers: false };
        return write(request, view, &options, (how, make), || config.warnings.clone()).await;
    }
    let kind = PatchKind::of_media_type(&media_type).ok_or_else(|| Status::unsupported_media_type(READ))?;
    let options = options::write(&request.query, WriteKind::Patch)?.of_client(&request.head.headers);
    let documents = request.scope.documents();
    request.note(|| serde_json::from_slice(&bytes).unwrap_or_default());
    let patch = Patch { kind, bytes: &bytes, validation: options.validation, warnings: Mutex::default() };
    let make = |old: &Map| part::put(&request.scope, old, |document| patch.apply(&documents, document));
    let warnings = || match options.validation {
        FieldValidation::Warn => {
            let of_patch = patch::problems(kind, &bytes);
            let of_result =
                std::mem::take(&mut *patch.warnings.lock().unwrap_or_else(PoisonError::into_inner));
            of_patch.iter().map(ToString::to_string).chain(of_result).collect()
        }
        FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
    };
    let how = How { creates: Create::Never, leaves_managers: patch.leaves_managers() };
    write(request, view, &options, (how, make), warnings).await
}

async fn write(
    request: &Request<'_>,
    view: &View,
    options: &WriteOptions,
    (how, make): (How, impl Fn(&Map) -> Result<Map, Status>),
    warnings: impl FnOnce() -> Vec<String>,
) -> Result<Answer, Status> {
    let written = update::write(&request.scope, "", options, how, make).await?;
    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = view.object(code, &part::document(&request.scope, &written.bytes)?)?;
    for warning in warning::headers(warnings()) {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}
