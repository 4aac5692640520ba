//! How a watch goes on after a failure, by what a server that is played here answers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::fs;

use portcullis_client::connect::{Credential, Parts};
use portcullis_client::watched::{Event, Watched};
use portcullis_client::{Connection, Resource};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::{Value, json};

/// The events of a server with this newest revision. Its first list has revision 5, and each watch ends at once.
async fn events(first: Value, newest: &'static str, count: usize) -> Vec<String> {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let body = match asked.line.as_str() {
            line if line.contains("watch=true") => String::new(),
            line if line.contains("limit=1 ") => json!({"metadata": {"resourceVersion": newest}}).to_string(),
            _ => first.to_string(),
        };
        Reply::Body(200, "application/json", body)
    });
    let connection = Connection::from_parts(Parts {
        server: format!("https://{}", service.address()),
        certificate_authority: fs::read(service.file("ca.pem")).unwrap(),
        credential: Credential::Anonymous,
    });
    let connection = connection.await.unwrap();
    let mut watched = Watched::<Value>::new(&connection, Resource::new("", "v1", "pods"), None);
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(match watched.next().await {
            Event::Restarted => "restarted".to_owned(),
            Event::Listed(object) => format!("listed {}", object["metadata"]["name"]),
            Event::Synced => "synced".to_owned(),
            Event::Current => "current".to_owned(),
            Event::Resumed => "resumed".to_owned(),
            Event::Failed { .. } => "failed".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    events
}

fn list() -> Value {
    json!({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "a"}}]})
}

#[tokio::test]
async fn a_watch_goes_on_only_if_the_server_has_not_gone_back_bc_21() {
    let start = ["restarted", "listed \"a\"", "synced", "failed"];
    for (newest, next) in [("5", "current"), ("7", "resumed"), ("3", "restarted")] {
        let found = events(list(), newest, 5).await;
        assert_eq!(found, [&start[..], &[next]].concat(), "{newest}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_not_an_empty_list_bc_21() {
    for answer in [json!({}), json!({"kind": "Status"}), json!({"metadata": {}, "items": []}), json!("ok")] {
        assert_eq!(events(answer.clone(), "5", 3).await, ["restarted", "failed", "restarted"], "{answer}");
    }
}
