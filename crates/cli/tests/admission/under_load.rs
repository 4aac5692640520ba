//! A webhook that answers late holds up the writes that it is asked about, and no others.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::available_parallelism;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until;
use portcullis_testkit::webhook::WebhookService;
use serde_json::json;

use crate::admission::support::{CONFIG_MAPS, Server, VALIDATING, allow, config_map, configure, webhook};

#[test]
fn large_writes_go_on_while_others_wait_for_a_webhook() {
    // Half of the processors work on large objects at a time. As many of one user may wait for webhooks, and at least four.
    let processors = available_parallelism().unwrap().get();
    let writers = processors.div_ceil(2).max(4);
    let scratch = Scratch::new();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let its_gate = Arc::clone(&gate);
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let (is_open, opened) = &*its_gate;
        let is_open = is_open.lock().unwrap();
        drop(opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        allow(asked)
    });
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    let fields = json!({
        "timeoutSeconds": 30, "objectSelector": {"matchLabels": {"x": "slow"}},
    });
    configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &fields)]);
    let large = |name: &str, label: &str| {
        let mut map = config_map(name);
        map["metadata"]["labels"] = json!({"x": label});
        map["data"]["large"] = "x".repeat(200_000).into();
        map
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..writers)
            .map(|at| {
                let (server, map) = (&server, large(&format!("slow-{at}"), "slow"));
                scope.spawn(move || server.admin().ask("POST", CONFIG_MAPS, Some(&map)).unwrap().code)
            })
            .collect();
        until("all wait for the webhook", || service.asked().len() == writers);
        admin.must(201, "POST", CONFIG_MAPS, Some(&large("quick", "quick")));
        let refused = admin.ask("POST", CONFIG_MAPS, Some(&large("one-more", "slow"))).unwrap();
        refused.assert_status(429, "TooManyRequests");
        // Small ones are not held back.
        admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("small")));
        let (is_open, opened) = &*gate;
        *is_open.lock().unwrap() = true;
        opened.notify_all();
        for writer in waiting {
            assert_eq!(writer.join().unwrap(), 201);
        }
    });
}
