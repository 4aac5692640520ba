//! Patches of stored objects (AP-60 to AP-64).

use std::sync::{LazyLock, Mutex, PoisonError};

use http::StatusCode;
use kinds::Map;
use kinds::decode::Problem;
use kinds::patch::{self, PatchError, PatchKind};
use memchr::memchr2;
use memchr::memmem::Finder;

use super::options::FieldValidation;
use super::request_scope::RequestScope;
use super::set_aside::MANAGED_FIELDS;
use super::{decode, meta, update};
use crate::http::status::{Cause, Status};

/// A patch of a client.
pub(crate) struct Patch<'a> {
    /// Its form.
    pub(crate) kind: PatchKind,
    /// The patch.
    pub(crate) bytes: &'a [u8],
    /// How unknown fields are handled.
    pub(crate) validation: FieldValidation,
    /// What the client is warned about, of the last attempt.
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Patch<'_> {
    /// Applies the patch and decodes the result like a body (AP-60).
    pub(crate) fn apply(&self, scope: &RequestScope<'_>, old: &Map) -> Result<Map, Status> {
        // A patch applies to the object in the version of the path.
        let served = scope.target.served;
        let shape = served.schema;
        // Reading what most patches do not touch would take as long as all the rest.
        let managers = meta::of(old).get(MANAGED_FIELDS).filter(|_| self.leaves_managers());
        let old = match managers {
            Some(_) => meta::without(old, MANAGED_FIELDS),
            None => old.clone(),
        };
        let old = decode::shown(old, served);
        let patched = patch::apply(self.kind, old, self.bytes, shape).map_err(|error| refusal(&error))?;
        let mut problems = match self.validation {
            FieldValidation::Strict => patch::problems(self.kind, self.bytes),
            _ => Vec::new(),
        };
        let decoded =
            kinds::decode::value(patched.into(), shape).map_err(|error| invalid(&error.to_string()))?;
        let mut object = decoded.object;
        // A missing kind or version is filled in; a different one is an error.
        if served.custom.is_none() {
            decode::claim(&mut object, "kind", served.kind).map_err(|status| invalid(status.message()))?;
        }
        decode::claim(&mut object, "apiVersion", &served.api_version())
            .map_err(|status| invalid(status.message()))?;
        let mut found = decoded.problems;
        if let Some(custom) = served.custom {
            let told = (self.validation != FieldValidation::Ignore).then_some(&mut found);
            custom.complete(&mut object, told).map_err(|error| invalid(&error.to_string()))?;
            if self.validation == FieldValidation::Warn {
                let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
                *warnings = found.iter().map(Problem::to_string).collect();
            }
        }
        if self.validation == FieldValidation::Strict {
            problems.extend(found);
            if !problems.is_empty() {
                let problems = decode::listed(problems.iter().map(Problem::to_string));
                return Err(invalid(&format!("strict decoding error: {problems}")));
            }
        }
        let mut object = decode::current(object, served)?;
        decode::default(scope.target.resource, &mut object);
        meta::drop_repeated_owners(&mut object);
        update::check_name(scope, &object)?;
        if let Some(managers) = managers {
            meta::set(&mut object, MANAGED_FIELDS, managers.clone());
        }
        Ok(object)
    }

    /// Whether the patch cannot change `managedFields`: it does not name them, has no directive that replaces what is around
    /// them, and no other spelling of either.
    pub(crate) fn leaves_managers(&self) -> bool {
        static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MANAGED_FIELDS));
        self.kind != PatchKind::Json
            && memchr2(b'$', b'\\', self.bytes).is_none()
            && NAME.find(self.bytes).is_none()
    }
}

/// AP-60: the result is not an object of the kind.
fn invalid(why: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
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
