//! What becomes of a write: the answers to its client.

use http::StatusCode;
use policy::restriction::reply::{ReplyDetails, ReplyStatus};

use crate::http::status::{Cause, Details, Status};

/// The most causes that are passed on.
const CAUSES: usize = 1000;

/// What a webhook says about a write.
#[derive(Clone)]
pub(super) enum Verdict {
    /// It is allowed, with this JSON patch; empty for none.
    Allowed(Vec<u8>),
    /// It is refused.
    Refused(Status),
}

/// The refusal of a webhook: its code if that is one of an error, its reason and its details. A reason alone serves as the
/// message.
///
/// DIVERGES: a code that no answer can have counts as 400. kube-apiserver then closes the connection without an answer.
pub(super) fn refused(name: &str, said: ReplyStatus) -> Status {
    let code = u16::try_from(said.code).ok().filter(|code| *code >= 400);
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let why = match (&*said.message, &*said.reason) {
        ("", "") => "denied the request without explanation".to_owned(),
        ("", why) | (why, _) => format!("denied the request: {why}"),
    };
    let message = format!("admission webhook {name:?} {why}");
    Status::other(code, said.reason, message, said.details.map(details))
}

fn details(said: ReplyDetails) -> Details {
    let causes = said.causes.into_iter().take(CAUSES);
    Details {
        name: said.name,
        group: said.group,
        kind: said.kind,
        uid: said.uid,
        causes: causes
            .map(|[reason, message, field]| Cause { reason: reason.into(), message, field })
            .collect(),
        retry_after_seconds: said.retry_after_seconds,
    }
}

/// A webhook failed, and its writes are refused then: 500.
pub(super) fn failed(name: &str, why: &str) -> Status {
    internal(format!("failed calling webhook {name:?}: {why}"))
}

/// A patch of a webhook cannot be taken: 500, also where its failures are ignored.
pub(super) fn unpatchable(name: &str, why: &str) -> Status {
    internal(format!("the patch of admission webhook {name:?} cannot be applied: {why}"))
}

fn internal(why: String) -> Status {
    let message = format!("Internal error occurred: {why}");
    let cause = Cause { reason: "".into(), message: why, field: String::new() };
    let details = Details { causes: vec![cause], ..Details::default() };
    Status::other(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, Some(details))
}

/// A webhook that has side effects is not asked about a dry run: 400.
pub(super) fn not_dry(name: &str) -> Status {
    Status::bad_request(format!("admission webhook {name:?} does not support dry run"))
}
