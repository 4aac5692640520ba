//! The inputs of an operator: ABAC policy files and flags.

use std::sync::Arc;

use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::chain::Mode;
use portcullis_policy::deny::{DenyAuthorizer, DenyRules, LiveRules};
use portcullis_policy::features::{Feature, FeatureGates};
use portcullis_policy::graph::Graph;
use portcullis_policy::{Attributes, Authorizer, Decision, ResourceRequest, User};
use portcullis_server::registry::runtime_config::RuntimeConfig;

pub(super) const ABAC: &[&str] = &[
    "\"apiVersion\":\"abac.authorization.kubernetes.io/v1beta1\",",
    "\"apiVersion\":\"abac.authorization.kubernetes.io/v0\",",
    "\"apiVersion\":\"\",",
    "\"apiversion\":",
    "\"kind\":\"Policy\",",
    "\"spec\":{",
    "\"Spec\":{",
    "\"user\":\"a\",",
    "\"User\":\"a\",",
    "\"group\":\"system:authenticated\",",
    "\"readonly\":true,",
    "\"apiGroup\":\"*\",",
    "\"resource\":\"*\",",
    "\"namespace\":\"*\",",
    "\"nonResourcePath\":\"*\",",
    "null",
    "~",
    "user: a",
    "---",
    "&a ",
    "*a",
    "<<: ",
    "# ",
    "{",
    "}",
    "\n",
    "\r\n",
];

pub(super) const DENY: &[&str] = &[
    "\"name\":\"a\",",
    "\"subjects\":[{\"kind\":\"User\",\"name\":\"*\"}],",
    "\"except\":[{\"kind\":\"Group\",\"name\":\"a\"}],",
    "\"kind\":\"ServiceAccount\",\"namespace\":\"n\",",
    "\"verbs\":[\"*\"],",
    "\"apiGroups\":[\"*\"],",
    "\"resources\":[\"*\"],",
    "\"resourceNames\":[\"a*\"],",
    "\"namespaces\":[\"a*\"],",
    "\"namespaceSelector\":{\"matchLabels\":{\"a\":\"b\"}},",
    "\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[\"b\"]}],",
    "\"nonResourceURLs\":[\"*\"],",
    "\"message\":\"m\",",
    "********",
    "null",
    "[]",
    "{}",
];

pub(super) const FLAGS: &[&str] = &[
    "=true",
    "=false",
    "=T",
    ",",
    " ",
    "AllAlpha",
    "AllBeta",
    "AuthorizeNodeWithSelectors",
    "PodCertificateRequest",
    "authorization.k8s.io/v1beta1",
    "Node",
    "RBAC",
];

fn yaml(text: &str) -> Result<serde_json::Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

pub(super) fn abac(input: &[u8]) -> bool {
    let read = |compatibility| AbacPolicyFile::parse("input", input, compatibility, yaml);
    let strict = read(Compatibility::Strict);
    let compatible = match read(Compatibility::AbacCompatible) {
        Ok(compatible) => compatible,
        Err(error) => {
            assert!(strict.is_err(), "what Kubernetes refuses is refused: {error}");
            return false;
        }
    };
    let lines = input.split(|byte| *byte == b'\n').count();
    assert!(compatible.policies().iter().all(|policy| (1..=lines).contains(&policy.line)));
    assert!(compatible.policies().is_sorted_by_key(|policy| policy.line), "policies keep their order");
    let nobody = User::default();
    let resource = ResourceRequest { resource: "pods", ..ResourceRequest::default() };
    for resource in [None, Some(resource)] {
        let attributes = Attributes { user: &nobody, verb: "get", path: "/", resource };
        let decision = compatible.authorize(&attributes);
        let for_all = compatible.policies().iter().any(|policy| policy.user == "*" || policy.group == "*");
        assert!(!decision.is_allow() || for_all, "AB-30: the empty user is allowed nothing");
    }
    match strict {
        Ok(strict) => {
            assert_eq!(strict.policies(), compatible.policies(), "what both take means the same");
            assert_eq!(strict.warnings(), compatible.warnings(), "and is as odd");
        }
        // AB-12: the first error is reported, with its line.
        Err(error) => assert!(error.line().is_some_and(|line| (1..=lines).contains(&line)), "{error}"),
    }
    true
}

pub(super) fn deny(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(rules) = DenyRules::parse(text) else { return false };
    let user = User::new("system:node:a", ["a", "system:authenticated"]);
    let secret =
        ResourceRequest { namespace: "a", resource: "secrets", name: "a", ..ResourceRequest::default() };
    let everything = ResourceRequest { namespace: "", name: "", ..secret };
    let rules = Some(Arc::new(LiveRules::new(rules)));
    let deny = DenyAuthorizer::new(rules, None, Arc::default(), Arc::new(Graph::new()));
    let ask = |verb, path, resource| deny.authorize(&Attributes { user: &user, verb, path, resource });
    let decisions =
        [ask("get", "/a", None), ask("list", "", Some(secret)), ask("list", "", Some(everything))];
    assert!(decisions.iter().all(|decision| !decision.is_allow()), "a deny rule allows nothing");
    let [_, one, all] = &decisions;
    let is_denied = |decision: &Decision| matches!(decision, Decision::Deny(_));
    assert!(!is_denied(one) || is_denied(all), "what is denied is in no larger list");
    true
}

pub(super) fn feature_gates(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let others =
        RuntimeConfig::parse(text).is_ok() || text.split(',').all(|mode| mode.parse::<Mode>().is_ok());
    let Ok(gates) = FeatureGates::parse(text) else { return others };
    for locked in [Feature::AuthorizeNodeWithSelectors, Feature::AuthorizeWithSelectors] {
        assert!(gates.is_on(locked), "no flag opens what is locked");
    }
    let mentions = |word: &str| text.contains(word);
    for alpha in [Feature::PortcullisNodeEndpointsRestriction, Feature::DRAResourcePoolStatus] {
        assert!(!gates.is_on(alpha) || mentions("AllAlpha") || mentions(&format!("{alpha:?}")), "{alpha:?}");
    }
    let printed = format!("{gates:?}").replace(['{', '}', '"', ' '], "").replace(':', "=");
    assert_eq!(FeatureGates::parse(&printed), Ok(gates), "gates print as a flag that sets them");
    true
}
