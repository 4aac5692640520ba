//! Several replicas: restarts and kills under load (BC-24).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until;
use serde_json::json;

use crate::webhook::support::Webhook;

/// Two replicas, of which one at a time may be another one.
struct Replicas(Mutex<[Arc<Webhook>; 2]>);

impl Replicas {
    fn get(&self, number: usize) -> Arc<Webhook> {
        Arc::clone(&self.0.lock().unwrap()[number % 2])
    }
}

#[test]
fn no_request_fails_while_replicas_are_restarted_bc_24() {
    let scratch = Scratch::new();
    let state = portcullis_testkit::recorded::unpacked(&scratch, "webhook-authorization/state.json");
    let flags = ["--state", state.to_str().unwrap(), "--shutdown-delay-duration", "3s"];
    let start = || Arc::new(Webhook::start(&scratch, &flags));
    let replicas = Replicas(Mutex::new([start(), start()]));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "nobody", "nonResourceAttributes": {"path": "/nowhere", "verb": "get"}},
    });
    let (is_done, answered, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..4 {
            let (replicas, review, is_done, answered, failed) =
                (&replicas, &review, &is_done, &answered, &failed);
            scope.spawn(move || {
                // As a load balancer: on to the other replica when this one is not ready.
                let mut place = number;
                let mut replica = replicas.get(place);
                let mut client = replica.client();
                while !is_done.load(Ordering::Relaxed) {
                    let is_ready = client.ask("GET", "/readyz", None).is_ok_and(|answer| answer.code == 200);
                    if !is_ready {
                        place += 1;
                        replica = replicas.get(place);
                        client = replica.client();
                        continue;
                    }
                    for _ in 0..20 {
                        match client.ask("POST", "/authorize", Some(review)) {
                            Ok(answer) if answer.code == 200 => answered.fetch_add(1, Ordering::Relaxed),
                            _ => failed.fetch_add(1, Ordering::Relaxed),
                        };
                    }
                }
            });
        }
        for round in 0..4 {
            let new = start();
            let old = std::mem::replace(&mut replicas.0.lock().unwrap()[round % 2], new);
            old.running.signal("TERM");
            until("the old replica is not ready", || {
                old.client().ask("GET", "/readyz", None).map_or(true, |answer| answer.code == 503)
            });
            thread::sleep(Duration::from_secs(1));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.into_inner(), 0);
    assert!(answered.into_inner() > 500);
}
