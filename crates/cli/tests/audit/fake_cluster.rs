//! A fake API server that lists the objects of a state, for commands that read a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

/// The objects of YAML documents and lists.
pub(crate) fn objects(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let items = |document: Value| match document["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![document],
    };
    documents.into_iter().filter(|document| !document.is_null()).flat_map(items).collect()
}

/// The path of the list with an object of this kind, whatever the version.
fn list_of(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let api_version = object["apiVersion"].as_str().unwrap();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    format!("{group}/{plural}")
}

/// A running fake.
pub(crate) struct FakeCluster {
    service: WebhookService,
    /// Holds its certificates.
    _scratch: Scratch,
}

impl FakeCluster {
    /// Answers lists with these objects; `instead` may answer otherwise. It gets the path, the query, and how often the path was
    /// asked before.
    pub(crate) fn start(
        objects: &[Value],
        instead: impl Fn(&str, &str, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let mut lists = BTreeMap::<String, Vec<Value>>::new();
        for object in objects {
            let mut item = object.clone();
            // As in a list of an API server.
            let fields = item.as_object_mut().unwrap();
            fields.remove("apiVersion");
            fields.remove("kind");
            lists.entry(list_of(object)).or_default().push(item);
        }
        let counts = std::sync::Mutex::new(BTreeMap::<String, usize>::new());
        let scratch = Scratch::new();
        let service = WebhookService::start(scratch.path(), move |asked, _| {
            let (path, query) = target(asked);
            let count = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(path.clone()).or_default();
                *count += 1;
                *count - 1
            };
            instead(&path, &query, count).unwrap_or_else(|| answer(&lists, &path))
        });
        Self { service, _scratch: scratch }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of(&format!("https://{}", self.service.address()))
    }

    /// A kubeconfig that names another server.
    pub(crate) fn kubeconfig_of(&self, server: &str) -> PathBuf {
        self.service.kubeconfig_with(server, "certificate-authority: ca.pem")
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.service.asked()
    }
}

/// The path and the query of a request.
pub(crate) fn target(asked: &Asked) -> (String, String) {
    let target = asked.line.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (path.to_owned(), query.to_owned())
}

fn answer(lists: &BTreeMap<String, Vec<Value>>, path: &str) -> Reply {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let key = match parts.as_slice() {
        ["version"] => return body(json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})),
        ["api", "v1", plural] => format!("/{plural}"),
        ["apis", group, "v1", plural] => format!("{group}/{plural}"),
        _ => return refusal(404),
    };
    list(lists.get(&key).map(Vec::as_slice).unwrap_or_default(), "")
}

/// A page with these objects, and the token of the next one.
pub(crate) fn list(items: &[Value], next: &str) -> Reply {
    body(json!({"kind": "List", "metadata": {"resourceVersion": "7", "continue": next}, "items": items}))
}

pub(crate) fn body(document: Value) -> Reply {
    Reply::Body(200, "application/json", document.to_string())
}

/// A refusal, with an address in its words.
pub(crate) fn refusal(code: u16) -> Reply {
    let message = "no: ask 192.0.2.7";
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code});
    Reply::Body(code, "application/json", status.to_string())
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
