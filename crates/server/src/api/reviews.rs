//! Access reviews over HTTP (WH-70 to WH-94): decodes, validates, evaluates and answers them. Nothing is stored.
//!
//! An answer is "allowed" only when the chain allowed exactly what was asked. Every failure on the way is another kind
//! of answer.

use http::StatusCode;
use http::request::Parts;
use policy::request_info::RequestInfo;
use policy::review::{
    AccessReview, AccessStatus, REVIEW_GROUP, Review, RulesReview, invalid_message, rules_answer,
};

use super::app::App;
use super::posted;
use super::route::{Kind, Version};
use crate::authz::Permit;
use crate::http::status::{Answer, Cause, Details, Status, json};
use crate::registry::decode::{Body, Expected};

/// Answers a review. POST only. Everything before the content of the body is checked in the order of the API server:
/// accepted media types, the media type of the body, query parameters.
pub(crate) async fn answer(
    permit: Permit,
    app: &App,
    kind: Kind,
    version: Version,
    info: &RequestInfo,
    head: &Parts,
    body: &[u8],
) -> Result<Answer, Status> {
    let Body { object, warnings } =
        posted::read(app, (&permit, info), head, body, expected(kind, version)?).await?;
    let wanted = (kind.review(), version.review());
    let review =
        Review::read(&object.into(), Some(wanted)).map_err(|e| Status::bad_request(e.to_string()))?;
    let mut answer = match review {
        Review::Access(review) => access(permit, app, review, namespace(info.path())).await?,
        Review::Rules(review) => rules(permit, app, &review)?,
    };
    posted::warn(&mut answer, warnings);
    Ok(answer)
}

/// Returns the namespace in a path that was matched to a route.
fn namespace(path: &str) -> &str {
    let mut segments = path.split('/').skip_while(|s| *s != "namespaces");
    segments.nth(1).unwrap_or_default()
}

/// Returns the document type of a kind in a version.
fn expected(kind: Kind, version: Version) -> Result<Expected<'static>, Status> {
    let (kind, api_version) = (kind.review().as_str(), version.review().api_version());
    let Some(shape) = kinds::schema::find(api_version, kind) else {
        return Err(Status::internal(format_args!("nothing is known of the fields of {api_version} {kind}")));
    };
    Ok(Expected { kind, api_version, shape, custom: None })
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
            .map(|f| Cause { reason: f.reason.as_str().into(), message: f.message(), field: f.field.clone() })
            .collect();
        let details = Details { group: REVIEW_GROUP.to_owned(), causes, ..Details::default() };
        Status::invalid(invalid_message(&faults), details)
    })?;
    let outcome = app.authorization().ask(&question.attributes()).await;
    // WH-78 to WH-81
    let status = AccessStatus::new(&question, &outcome);
    Ok(json(StatusCode::CREATED, &review.answered(&status)))
}

/// Tells what the caller may do in a namespace, as far as the authorizers can list it (WH-93).
fn rules(permit: Permit, app: &App, review: &RulesReview) -> Result<Answer, Status> {
    // WH-90
    if review.namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let listing = app.authorization().rules_for(permit.user(), &review.namespace);
    Ok(json(StatusCode::CREATED, &rules_answer(review, &listing)))
}

#[cfg(test)]
mod tests {
    use super::super::posted::decode;
    use super::*;
    use crate::http::negotiate::Form;
    use crate::registry::options::FieldValidation;
    use serde_json::json;

    /// Decodes a body strictly, or returns the error message.
    fn strictly(body: &serde_json::Value, version: Version) -> Result<(), String> {
        let read = decode(
            body.to_string().as_bytes(),
            Form::Json,
            expected(Kind::Subject, version).ok().unwrap(),
            FieldValidation::Strict,
        );
        read.map(|_| ()).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn unknown_fields_are_named_by_their_path_ap_14() {
        let document = json!({"zz": 1, "metadata": {"labels": {"any": "thing"}, "Name": "x"},
            "spec": {"usr": "x", "extra": {"any": ["thing"]},
                "resourceAttributes": {"fieldSelector": {"requirements": [{"key": "a", "kee": "b"}]}}}});
        let message = strictly(&document, Version::V1).unwrap_err();
        let (_, problems) = message.split_once("strict decoding error: ").unwrap();
        let mut problems: Vec<&str> = problems.split(", ").collect();
        problems.sort_unstable();
        assert_eq!(
            problems,
            [
                r#"unknown field "metadata.Name""#,
                r#"unknown field "spec.resourceAttributes.fieldSelector.requirements[0].kee""#,
                r#"unknown field "spec.usr""#,
                r#"unknown field "zz""#,
            ]
        );
    }

    #[test]
    fn each_version_has_its_own_key_for_groups_wh_13() {
        for (version, known, unknown) in
            [(Version::V1, "groups", "group"), (Version::V1beta1, "group", "groups")]
        {
            assert_eq!(strictly(&json!({"spec": {known: []}}), version), Ok(()));
            let message = strictly(&json!({"spec": {unknown: []}}), version).unwrap_err();
            assert!(message.ends_with(&format!("unknown field \"spec.{unknown}\"")), "{message}");
        }
    }

    #[test]
    fn repeated_keys_are_named_and_objects_merge_ap_13() {
        let body = br#"{"spec":{"user":"a","extra":{"x":["1"]}},"spec":{"user":"b"},"status":{"reason":"c","reason":"d"}}"#;
        let read = |validation| {
            decode(body, Form::Json, expected(Kind::Subject, Version::V1).ok().unwrap(), validation)
        };
        let object = read(FieldValidation::Ignore).unwrap().object;
        assert_eq!(object.get("spec"), Some(&json!({"user": "b", "extra": {"x": ["1"]}})));
        let message = read(FieldValidation::Strict).unwrap_err().message().to_owned();
        for path in ["spec", "status.reason"] {
            assert!(message.contains(&format!("duplicate field {path:?}")), "{message}");
        }
    }
}
