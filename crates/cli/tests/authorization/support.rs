//! A server with users that have tokens, and curl.

use std::path::{Path, PathBuf};

use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::Value;

/// The users by name; the token of each is its name with `-token` after it.
const TOKENS: &str = "\
alice-token,alice,1\n\
bob-token,bob,2\n\
kubelet-token,kubelet,3\n\
jane-token,jane,4,\"group1,group2\"\n\
node-token,system:node:n1,5,\"system:nodes\"\n\
root-token,root,6,\"system:masters\"\n";

/// The policies of the authorization guide, in its order.
pub const POLICY: &str = r#"{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "alice", "namespace": "*", "resource": "*", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "kubelet", "namespace": "*", "resource": "pods", "readonly": true}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "kubelet", "namespace": "*", "resource": "events"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "bob", "namespace": "projectCaribou", "resource": "pods", "readonly": true}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "*", "readonly": true, "nonResourcePath": "*"}}
"#;

pub struct Running {
    served: program::Running,
    authority: PathBuf,
}

impl Running {
    pub fn start(scratch: &Scratch, flags: &[&str]) -> Self {
        let data = scratch.path().join("data");
        let tokens = scratch.write("tokens.csv", TOKENS);
        let mut command = program!().serve_command(&data);
        command.arg("--token-auth-file").arg(tokens).args(flags);
        let served = program::Running::start(command);
        Self { served, authority: data.join("ca.crt") }
    }

    /// The status code and the body of an answer.
    pub fn ask(&self, user: &str, path: &str, more: &[&str]) -> (u16, String) {
        let mut curl = tool::command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "50", "--write-out", "\n%{http_code}"]);
        curl.arg("--cacert").arg(&self.authority).args(more);
        if !user.is_empty() {
            curl.arg("--header").arg(format!("Authorization: Bearer {user}-token"));
        }
        let text = Finished::of(curl.arg(format!("{}{path}", self.served.url()))).stdout;
        let (body, code) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{text:?}"));
        (code.parse().unwrap(), body.to_owned())
    }

    pub fn get(&self, user: &str, path: &str) -> u16 {
        self.ask(user, path, &[]).0
    }

    pub fn post(&self, user: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let (code, text) =
            self.ask(user, path, &["--header", "Content-Type: application/json", "--data", &body]);
        (code, serde_json::from_str(&text).unwrap_or_default())
    }

    /// The message of a refusal.
    pub fn message(&self, user: &str, path: &str) -> String {
        let (code, body) = self.ask(user, path, &[]);
        assert_eq!(code, 403, "{body}");
        let status: Value = serde_json::from_str(&body).unwrap();
        status["message"].as_str().unwrap().to_owned()
    }

    /// The line of a metric that begins so; empty where there is none.
    pub fn metric(&self, begins: &str) -> String {
        let (code, text) = self.ask("root", "/metrics", &[]);
        assert_eq!(code, 200, "{text}");
        assert_documented(&["serve"], &text);
        text.lines().find(|line| line.starts_with(begins)).unwrap_or_default().to_owned()
    }

    /// Stops the server, and returns its log.
    pub fn stop(self) -> String {
        self.served.stop().stderr
    }
}

/// The error of a server that must not start.
pub fn refused(scratch: &Scratch, flags: &[&str]) -> String {
    let finished = Finished::of(program!().serve_command(&scratch.path().join("data")).args(flags));
    assert_eq!((finished.code, &*finished.stdout), (2, ""), "{finished:#?}");
    finished.stderr
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
