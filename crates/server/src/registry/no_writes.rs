//! The admission of requests that must not write: it refuses everything.

use kinds::Map;

use super::admission::{Admission, AdmissionAttributes, Answered, FieldErrors, MayShow, Reserved};
use super::target::Target;
use crate::http::status::Status;

/// See the module.
pub(crate) struct NoWrites;

/// No handler of a read gets here.
fn refused<'r>() -> Answered<'r> {
    Box::pin(std::future::ready(Err(refusal())))
}

fn refusal() -> Status {
    Status::internal("a request that only reads wants to write")
}

impl Admission for NoWrites {
    fn admit<'r>(&'r self, _: &'r mut AdmissionAttributes<'_>) -> Answered<'r> {
        refused()
    }

    fn validate<'r>(&'r self, _: &'r AdmissionAttributes<'_>) -> Answered<'r> {
        refused()
    }

    fn reserve<'r>(&'r self, _: &'r AdmissionAttributes<'_>) -> Reserved<'r> {
        Box::pin(std::future::ready(Err(refusal())))
    }

    fn may_show<'r>(&'r self, _: &'r AdmissionAttributes<'_>) -> MayShow<'r> {
        Box::pin(std::future::ready(Err(refusal())))
    }

    fn check_escalation<'r>(&'r self, _: &'r Target<'_>, _: &'r Map, _: Option<&'r Map>) -> Answered<'r> {
        refused()
    }

    fn check_claim_status<'r>(&'r self, _: &'r Map, _: &'r Map) -> FieldErrors<'r> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn allow_also(&self, _: &'static str) -> Answered<'_> {
        refused()
    }
}
