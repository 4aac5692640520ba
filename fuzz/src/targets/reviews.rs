//! Access and admission reviews; unknown objects never allow anything.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use portcullis_apimachinery::json;
use portcullis_policy::chain::{Chain, Mode};
use portcullis_policy::engine::{Builder, Engine, EngineConfig};
use portcullis_policy::features::FeatureGates;
use portcullis_policy::restriction::lookup::{PodFacts, Uid, VolumeFacts};
use portcullis_policy::restriction::reply::{AdmissionReply, AskedReview};
use portcullis_policy::restriction::review::AdmissionReview;
use portcullis_policy::restriction::{Lookup, NodeRestriction};
use portcullis_policy::review::{
    AccessReview, AccessStatus, Review, ReviewKind, ReviewVersion, invalid_message,
};
use portcullis_policy::{NodeIdentity, User};
use portcullis_server::certificate_requests::Pkcs10Reader;

pub(super) const ACCESS: &[&str] = &[
    "\"apiVersion\":\"authorization.k8s.io/v1\",",
    "\"apiVersion\":\"authorization.k8s.io/v1beta1\",",
    "\"kind\":\"SubjectAccessReview\",",
    "\"kind\":\"LocalSubjectAccessReview\",",
    "\"kind\":\"SelfSubjectAccessReview\",",
    "\"kind\":\"SelfSubjectRulesReview\",",
    "\"metadata\":{\"namespace\":\"a\"},",
    "\"spec\":{",
    "\"status\":{\"allowed\":true},",
    "\"user\":\"system:node:n0\",",
    "\"groups\":[\"system:nodes\"],",
    "\"group\":[\"system:masters\"],",
    "\"extra\":{\"a\":[\"b\"]},",
    "\"resourceAttributes\":{},",
    "\"nonResourceAttributes\":{\"path\":\"/\"},",
    "\"fieldSelector\":{\"rawSelector\":\"spec.nodeName=n0\"},",
    "\"labelSelector\":{\"requirements\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"b\"]}]},",
    "null",
    "{}",
    "[]",
    "\"*\"",
];

pub(super) const ADMISSION: &[&str] = &[
    "\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",",
    "\"operation\":\"CREATE\",",
    "\"operation\":\"UPDATE\",",
    "\"operation\":\"DELETE\",",
    "\"operation\":\"CONNECT\",",
    "\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"},",
    "\"subResource\":\"status\",",
    "\"subResource\":\"eviction\",",
    "\"subResource\":\"token\",",
    "\"userInfo\":{\"username\":\"system:node:n0\",\"groups\":[\"system:nodes\"]},",
    "\"username\":\"system:node:\",",
    "\"object\":",
    "\"oldObject\":",
    "\"kubernetes.io/config.mirror\":\"x\",",
    "\"ownerReferences\":[",
    "\"node-role.kubernetes.io/master\":\"\",",
    "\"nodeName\":\"n0\",",
    "null",
    "{}",
    "[]",
    "\"1Gi\"",
];

/// The words of answers of admission webhooks.
pub(super) const REPLY: &[&str] = &[
    "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"response\":{\"uid\":\"u\",",
    "\"allowed\":true,",
    "\"patchType\":\"JSONPatch\",\"patch\":\"W10=\",",
    "\"warnings\":[\"w\"],",
    "\"status\":{\"code\":403,\"message\":\"m\",\"reason\":\"r\",\"details\":{\"causes\":[{\"field\":\"f\"}]}},",
    "null",
    "}}",
];

/// All authorizers without any objects.
static EMPTY: LazyLock<Engine> = LazyLock::new(|| {
    let config = EngineConfig {
        modes: vec![Mode::Node, Mode::Rbac, Mode::Abac, Mode::AlwaysDeny],
        abac: Some(Arc::default()),
        ..EngineConfig::default()
    };
    Builder::new(config).expect("the modes are right").finish()
});

const URLS: [(ReviewKind, ReviewVersion); 4] = [
    (ReviewKind::SubjectAccessReview, ReviewVersion::V1),
    (ReviewKind::LocalSubjectAccessReview, ReviewVersion::V1beta1),
    (ReviewKind::SelfSubjectAccessReview, ReviewVersion::V1),
    (ReviewKind::SelfSubjectRulesReview, ReviewVersion::V1),
];

pub(super) fn access_review(input: &[u8]) -> bool {
    let read = Review::parse(input, None);
    for (kind, version) in URLS {
        let placed = Review::parse(input, Some((kind, version)));
        match (&read, placed) {
            (Ok(read), Ok(placed)) => assert_eq!(*read, placed, "WH-86: a URL changes nothing that is said"),
            (_, Ok(Review::Access(mut review))) => {
                if review.place("a").is_ok() && review.kind == ReviewKind::LocalSubjectAccessReview {
                    assert_eq!(review.metadata.namespace, "a", "WH-71");
                }
                check_access(&review);
            }
            _ => {}
        }
    }
    match read {
        Ok(Review::Access(review)) => check_access(&review),
        Ok(Review::Rules(_)) => true,
        Err(_) => false,
    }
}

/// Returns whether the review is valid, and checks its invariants.
fn check_access(review: &AccessReview) -> bool {
    let sender = User::new("sender", ["system:authenticated"]);
    let errors = review.validate();
    let asked = match review.attributes(&sender) {
        Ok(asked) => asked,
        Err(found) => {
            assert!(!errors.is_empty(), "what is valid can be asked");
            assert_eq!(found, errors);
            assert!(!invalid_message(&errors).is_empty());
            return false;
        }
    };
    assert!(errors.is_empty(), "what is not valid cannot be asked");
    let attributes = asked.attributes();
    let outcome = EMPTY.chain().decide(&attributes);
    if outcome.is_allow() {
        assert!(NodeIdentity::of(attributes.user).is_some(), "nothing is allowed to who is no node");
        let resource = attributes.resource.expect("no path is allowed to nodes");
        let needs_path = matches!((resource.group, resource.resource), ("", "secrets" | "configmaps"));
        assert!(!needs_path, "there is no pod that would need it");
    }
    let status = AccessStatus::new(&asked, &outcome);
    let answer = serde_json::to_vec(&review.answered(&status)).expect("can be written");
    let again = Review::parse(&answer, None).expect("an answer is a review");
    assert_eq!(again, Review::Access(review.clone()), "and asks the same");
    true
}

/// An authorizer without objects that records whether it was called.
#[derive(Default)]
struct Nothing {
    asked: Cell<bool>,
}

impl Nothing {
    fn none<T>(&self) -> Option<T> {
        self.asked.set(true);
        None
    }
}

impl Lookup for Nothing {
    fn pod(&self, _: &str, _: &str) -> Option<Arc<PodFacts>> {
        self.none()
    }
    fn node(&self, _: &str) -> Option<Uid> {
        self.none()
    }
    fn service_account(&self, _: &str, _: &str) -> Option<Uid> {
        self.none()
    }
    fn claim(&self, _: &str, _: &str) -> Option<Arc<str>> {
        self.none()
    }
    fn volume(&self, _: &str) -> Option<VolumeFacts> {
        self.none()
    }
    fn csi_driver(&self, _: &str) -> Option<Arc<[Box<str>]>> {
        self.none()
    }
}

pub(super) fn admission_review(input: &[u8]) -> bool {
    let Ok(text) = json::utf8(input) else { return false };
    let Ok(review) = AdmissionReview::parse(text) else { return false };
    let request = review.request();
    let is_node = NodeIdentity::of(request.user).is_some();
    for gates in ["", "AllAlpha=true,AllBeta=true", "AllBeta=false"] {
        let gates = FeatureGates::parse(gates).expect("gates of every stage");
        let nothing = Nothing::default();
        let restriction = NodeRestriction::new(&nothing, gates).with_certificate_requests(&Pkcs10Reader);
        let authorizer = Chain::default();
        let decision = restriction.admit(&request, &authorizer);
        assert!(is_node || decision.is_ok(), "NR-2: who is no node passes");
        assert!(is_node || !nothing.asked.get(), "NR-2: unread");
        assert!(decision.is_err() || !nothing.asked.get(), "NR-8: what must be known and is not is refused");
        let is_allowed = decision.is_ok();
        let complete = |text: &str| {
            let review = AdmissionReview::parse(text).expect("a review");
            let decision = restriction.admit(&review.request(), &authorizer);
            review.completed(review.response(decision)).expect("what was read is answered")
        };
        let answered = complete(text);
        assert_eq!(complete(&answered), answered, "the answer is a review, and the same one");
        // Ignored parts are not parsed, and are returned unchanged.
        if json::check(text).is_ok() {
            assert_eq!(json::check(&answered), Ok(()), "a sound question has a sound answer");
            let value: serde_json::Value = serde_json::from_str(&answered).expect("sound");
            assert_eq!(value.pointer("/response/allowed"), Some(&serde_json::Value::Bool(is_allowed)));
        }
    }
    true
}

/// An answer of an admission webhook is one to the question, says that it allows, and has a patch only where it may.
pub(super) fn admission_reply(input: &[u8]) -> bool {
    let mut is_taken = false;
    for api_version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        for may_patch in [false, true] {
            let asked = AskedReview { api_version, uid: "u", may_patch };
            let Ok(reply) = AdmissionReply::read(input, asked) else { continue };
            is_taken = true;
            let document: serde_json::Value = serde_json::from_slice(input).unwrap_or_default();
            let said = |field: &str| document.pointer(field).cloned().unwrap_or_default();
            assert_eq!((said("/apiVersion"), said("/kind")), (api_version.into(), "AdmissionReview".into()));
            assert_eq!(said("/response/uid"), "u");
            assert_eq!(reply.is_allowed, said("/response/allowed") == true);
            assert!(may_patch || reply.patch.is_empty());
        }
    }
    is_taken
}
