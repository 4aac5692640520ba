//! Certificates and authorities that are renewed while reviews are answered (BC-7).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::metrics::value;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait::until;
use portcullis_testkit::webhook::certificates;
use serde_json::{Value, json};

use crate::webhook::support::{Stop, Webhook, command};

fn review() -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "nobody", "nonResourceAttributes": {"path": "/nowhere", "verb": "get"}},
    })
}

/// Replaces a file as renewals do: whoever reads it sees the old or the new content.
fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(&new, path).unwrap();
}

/// The serial number of the certificate that a server shows, by openssl.
fn shown(webhook: &Webhook) -> String {
    let address = webhook.running.address().to_string();
    let mut connect = tool::command("openssl");
    let found = Finished::of(connect.args(["s_client", "-connect", &address]));
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let shown = found.stdout.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    let (shown, _) = shown.unwrap_or_else(|| panic!("{found:#?}"));
    let scratch = Scratch::new();
    let path = scratch.write("shown.pem", format!("{begin}{shown}{end}\n"));
    serial(&path)
}

fn serial(path: &Path) -> String {
    let finished =
        Finished::of(tool::command("openssl").args(["x509", "-noout", "-serial", "-in"]).arg(path));
    assert_eq!(finished.code, 0, "{finished:#?}");
    assert!(finished.stdout.len() > 10, "{finished:#?}");
    finished.stdout
}

#[test]
fn no_request_fails_while_certificates_and_authorities_are_renewed_bc_7() {
    let scratch = Scratch::new();
    // Another authority with the same names, as after the renewal of everything.
    let (old, new) = (scratch.path().join("webhook"), scratch.path().join("renewed"));
    drop(command(&old, &[]));
    fs::create_dir(&new).unwrap();
    certificates(&new);
    let both = [fs::read(old.join("ca.pem")).unwrap(), fs::read(new.join("ca.pem")).unwrap()].concat();
    let trusted = scratch.write("trusted.pem", &both);
    let authorities: PathBuf = scratch.write("clients.pem", fs::read(old.join("ca.pem")).unwrap());
    let flags = ["--client-ca-file", authorities.to_str().unwrap(), "--allowed-names", "apiserver"];
    let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &flags);
    let address = webhook.running.address();
    let identity = |folder: &Path| {
        Identity::read(&trusted, &folder.join("apiserver.pem"), &folder.join("apiserver-key.pem"))
    };
    let (before, after) = (identity(&old), identity(&new));
    assert_eq!(shown(&webhook), serial(&old.join("service.pem")));

    // The certificate by which API servers ask now.
    let current = Mutex::new(before.clone());
    let (is_done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let code = |identity: &Identity| {
        Client::new(address, identity).ask("POST", "/authorize", Some(&review())).unwrap().code
    };
    let until_more = |count: usize| {
        let wanted = answered.load(Ordering::Relaxed) + count;
        until("reviews are answered", || answered.load(Ordering::Relaxed) > wanted);
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            let (current, is_done, answered) = (&current, &is_done, &answered);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    // A connection that is kept for some requests, and then a new one.
                    let identity = current.lock().unwrap().clone();
                    let mut client = Client::new(address, &identity);
                    for _ in 0..20 {
                        let answer = client.ask("POST", "/authorize", Some(&review())).unwrap();
                        assert_eq!(answer.code, 200, "{}", answer.text());
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(client.connections(), 1, "no connection was closed");
                }
            });
        }
        let _stop = Stop(&is_done);
        until_more(100);
        // The serving certificate and its key, one file after the other.
        replace(&old.join("service.pem"), fs::read(new.join("service.pem")).unwrap());
        until_more(100);
        replace(&old.join("service-key.pem"), fs::read(new.join("service-key.pem")).unwrap());
        until("the new certificate is shown", || shown(&webhook) == serial(&new.join("service.pem")));
        let end: jiff::Timestamp = tool::certificate_end(&new.join("service.pem")).parse().unwrap();
        until("the end of the new certificate is exported", || {
            let scrape = Client::new(address, &before).ask("GET", "/metrics", None).unwrap().text();
            let name = "portcullis_webhook_serving_certificate_expiration_timestamp_seconds";
            value(&scrape, name) == end.as_second() as f64
        });
        // The authority of clients: first both, then the new certificate of the client, then without the old authority.
        assert_eq!(code(&after), 401);
        replace(&authorities, &both);
        until("the new authority is trusted", || code(&after) == 200);
        *current.lock().unwrap() = after.clone();
        until_more(100);
        replace(&authorities, fs::read(new.join("ca.pem")).unwrap());
        until("the old authority is not trusted any more", || code(&before) == 401);
        until_more(100);
    });
}
