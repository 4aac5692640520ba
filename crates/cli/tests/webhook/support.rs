//! A webhook that runs, and its certificates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until;
use portcullis_testkit::webhook::certificates;
use serde_json::Value;

/// A webhook. Its callers need no credentials unless a flag says so: they are on the same host.
pub(crate) struct Webhook {
    pub(crate) running: Running,
    folder: PathBuf,
}

impl Webhook {
    /// Starts a webhook with these flags.
    pub(crate) fn start(scratch: &Scratch, flags: &[&str]) -> Self {
        let folder = scratch.path().join("webhook");
        let running = Running::start(command(&folder, flags));
        Self { running, folder }
    }

    /// Over the objects of a recording.
    pub(crate) fn over(scratch: &Scratch, state: &str, flags: &[&str]) -> Self {
        let state = portcullis_testkit::recorded::unpacked(scratch, state);
        Self::start(scratch, &[&["--state", state.to_str().unwrap()], flags].concat())
    }

    /// Follows the server of a kubeconfig, and is ready.
    pub(crate) fn following(scratch: &Scratch, kubeconfig: &Path, flags: &[&str]) -> Self {
        let webhook =
            Self::start(scratch, &[&["--kubeconfig", kubeconfig.to_str().unwrap()], flags].concat());
        webhook.until_ready();
        webhook
    }

    pub(crate) fn until_ready(&self) {
        until("the webhook is ready", || self.client().ask("GET", "/readyz", None).unwrap().code == 200);
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A caller without credentials.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.running.address(), &Identity::anonymous(&self.file("ca.pem")))
    }

    /// A caller with the certificate of an API server.
    pub(crate) fn apiserver(&self) -> Client {
        let (certificate, key) = (self.file("apiserver.pem"), self.file("apiserver-key.pem"));
        Client::new(self.running.address(), &Identity::read(&self.file("ca.pem"), &certificate, &key))
    }

    /// A connection file of an API server that asks this webhook.
    pub(crate) fn kubeconfig(&self, scratch: &Scratch) -> PathBuf {
        Self::asking(scratch, self.running.address().port())
    }

    /// A connection file of an API server that asks a webhook on this port.
    pub(crate) fn asking(scratch: &Scratch, port: u16) -> PathBuf {
        let folder = scratch.path().join("webhook");
        // Makes the certificates.
        drop(command(&folder, &[]));
        let document = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://127.0.0.1:{port}/authorize"), "certificate-authority": folder.join("ca.pem"),
            }}],
            "users": [{"name": "c", "user": {
                "client-certificate": folder.join("apiserver.pem"), "client-key": folder.join("apiserver-key.pem"),
            }}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        scratch.write("asking.kubeconfig", document.to_string())
    }

    pub(crate) fn with_token(&self, token: &str) -> Client {
        Client::new(self.running.address(), &Identity::with_token(&self.file("ca.pem"), token))
    }

    /// The line of a metric that begins so; empty where there is none.
    pub(crate) fn metric(&self, begins: &str) -> String {
        let answer = self.client().ask("GET", "/metrics", None).unwrap();
        assert_eq!(answer.code, 200, "{}", answer.text());
        let text = answer.text();
        assert_documented(&["webhook"], &text);
        text.lines().find(|line| line.starts_with(begins)).unwrap_or_default().to_owned()
    }
}

/// Tells the other threads of a test to stop when it is dropped, also by a failure.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The command of a webhook whose certificates lie in this folder.
pub(crate) fn command(folder: &Path, flags: &[&str]) -> Command {
    if !folder.exists() {
        std::fs::create_dir(folder).unwrap();
        certificates(folder);
    }
    let mut command = program!().command(["webhook", "--bind-address", "127.0.0.1"]);
    if !flags.contains(&"--secure-port") {
        command.args(["--secure-port", "0"]);
    }
    command.arg("--tls-cert-file").arg(folder.join("service.pem"));
    command.arg("--tls-private-key-file").arg(folder.join("service-key.pem"));
    if !flags.contains(&"--shutdown-delay-duration") {
        command.args(["--shutdown-delay-duration", "0s"]);
    }
    command.args(flags);
    command
}

/// The answer to a review.
#[track_caller]
pub(crate) fn ask(client: &mut Client, path: &str, review: &Value) -> Value {
    client.must(200, "POST", path, Some(review))
}
