//! `POST /authorize`: SubjectAccessReviews (BC-3, BC-4).

use bytes::Bytes;
use policy::User;
use policy::review::{AccessReview, AccessStatus, Review, ReviewKind, invalid_message};
use portcullis_apimachinery::json;

use super::parts::Webhook;
use crate::api::large_work::LargeWork;
use crate::http::account::Account;
use crate::http::status::Status;

/// Answers a review, in the version in which it was asked.
///
/// # Errors
/// 400 if it is not a SubjectAccessReview that can be answered (BC-6).
pub(super) async fn answer(webhook: &Webhook, account: Account, body: &Bytes) -> Result<Bytes, Status> {
    let review = webhook.in_turn(account, body, || read(body)).await?;
    let nobody = User::default();
    let question =
        review.attributes(&nobody).map_err(|faults| Status::bad_request(invalid_message(&faults)))?;
    let attributes = question.attributes();
    if let Some(alarm) = &webhook.parts.alarm {
        alarm.note(&attributes);
    }
    let cluster = &webhook.parts.cluster;
    let decided = match LargeWork::is_large(body.len()) {
        // Deciding again with every change would be too much work.
        true => webhook.in_turn(account, body, || cluster.decide(&attributes)).await,
        false => cluster.authorize(&attributes).await,
    };
    webhook.parts.metrics.authorized(&decided.outcome, decided.wait);
    let mut status = AccessStatus::new(&question, &decided.outcome);
    if !decided.unknown.is_empty() {
        webhook.parts.metrics.unknown();
        let errors = [status.evaluation_error, decided.unknown];
        status.evaluation_error =
            errors.into_iter().filter(|error| !error.is_empty()).collect::<Vec<_>>().join("; ");
    }
    let answered = webhook.in_turn(account, body, || serde_json::to_vec(&review.answered(&status))).await;
    answered
        .map(Bytes::from)
        .map_err(|error| Status::internal(format_args!("cannot write the answer: {error}")))
}

fn read(body: &[u8]) -> Result<AccessReview, Status> {
    let text = json::utf8(body).map_err(|error| Status::bad_request(error.to_string()))?;
    json::check(text).map_err(|error| Status::bad_request(error.to_string()))?;
    match Review::parse(body, None) {
        Ok(Review::Access(review)) if review.kind == ReviewKind::SubjectAccessReview => Ok(review),
        Ok(Review::Access(review)) => Err(wrong_kind(review.kind)),
        Ok(Review::Rules(_)) => Err(wrong_kind(ReviewKind::SelfSubjectRulesReview)),
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

fn wrong_kind(kind: ReviewKind) -> Status {
    Status::bad_request(format!("a {} cannot be answered here: post a SubjectAccessReview", kind.as_str()))
}
