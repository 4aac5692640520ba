//! Paths that a kubelet redirects (KA-7, KA-8).

use portcullis_policy::kubelet_api::{Route, Router, forwardable};

#[test]
fn ka_8_a_path_out_of_form_is_redirected_with_its_query() {
    for (target, location) in [
        ("//pods", "/pods"),
        ("//pods?x=1&y=%2F", "/pods?x=1&y=%2F"),
        ("//pods?", "/pods"),
        ("/./pods", "/pods"),
        ("/pods/.", "/pods"),
        ("/pods/./", "/pods/"),
        ("/pods/../exec/ns/p/c", "/exec/ns/p/c"),
        ("/../../pods", "/pods"),
        ("/pods/..", "/"),
        ("/nothing//at/all", "/nothing/at/all"),
        ("//evil.example/x", "/evil.example/x"),
        ("/.//\\evil.example", "/%5Cevil.example"),
        ("/logs", "/logs/"),
        ("/logs?query=kubelet", "/logs/?query=kubelet"),
        ("/%6Cogs", "/logs/"),
        ("//logs", "/logs/"),
        ("/stats", "/stats/"),
        ("/runningpods", "/runningpods/"),
        ("/checkpoint", "/checkpoint/"),
        ("/debug/pprof", "/debug/pprof/"),
    ] {
        assert_eq!(Router::new(true).route(target), Route::Redirect(location.to_owned()), "{target}");
    }
}

#[test]
fn ka_7_encoded_slashes_and_dots_separate_nothing() {
    let router = Router::new(true);
    for target in [
        "/healthz%2Fping",
        "/pods%2Fx",
        "/exec%2Fns%2Fp%2Fc",
        "/%2Fpods",
        "/debug%2Fpprof/",
        "/%2e/pods",
        "/Pods",
        "/podsfoo",
        "/healthz/",
        "/healthz/nosuch",
        "/metrics/nosuch",
        "/configz/x",
        "/configz%20",
        "/",
        "/runningPods/",
        "/portforward/ns/p",
        "/debug",
        "/debug/flags",
        "/debug/flags/v/",
        "/spec/",
        "*",
        "pods",
        "",
    ] {
        assert_eq!(router.route(target), Route::NotFound, "{target}");
    }
    for target in
        ["/%70ods", "/p%6fds/", "/pods/%2e%2e/x", "/exec/ns/p%2Fx/c", "/debug/%66lags/v", "/logs/%ff"]
    {
        assert!(matches!(router.route(target), Route::Endpoint(_)), "{target}");
    }
    for target in ["/pods%", "/%zz", "/a%2", "/a\n", "/pods/%+1"] {
        assert_eq!(router.route(target), Route::Malformed, "{target}");
    }
}

#[test]
fn what_routers_could_read_differently_is_not_forwarded() {
    for target in [
        "/logs/a%2Fb",
        "/pods/%2e%2e/exec/ns/p/c",
        "/pods/%2E",
        "/pods/.%2e/x",
        "/exec/ns/p%5Cx/c",
        "/exec/ns/p\\x/c",
        "/logs/%00",
        "/logs/%0a",
        "/logs/%7f",
        "/logs/%c2%85",
        "/logs/%ff",
        "/logs/%c3",
        "/pods/%",
        "/pods/%zz",
        "//pods",
        "/pods//",
        "/pods/../exec",
        "/./pods",
        "pods",
        "*",
        "",
    ] {
        assert_eq!(forwardable(target), None, "{target}");
    }
    for (target, forwarded) in [
        ("/pods", "/pods"),
        ("/pods/", "/pods/"),
        ("/", "/"),
        ("/%70ods?x=%70&y=//..", "/pods?x=%70&y=//.."),
        ("/logs/a%20b%3fc%23d%25e", "/logs/a%20b%3Fc%23d%25e"),
        ("/logs/%252e%252e", "/logs/%252e%252e"),
        ("/logs/%c3%a9", "/logs/%C3%A9"),
        ("/logs/é", "/logs/%C3%A9"),
        ("/logs/a:b@c+d(e)", "/logs/a:b@c+d%28e%29"),
        ("/logs/...", "/logs/..."),
    ] {
        assert_eq!(forwardable(target).as_deref(), Some(forwarded), "{target}");
    }
}
