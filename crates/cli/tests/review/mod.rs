//! Reviews and local decisions of `portcullis_client`, against a running `portcullis serve`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::clock::MovedClock;
use portcullis_client::rbac::{self, LocalRbac};
use portcullis_client::review::{self, ReviewError, Reviews};
use portcullis_client::{Connection, Resource};
use portcullis_policy::{Attributes, Decision, ResourceRequest, User};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{program, wait};
use serde_json::{Value, json};

const ROLES: Resource = Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
const BINDINGS: Resource = Resource::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings");
const NANO: Duration = Duration::from_nanos(1);

async fn connect(data: &Path) -> Connection {
    Connection::from_kubeconfig(&data.join("admin.kubeconfig"), None).await.unwrap()
}

fn ask<'a>(user: &'a User, verb: &'a str, subresource: &'a str) -> Attributes<'a> {
    let resource = ResourceRequest {
        version: "v1",
        resource: "nodes",
        subresource,
        name: "node-1",
        ..ResourceRequest::default()
    };
    Attributes { user, verb, path: "/", resource: Some(resource) }
}

/// Lets a user do this with a part of nodes, by a role and a binding of the user's name.
async fn grant(connection: &Connection, user: &str, verb: &str, resource: &str) {
    let role = json!({
        "metadata": {"name": user}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}],
    });
    connection.create::<Value>(&ROLES, &role).await.unwrap();
    bind(connection, user, user).await;
}

async fn bind(connection: &Connection, user: &str, role: &str) {
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    connection.create::<Value>(&BINDINGS, &binding).await.unwrap();
}

async fn remove(connection: &Connection, resource: &Resource, name: &str) {
    connection.text(http::Method::DELETE, &resource.object(name), None).await.unwrap();
}

#[tokio::test]
async fn both_attribute_sets_are_asked_for_and_a_revoked_grant_lasts_its_time_k1_k23_ka_57() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let connection = connect(&data).await;
    grant(&connection, "fine", "get", "nodes/pods").await;
    grant(&connection, "coarse", "get", "nodes/proxy").await;
    let clock = MovedClock::at(SystemTime::now());
    let settings = review::Settings { clock: Arc::new(clock.clone()), ..review::Settings::default() };
    let reviews = Reviews::new(connection.clone(), settings).unwrap();
    let (fine, coarse) = (User::new("fine", ["a"]), User::new("coarse", ["a"]));
    for (user, pods, proxy) in [
        (&fine, Decision::Allow(()), Decision::NoOpinion(())),
        (&coarse, Decision::NoOpinion(()), Decision::Allow(())),
    ] {
        assert_eq!(reviews.access(&ask(user, "get", "pods")).await, Ok(pods));
        assert_eq!(reviews.access(&ask(user, "get", "proxy")).await, Ok(proxy));
    }
    assert_eq!(reviews.access(&ask(&fine, "create", "pods")).await, Ok(Decision::NoOpinion(())));
    let masters = User::new("root", ["system:masters"]);
    assert_eq!(reviews.access(&ask(&masters, "", "proxy")).await, Ok(Decision::Allow(())));

    remove(&connection, &BINDINGS, "fine").await;
    clock.advance(Duration::from_secs(300));
    assert_eq!(reviews.access(&ask(&fine, "get", "pods")).await, Ok(Decision::Allow(())));
    clock.advance(NANO);
    assert_eq!(reviews.access(&ask(&fine, "get", "pods")).await, Ok(Decision::NoOpinion(())));
    bind(&connection, "fine", "fine").await;
    clock.advance(Duration::from_secs(30));
    assert_eq!(reviews.access(&ask(&fine, "get", "pods")).await, Ok(Decision::NoOpinion(())));
    clock.advance(NANO);
    assert_eq!(reviews.access(&ask(&fine, "get", "pods")).await, Ok(Decision::Allow(())));

    // Cached answers remain when the server is gone; all others are errors (KA-56, K19).
    served.kill();
    assert_eq!(reviews.access(&ask(&fine, "get", "pods")).await, Ok(Decision::Allow(())));
    let asked = ask(&fine, "get", "log");
    let moving = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            clock.advance(Duration::from_millis(100));
        }
    };
    // A connection that was lost is tried again after a while.
    let error = tokio::select! {
        answer = reviews.access(&asked) => answer.unwrap_err(),
        () = moving => unreachable!(),
    };
    assert!(matches!(error, ReviewError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_token_of_the_server_is_its_service_account_and_another_is_an_error_ka_44() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let _served = program!().serve(&data);
    let connection = connect(&data).await;
    let accounts = Resource::new("", "v1", "serviceaccounts").within("default");
    connection.create::<Value>(&accounts, &json!({"metadata": {"name": "reader"}})).await.unwrap();
    let path = format!("{}/token", accounts.object("reader"));
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let body = Some(("application/json", body.to_string().into_bytes()));
    let made: Value = connection.call(http::Method::POST, &path, body).await.unwrap();
    let token = made["status"]["token"].as_str().unwrap();

    let reviews = Reviews::new(connection, review::Settings::default()).unwrap();
    let user = reviews.token(token.as_bytes()).await.unwrap().unwrap();
    assert_eq!(user.name, "system:serviceaccount:default:reader");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    );
    assert!(user.extra.contains_key("authentication.kubernetes.io/credential-id"), "{user:?}");
    let forged = format!("{}x", &token[..token.len() - 1]);
    for bad in [forged.as_str(), "sesame"] {
        let error = reviews.token(bad.as_bytes()).await.unwrap_err();
        assert!(matches!(error, ReviewError::Token(_)), "{error}");
        assert_eq!(reviews.cached_token(bad.as_bytes()), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rbac_of_the_server_is_decided_here_until_it_may_be_old() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let connection = connect(&data).await;
    grant(&connection, "fine", "get", "nodes/pods").await;
    grant(&connection, "coarse", "*", "nodes/*").await;
    let aggregated = json!({
        "metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]},
    });
    connection.create::<Value>(&ROLES, &aggregated).await.unwrap();
    bind(&connection, "aggregated", "all").await;

    let clock = MovedClock::at(SystemTime::now());
    let settings = rbac::Settings { clock: Arc::new(clock.clone()), ..rbac::Settings::default() };
    let local = LocalRbac::follow(&connection, settings).unwrap();
    let (fine, aggregated) = (User::new("fine", ["a"]), User::new("aggregated", ["a"]));
    let allows =
        |user: &User, subresource: &str| local.authorize(&ask(user, "get", subresource)).unwrap().is_allow();
    wait::until_async("both kinds are known", || local.is_fresh()).await;
    assert!(allows(&fine, "pods") && !allows(&fine, "proxy"));

    // As the server itself decides.
    let reviews = Reviews::new(connection.clone(), review::Settings::default()).unwrap();
    let users = [
        fine.clone(),
        aggregated.clone(),
        User::new("coarse", ["a"]),
        User::new("root", ["system:masters"]),
        User::new("system:kube-controller-manager", ["a"]),
        User::new("somebody", ["system:monitoring"]),
    ];
    for user in &users {
        for verb in ["get", "create", ""] {
            for subresource in ["", "pods", "proxy", "metrics", "log"] {
                let asked = ask(user, verb, subresource);
                let here = local.authorize(&asked).unwrap().is_allow();
                let there = reviews.access(&asked).await.unwrap() == Decision::Allow(());
                assert_eq!(here, there, "{asked:?}");
            }
        }
    }
    let mut within = ask(&fine, "get", "pods");
    within.resource.as_mut().unwrap().namespace = "default";
    assert!(local.authorize(&within).is_none(), "what lies in a namespace is not known here");

    // Changes come by the watch.
    let part = json!({
        "metadata": {"name": "part", "labels": {"to": "all"}},
        "rules": [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}],
    });
    connection.create::<Value>(&ROLES, &part).await.unwrap();
    wait::until_async("the aggregated role grants it", || allows(&aggregated, "pods")).await;
    remove(&connection, &BINDINGS, "fine").await;
    wait::until_async("the grant is gone", || !allows(&fine, "pods")).await;
    bind(&connection, "fine", "fine").await;
    wait::until_async("the grant is back", || allows(&fine, "pods")).await;

    // Kinds that do not change are heard of again and again, and do not grow old.
    let settings = rbac::Settings { limit: Duration::from_secs(3), ..rbac::Settings::default() };
    let quiet = LocalRbac::follow(&connection, settings).unwrap();
    wait::until_async("both kinds are known", || quiet.is_fresh()).await;
    for _ in 0..3 {
        let mut last = quiet.age().unwrap();
        wait::until_async("both kinds were heard of", || {
            let age = quiet.age().unwrap();
            std::mem::replace(&mut last, age) > age
        })
        .await;
        assert!(quiet.authorize(&ask(&fine, "get", "pods")).is_none_or(|decision| decision.is_allow()));
    }
    served.kill();
    wait::until_async("nothing is heard any more", || !quiet.is_fresh()).await;
    assert!(quiet.authorize(&ask(&fine, "get", "pods")).is_none());
    let listed = local.age().unwrap();
    clock.advance(Duration::from_secs(300) - listed);
    assert!(allows(&fine, "pods"), "as old as it may be");
    clock.advance(Duration::from_millis(1));
    assert!(local.authorize(&ask(&fine, "get", "pods")).is_none(), "older than that");
    assert!(!local.is_fresh());
}
