//! What a feed takes for current, by what a server that is played here answers.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

#[path = "support/clock.rs"]
mod clock;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use portcullis_client::Connection;
use portcullis_client::connect::{Credential, Parts};
use portcullis_client::feed::{Feed, Standing};
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{EngineConfig, LiveEngine};
use portcullis_policy::objects::Kind;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until_async;
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::{Value, json};

use crate::clock::MovedClock;

const LIMIT: Duration = Duration::from_secs(60);

fn pod(name: &str, revision: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "resourceVersion": revision},
        "spec": {"containers": []},
    })
}

/// A server that was away for ten minutes, in which a pod was created at revision 6 and another one deleted at revision 9. The
/// deletion arrives later than the creation.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_current_again_when_all_that_was_missed_has_arrived_bc_22() {
    let scratch = Scratch::new();
    let clock = MovedClock::at(SystemTime::now());
    let (release, released) = mpsc::channel();
    let (released, watches) = (Mutex::new(released), Arc::<AtomicUsize>::default());
    let (away, counted) = (clock.clone(), Arc::clone(&watches));
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let body = match asked.line.as_str() {
            line if line.contains("limit=1 ") => json!({"metadata": {"resourceVersion": "9"}}).to_string(),
            line if !line.contains("watch=true") => {
                json!({"metadata": {"resourceVersion": "5"}, "items": [pod("deleted", "5")]}).to_string()
            }
            _ => match counted.fetch_add(1, Ordering::AcqRel) {
                0 => {
                    away.advance(LIMIT * 10);
                    String::new()
                }
                1 => json!({"type": "ADDED", "object": pod("created", "6")}).to_string() + "\n",
                2 => {
                    released.lock().unwrap().recv().unwrap();
                    json!({"type": "DELETED", "object": pod("deleted", "9")}).to_string() + "\n"
                }
                _ => String::new(),
            },
        };
        Reply::Body(200, "application/json", body)
    });
    let connection = Connection::from_parts(Parts {
        server: format!("https://{}", service.address()),
        certificate_authority: fs::read(service.file("ca.pem")).unwrap(),
        credential: Credential::Anonymous,
    });
    let config = EngineConfig { modes: vec![Mode::Node], ..EngineConfig::default() };
    let engine = Arc::new(LiveEngine::new(&config).unwrap());
    let feed = Feed::follow(&connection.await.unwrap(), &[Kind::Pod], engine, Arc::new(clock), LIMIT);
    let objects = || feed.standings().map(|Standing { objects, .. }| objects).sum::<u64>();
    until_async("the watch has gone on again", || watches.load(Ordering::Acquire) == 3).await;
    assert_eq!(objects(), 2, "the created pod has arrived");
    assert!(!feed.is_current(&[Kind::Pod], LIMIT), "{feed:?}");
    release.send(()).unwrap();
    until_async("the deletion has arrived", || objects() == 1).await;
    until_async("the pods are known again", || feed.is_current(&[Kind::Pod], LIMIT)).await;
}
