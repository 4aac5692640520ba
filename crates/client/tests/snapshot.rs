//! Reading a cluster once, from a fake API server (AU-17).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use portcullis_client::snapshot::{Listed, read};
use portcullis_client::{CallError, Connection};
use portcullis_policy::objects::Kind;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

fn answer(document: Value) -> Reply {
    Reply::Body(200, "application/json", document.to_string())
}

fn refusal(code: u16) -> Reply {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
    Reply::Body(code, "application/json", status.to_string())
}

/// A page with these names, and the token of the next one.
fn page(names: &[&str], next: &str) -> Reply {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    answer(json!({"kind": "List", "metadata": {"resourceVersion": "7", "continue": next}, "items": items}))
}

/// The path and the query of a request.
fn target(asked: &Asked) -> (String, String) {
    let target = asked.line.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (path.to_owned(), query.to_owned())
}

/// Reads these kinds from a server that behaves so: the lists, and all that was asked.
async fn asked(
    kinds: &[Kind],
    behaviour: impl Fn(&str, &str, usize) -> Reply + Send + Sync + 'static,
) -> (Vec<Listed>, Vec<Asked>) {
    let scratch = Scratch::new();
    // How often each path was asked for.
    let counts = Mutex::new(BTreeMap::<String, usize>::new());
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let (path, query) = target(asked);
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(path.clone()).or_default();
        *count += 1;
        behaviour(&path, &query, *count)
    });
    let server = format!("https://{}", service.address());
    let file = service.kubeconfig_with(&server, "certificate-authority: ca.pem");
    let connection = Connection::from_kubeconfig(&file, None).await.unwrap();
    (read(&connection, kinds.iter().copied()).await, service.asked())
}

/// The names of the objects of a list.
fn names(listed: &Listed) -> Vec<String> {
    let name = |json: &[u8]| -> String {
        let object: Value = serde_json::from_slice(json).unwrap();
        object["metadata"]["name"].as_str().unwrap().to_owned()
    };
    listed.objects.as_ref().unwrap().iter().map(|json| name(json)).collect()
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test]
async fn lists_are_read_in_pages_in_the_order_of_the_kinds_au_17() {
    let (lists, asked) =
        asked(&[Kind::ClusterRole, Kind::Pod, Kind::Node], |path, query, _| match (path, query) {
            (ROLES, "limit=500") => page(&["a", "b"], "to&ken"),
            (ROLES, "limit=500&continue=to%26ken") => page(&["c"], ""),
            ("/api/v1/pods", _) => page(&[], ""),
            ("/api/v1/nodes", _) => page(&["n1"], ""),
            other => panic!("{other:?}"),
        })
        .await;
    let kinds: Vec<Kind> = lists.iter().map(|listed| listed.kind).collect();
    assert_eq!(kinds, [Kind::ClusterRole, Kind::Pod, Kind::Node]);
    assert_eq!(lists.iter().map(names).collect::<Vec<_>>(), [vec!["a", "b", "c"], vec![], vec!["n1"]]);
    for request in &asked {
        assert!(request.line.starts_with("GET "), "{}", request.line);
        let agent = request.head.iter().find(|line| line.starts_with("user-agent: ")).unwrap();
        assert!(agent.starts_with("user-agent: portcullis/") && agent.ends_with(" (audit)"), "{agent}");
        // Of nodes the metadata is enough.
        let is_metadata = request.head.iter().any(|line| line.contains("as=partialobjectmetadatalist"));
        assert_eq!(is_metadata, request.line.contains("/nodes"), "{}", request.line);
    }
}

#[tokio::test]
async fn a_list_whose_token_has_expired_starts_anew_au_17() {
    let (lists, _) = asked(&[Kind::ClusterRole], |_, query, count| match (query, count) {
        ("limit=500", 1) => page(&["old"], "gone"),
        ("limit=500&continue=gone", _) => refusal(410),
        ("limit=500", _) => page(&["a"], ""),
        other => panic!("{other:?}"),
    })
    .await;
    assert_eq!(names(&lists[0]), ["a"]);
    // Not for ever.
    let (lists, asked) = asked_for_ever().await;
    assert_eq!(lists[0].objects.as_ref().unwrap_err().code(), Some(410));
    assert!(asked.len() < 20, "{}", asked.len());
}

async fn asked_for_ever() -> (Vec<Listed>, Vec<Asked>) {
    asked(&[Kind::ClusterRole], |_, query, _| match query {
        "limit=500" => page(&["old"], "gone"),
        _ => refusal(410),
    })
    .await
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_told_au_17() {
    let kinds = [Kind::ClusterRole, Kind::Pod, Kind::Role, Kind::RoleBinding, Kind::Namespace];
    let (lists, _) = asked(&kinds, |path, _, count| match (path.rsplit('/').next().unwrap(), count) {
        ("clusterroles", 1) => refusal(429),
        ("pods", 1) => refusal(503),
        ("roles", _) => refusal(403),
        ("rolebindings", _) => refusal(401),
        ("namespaces", _) => refusal(404),
        _ => page(&["a"], ""),
    })
    .await;
    assert_eq!((names(&lists[0]), names(&lists[1])), (vec!["a".to_owned()], vec!["a".to_owned()]));
    let code = |at: usize| lists[at].objects.as_ref().unwrap_err().code();
    assert_eq!((code(2), code(3), code(4)), (Some(403), Some(401), Some(404)));
}

#[tokio::test]
async fn an_api_that_the_server_may_lack_is_looked_for_in_older_versions() {
    let (lists, _) = asked(&[Kind::ResourceSlice, Kind::PodCertificateRequest], |path, _, _| match path {
        "/apis/resource.k8s.io/v1beta1/resourceslices" => page(&["a"], ""),
        _ => refusal(404),
    })
    .await;
    assert_eq!((names(&lists[0]), names(&lists[1])), (vec!["a".to_owned()], vec![]));
}

#[tokio::test]
async fn what_is_no_list_is_not_taken_for_an_empty_one() {
    for body in [
        json!({"metadata": {}, "items": []}),
        json!({"items": []}),
        json!([]),
        json!({"metadata": {"resourceVersion": "1"}, "items": 1}),
    ] {
        let (lists, _) = asked(&[Kind::ClusterRole], move |_, _, _| answer(body.clone())).await;
        assert!(matches!(lists[0].objects, Err(CallError::Answer { .. })), "{:?}", lists[0]);
    }
}
