//! Schemas of TokenReviews, TokenRequests and user info.

use crate::schema::Shape::{Bool, Int64, List, Map, Object, Text, Time};
use crate::schema::table::{always, or_null, types, unless_zero};

types! {
    "authentication/v1";
    TokenRequest TOKEN_REQUEST object {
        always("spec", 2, Object(&TOKEN_REQUEST_SPEC)),
        always("status", 3, Object(&TOKEN_REQUEST_STATUS)),
    }
    TokenReview TOKEN_REVIEW object {
        always("spec", 2, Object(&TOKEN_REVIEW_SPEC)).required(),
        always("status", 3, Object(&TOKEN_REVIEW_STATUS)),
    }
    SelfSubjectReview SELF_SUBJECT_REVIEW object {
        always("status", 2, Object(&SELF_SUBJECT_REVIEW_STATUS)),
    }
    TokenRequestSpec TOKEN_REQUEST_SPEC {
        always("audiences", 1, List(&Text)).optional(),
        or_null("expirationSeconds", 4, Int64),
        or_null("boundObjectRef", 3, Object(&BOUND_OBJECT_REFERENCE)),
    }
    TokenRequestStatus TOKEN_REQUEST_STATUS {
        always("token", 1, Text).optional(),
        always("expirationTimestamp", 2, Time),
    }
    TokenReviewSpec TOKEN_REVIEW_SPEC {
        unless_zero("token", 1, Text).required(),
        unless_zero("audiences", 2, List(&Text)),
    }
    TokenReviewStatus TOKEN_REVIEW_STATUS {
        unless_zero("authenticated", 1, Bool),
        always("user", 2, Object(&USER_INFO)),
        unless_zero("audiences", 4, List(&Text)),
        unless_zero("error", 3, Text),
    }
    SelfSubjectReviewStatus SELF_SUBJECT_REVIEW_STATUS {
        always("userInfo", 1, Object(&USER_INFO)),
    }
    BoundObjectReference BOUND_OBJECT_REFERENCE {
        unless_zero("kind", 1, Text),
        unless_zero("apiVersion", 2, Text),
        unless_zero("name", 3, Text),
        unless_zero("uid", 4, Text),
    }
    UserInfo USER_INFO {
        unless_zero("username", 1, Text),
        unless_zero("uid", 2, Text),
        unless_zero("groups", 3, List(&Text)),
        unless_zero("extra", 4, Map(&List(&Text))),
    }
}
