//! Measures what an answer costs that is already known.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "run by hand")]

use std::hint::black_box;
use std::time::Instant;

use portcullis_client::Connection;
use portcullis_client::review::{Reviews, Settings};
use portcullis_policy::{Attributes, ResourceRequest, User};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::json;

const TIMES: u32 = 1_000_000;

#[tokio::main]
async fn main() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let mut answer = asked.review.clone();
        answer["status"] = json!({"allowed": true, "authenticated": true, "user": {"username": "jane"}});
        Reply::Body(201, "application/json", answer.to_string())
    });
    let server = format!("https://{}", service.address());
    let file = service.kubeconfig_with(&server, "certificate-authority: ca.pem");
    let connection = Connection::from_kubeconfig(&file, None).await.unwrap();
    let reviews = Reviews::new(connection, Settings::default()).unwrap();

    let groups = ["system:serviceaccounts", "system:serviceaccounts:monitoring", "system:authenticated"];
    let mut user = User::new("system:serviceaccount:monitoring:prometheus", groups);
    user.uid = "7d8a3d4e-0000-4000-8000-000000000000".to_owned();
    let id = "JTI=7d8a3d4e-0000-4000-8000-000000000001".to_owned();
    user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
    let resource = ResourceRequest {
        version: "v1",
        resource: "nodes",
        subresource: "metrics",
        name: "node-1",
        ..ResourceRequest::default()
    };
    let attributes = Attributes { user: &user, verb: "get", path: "/metrics", resource: Some(resource) };
    let token = "t".repeat(1000);
    reviews.access(&attributes).await.unwrap();
    reviews.token(token.as_bytes()).await.unwrap().unwrap();

    let measure = |what: &str, run: &dyn Fn()| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| run());
        println!("{what}: {} ns", began.elapsed().as_nanos() / u128::from(TIMES));
    };
    measure("cached_access", &|| drop(black_box(reviews.cached_access(&attributes).unwrap())));
    measure("cached_token of 1000 bytes", &|| {
        drop(black_box(reviews.cached_token(token.as_bytes()).unwrap()));
    });
    let began = Instant::now();
    for _ in 0..TIMES {
        black_box(reviews.access(&attributes).await.unwrap());
    }
    println!("access, awaited: {} ns", began.elapsed().as_nanos() / u128::from(TIMES));
    assert_eq!(service.asked().len(), 2);
}
