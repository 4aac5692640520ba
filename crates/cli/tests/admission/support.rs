//! A server that asks a webhook, and the webhook.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

pub(crate) const MUTATING: &str = "MutatingWebhookConfiguration";
pub(crate) const VALIDATING: &str = "ValidatingWebhookConfiguration";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A running server with its data directory.
pub(crate) struct Server {
    pub(crate) served: Running,
    pub(crate) data: PathBuf,
}

impl Server {
    pub(crate) fn start(scratch: &Scratch, flags: &[&str]) -> Self {
        let data = scratch.path().join("data");
        let mut command = program!().serve_command(&data);
        command.args(flags);
        Self { served: Running::start(command), data }
    }

    pub(crate) fn admin(&self) -> Client {
        Client::new(self.served.address(), &Identity::admin(&self.data))
    }

    /// A user with a token.
    pub(crate) fn user(&self, token: &str) -> Client {
        let identity = Identity::with_token(&self.data.join("ca.crt"), token);
        Client::new(self.served.address(), &identity)
    }

    /// The line of a metric that begins so; empty where there is none.
    pub(crate) fn metric(&self, begins: &str) -> String {
        let text = self.admin().ask("GET", "/metrics", None).unwrap().text();
        assert_documented(&["serve"], &text);
        text.lines().find(|line| line.starts_with(begins)).unwrap_or_default().to_owned()
    }
}

/// The path of the configurations of a kind.
pub(crate) fn path(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase())
}

/// One rule.
pub(crate) fn rule(operations: &[&str], group: &str, version: &str, resource: &str) -> Value {
    json!({
        "operations": operations, "apiGroups": [group], "apiVersions": [version], "resources": [resource],
    })
}

/// How a service is reached.
pub(crate) fn client_config(service: &WebhookService) -> Value {
    json!({"url": format!("https://{}/admit", service.address()), "caBundle": authority(service)})
}

pub(crate) fn authority(service: &WebhookService) -> String {
    STANDARD.encode(std::fs::read(service.file("ca.pem")).unwrap())
}

/// A webhook with these fields beside the usual ones.
pub(crate) fn webhook(service: &WebhookService, name: &str, fields: &Value) -> Value {
    let mut webhook = json!({
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 10,
        "clientConfig": client_config(service),
        "rules": [rule(&["*"], "", "v1", "configmaps")],
    });
    webhook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    webhook
}

/// Creates a configuration.
#[track_caller]
pub(crate) fn configure(admin: &mut Client, kind: &str, name: &str, webhooks: &[Value]) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": webhooks,
    });
    admin.must(201, "POST", &path(kind), Some(&configuration));
}

/// An answer to a review with these members in its response, beside the uid.
pub(crate) fn answer(asked: &Asked, response: &Value) -> Reply {
    let mut response = response.clone();
    response["uid"] = asked.review["request"]["uid"].clone();
    let answer =
        json!({"apiVersion": asked.review["apiVersion"], "kind": "AdmissionReview", "response": response});
    Reply::Body(200, "application/json", answer.to_string())
}

pub(crate) fn allow(asked: &Asked) -> Reply {
    answer(asked, &json!({"allowed": true}))
}

/// A response with a JSON patch.
pub(crate) fn patching(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// The requests that the webhook with this path was asked about.
pub(crate) fn requests(service: &WebhookService) -> Vec<Value> {
    service.asked().iter().map(|asked| asked.review["request"].clone()).collect()
}
