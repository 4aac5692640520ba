//! PATCH (AP-60 to AP-64).

use bytes::Bytes;
use http::StatusCode;
use http::header::WARNING;
use hyper::body::Incoming;
use kinds::Map;
use kinds::decode::Problem;
use kinds::patch::{self, PatchError, PatchKind};
use portcullis_kinds as kinds;
use serde_json::Value;

use super::options::{self, FieldValidation, WriteKind};
use super::render::View;
use super::update::Create;
use super::{Call, context, decode, meta, update};
use crate::api::negotiate::{self, Form};
use crate::audit::Trail;
use crate::service;
use crate::status::{Answer, Cause, Status};

const READ: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";
const APPLY: &str = "application/apply-patch+yaml";

/// Changes an object by a patch.
pub(crate) async fn answer(call: &Call<'_>, view: &View, body: &mut Incoming) -> Result<Answer, Status> {
    view.allow(false)?;
    let media_type = negotiate::content_type(&call.head.headers).to_ascii_lowercase();
    let is_apply = media_type == APPLY;
    let kind = match is_apply {
        true => PatchKind::Strategic,
        false => PatchKind::of_media_type(&media_type).ok_or_else(|| Status::unsupported_media_type(READ))?,
    };
    let mut bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let (write_kind, creates) = match is_apply {
        true => (WriteKind::Apply, Create::Always),
        false => (WriteKind::Patch, Create::Never),
    };
    let options = options::write(&call.query, write_kind)?;
    if is_apply {
        bytes = applied(call, &bytes)?;
    }
    if let Some(trail) = Trail::of(call.head) {
        trail.request_object(|| serde_json::from_slice(&bytes).unwrap_or_default());
    }
    let patch = Patch { kind, bytes: &bytes, validation: options.validation };
    let written = update::write(call, "", options.is_dry_run, creates, |old| patch.apply(call, old)).await?;
    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = view.object(code, &written.bytes)?;
    if options.validation == FieldValidation::Warn {
        let problems = patch::problems(kind, &bytes);
        for warning in problems.iter().filter_map(|problem| options::warning(&problem.to_string())) {
            answer.headers_mut().append(WARNING, warning);
        }
    }
    Ok(answer)
}

/// An applied configuration as a strategic merge patch. DIVERGES: nothing is recorded of who manages which field
/// (`managedFields` stays empty), so there are no conflicts between managers, and a field that is no longer applied
/// stays.
fn applied(call: &Call<'_>, bytes: &[u8]) -> Result<Bytes, Status> {
    let Value::Object(mut object) = decode::value(bytes, Form::Yaml)? else {
        return Err(Status::bad_request("an applied configuration is an object"));
    };
    decode::claim(&mut object, "kind", call.target.resource.kind)?;
    decode::claim(&mut object, "apiVersion", &call.target.resource.api_version())?;
    if meta::of(&object).get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    update::check_name(call, &object)?;
    serde_json::to_vec(&object).map(Bytes::from).map_err(Status::internal)
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
        context::default(call.target.resource, &mut object);
        meta::drop_repeated_owners(&mut object);
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
