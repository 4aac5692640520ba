//! PATCH.

use bytes::Bytes;
use http::StatusCode;
use http::header::WARNING;
use kinds::patch::{self, PatchKind};

use super::render::View;
use super::request::Request;
use crate::http::status::{Answer, Status};
use crate::http::{negotiate, warning};
use crate::registry::options::{self, FieldValidation, WriteKind};
use crate::registry::patch::{Patch, applied};
use crate::registry::update::{self, Create};
use crate::registry::{meta, part};

const READ: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";
const APPLY: &str = "application/apply-patch+yaml";

/// Patches an object.
pub(crate) async fn answer(request: &Request<'_>, view: &View, mut bytes: Bytes) -> Result<Answer, Status> {
    view.allow(false)?;
    let media_type = negotiate::content_type(&request.head.headers).to_ascii_lowercase();
    let is_apply = media_type == APPLY;
    let kind = match is_apply {
        true => PatchKind::Strategic,
        false => PatchKind::of_media_type(&media_type).ok_or_else(|| Status::unsupported_media_type(READ))?,
    };
    let (write_kind, creates) = match is_apply {
        true => (WriteKind::Apply, Create::Always),
        false => (WriteKind::Patch, Create::Never),
    };
    let options = options::write(&request.query, write_kind)?;
    let documents = request.scope.documents();
    let mut uid = String::new();
    if is_apply {
        let configuration = applied(&documents, &bytes)?;
        meta::text(&configuration, "uid").clone_into(&mut uid);
        bytes = serde_json::to_vec(&configuration).map_err(Status::internal)?.into();
    }
    request.note(|| serde_json::from_slice(&bytes).unwrap_or_default());
    let patch = Patch { kind, bytes: &bytes, validation: options.validation };
    let written = update::write(&request.scope, &uid, &options, creates, |old| {
        part::put(&request.scope, old, |document| patch.apply(&documents, document))
    })
    .await?;
    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = view.object(code, &part::document(&request.scope, &written.bytes)?)?;
    if options.validation == FieldValidation::Warn {
        let problems = patch::problems(kind, &bytes);
        for warning in warning::headers(problems.iter().map(ToString::to_string)) {
            answer.headers_mut().append(WARNING, warning);
        }
    }
    Ok(answer)
}
