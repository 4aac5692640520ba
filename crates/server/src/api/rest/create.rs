//! POST on a collection.

use http::StatusCode;
use http::header::WARNING;

use super::render::View;
use super::request::Request;
use crate::http::negotiate;
use crate::http::status::{Answer, Status};
use crate::registry::options::{self, WriteKind};
use crate::registry::{create, decode, meta};

/// Creates an object.
pub(crate) async fn answer(request: &Request<'_>, view: &View, bytes: &[u8]) -> Result<Answer, Status> {
    view.allow(false)?;
    let form = negotiate::form(&request.head.headers)?;
    let options = options::write(&request.query, WriteKind::Create)?.of_client(&request.head.headers);
    let mut body = decode::object(bytes, form, &request.scope.target, options.validation)?;
    meta::place(&mut body.object, &request.scope.target)?;
    request.note(|| body.object.clone().into());
    let created = create::create(&request.scope, body.object, &options).await?;
    let mut answer = view.object(StatusCode::CREATED, &created)?;
    for warning in body.warnings {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}
