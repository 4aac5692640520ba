//! `POST /admit`: AdmissionReviews of the writes of nodes (BC-5), and of roles and bindings if these are compared with deny rules
//! (BC-31).

use bytes::Bytes;
use policy::NodeIdentity;
use policy::restriction::Rejection;
use policy::restriction::review::AdmissionReview;

use super::cluster::{Checked, may_be_admitted_later};
use super::metrics::Admitted;
use super::parts::Webhook;
use crate::api::large_work::LargeWork;
use crate::http::account::Account;
use crate::http::status::Status;

/// The first look at a review.
enum Looked {
    /// The answer.
    Answered(Bytes, Admitted),
    /// The answer, unless something arrives that changes it.
    Refused(Bytes, Account),
}

/// Answers a review, in the version in which it was asked. Writes by others than nodes are admitted without being read, but for
/// those of roles and bindings if these are compared with deny rules.
///
/// # Errors
/// 400 if it is not an AdmissionReview that can be answered (BC-6).
pub(super) async fn answer(webhook: &Webhook, account: Account, body: &Bytes) -> Result<Bytes, Status> {
    let metrics = &webhook.parts.metrics;
    let (refusal, node) = match webhook.in_turn(account, body, || look(webhook, body)).await? {
        Looked::Answered(answer, admitted) => {
            metrics.admitted(admitted, None);
            return Ok(answer);
        }
        // Reading a large review again with every change would be too much work.
        Looked::Refused(answer, _) if LargeWork::is_large(body.len()) => {
            metrics.admitted(Admitted::Refused, None);
            return Ok(answer);
        }
        Looked::Refused(answer, node) => (answer, node),
    };
    let again = || match look(webhook, body) {
        Ok(Looked::Answered(answer, Admitted::Allowed | Admitted::Passed)) => Some(answer),
        _ => None,
    };
    let (admitted, wait) = webhook.parts.cluster.assess_again(node, again).await;
    metrics.admitted(if admitted.is_some() { Admitted::Allowed } else { Admitted::Refused }, Some(wait));
    Ok(admitted.unwrap_or(refusal))
}

fn look(webhook: &Webhook, body: &[u8]) -> Result<Looked, Status> {
    let text = std::str::from_utf8(body)
        .map_err(|error| Status::bad_request(format!("the AdmissionReview is not UTF-8: {error}")))?;
    let review = AdmissionReview::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
    let request = review.request();
    let answer = |decision: Result<(), Rejection>| {
        let answer = review.reply(review.response(decision));
        answer
            .map(Bytes::from)
            .map_err(|error| Status::internal(format_args!("cannot write the answer: {error}")))
    };
    let cluster = &webhook.parts.cluster;
    let checked = cluster.check_grant(&request);
    match checked {
        Checked::Passed | Checked::Granted => {}
        Checked::Refused(rejection) => {
            return Ok(Looked::Answered(answer(Err(rejection))?, Admitted::Refused));
        }
        Checked::Missing(rejection) => {
            return Ok(Looked::Refused(answer(Err(rejection))?, Account::of_user(request.user)));
        }
        Checked::Unknown(rejection) => {
            return Ok(Looked::Answered(answer(Err(rejection))?, Admitted::Unknown));
        }
    }
    if NodeIdentity::of(request.user).is_none() {
        let admitted = match checked {
            Checked::Granted => Admitted::Allowed,
            _ => Admitted::Passed,
        };
        return Ok(Looked::Answered(answer(Ok(()))?, admitted));
    }
    if let Some(unknown) = cluster.unknown_to_admission() {
        return Ok(Looked::Answered(answer(Err(unknown))?, Admitted::Unknown));
    }
    match cluster.assess(&request) {
        Ok(()) => Ok(Looked::Answered(answer(Ok(()))?, Admitted::Allowed)),
        Err(rejection) if may_be_admitted_later(&request) => {
            Ok(Looked::Refused(answer(Err(rejection))?, Account::of_user(request.user)))
        }
        Err(rejection) => Ok(Looked::Answered(answer(Err(rejection))?, Admitted::Refused)),
    }
}
