//! Every recorded answer that is decided before the handler runs.

use portcullis_apimachinery::target::Target;
use portcullis_policy::FeatureGates;
use portcullis_policy::kubelet_api::{Answer, KubeletRequest, Route, Router, Settings, forwardable};
use portcullis_testkit::recorded;
use serde_json::Value;

/// RB: one rule `verbs: [verb], resources: [resource]` of the core group.
fn grants(grant: &Value, verb: &str, subresource: &str) -> bool {
    let (held, resource) = (grant["verb"].as_str().unwrap(), grant["resource"].as_str().unwrap());
    let is_resource = resource == "*"
        || resource == format!("nodes/{subresource}")
        || resource.strip_prefix("*/").is_some_and(|held| held == subresource);
    (held == "*" || held == verb) && is_resource
}

/// The answer, or nothing when it is for the endpoint to give.
fn answer(grant: &Value, method: &str, target: &str) -> Option<u64> {
    let router = Router::new(true);
    let endpoint = match router.route(target) {
        Route::NotFound => return Some(404),
        Route::Redirect(_) => return Some(307),
        Route::Malformed => return Some(400),
        Route::Endpoint(endpoint) => endpoint,
    };
    if grant.is_null() {
        return Some(401);
    }
    let settings = Settings::upstream(FeatureGates::default());
    let request = KubeletRequest::new(method, Target::from_wire(target).unwrap(), &settings);
    let is_allowed =
        request.checks().all(|check| check.subresources.iter().any(|s| grants(grant, check.verb, s)));
    if !is_allowed {
        return Some(403);
    }
    assert!(forwardable(target).is_some(), "{target}: what is served is forwarded");
    router.answer(endpoint, method, target).status().map(u64::from)
}

#[test]
fn ka_6_to_39a_every_recorded_request_gets_the_answer_of_the_kubelet() {
    let mut passed = 0;
    for line in recorded::lines("kubelet-authorization.jsonl") {
        let (method, path) = (line["method"].as_str().unwrap(), line["path"].as_str().unwrap());
        let code = line["code"].as_u64().unwrap();
        match answer(&line["grant"], method, path) {
            Some(answer) => assert_eq!(answer, code, "{line}"),
            None => {
                // The endpoint itself answers: a pod that is not there, no stream asked for.
                passed += 1;
                assert!(matches!(code, 200 | 400 | 404), "{line}");
            }
        }
    }
    assert!(passed > 0, "some requests are served");
}

#[test]
fn ka_22_without_debugging_handlers_some_endpoints_are_disabled_and_some_are_gone() {
    let router = Router::new(false);
    for path in [
        "/run/",
        "/exec/ns/p/c",
        "/attach/x",
        "/portForward/",
        "/containerLogs/",
        "/runningpods/",
        "/debug/pprof/heap",
        "/logs/",
    ] {
        let Route::Endpoint(endpoint) = router.route(path) else { panic!("{path} is authorized") };
        for method in ["GET", "POST", "PUT"] {
            assert_eq!(router.answer(endpoint, method, path), Answer::MethodNotAllowed, "{path}");
        }
    }
    for path in ["/configz", "/checkpoint/ns/p/c", "/checkpoint", "/flagz", "/statusz", "/debug/flags/v"] {
        assert_eq!(router.route(path), Route::NotFound, "K27: {path}");
    }
    for path in ["/run", "/exec", "/attach", "/portForward", "/containerLogs"] {
        assert_eq!(router.route(path), Route::Redirect(format!("{path}/")), "KA-8: {path}");
        assert!(matches!(Router::new(true).route(path), Route::Endpoint(_)), "{path}");
    }
    for path in ["/healthz", "/pods", "/pods/", "/stats/summary", "/metrics/slis"] {
        let Route::Endpoint(endpoint) = router.route(path) else { panic!("{path} stays") };
        assert_eq!(router.answer(endpoint, "GET", path), Answer::Served, "{path}");
    }
}
