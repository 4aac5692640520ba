//! PATCH (AP-60 to AP-64).

use http::StatusCode;
use http::header::WARNING;
use hyper::body::Incoming;
use kinds::Map;
use kinds::decode::Problem;
use kinds::patch::{self, PatchError, PatchKind};
use portcullis_kinds as kinds;

use super::options::{self, FieldValidation, WriteKind};
use super::render::View;
use super::{Call, decode, update};
use crate::api::negotiate;
use crate::service;
use crate::status::{Answer, Cause, Status};

const READ: &str =
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";

/// Changes an object by a patch. DIVERGES: apply patches are not served (415): nothing is recorded of who manages which
/// field.
pub(crate) async fn answer(call: &Call<'_>, view: &View, body: &mut Incoming) -> Result<Answer, Status> {
    view.allow(false)?;
    let media_type = negotiate::content_type(&call.head.headers).to_ascii_lowercase();
    let kind = PatchKind::of_media_type(&media_type).ok_or_else(|| Status::unsupported_media_type(READ))?;
    let bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let options = options::write(&call.query, WriteKind::Patch)?;
    let patch = Patch { kind, bytes: &bytes, validation: options.validation };
    let written = update::write(call, "", options.is_dry_run, false, |old| patch.apply(call, old)).await?;
    let mut answer = view.object(StatusCode::OK, &written.bytes)?;
    if options.validation == FieldValidation::Warn {
        let problems = patch::problems(kind, &bytes);
        for warning in problems.iter().filter_map(|problem| options::warning(&problem.to_string())) {
            answer.headers_mut().append(WARNING, warning);
        }
    }
    Ok(answer)
}

struct Patch<'a> {
    kind: PatchKind,
    bytes: &'a [u8],
    validation: FieldValidation,
}

impl Patch<'_> {
    /// The object with the patch applied, read like a body (AP-60).
    fn apply(&self, call: &Call<'_>, old: &Map) -> Result<Map, Status> {
        // Patches are about the object as the version of the path shows it.
        let served = call.target.served;
        let shape = decode::shape(served);
        let old = decode::shown(old.clone(), served);
        let patched = patch::apply(self.kind, &old, self.bytes, shape).map_err(|error| refusal(&error))?;
        let mut problems = match self.validation {
            FieldValidation::Strict => patch::problems(self.kind, self.bytes),
            _ => Vec::new(),
        };
        let decoded =
            kinds::decode::value(patched.into(), shape).map_err(|error| invalid(&error.to_string()))?;
        let mut object = decoded.object;
        // What is not said is filled in; what is said differently is another object.
        decode::claim(&mut object, "kind", served.kind).map_err(|status| invalid(status.message()))?;
        decode::claim(&mut object, "apiVersion", &served.api_version())
            .map_err(|status| invalid(status.message()))?;
        if self.validation == FieldValidation::Strict {
            problems.extend(decoded.problems);
            if !problems.is_empty() {
                let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
                return Err(invalid(&format!("strict decoding error: {}", problems.join(", "))));
            }
        }
        let mut object = decode::current(object, call.target.resource)?;
        (call.target.resource.default)(&mut object);
        update::check_name(call, &object)?;
        Ok(object)
    }
}

/// AP-60: the result is no object of the kind.
fn invalid(why: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {why}"),
        field: "patch".to_owned(),
    };
    Status::invalid_patch(format!(" \"\" is invalid: patch: Invalid value: {why}"), vec![cause])
}

/// AP-61 to AP-64
fn refusal(error: &PatchError) -> Status {
    let message = error.to_string();
    match error {
        PatchError::Malformed(_) => Status::bad_request(message),
        PatchError::TooManyOperations(_) => {
            Status::other(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
        }
        PatchError::Unprocessable(_) => Status::invalid_patch(message, Vec::new()),
        PatchError::NotAnObject => invalid(&message),
        PatchError::Internal(_) => Status::unknown(message),
    }
}
