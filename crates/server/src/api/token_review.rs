//! TokenReview authenticates a token for another service (WH-100 to WH-109). Nothing is stored, and the caller gains no
//! access by it.

use http::request::Parts;
use kinds::schema::authentication::TOKEN_REVIEW;
use policy::request_info::RequestInfo;
use serde_json::{Map, Value, json};
use std::time::SystemTime;

use super::app::App;
use super::posted;
use super::self_review::UserInfo;
use crate::authn::Reviewed;
use crate::authz::Permit;
use crate::http::account::Account;
use crate::http::status::{Answer, Status};
use crate::registry::decode::Expected;
use crate::registry::meta;

const EXPECTED: Expected<'static> = Expected {
    kind: "TokenReview",
    api_version: "authentication.k8s.io/v1",
    shape: &TOKEN_REVIEW,
    custom: None,
};

/// Authenticates the token of a review.
pub(crate) async fn answer(
    permit: Permit,
    app: &App,
    info: &RequestInfo,
    head: &Parts,
    body: &[u8],
) -> Result<Answer, Status> {
    let read = posted::read(app, (&permit, info), head, body, EXPECTED).await?;
    let mut review = read.object;
    meta::unset(&mut review, "namespace");
    let spec = |field: &str| review.get("spec").and_then(|spec| spec.get(field));
    let token = spec("token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = spec("audiences").and_then(Value::as_array).into_iter().flatten();
    let audiences: Vec<String> = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
    let account = Account::of_user(permit.user());
    let reviewed = app.authentication().review(token, &audiences, account, SystemTime::now()).await;
    let sent = review.remove("status").and_then(|mut status| status.get_mut("user").map(Value::take));
    review.insert("status".to_owned(), status(reviewed, sent).into());
    Ok(posted::answer(&review, read.warnings))
}

/// WH-103, WH-105, WH-109
fn status(reviewed: Reviewed, sent: Option<Value>) -> Map<String, Value> {
    let mut status = Map::new();
    let user = match reviewed.user {
        Some(user) => {
            status.insert("authenticated".to_owned(), true.into());
            json!(UserInfo::of(&user))
        }
        None => sent.unwrap_or_else(|| json!({})),
    };
    status.insert("user".to_owned(), user);
    if !reviewed.audiences.is_empty() {
        status.insert("audiences".to_owned(), reviewed.audiences.into());
    }
    if let Some(error) = reviewed.error {
        status.insert("error".to_owned(), error.into());
    }
    status
}
