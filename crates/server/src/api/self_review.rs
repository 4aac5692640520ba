//! SelfSubjectReview returns the caller's own user info (WH-110 to WH-112). Nothing is stored.

use std::collections::BTreeMap;

use http::request::Parts;
use kinds::schema::authentication::SELF_SUBJECT_REVIEW;
use policy::User;
use policy::request_info::RequestInfo;
use serde::Serialize;
use serde_json::{Value, json};

use super::app::App;
use super::posted;
use crate::authz::Permit;
use crate::http::status::{Answer, Status};
use crate::registry::decode::Expected;
use crate::registry::meta::{self, now};

const EXPECTED: Expected<'static> = Expected {
    kind: "SelfSubjectReview",
    api_version: "authentication.k8s.io/v1",
    shape: &SELF_SUBJECT_REVIEW,
    custom: None,
};

/// A user as serialized in documents.
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

/// Answers with the caller's user info, after impersonation.
pub(crate) async fn answer(
    permit: Permit,
    app: &App,
    info: &RequestInfo,
    head: &Parts,
    body: &[u8],
) -> Result<Answer, Status> {
    let read = posted::read(app, (&permit, info), head, body, EXPECTED).await?;
    let user = UserInfo::of(permit.user());
    // WH-112: nothing of the posted document is returned.
    let review: Value = json!({
        "kind": EXPECTED.kind,
        "apiVersion": EXPECTED.api_version,
        "metadata": {"creationTimestamp": meta::time(now())},
        "status": {"userInfo": user},
    });
    Ok(posted::answer(&review, read.warnings))
}
