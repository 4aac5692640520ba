//! Reviews against a fake webhook.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests"
)]

#[path = "support/clock.rs"]
mod clock;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use clock::MovedClock;
use portcullis_client::Connection;
use portcullis_client::review::cache::Ttl;
use portcullis_client::review::{ReviewError, ReviewMetrics, Reviews, Settings};
use portcullis_policy::{Attributes, Decision, ResourceRequest, User};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

/// A server, reviews asked of it, and their clock.
struct Rig {
    service: WebhookService,
    connection: Connection,
    reviews: Reviews,
    clock: MovedClock,
    _scratch: Scratch,
}

impl Rig {
    async fn start(behaviour: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(Settings::default(), behaviour).await
    }

    async fn with(
        settings: Settings,
        behaviour: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let scratch = Scratch::new();
        let service = WebhookService::start(scratch.path(), behaviour);
        let server = format!("https://{}", service.address());
        let file = service.kubeconfig_with(&server, "certificate-authority: ca.pem");
        let connection = Connection::from_kubeconfig(&file, None).await.unwrap();
        let clock = MovedClock::at(SystemTime::now());
        let settings = Settings { clock: Arc::new(clock.clone()), ..settings };
        let reviews = Reviews::new(connection.clone(), settings).unwrap();
        Self { service, connection, reviews, clock, _scratch: scratch }
    }

    fn calls(&self) -> usize {
        self.service.asked().len()
    }

    async fn access(&self, user: &User, subresource: &str) -> Result<Decision<()>, ReviewError> {
        self.reviews.access(&attributes(user, subresource, "/")).await
    }

    /// Moves the clock until there is an answer.
    async fn through_retries<T>(&self, answer: impl Future<Output = T>) -> T {
        let moving = async {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                self.clock.advance(Duration::from_millis(100));
            }
        };
        tokio::select! { answer = answer => answer, () = moving => unreachable!() }
    }
}

fn attributes<'a>(user: &'a User, subresource: &'a str, path: &'a str) -> Attributes<'a> {
    let resource = ResourceRequest {
        version: "v1",
        resource: "nodes",
        subresource,
        name: "node-1",
        ..ResourceRequest::default()
    };
    Attributes { user, verb: "get", path, resource: Some(resource) }
}

fn status(status: Value) -> impl Fn(&Asked, usize) -> Reply + Send + Sync {
    move |asked, _| Reply::status(asked, &status)
}

/// The answer to a TokenReview.
fn token(asked: &Asked, status: &Value) -> Reply {
    let mut answer = asked.review.clone();
    answer["status"] = status.clone();
    Reply::Body(201, "application/json", answer.to_string())
}

fn jane() -> User {
    User::new("jane", ["b", "a"])
}

#[tokio::test]
async fn a_question_is_the_caller_and_the_attributes_and_never_the_path_ka_52() {
    let rig = Rig::start(status(json!({"allowed": true}))).await;
    let mut user = jane();
    user.uid = "1".into();
    user.extra.insert("k".into(), vec!["v".into(), "w".into()]);
    assert_eq!(rig.reviews.access(&attributes(&user, "pods", "/pods")).await, Ok(Decision::Allow(())));
    let asked = &rig.service.asked()[0];
    assert_eq!(asked.line, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews HTTP/1.1");
    assert_eq!(
        asked.review,
        json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {
                "user": "jane", "uid": "1", "groups": ["b", "a"], "extra": {"k": ["v", "w"]},
                "resourceAttributes": {
                    "verb": "get", "version": "v1", "resource": "nodes", "subresource": "pods", "name": "node-1",
                },
            },
            "status": {"allowed": false},
        })
    );
}

#[tokio::test]
async fn a_status_is_an_opinion_and_both_at_once_is_an_error_ka_53() {
    for (given, opinion) in [
        (json!({"allowed": true}), Ok(Decision::Allow(()))),
        (json!({"allowed": true, "evaluationError": "something"}), Ok(Decision::Allow(()))),
        (json!({"allowed": false, "denied": true}), Ok(Decision::Deny(()))),
        (json!({"allowed": false}), Ok(Decision::NoOpinion(()))),
        (json!({"allowed": true, "denied": true}), Err(ReviewError::Contradiction)),
        (json!({}), Ok(Decision::NoOpinion(()))),
    ] {
        let rig = Rig::start(status(given)).await;
        assert_eq!(rig.access(&jane(), "pods").await, opinion);
        // K21: it is kept, and stays an error.
        assert_eq!(rig.reviews.cached_access(&attributes(&jane(), "pods", "/")), Some(opinion));
        assert_eq!(rig.calls(), 1);
    }
}

#[tokio::test]
async fn answers_count_for_their_time_and_not_longer_ka_61() {
    for (given, ttl) in [
        (json!({"allowed": true}), 300 * SECOND),
        (json!({"allowed": true, "denied": true}), 300 * SECOND),
        (json!({"allowed": false}), 30 * SECOND),
        (json!({"allowed": false, "denied": true}), 30 * SECOND),
    ] {
        let rig = Rig::start(status(given)).await;
        let _ = rig.access(&jane(), "pods").await;
        rig.clock.advance(ttl);
        let _ = rig.access(&jane(), "pods").await;
        assert_eq!(rig.calls(), 1, "until its deadline");
        rig.clock.advance(NANO);
        assert_eq!(rig.reviews.cached_access(&attributes(&jane(), "pods", "/")), None);
        let _ = rig.access(&jane(), "pods").await;
        assert_eq!(rig.calls(), 2, "after it");
    }
}

#[tokio::test]
async fn a_grant_that_is_revoked_is_used_up_and_one_that_is_added_is_waited_for_k23() {
    let allowed = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&allowed);
    let rig =
        Rig::start(move |asked, _| Reply::status(asked, &json!({"allowed": now.load(Ordering::Relaxed)})))
            .await;
    assert_eq!(rig.access(&jane(), "pods").await, Ok(Decision::Allow(())));
    allowed.store(false, Ordering::Relaxed);
    rig.clock.advance(300 * SECOND);
    assert_eq!(rig.access(&jane(), "pods").await, Ok(Decision::Allow(())));
    rig.clock.advance(NANO);
    assert_eq!(rig.access(&jane(), "pods").await, Ok(Decision::NoOpinion(())));
    allowed.store(true, Ordering::Relaxed);
    rig.clock.advance(30 * SECOND);
    assert_eq!(rig.access(&jane(), "pods").await, Ok(Decision::NoOpinion(())));
    rig.clock.advance(NANO);
    assert_eq!(rig.access(&jane(), "pods").await, Ok(Decision::Allow(())));
}

#[tokio::test]
async fn answers_of_no_time_are_not_kept_ka_61() {
    let access_ttl = Ttl { authorized: Duration::ZERO, ..Ttl::default() };
    let zero = Settings { access_ttl, token_ttl: Duration::ZERO, ..Settings::default() };
    let rig = Rig::with(zero, |asked, _| {
        token(asked, &json!({"allowed": true, "authenticated": true, "user": {"username": "jane"}}))
    })
    .await;
    for calls in [1, 3] {
        assert_eq!(rig.access(&jane(), "pods").await, Ok(Decision::Allow(())));
        assert_eq!(rig.calls(), calls);
        rig.reviews.token(b"t").await.unwrap().unwrap();
        assert_eq!(rig.calls(), calls + 1);
    }
}

#[tokio::test]
async fn the_path_is_no_part_of_a_question_but_a_long_one_keeps_its_answer_out_k22_k24_ka_62() {
    let rig = Rig::start(status(json!({"allowed": true}))).await;
    let user = jane();
    // "get", "v1", "nodes", "healthz" and "node-1" have 23 bytes.
    let long = "/".repeat(10_000 - 23);
    for calls in [1, 2] {
        rig.reviews.access(&attributes(&user, "healthz", &long)).await.unwrap();
        assert_eq!(rig.calls(), calls, "K24");
    }
    let shorter = &long[1..];
    for path in [shorter, "/healthz/ping", "/healthz/log", &long] {
        rig.reviews.access(&attributes(&user, "healthz", path)).await.unwrap();
        assert_eq!(rig.calls(), 3, "K22; and lookups are never skipped");
    }
    // The user info does not count.
    let many = User::new("jane", vec!["g".repeat(100); 200]);
    for _ in 0..2 {
        rig.access(&many, "healthz").await.unwrap();
        assert_eq!(rig.calls(), 4);
    }
}

#[tokio::test]
async fn another_user_group_order_or_extra_is_another_question_ka_60() {
    let rig = Rig::start(status(json!({"allowed": true}))).await;
    let mut extra = jane();
    extra.extra.insert("authentication.kubernetes.io/credential-id".into(), vec!["X509SHA256=00".into()]);
    let mut uid = jane();
    uid.uid = "1".into();
    let users = [jane(), User::new("jane", ["a", "b"]), User::new("jane", ["b"]), extra, uid];
    for _ in 0..2 {
        for user in &users {
            rig.access(user, "pods").await.unwrap();
        }
    }
    assert_eq!(rig.calls(), users.len());
}

#[tokio::test]
async fn errors_are_never_an_opinion_and_never_kept() {
    let body = |body: &str| Reply::Body(201, "application/json", body.to_owned());
    let large = format!("{{\"status\":{{\"allowed\":true}},\"x\":\"{}\"}}", "x".repeat(300_000));
    for reply in [
        body(""),
        body("{"),
        body(r#"{"kind":"Status","apiVersion":"v1","status":"Failure"}"#),
        body(r#"{"apiVersion":"authorization.k8s.io/v1beta1","status":{"allowed":true}}"#),
        body(&large),
        Reply::Body(403, "application/json", r#"{"status":{"allowed":true},"message":"no"}"#.to_owned()),
        Reply::Body(307, "application/json", r#"{"status":{"allowed":true}}"#.to_owned()),
    ] {
        let shown = format!("{reply:?}").chars().take(100).collect::<String>();
        let rig = Rig::start(move |_, _| reply.clone()).await;
        for calls in [1, 2] {
            let access = rig.access(&jane(), "pods").await;
            assert!(
                matches!(access, Err(ReviewError::Answer { .. } | ReviewError::Refused { .. })),
                "{shown}: {access:?}"
            );
            assert_eq!(rig.calls(), calls, "{shown}");
        }
        assert!(rig.reviews.token(b"sesame").await.is_err());
    }
}

#[tokio::test]
async fn what_passes_is_tried_five_times_and_what_does_not_once_ka_50() {
    let failure = |code, reason: &str| {
        Reply::Body(code, "application/json", json!({"kind": "Status", "reason": reason}).to_string())
    };
    for (reply, calls) in [
        (failure(500, "InternalError"), 5),
        (failure(504, "Timeout"), 5),
        (failure(429, "TooManyRequests"), 5),
        (Reply::Head(503, "Retry-After: 1\r\n".to_owned()), 5),
        (Reply::Close, 5),
        (failure(503, "ServiceUnavailable"), 1),
        (failure(401, "Unauthorized"), 1),
        (failure(403, "Forbidden"), 1),
        (failure(400, "BadRequest"), 1),
    ] {
        let shown = format!("{reply:?}");
        let rig = Rig::start(move |_, _| reply.clone()).await;
        let access = rig.through_retries(rig.access(&jane(), "pods")).await;
        assert!(access.is_err(), "{shown}");
        assert_eq!(rig.calls(), calls, "{shown}");
    }
    // The second one goes well.
    let rig = Rig::start(move |asked, before| match before {
        0 => Reply::Close,
        1 => failure(500, "InternalError"),
        _ => Reply::status(asked, &json!({"allowed": true})),
    })
    .await;
    assert_eq!(rig.through_retries(rig.access(&jane(), "pods")).await, Ok(Decision::Allow(())));
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn the_server_says_how_long_to_wait_and_is_not_believed_beyond_ten_seconds() {
    // The timeout of the first attempt ends after ten seconds, too.
    for (asked_for, waited, sleeps) in [(4, 4 * SECOND, 1), (3600, 10 * SECOND, 2)] {
        let rig = Rig::start(move |asked, before| match before {
            0 => Reply::Head(429, format!("Retry-After: {asked_for}\r\n")),
            _ => Reply::status(asked, &json!({"allowed": true})),
        })
        .await;
        let began = rig.reviews.clone();
        let user = jane();
        let asking = tokio::spawn(async move { began.access(&attributes(&user, "pods", "/")).await });
        rig.clock.wait_for_sleeps(sleeps, waited).await;
        assert_eq!(rig.calls(), 1);
        rig.clock.advance(waited - SECOND);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(rig.calls(), 1);
        rig.clock.advance(SECOND);
        assert_eq!(asking.await.unwrap(), Ok(Decision::Allow(())));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_allows_nothing_k19() {
    let rig = Rig::start(status(json!({"allowed": true}))).await;
    let file = rig.service.kubeconfig_with("https://127.0.0.1:1", "certificate-authority: ca.pem");
    let connection = Connection::from_kubeconfig(&file, None).await.unwrap();
    let reviews = Reviews::new(connection, Settings::default()).unwrap();
    let unreachable = |error: ReviewError| match error {
        ReviewError::Unreachable { server, .. } => assert_eq!(server, "https://127.0.0.1:1"),
        other => panic!("{other}"),
    };
    unreachable(reviews.access(&attributes(&jane(), "pods", "/")).await.unwrap_err());
    unreachable(reviews.token(b"sesame").await.unwrap_err());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_after_half_a_minute_ka_45() {
    let rig = Rig::start(|_, _| Reply::After(600 * SECOND, Box::new(Reply::Close))).await;
    let (reviews, user) = (rig.reviews.clone(), jane());
    let asking = tokio::spawn(async move { reviews.access(&attributes(&user, "pods", "/")).await });
    assert!(rig.clock.advance_until(35, || asking.is_finished()).await);
    assert!(matches!(asking.await.unwrap(), Err(ReviewError::Unreachable { .. })));
    // Each attempt had ten seconds.
    assert!((2..=3).contains(&rig.calls()), "{}", rig.calls());
}

#[tokio::test]
async fn a_token_is_somebodys_for_two_minutes_ka_44_ka_45() {
    let user = json!({
        "username": "jane", "uid": "1", "groups": ["b", "a"], "extra": {"k": ["v"], "none": null},
    });
    let rig = Rig::start(move |asked, _| {
        let good = asked.review["spec"]["token"] == "sesame";
        token(asked, &if good { json!({"authenticated": true, "user": user}) } else { json!({"user": {}}) })
    })
    .await;
    assert_eq!(rig.reviews.cached_token(b"sesame"), None);
    let found = rig.reviews.token(b"sesame").await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.uid.as_str()), ("jane", "1"));
    assert_eq!(found.groups, ["b", "a", "system:authenticated"]);
    assert_eq!(found.extra["k"], ["v"]);
    assert_eq!(rig.reviews.token(b"other").await, Ok(None));
    let asked = rig.service.asked();
    assert_eq!(asked[0].line, "POST /apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1");
    assert_eq!(asked[0].review["spec"], json!({"token": "sesame"}), "no audiences");
    rig.clock.advance(120 * SECOND);
    assert_eq!(rig.reviews.cached_token(b"sesame"), Some(Ok(Some(found))));
    assert_eq!(rig.reviews.cached_token(b"other"), Some(Ok(None)));
    rig.clock.advance(NANO);
    assert_eq!(rig.reviews.cached_token(b"sesame"), None);
    assert_eq!(rig.reviews.cached_token(b"other"), None);
    assert_eq!(rig.calls(), 2);
}

#[tokio::test]
async fn a_token_rejected_for_a_reason_is_an_error_that_shows_none_of_it_ka_44() {
    let rig = Rig::start(|asked, before| match before {
        0 => token(asked, &json!({"user": {}, "error": "[invalid bearer token]"})),
        1 => token(asked, &json!({"error": format!("what is {}", asked.review["spec"]["token"])})),
        _ => Reply::Body(
            422,
            "application/json",
            json!({"message": format!("bad: {}", asked.review["spec"])}).to_string(),
        ),
    })
    .await;
    let secret = b"sesame.sesame.sesame";
    let error = rig.reviews.token(secret).await.unwrap_err();
    assert_eq!(error, ReviewError::Token("[invalid bearer token]".into()));
    for _ in 0..2 {
        let error = rig.reviews.token(secret).await.unwrap_err();
        assert!(
            !error.to_string().contains("sesame") && !format!("{error:?}").contains("sesame"),
            "{error:?}"
        );
    }
    assert_eq!(rig.calls(), 3, "errors are not kept");
}

#[tokio::test]
async fn what_cannot_be_a_token_is_rejected_unasked() {
    let rig =
        Rig::start(|asked, _| token(asked, &json!({"authenticated": true, "user": {"username": "jane"}})))
            .await;
    for bad in [vec![], vec![0xff], vec![b'a'; (64 << 10) + 1]] {
        assert_eq!(rig.reviews.token(&bad).await, Ok(None));
        assert_eq!(rig.reviews.cached_token(&bad), Some(Ok(None)));
    }
    assert_eq!(rig.calls(), 0);
    assert!(rig.reviews.token(&vec![b'a'; 64 << 10]).await.unwrap().is_some());
    let large = User::new("jane", vec!["g".repeat(1000); 300]);
    assert_eq!(rig.access(&large, "pods").await, Err(ReviewError::TooLarge));
    assert_eq!(rig.calls(), 1);
}

#[tokio::test]
async fn made_up_tokens_push_out_no_good_one() {
    let rig = Rig::start(|asked, _| {
        let good = asked.review["spec"]["token"] == "sesame";
        token(asked, &json!({"authenticated": good, "user": {"username": "jane"}}))
    })
    .await;
    rig.reviews.token(b"sesame").await.unwrap().unwrap();
    for made_up in 0..4200 {
        assert_eq!(rig.reviews.token(format!("{made_up}").as_bytes()).await, Ok(None));
    }
    assert!(rig.reviews.cached_token(b"sesame").is_some());
    assert_eq!(rig.reviews.cached_token(b"0"), None, "rejected ones are bounded");
    assert_eq!(rig.reviews.cached_token(b"4199"), Some(Ok(None)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_keeps_its_seat_when_the_caller_goes_away() {
    let released = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&released);
    let rig = Rig::start(move |asked, _| {
        while !gate.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        token(asked, &json!({"authenticated": true, "user": {"username": "jane"}}))
    })
    .await;
    let (seat, reviews) = (Arc::new(()), rig.reviews.clone());
    let held = Arc::clone(&seat);
    let caller = tokio::spawn(async move { reviews.token_with(b"sesame", held).await });
    while rig.calls() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&seat), 2, "the call goes on");
    released.store(true, Ordering::SeqCst);
    while Arc::strong_count(&seat) > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It has kept its answer.
    assert!(rig.reviews.cached_token(b"sesame").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_questions_go_over_few_connections() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, top) = (Arc::clone(&now), Arc::clone(&most));
    let rig = Rig::start(move |asked, _| {
        top.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        counted.fetch_sub(1, Ordering::SeqCst);
        Reply::status(asked, &json!({"allowed": true}))
    })
    .await;
    let asking = (0..300).map(|name| {
        let reviews = rig.reviews.clone();
        tokio::spawn(async move {
            let user = User::new(format!("user-{name}"), ["a"]);
            reviews.access(&attributes(&user, "pods", "/")).await
        })
    });
    for answer in asking.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap(), Ok(Decision::Allow(())));
    }
    assert_eq!(rig.calls(), 300);
    assert!((1..=32).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[tokio::test]
async fn a_certificate_that_was_renewed_is_shown_from_the_next_review_on() {
    let rig = Rig::start(status(json!({"allowed": true}))).await;
    rig.access(&jane(), "pods").await.unwrap();
    assert!(rig.service.asked()[0].has_certificate);
    // Another file in the place of the one that was read.
    let name = "kubeconfig-rotated.yaml";
    let file = rig.service.file(name);
    let first = rig
        .service
        .kubeconfig_with(&format!("https://{}", rig.service.address()), "certificate-authority: ca.pem");
    let text = std::fs::read_to_string(first).unwrap();
    std::fs::write(&file, &text).unwrap();
    let connection = Connection::from_kubeconfig(&file, None).await.unwrap();
    let reviews = Reviews::new(connection.clone(), Settings::default()).unwrap();
    reviews.access(&attributes(&jane(), "pods", "/")).await.unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.contains("client-")).collect();
    std::fs::write(&file, without.join("\n").replace("user:\n", "user: {}\n")).unwrap();
    assert!(connection.refresh().await.unwrap());
    reviews.access(&attributes(&jane(), "log", "/")).await.unwrap();
    let shown: Vec<bool> = rig.service.asked().iter().map(|asked| asked.has_certificate).collect();
    assert_eq!(shown, [true, true, false]);
    assert!(rig.connection.server().contains("127.0.0.1"));
}

#[tokio::test]
async fn calls_are_counted_and_hits_are_not_ka_76() {
    let metrics = ReviewMetrics::default();
    let settings = Settings { metrics: metrics.clone(), ..Settings::default() };
    let rig = Rig::with(settings, |asked, before| match before {
        0 => Reply::Close,
        1 => Reply::Body(500, "application/json", "{}".to_owned()),
        2 | 3 => Reply::status(asked, &json!({"allowed": true})),
        _ => token(asked, &json!({})),
    })
    .await;
    for _ in 0..3 {
        rig.through_retries(rig.access(&jane(), "pods")).await.unwrap();
    }
    rig.access(&jane(), "log").await.unwrap();
    assert_eq!(rig.reviews.token(b"t").await, Ok(None));
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "apiserver_delegated_authz_request_total{code=\"<error>\"} 1",
        "apiserver_delegated_authz_request_total{code=\"500\"} 1",
        "apiserver_delegated_authz_request_total{code=\"200\"} 2",
        "apiserver_delegated_authz_request_duration_seconds_count{code=\"200\"} 2",
        "apiserver_delegated_authn_request_total{code=\"201\"} 1",
        "apiserver_delegated_authn_request_duration_seconds_bucket{le=\"0.25\",code=\"201\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    for bound in ["0.25", "0.5", "0.7", "1.0", "1.5", "3.0", "5.0", "10.0", "+Inf"] {
        assert!(text.contains(&format!("le=\"{bound}\"")), "{bound}");
    }
}

/// One that takes part in the property.
#[derive(Clone, Debug)]
struct Caller {
    question: u8,
    goes_away: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn who_asks_the_same_waits_for_the_same_call_ka_45(
        callers in prop::collection::vec(
            (0_u8..4, prop::bool::weighted(0.2)).prop_map(|(question, goes_away)| Caller { question, goes_away }),
            1..60,
        ),
        about_tokens in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (asked, answered) = runtime.block_on(async {
            let rig = Rig::start(|asked, _| {
                std::thread::sleep(Duration::from_millis(10));
                token(asked, &json!({
                    "allowed": true, "authenticated": true, "user": {"username": asked.review["spec"]["token"]},
                }))
            })
            .await;
            let answered = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = callers.iter().cloned().map(|caller| {
                let (reviews, answered) = (rig.reviews.clone(), Arc::clone(&answered));
                let task = tokio::spawn(async move {
                    let name = format!("user-{}", caller.question);
                    let is_right = if about_tokens {
                        reviews.token(name.as_bytes()).await.unwrap().unwrap().name == name
                    } else {
                        let user = User::new(name, ["a"]);
                        reviews.access(&attributes(&user, "pods", "/")).await == Ok(Decision::Allow(()))
                    };
                    answered.lock().unwrap().push(is_right);
                });
                if caller.goes_away {
                    task.abort();
                }
                (caller, task)
            }).collect();
            for (caller, task) in tasks {
                assert!(task.await.is_ok() || caller.goes_away);
            }
            let right = answered.lock().unwrap().clone();
            (rig.service.asked(), right)
        });
        let stayed = callers.iter().filter(|caller| !caller.goes_away).count();
        prop_assert!(answered.len() >= stayed && answered.iter().all(|right| *right));
        let mut questions: Vec<String> = asked.iter().map(|asked| asked.review["spec"].to_string()).collect();
        let calls = questions.len();
        questions.sort();
        questions.dedup();
        prop_assert_eq!(calls, questions.len(), "one call for each question");
    }
}
