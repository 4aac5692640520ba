//! Schemas of access reviews in the old version, where they differ.

use crate::schema::Shape::{List, Map, Object, Text};
use crate::schema::authorization::{
    NON_RESOURCE_ATTRIBUTES, RESOURCE_ATTRIBUTES, SUBJECT_ACCESS_REVIEW_STATUS,
};
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "authorization/v1beta1";
    SubjectAccessReview SUBJECT_ACCESS_REVIEW object {
        always("spec", 2, Object(&SUBJECT_ACCESS_REVIEW_SPEC)),
        always("status", 3, Object(&SUBJECT_ACCESS_REVIEW_STATUS)),
    }
    LocalSubjectAccessReview LOCAL_SUBJECT_ACCESS_REVIEW object {
        always("spec", 2, Object(&SUBJECT_ACCESS_REVIEW_SPEC)),
        always("status", 3, Object(&SUBJECT_ACCESS_REVIEW_STATUS)),
    }
    SubjectAccessReviewSpec SUBJECT_ACCESS_REVIEW_SPEC {
        when_set("resourceAttributes", 1, Object(&RESOURCE_ATTRIBUTES)),
        when_set("nonResourceAttributes", 2, Object(&NON_RESOURCE_ATTRIBUTES)),
        unless_zero("user", 3, Text),
        unless_zero("group", 4, List(&Text)),
        unless_zero("extra", 5, Map(&List(&Text))),
        unless_zero("uid", 6, Text),
    }
}
