//! Schemas of certificates of pods, and of the bundles that verify them.

use crate::schema::Shape::{Bytes, Int32, List, Map, Object, Text, Time};
use crate::schema::meta::CONDITION;
use crate::schema::table::{always, types, unless_zero, when_set};

types! {
    "certificates/v1beta1";
    ClusterTrustBundle CLUSTER_TRUST_BUNDLE object {
        always("spec", 2, Object(&CLUSTER_TRUST_BUNDLE_SPEC)).required(),
    }
    PodCertificateRequest POD_CERTIFICATE_REQUEST object {
        always("spec", 2, Object(&POD_CERTIFICATE_REQUEST_SPEC)).required(),
        always("status", 3, Object(&POD_CERTIFICATE_REQUEST_STATUS)),
    }
    ClusterTrustBundleSpec CLUSTER_TRUST_BUNDLE_SPEC {
        unless_zero("signerName", 1, Text),
        always("trustBundle", 2, Text),
    }
    PodCertificateRequestSpec POD_CERTIFICATE_REQUEST_SPEC {
        always("signerName", 1, Text),
        always("podName", 2, Text),
        always("podUID", 3, Text),
        always("serviceAccountName", 4, Text),
        always("serviceAccountUID", 5, Text),
        always("nodeName", 6, Text),
        always("nodeUID", 7, Text),
        when_set("maxExpirationSeconds", 8, Int32),
        unless_zero("pkixPublicKey", 9, Bytes),
        unless_zero("proofOfPossession", 10, Bytes),
        unless_zero("unverifiedUserAnnotations", 11, Map(&Text)),
        always("stubPKCS10Request", 12, Bytes),
    }
    PodCertificateRequestStatus POD_CERTIFICATE_REQUEST_STATUS {
        unless_zero("conditions", 1, List(&Object(&CONDITION))).by_key("type"),
        unless_zero("certificateChain", 2, Text),
        when_set("notBefore", 4, Time),
        when_set("beginRefreshAt", 5, Time),
        when_set("notAfter", 6, Time),
    }
}
