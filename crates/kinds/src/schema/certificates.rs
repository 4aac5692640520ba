//! Schemas of certificate signing requests.

use crate::schema::Shape::{Bytes, Int32, List, Map, Object, Text, Time};
use crate::schema::table::{always, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "certificates/v1";
    CertificateSigningRequest CERTIFICATE_SIGNING_REQUEST object {
        always("spec", 2, Object(&CERTIFICATE_SIGNING_REQUEST_SPEC)).required(),
        always("status", 3, Object(&CERTIFICATE_SIGNING_REQUEST_STATUS)),
    }
    CertificateSigningRequestSpec CERTIFICATE_SIGNING_REQUEST_SPEC {
        always("request", 1, Bytes),
        always("signerName", 7, Text),
        when_set("expirationSeconds", 8, Int32),
        unless_zero("usages", 5, List(&Text)).one_of(values::KEY_USAGES),
        unless_zero("username", 2, Text),
        unless_zero("uid", 3, Text),
        unless_zero("groups", 4, List(&Text)),
        unless_zero("extra", 6, Map(&List(&Text))),
    }
    CertificateSigningRequestStatus CERTIFICATE_SIGNING_REQUEST_STATUS {
        // Without a merge key: a strategic merge patch replaces the list as a whole (CS-28).
        unless_zero("conditions", 1, List(&Object(&CERTIFICATE_SIGNING_REQUEST_CONDITION))).keyed(&["type"]),
        unless_zero("certificate", 2, Bytes),
    }
    CertificateSigningRequestCondition CERTIFICATE_SIGNING_REQUEST_CONDITION {
        always("type", 1, Text),
        always("status", 6, Text),
        unless_zero("reason", 2, Text),
        unless_zero("message", 3, Text),
        always("lastUpdateTime", 4, Time),
        always("lastTransitionTime", 5, Time),
    }
}
