//! Metrics under the names, labels and buckets of Kubernetes 1.36 (its `documentation-list.yaml` and the sources that this
//! list is made from), after requests whose number is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::{Setup, Started, start_with};
use portcullis_pki::KeyPair;
use portcullis_pki::ca::Usage;
use portcullis_pki::jwt::SigningKey;
use portcullis_server::api::check::Check;
use portcullis_server::authn::anonymous::Anonymous;
use portcullis_testkit::metrics::assert_documented;
use serde_json::{Value, json};

/// What a scrape gets.
struct Scrape(String);

impl Scrape {
    fn of(server: &Started) -> Self {
        let text = server.app.metrics().render().unwrap();
        assert_documented(&["serve"], &text);
        Self(text)
    }

    /// The value of the one line with exactly these labels, in any order.
    #[track_caller]
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels).unwrap_or_else(|| panic!("no {name} with {labels:?}:\n{}", self.0))
    }

    fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut wanted: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        wanted.sort();
        let mut found = self.0.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (this, labels) = series.split_once('{').unwrap_or((series, "}"));
            let mut labels: Vec<&str> =
                labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect();
            labels.sort_unstable();
            (this == name && labels == wanted).then(|| value.parse().unwrap())
        });
        let value = found.next();
        assert_eq!(found.next(), None, "{name} {labels:?} is there twice");
        value
    }

    /// The upper bounds of a histogram with these labels, without infinity.
    fn bounds(&self, name: &str, label: &str) -> Vec<f64> {
        let prefix = format!("{name}_bucket{{");
        let lines = self.0.lines().filter(|line| line.starts_with(&prefix) && line.contains(label));
        let bounds = lines.map(|line| line.split("le=\"").nth(1).unwrap().split('"').next().unwrap());
        let mut bounds: Vec<&str> = bounds.collect();
        assert_eq!(bounds.pop(), Some("+Inf"), "the last bucket has everything");
        bounds.into_iter().map(|bound| bound.parse().unwrap()).collect()
    }

    #[track_caller]
    fn assert_type(&self, name: &str, kind: &str) {
        assert!(self.0.contains(&format!("\n# TYPE {name} {kind}\n")), "{name} {kind}:\n{}", self.0);
    }
}

/// The buckets that Kubernetes writes as `ExponentialBuckets(start, factor, count)`.
fn exponential(start: f64, factor: f64, count: i32) -> Vec<f64> {
    (0..count).map(|power| start * factor.powi(power)).collect()
}

#[track_caller]
fn assert_bounds(found: &[f64], expected: &[f64]) {
    let is_same = |(a, b): (&f64, &f64)| (a - b).abs() <= b * 1e-9;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(is_same),
        "{found:?} {expected:?}"
    );
}

/// AN-160
#[test]
fn authentications_are_counted_and_timed_by_result_an_160() {
    let server = start_with(Setup { anonymous: Anonymous::Nowhere, ..Setup::default() });
    let admin = server.admin();
    for _ in 0..3 {
        assert_eq!(server.get("/version").by(&admin).send().code, 200);
    }
    let mail = server.user("jane@example.com", &[]);
    assert_eq!(server.get("/version").by(&mail).send().code, 200);
    assert_eq!(server.get("/version").header("Authorization: Bearer x").send().code, 401);
    assert_eq!(server.get("/version").send().code, 401);
    assert_eq!(server.get("/version").send().code, 401);
    let scrape = Scrape::of(&server);
    for (result, count) in [("success", 4.0), ("error", 1.0), ("failure", 2.0)] {
        let labels = [("result", result)];
        assert_eq!(scrape.value("authentication_attempts", &labels), count, "{result}");
        assert_eq!(scrape.value("authentication_duration_seconds_count", &labels), count, "{result}");
    }
    assert_eq!(scrape.value("authenticated_user_requests", &[("username", "other")]), 3.0);
    assert_eq!(scrape.value("authenticated_user_requests", &[("username", "email_id")]), 1.0);
    assert!(!scrape.0.contains("jane"), "a name of the caller's choice");
    scrape.assert_type("authentication_attempts", "counter");
    scrape.assert_type("authenticated_user_requests", "counter");
    scrape.assert_type("authentication_duration_seconds", "histogram");
    let bounds = scrape.bounds("authentication_duration_seconds", "result=\"error\"");
    assert_bounds(&bounds, &exponential(0.001, 2.0, 15));
}

/// AN-161
#[test]
fn the_remaining_life_of_certificates_is_told_also_of_refused_ones_an_161() {
    let server = start_with(Setup::default());
    let now = SystemTime::now();
    let hour = Duration::from_secs(3600);
    // Certificates of the tests are valid for one hour.
    let good = server.issued(server.authority(), "jane", &[], Usage::Client, now - hour / 4);
    let expired = server.issued(server.authority(), "jane", &[], Usage::Client, now - 3 * hour);
    let for_servers = server.issued(server.authority(), "jane", &[], Usage::Server, now - hour / 4);
    assert_eq!(server.get("/api").by(&good).send().code, 200);
    assert_eq!(server.get("/api").by(&expired).send().code, 401);
    assert_eq!(server.get("/api").by(&for_servers).send().code, 401);
    assert_eq!(server.get("/livez").send().code, 200, "without a certificate");
    let scrape = Scrape::of(&server);
    let name = "apiserver_client_certificate_expiration_seconds";
    scrape.assert_type(name, "histogram");
    let minute = 60.0;
    let day = 24.0 * 60.0 * minute;
    let bounds = scrape.bounds(name, "");
    let hours = [0.0, 0.5, 1.0, 2.0, 6.0, 12.0].map(|hours| hours * 60.0 * minute);
    let days = [1.0, 2.0, 4.0, 7.0, 30.0, 90.0, 180.0, 360.0].map(|days| days * day);
    assert_bounds(&bounds, &[hours.as_slice(), days.as_slice()].concat());
    let below = |bound: f64| {
        let text = scrape.0.lines().find_map(|line| {
            let rest = line.strip_prefix(&format!("{name}_bucket{{le=\""))?;
            let (found, count) = rest.split_once("\"} ")?;
            (found.parse() == Ok(bound)).then(|| count.parse::<f64>().unwrap())
        });
        text.unwrap()
    };
    assert_eq!((below(0.0), below(1800.0), below(3600.0)), (1.0, 1.0, 3.0));
    assert_eq!(scrape.value(&format!("{name}_count"), &[]), 3.0);
    let sum = scrape.value(&format!("{name}_sum"), &[]);
    let expected = 2.0 * 45.0 * minute - 2.0 * 60.0 * minute;
    assert!((sum - expected).abs() < 5.0 * minute, "{sum} is not about {expected}");
}

/// Somebody who may impersonate by each of the modes that a certificate can have, and nobody else.
fn impersonators() -> Started {
    let rule = |verb: &str, group: &str, resource: &str, name: &str| json!({"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": [name]});
    let authentication = "authentication.k8s.io";
    let on = |mode: &str| json!({"verbs": [format!("impersonate-on:{mode}:get")], "nonResourceURLs": ["/version"]});
    let role = |name: &str, rules: Value| {
        [
            json!({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
                "metadata": {"name": name}, "rules": rules}),
            json!({"kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
                "metadata": {"name": name},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}),
        ]
    };
    let new = json!([
        on("user-info"),
        rule("impersonate:user-info", authentication, "users", "bob"),
        on("serviceaccount"),
        rule("impersonate:serviceaccount", authentication, "serviceaccounts", "bot"),
        on("arbitrary-node"),
        rule("impersonate:arbitrary-node", authentication, "nodes", "n1"),
    ]);
    let old = json!([rule("impersonate", "", "users", "bob")]);
    let items: Vec<Value> = role("new", new).into_iter().chain(role("old", old)).collect();
    let state = json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string();
    start_with(Setup { state: Some(state), ..Setup::default() })
}

/// AN-162
#[test]
fn impersonations_are_counted_by_mode_and_decision_an_162() {
    let server = impersonators();
    let [new, old] = ["new", "old"].map(|name| server.user(name, &[]));
    let act = |as_user: &str, by| {
        server.get("/version").header(&format!("Impersonate-User: {as_user}")).by(by).send().code
    };
    let counts = |metric: &str, mode: &str, decision: &str| {
        let scrape = Scrape::of(&server);
        let labels = [("mode", mode), ("decision", decision)];
        let count = scrape.find(&format!("apiserver_impersonation_{metric}_total"), &labels);
        let timed = scrape.find(&format!("apiserver_impersonation_{metric}_duration_seconds_count"), &labels);
        assert_eq!(count, timed);
        count.unwrap_or_default()
    };
    let attempts = |mode: &str, decision: &str| counts("attempts", mode, decision);
    let checks = |mode: &str, decision: &str| counts("authorization_attempts", mode, decision);

    // The request is asked about, and then the user.
    assert_eq!(act("bob", &new), 200);
    assert_eq!((attempts("user-info", "allowed"), checks("user-info", "allowed")), (1.0, 2.0));
    assert_eq!(act("system:serviceaccount:default:bot", &new), 200);
    assert_eq!((attempts("serviceaccount", "allowed"), checks("serviceaccount", "allowed")), (1.0, 2.0));
    assert_eq!(act("system:node:n1", &new), 200);
    assert_eq!((attempts("arbitrary-node", "allowed"), checks("arbitrary-node", "allowed")), (1.0, 2.0));
    assert_eq!(attempts("", "denied"), 0.0);
    // One question of the legacy mode, after the other mode was refused at its first one.
    assert_eq!(act("bob", &old), 200);
    assert_eq!((attempts("legacy", "allowed"), checks("legacy", "allowed")), (1.0, 1.0));
    assert_eq!(checks("user-info", "denied"), 1.0);
    // A denied attempt has no mode; its questions have one.
    assert_eq!(act("eve", &old), 403);
    assert_eq!((attempts("", "denied"), checks("legacy", "denied")), (1.0, 1.0));
    assert_eq!(checks("user-info", "denied"), 2.0);
    // A request without a user is malformed, and nobody is asked.
    let headers = server.get("/version").header("Impersonate-Group: g").by(&new).send();
    assert_eq!(headers.code, 400);
    assert_eq!(attempts("", "denied"), 1.0);

    let scrape = Scrape::of(&server);
    assert!(!scrape.0.contains("\"bob\"") && !scrape.0.contains("\"eve\""), "a name of the caller's choice");
    for name in ["attempts", "authorization_attempts"] {
        let name = format!("apiserver_impersonation_{name}_duration_seconds");
        scrape.assert_type(&name, "histogram");
        assert_bounds(
            &scrape.bounds(&name, "mode=\"legacy\",decision=\"allowed\""),
            &exponential(0.001, 2.0, 15),
        );
    }
}

/// AN-89
#[test]
fn extended_tokens_are_stale_after_their_warning_an_89() {
    let pem = KeyPair::generate().unwrap().to_pem();
    let key = SigningKey::new(&KeyPair::from_pem(pem.as_bytes()).unwrap()).unwrap();
    let audit = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    let server = start_with(Setup {
        is_cluster: true,
        audit: Some(audit),
        signing_key: Some(pem.as_bytes().to_vec()),
        ..Setup::default()
    });
    let account = server.get("/api/v1/namespaces/default/serviceaccounts/default").by(&server.admin()).send();
    let uid = account.json()["metadata"]["uid"].clone();
    let subject = "system:serviceaccount:default:default";
    let now = i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    // Kubernetes writes `warnafter` into tokens that it makes valid for a year instead of an hour.
    let token = |warn_after: Option<i64>| {
        let mut private = json!({"namespace": "default", "serviceaccount": {"name": "default", "uid": uid}});
        if let Some(warn_after) = warn_after {
            private["warnafter"] = json!(warn_after);
        }
        let claims = json!({"iss": "https://kubernetes.default.svc", "aud": ["https://kubernetes.default.svc"],
            "sub": subject, "iat": now - 7200, "nbf": now - 7200, "exp": now + 86400, "kubernetes.io": private});
        key.sign(&claims).unwrap()
    };
    let ask = |path: &str, token: &str| {
        let answer = server.get(path).header(&format!("Authorization: Bearer {token}")).send();
        assert_eq!(answer.code, 200, "the token stays valid: {}", answer.text());
        let events = server.audited();
        let last = events.into_iter().rfind(|event| event["requestURI"] == path).unwrap();
        last["annotations"]["authentication.k8s.io/stale-token"].clone()
    };
    assert_eq!(ask("/version", &token(None)), Value::Null);
    assert_eq!(ask("/api", &token(Some(now + 3600))), Value::Null);
    let told = ask("/apis", &token(Some(now - 3600)));
    let late = told.as_str().unwrap();
    let late = late.strip_prefix(&format!("subject: {subject}, seconds after warning threshold: ")).unwrap();
    let seconds: i64 = late.parse().unwrap();
    assert!((3600..3900).contains(&seconds), "{seconds}");
    let scrape = Scrape::of(&server);
    assert_eq!(scrape.value("serviceaccount_valid_tokens_total", &[]), 1.0);
    assert_eq!(scrape.value("serviceaccount_stale_tokens_total", &[]), 1.0);
    assert_eq!(scrape.value("serviceaccount_legacy_tokens_total", &[]), 0.0);
}

/// The labels of a request for an object or collection, without code and dry run.
fn of_object<'a>(
    verb: &'a str,
    (group, resource, subresource): (&'a str, &'a str, &'a str),
    scope: &'a str,
) -> Vec<(&'a str, &'a str)> {
    vec![
        ("verb", verb),
        ("group", group),
        ("version", "v1"),
        ("resource", resource),
        ("subresource", subresource),
        ("scope", scope),
        ("component", "apiserver"),
    ]
}

/// As kube-apiserver registers its routes: the scope of a list is that of its path, and a POST concerns one object. It
/// refuses to apply without a field manager.
#[test]
fn requests_are_labelled_by_verb_and_scope() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let admin = server.admin();
    let send = |method: &str, path: &str, media: &str, body: &str| {
        let media = format!("Content-Type: {media}");
        let request = server.request(method, path).by(&admin).header(&media);
        let request = if body.is_empty() { request } else { request.body(body.to_owned()) };
        request.send().code
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let one = format!("{maps}/a");
    let json = "application/json";
    let made = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let core = |resource| ("", resource, "");
    let rbac = ("rbac.authorization.k8s.io", "clusterroles", "");
    let reviews = ("authorization.k8s.io", "selfsubjectaccessreviews", "");
    let review = r#"{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#;
    let review_path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let merge = "application/merge-patch+json";
    let apply = "application/apply-patch+yaml";
    let log = "/api/v1/namespaces/default/pods/none/log";
    for (method, path, media, body, code, labels, dry_run) in [
        (
            "POST",
            format!("{maps}?dryRun=All"),
            json,
            made,
            201,
            of_object("POST", core("configmaps"), "resource"),
            "All",
        ),
        (
            "POST",
            format!("{maps}?dryRun=x"),
            json,
            made,
            422,
            of_object("POST", core("configmaps"), "resource"),
            "invalid",
        ),
        ("POST", maps.to_owned(), json, made, 201, of_object("POST", core("configmaps"), "resource"), ""),
        ("GET", one.clone(), json, "", 200, of_object("GET", core("configmaps"), "resource"), ""),
        ("GET", maps.to_owned(), json, "", 200, of_object("LIST", core("configmaps"), "namespace"), ""),
        (
            "GET",
            "/api/v1/configmaps".to_owned(),
            json,
            "",
            200,
            of_object("LIST", core("configmaps"), "cluster"),
            "",
        ),
        ("GET", "/api/v1/nodes".to_owned(), json, "", 200, of_object("LIST", core("nodes"), "cluster"), ""),
        (
            "GET",
            "/api/v1/namespaces".to_owned(),
            json,
            "",
            200,
            of_object("LIST", core("namespaces"), "cluster"),
            "",
        ),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin".to_owned(),
            json,
            "",
            200,
            of_object("GET", rbac, "resource"),
            "",
        ),
        (
            "PATCH",
            one.clone(),
            merge,
            r#"{"data":{"a":"b"}}"#,
            200,
            of_object("PATCH", core("configmaps"), "resource"),
            "",
        ),
        ("PATCH", one.clone(), apply, made, 422, of_object("APPLY", core("configmaps"), "resource"), ""),
        ("GET", log.to_owned(), json, "", 404, of_object("CONNECT", ("", "pods", "log"), "resource"), ""),
        ("POST", review_path.to_owned(), json, review, 201, of_object("POST", reviews, "resource"), ""),
        ("DELETE", one.clone(), json, "", 200, of_object("DELETE", core("configmaps"), "resource"), ""),
        (
            "DELETE",
            maps.to_owned(),
            json,
            "",
            200,
            of_object("DELETECOLLECTION", core("configmaps"), "namespace"),
            "",
        ),
    ] {
        let code_text = code.to_string();
        let mut labels = labels;
        labels.push(("dry_run", dry_run));
        let timed = labels.clone();
        labels.push(("code", &code_text));
        let count = |scrape: &Scrape| scrape.find("apiserver_request_total", &labels).unwrap_or_default();
        let before = count(&Scrape::of(&server));
        assert_eq!(send(method, &path, media, body), code, "{method} {path}");
        let scrape = Scrape::of(&server);
        assert_eq!(count(&scrape), before + 1.0, "{method} {path} {labels:?}\n{}", scrape.0);
        scrape.value("apiserver_request_duration_seconds_count", &timed);
    }
    // Health checks are named by their path, and what is not an object by no component.
    assert_eq!(send("GET", "/livez", json, ""), 200);
    assert_eq!(send("HEAD", "/livez", json, ""), 200);
    let path = [
        ("verb", "GET"),
        ("group", ""),
        ("version", ""),
        ("resource", ""),
        ("subresource", "/livez"),
        ("scope", ""),
        ("component", ""),
        ("code", "200"),
        ("dry_run", ""),
    ];
    assert_eq!(Scrape::of(&server).value("apiserver_request_total", &path), 2.0);
}

#[test]
fn nobody_adds_series_by_inventing_requests() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let admin = server.admin();
    let invent = |word: &str| {
        for path in [
            format!("/{word}"),
            format!("/livez/{word}"),
            format!("/metrics/{word}"),
            format!("/api/v1/{word}"),
            format!("/apis/{word}/v1/things"),
            format!("/api/v1/namespaces/{word}/pods"),
            format!("/api/v1/namespaces/default/pods/{word}"),
            format!("/api/v1/namespaces/default/pods/{word}/{word}"),
            format!("/api/v1/namespaces/default/configmaps?dryRun={word}&fieldValidation={word}"),
        ] {
            for method in ["GET", "DELETE", word] {
                server.request(method, &path).by(&admin).header("Content-Type: application/x").send();
            }
        }
    };
    let series = || {
        let text = Scrape::of(&server).0;
        text.lines().filter(|line| line.starts_with("apiserver_request_")).count()
    };
    invent("FIRSTWORD");
    let before = series();
    invent("OTHERWORD");
    assert_eq!(series(), before);
    let scrape = Scrape::of(&server);
    assert!(!scrape.0.contains("FIRSTWORD"), "{}", scrape.0);
}

#[test]
fn health_checks_are_counted_as_service_level_indicators() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let answer = Arc::clone(&is_ready);
    let check = Check {
        name: "index",
        endpoints: Check::READINESS,
        run: Box::new(move || match answer.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("no pods seen yet".to_owned()),
        }),
    };
    let server = start_with(Setup { is_cluster: true, checks: vec![check], ..Setup::default() });
    let admin = server.admin();
    let get = |path: &str| server.get(path).by(&admin).send();
    assert_eq!(get("/readyz").code, 500);
    is_ready.store(true, Ordering::Relaxed);
    assert_eq!(get("/readyz").code, 200);
    assert_eq!(get("/readyz?exclude=index").code, 200, "an excluded check is not run");
    assert_eq!(get("/readyz/index").code, 200, "a check by its own path is not counted");
    assert_eq!(get("/livez").code, 200);
    let answer = get("/metrics/slis");
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let scrape = Scrape(answer.text().to_owned());
    assert_documented(&["serve: /metrics/slis"], &scrape.0);
    let last =
        |name: &str, kind: &str| scrape.find("kubernetes_healthcheck", &[("name", name), ("type", kind)]);
    let total = |name: &str, kind: &str, status: &str| {
        scrape.find("kubernetes_healthchecks_total", &[("name", name), ("type", kind), ("status", status)])
    };
    assert_eq!((last("index", "readyz"), last("ping", "livez")), (Some(1.0), Some(1.0)));
    assert_eq!(last("index", "livez"), None, "the check does not belong to /livez");
    assert_eq!(
        (total("index", "readyz", "error"), total("index", "readyz", "success")),
        (Some(1.0), Some(1.0))
    );
    assert_eq!(
        (total("ping", "readyz", "success"), total("ping", "livez", "success")),
        (Some(3.0), Some(1.0))
    );
    assert!(!Scrape::of(&server).0.contains("kubernetes_healthcheck"), "they are not in /metrics");

    // By default those who monitor may read them, and only administrators begin anew.
    server.get("/metrics/slis").send().assert_status(403, "Forbidden");
    let monitor = server.user("prometheus", &["system:monitoring"]);
    assert_eq!(server.get("/metrics/slis").by(&monitor).send().code, 200);
    server.request("DELETE", "/metrics/slis").by(&monitor).send().assert_status(403, "Forbidden");
    let reset = server.request("DELETE", "/metrics/slis").by(&admin).send();
    assert_eq!((reset.code, reset.text()), (200, "metrics reset\n"));
    assert!(!get("/metrics/slis").text().contains("kubernetes_healthcheck{"));
    assert!(get("/").text().contains("\"/metrics/slis\""));
}
