//! The first request of its kind, whole: a SubjectAccessReview with the answer that it would get now, so that it can be asked
//! again. Bodies, queries, headers and the extra values of users are no part of it, so it shows no secret and no token.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::event::AuditEvent;
use super::text::cut;
use super::unknown::Unknown;
use crate::chain::Outcome;
use crate::request::{Attributes, User};
use crate::review::{AccessReview, AccessStatus, ReviewVersion};

/// The maximum length of a review that is kept whole. Of a longer one every text is cut, and selectors and most groups are
/// left out. In bytes.
const REVIEW: usize = 4 * 1024;
/// The number of groups in a review that is too long.
const GROUPS: usize = 8;

/// How a decision differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It was allowed, and would be refused.
    NewlyRefused,
    /// It was refused, and would be allowed.
    NewlyAllowed,
}

impl Change {
    /// Both.
    pub const ALL: [Self; 2] = [Self::NewlyRefused, Self::NewlyAllowed];

    /// The name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewlyRefused => "newly-refused",
            Self::NewlyAllowed => "newly-allowed",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Example {
    /// The name of the change, or why it is unknown.
    finding: &'static str,
    #[serde(rename = "auditID")]
    audit_id: String,
    /// When the request came, as the event says it.
    time: String,
    /// The reason of the decision that was made.
    #[serde(skip_serializing_if = "String::is_empty")]
    was: String,
    /// The mode that would decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    /// None if it is not known what was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    review: Option<Box<RawValue>>,
}

impl Example {
    pub(super) fn changed(
        change: Change,
        event: &AuditEvent<'_>,
        asked: &Attributes<'_>,
        outcome: &Outcome,
    ) -> Self {
        let status = AccessStatus {
            allowed: outcome.is_allow(),
            denied: outcome.is_deny(),
            reason: cut(&outcome.reason(asked)),
            evaluation_error: String::new(),
        };
        let by = outcome.by.map(|mode| mode.name());
        Self { by, ..Self::of(change.name(), event, Some(asked), &status) }
    }

    pub(super) fn unknown(why: Unknown, event: &AuditEvent<'_>, asked: Option<&Attributes<'_>>) -> Self {
        let status = AccessStatus { evaluation_error: why.meaning().to_owned(), ..AccessStatus::default() };
        Self::of(why.name(), event, asked, &status)
    }

    fn of(
        finding: &'static str,
        event: &AuditEvent<'_>,
        asked: Option<&Attributes<'_>>,
        status: &AccessStatus,
    ) -> Self {
        Self {
            finding,
            audit_id: cut(&event.audit_id),
            time: cut(&event.request_received_timestamp),
            was: cut(event.past_reason()),
            by: None,
            review: asked.and_then(|asked| review(asked, status)),
        }
    }
}

fn review(asked: &Attributes<'_>, status: &AccessStatus) -> Option<Box<RawValue>> {
    let user = User { extra: BTreeMap::new(), ..asked.user.clone() };
    let mut review = AccessReview::asking(&Attributes { user: &user, ..*asked }, ReviewVersion::V1);
    let text = to_raw_value(&review.answered(status)).ok()?;
    if text.get().len() <= REVIEW {
        return Some(text);
    }
    shorten(&mut review);
    to_raw_value(&review.answered(status)).ok()
}

fn shorten(review: &mut AccessReview) {
    let user = &mut review.user;
    user.groups.truncate(GROUPS);
    let of_resource = review.resource.iter_mut().flat_map(|resource| {
        (resource.field_selector, resource.label_selector) = (None, None);
        let place = [&mut resource.namespace, &mut resource.name, &mut resource.verb];
        let kind = [&mut resource.group, &mut resource.version, &mut resource.resource];
        place.into_iter().chain(kind).chain([&mut resource.subresource])
    });
    let of_path = review.non_resource.iter_mut().flat_map(|path| [&mut path.path, &mut path.verb]);
    let of_user = [&mut user.name, &mut user.uid].into_iter().chain(&mut user.groups);
    of_resource.chain(of_path).chain(of_user).for_each(|text| *text = cut(text));
}
