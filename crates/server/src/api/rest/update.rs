//! PUT.

use http::StatusCode;
use http::header::WARNING;

use super::render::View;
use super::request::Request;
use crate::http::negotiate;
use crate::http::status::{Answer, Status};
use crate::registry::options::{self, WriteKind};
use crate::registry::update::{self, Create, How};
use crate::registry::{decode, meta, part};
use kinds::Map;

/// Replaces an object.
pub(crate) async fn answer(request: &Request<'_>, view: &View, bytes: &[u8]) -> Result<Answer, Status> {
    view.allow(false)?;
    let form = negotiate::form(&request.head.headers)?;
    let options = options::write(&request.query, WriteKind::Update)?.of_client(&request.head.headers);
    let documents = request.scope.documents();
    let body = decode::object(bytes, form, &documents.target, options.validation)?;
    update::check_name(&documents, &body.object)?;
    let new = body.object;
    request.note(|| new.clone().into());
    let uid = meta::text(&new, "uid").to_owned();
    let make = |old: &Map| part::put(&request.scope, old, |_| Ok(new.clone()));
    let how = How { creates: Create::IfAllowed, leaves_managers: false };
    let written = update::write(&request.scope, &uid, &options, how, make).await?;
    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = view.object(code, &part::document(&request.scope, &written.bytes)?)?;
    for warning in body.warnings {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}
