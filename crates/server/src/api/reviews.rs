//! Access reviews over HTTP (WH-70 to WH-94): decode, check, ask, answer. Nothing is stored.
//!
//! An answer is "allowed" only where the engine said Allow to exactly what was asked: every failure on the way is an
//! answer of another kind.

use http::header::{HeaderValue, WARNING};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use policy::review::{
    AccessReview, AccessStatus, REVIEW_GROUP, Review, RulesReview, invalid_message, rules_answer,
};
use portcullis_policy as policy;
use serde_json::Value;

use super::negotiate::{self, Form};
use super::rest::options::{self, FieldValidation, WriteKind};
use super::route::{Kind, Version};
use super::{fields, protobuf};
use crate::authz::{Permit, Verdict};
use crate::query::Query;
use crate::service::{self, App};
use crate::state::yaml;
use crate::status::{Answer, Cause, Details, Status, json};

/// Answers a review. POST only; everything before the body's contents is checked in the API server's order: what
/// the client takes, what it sends, how much, with which parameters.
pub(crate) async fn answer(
    permit: Permit,
    app: &App,
    kind: Kind,
    version: Version,
    path: &str,
    head: &Parts,
    body: &mut Incoming,
) -> Result<Answer, Status> {
    if head.method != Method::POST {
        return Err(Status::method_not_allowed());
    }
    negotiate::document(&head.headers)?;
    let form = negotiate::form(&head.headers)?;
    let body = service::read_body(head, body, app.limits()).await?;
    let validation =
        options::write(&Query::parse(head.uri.query().unwrap_or_default()), WriteKind::Create)?.validation;
    let (document, warnings) = decode(&body, form, kind, version, validation)?;
    let expected = (kind.review(), version.review());
    let review = Review::read(&document, Some(expected)).map_err(|e| Status::bad_request(e.to_string()))?;
    let mut answer = match review {
        Review::Access(review) => access(permit, app, review, namespace(path)).await?,
        Review::Rules(review) => rules(permit, app, &review)?,
    };
    for warning in warnings {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}

/// The namespace of a path that a route was found for.
fn namespace(path: &str) -> &str {
    let mut segments = path.split('/').skip_while(|s| *s != "namespaces");
    segments.nth(1).unwrap_or_default()
}

fn decode(
    body: &[u8],
    form: Form,
    kind: Kind,
    version: Version,
    validation: FieldValidation,
) -> Result<(Value, Vec<HeaderValue>), Status> {
    let name = kind.review().as_str();
    let is_v1 = version == Version::V1;
    let decoded = match form {
        Form::Json => fields::decode(body).map_err(|e| e.to_string()),
        Form::Yaml => std::str::from_utf8(body)
            .map_err(|e| e.to_string())
            .and_then(|text| yaml::to_json(text).map_err(|e| e.to_string()))
            .and_then(|json| fields::decode(json.as_bytes()).map_err(|e| e.to_string())),
        Form::Protobuf => {
            protobuf::decode(body, kind, is_v1).map(|d| (d, Vec::new())).map_err(|e| e.to_string())
        }
    };
    let (document, mut complaints) = decoded.map_err(|error| {
        let version = version.review().as_str();
        Status::bad_request(format!("{name} in version {version:?} cannot be handled as a {name}: {error}"))
    })?;
    if validation == FieldValidation::Ignore {
        return Ok((document, Vec::new()));
    }
    complaints.extend(fields::unknown(&document, kind, is_v1));
    if validation == FieldValidation::Strict && !complaints.is_empty() {
        let version = version.review().as_str();
        let complaints = complaints.join(", ");
        return Err(Status::bad_request(format!(
            "{name} in version {version:?} cannot be handled as a {name}: strict decoding error: {complaints}"
        )));
    }
    Ok((document, complaints.iter().filter_map(|c| options::warning(c)).collect()))
}

async fn access(
    permit: Permit,
    app: &App,
    mut review: AccessReview,
    namespace: &str,
) -> Result<Answer, Status> {
    review.place(namespace).map_err(|e| Status::bad_request(e.to_string()))?;
    let question = review.attributes(permit.user()).map_err(|faults| {
        // WH-82: neither kind nor name.
        let causes = faults
            .iter()
            .map(|f| Cause { reason: f.reason.as_str(), message: f.message(), field: f.field.clone() })
            .collect();
        let details = Details { group: REVIEW_GROUP.to_owned(), causes, ..Details::default() };
        Status::invalid(invalid_message(&faults), details)
    })?;
    let attributes = question.attributes();
    let outcome = app.authorization().ask(&attributes).await;
    // WH-78 to WH-80
    let status = AccessStatus {
        allowed: outcome.verdict == Verdict::Allow,
        denied: outcome.verdict == Verdict::Deny,
        reason: outcome.reason(&attributes),
        evaluation_error: question.evaluation_error(outcome.error.as_deref()).unwrap_or_default(),
    };
    Ok(json(StatusCode::CREATED, &review.answered(&status)))
}

fn rules(permit: Permit, app: &App, review: &RulesReview) -> Result<Answer, Status> {
    // WH-90
    if review.namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let listing = app.authorization().rules_for(permit.user(), &review.namespace);
    Ok(json(StatusCode::CREATED, &rules_answer(review, &listing)))
}
