//! Attacks on `portcullis webhook`.

use std::net::SocketAddr;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::process::raise_open_files;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::client_certificate;
use serde_json::json;

use crate::connections;
use crate::honest::{Ask, Target, expect, withstand_each};
use crate::webhook_support::{Webhook, command};

/// A webhook whose callers have certificates.
struct Attacked {
    webhook: Webhook,
    _scratch: Scratch,
}

impl Attacked {
    fn start() -> Self {
        raise_open_files();
        let scratch = Scratch::new();
        let folder = scratch.path().join("webhook");
        // Makes the certificates.
        drop(command(&folder, &[]));
        client_certificate(&folder, "thief");
        let authority = folder.join("ca.pem");
        let flags = ["--client-ca-file", authority.to_str().unwrap()];
        let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &flags);
        Self { webhook, _scratch: scratch }
    }
}

impl Target for Attacked {
    fn process(&self) -> u32 {
        self.webhook.running.id()
    }

    fn address(&self) -> SocketAddr {
        self.webhook.running.address()
    }

    fn anonymous(&self) -> Identity {
        Identity::anonymous(&self.webhook.file("ca.pem"))
    }

    fn known(&self) -> Identity {
        let file = |name: &str| self.webhook.file(name);
        Identity::read(&file("ca.pem"), &file("thief.pem"), &file("thief-key.pem"))
    }

    fn honest(&self) -> Vec<(&'static str, Ask)> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": "nobody", "nonResourceAttributes": {"path": "/nowhere", "verb": "get"}},
        });
        let mut apiserver = self.webhook.apiserver();
        let mut kubelet = Client::new(self.address(), &self.anonymous());
        vec![
            ("review", Box::new(move || expect(&mut apiserver, 200, "POST", "/authorize", Some(&review)))),
            ("readyz", Box::new(move || expect(&mut kubelet, 200, "GET", "/readyz", None))),
        ]
    }
}

#[test]
fn connections_by_the_thousand_keep_no_api_server_from_a_webhook() {
    let _alone = crate::alone();
    let attacked = Attacked::start();
    withstand_each(&attacked, connections::silent_connections(&attacked));
}

#[test]
fn unfinished_bodies_and_heads_take_no_place_at_a_webhook() {
    let _alone = crate::alone();
    let attacked = Attacked::start();
    for identity in [attacked.anonymous(), attacked.known()] {
        withstand_each(&attacked, connections::unfinished_bodies(&attacked, "/admit", &identity));
    }
    withstand_each(&attacked, [connections::unfinished_heads(&attacked, "/authorize")]);
}
