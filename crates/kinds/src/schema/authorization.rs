//! Schemas of access reviews.

use crate::schema::Shape::{Bool, List, Map, Object, Text};
use crate::schema::meta::{FIELD_SELECTOR_REQUIREMENT, LABEL_SELECTOR_REQUIREMENT};
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "authorization/v1";
    SubjectAccessReview SUBJECT_ACCESS_REVIEW object {
        always("spec", 2, Object(&SUBJECT_ACCESS_REVIEW_SPEC)).required(),
        always("status", 3, Object(&SUBJECT_ACCESS_REVIEW_STATUS)),
    }
    LocalSubjectAccessReview LOCAL_SUBJECT_ACCESS_REVIEW object {
        always("spec", 2, Object(&SUBJECT_ACCESS_REVIEW_SPEC)).required(),
        always("status", 3, Object(&SUBJECT_ACCESS_REVIEW_STATUS)),
    }
    SelfSubjectAccessReview SELF_SUBJECT_ACCESS_REVIEW object {
        always("spec", 2, Object(&SELF_SUBJECT_ACCESS_REVIEW_SPEC)).required(),
        always("status", 3, Object(&SUBJECT_ACCESS_REVIEW_STATUS)),
    }
    SelfSubjectRulesReview SELF_SUBJECT_RULES_REVIEW object {
        always("spec", 2, Object(&SELF_SUBJECT_RULES_REVIEW_SPEC)).required(),
        always("status", 3, Object(&SUBJECT_RULES_REVIEW_STATUS)),
    }
    SubjectAccessReviewSpec SUBJECT_ACCESS_REVIEW_SPEC {
        when_set("resourceAttributes", 1, Object(&RESOURCE_ATTRIBUTES)),
        when_set("nonResourceAttributes", 2, Object(&NON_RESOURCE_ATTRIBUTES)),
        unless_zero("user", 3, Text),
        unless_zero("groups", 4, List(&Text)),
        unless_zero("extra", 5, Map(&List(&Text))),
        unless_zero("uid", 6, Text),
    }
    SubjectAccessReviewStatus SUBJECT_ACCESS_REVIEW_STATUS {
        always("allowed", 1, Bool),
        unless_zero("denied", 4, Bool),
        unless_zero("reason", 2, Text),
        unless_zero("evaluationError", 3, Text),
    }
    SelfSubjectAccessReviewSpec SELF_SUBJECT_ACCESS_REVIEW_SPEC {
        when_set("resourceAttributes", 1, Object(&RESOURCE_ATTRIBUTES)),
        when_set("nonResourceAttributes", 2, Object(&NON_RESOURCE_ATTRIBUTES)),
    }
    SelfSubjectRulesReviewSpec SELF_SUBJECT_RULES_REVIEW_SPEC {
        unless_zero("namespace", 1, Text),
    }
    SubjectRulesReviewStatus SUBJECT_RULES_REVIEW_STATUS {
        always("resourceRules", 1, List(&Object(&RESOURCE_RULE))),
        always("nonResourceRules", 2, List(&Object(&NON_RESOURCE_RULE))),
        always("incomplete", 3, Bool),
        unless_zero("evaluationError", 4, Text),
    }
    ResourceAttributes RESOURCE_ATTRIBUTES {
        unless_zero("namespace", 1, Text),
        unless_zero("verb", 2, Text),
        unless_zero("group", 3, Text),
        unless_zero("version", 4, Text),
        unless_zero("resource", 5, Text),
        unless_zero("subresource", 6, Text),
        unless_zero("name", 7, Text),
        when_set("fieldSelector", 8, Object(&FIELD_SELECTOR_ATTRIBUTES)),
        when_set("labelSelector", 9, Object(&LABEL_SELECTOR_ATTRIBUTES)),
    }
    NonResourceAttributes NON_RESOURCE_ATTRIBUTES {
        unless_zero("path", 1, Text),
        unless_zero("verb", 2, Text),
    }
    ResourceRule RESOURCE_RULE {
        always("verbs", 1, List(&Text)),
        unless_zero("apiGroups", 2, List(&Text)),
        unless_zero("resources", 3, List(&Text)),
        unless_zero("resourceNames", 4, List(&Text)),
    }
    NonResourceRule NON_RESOURCE_RULE {
        always("verbs", 1, List(&Text)),
        unless_zero("nonResourceURLs", 2, List(&Text)),
    }
    FieldSelectorAttributes FIELD_SELECTOR_ATTRIBUTES {
        unless_zero("rawSelector", 1, Text),
        unless_zero("requirements", 2, List(&Object(&FIELD_SELECTOR_REQUIREMENT))),
    }
    LabelSelectorAttributes LABEL_SELECTOR_ATTRIBUTES {
        unless_zero("rawSelector", 1, Text),
        unless_zero("requirements", 2, List(&Object(&LABEL_SELECTOR_REQUIREMENT))),
    }
}
