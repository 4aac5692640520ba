//! SelfSubjectReview: who am I? (WH-110 to WH-112) Nothing is stored.

use std::collections::BTreeMap;

use http::request::Parts;
use hyper::body::Incoming;
use kinds::schema::authentication::SELF_SUBJECT_REVIEW;
use policy::User;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use serde::Serialize;
use serde_json::{Value, json};

use super::posted;
use super::rest::decode::Expected;
use super::rest::{meta, now};
use crate::authz::Permit;
use crate::service::App;
use crate::status::{Answer, Status};

/// The group of the review.
pub(crate) const GROUP: &str = "authentication.k8s.io";
const EXPECTED: Expected<'static> = Expected {
    kind: "SelfSubjectReview",
    api_version: "authentication.k8s.io/v1",
    shape: &SELF_SUBJECT_REVIEW,
};

/// A user, as documents show one.
#[derive(Serialize)]
pub(super) struct UserInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl<'a> UserInfo<'a> {
    pub(super) fn of(user: &'a User) -> Self {
        Self { username: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra }
    }
}

/// Tells callers who they are, after impersonation.
pub(crate) async fn answer(
    permit: Permit,
    app: &App,
    head: &Parts,
    body: &mut Incoming,
) -> Result<Answer, Status> {
    let read = posted::read(app, head, body, EXPECTED).await?;
    let info = UserInfo::of(permit.user());
    // WH-112: nothing of what the client says comes back.
    let review: Value = json!({
        "kind": EXPECTED.kind,
        "apiVersion": EXPECTED.api_version,
        "metadata": {"creationTimestamp": meta::time(now())},
        "status": {"userInfo": info},
    });
    Ok(posted::answer(&review, read.warnings))
}
