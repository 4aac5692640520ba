//! The guard gives the recorded answers of a kubelet 1.36, in front of a kubelet that allows what the guard allows.

use std::collections::BTreeMap;

use portcullis_testkit::https::Client;
use portcullis_testkit::kubelet::Options;
use portcullis_testkit::recorded;
use serde_json::Value;

use crate::guard::support::Guarded;

#[test]
fn the_guard_answers_as_the_recorded_kubelet_to_whoever_holds_one_grant() {
    let lines: Vec<Value> = recorded::lines("kubelet-authorization.jsonl");
    let grants: Vec<String> = lines.iter().map(|line| line["grant"].to_string()).collect();
    let mut users: BTreeMap<&str, String> = BTreeMap::new();
    for grant in &grants {
        let next = format!("user-{}", users.len());
        users.entry(grant).or_insert(next);
    }
    let names: Vec<String> = users.values().cloned().collect();
    // Rules that are stricter than a kubelet have tests of their own.
    // No pod ran on the recorded node.
    let options = Options { pods: Vec::new(), ..Options::default() };
    let guarded = Guarded::with_users(&names, options, &[], &["--exec-requires-create=false"]);
    for (grant, user) in &users {
        let grant: Value = serde_json::from_str(grant).unwrap();
        if let (Some(verb), Some(resource)) = (grant["verb"].as_str(), grant["resource"].as_str()) {
            guarded.grant(user, verb, resource);
        }
    }
    let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
    let (mut forwarded, mut differ) = (0, Vec::new());
    for (line, grant) in lines.iter().zip(&grants) {
        let client = clients.entry(grant).or_insert_with(|| match line["grant"].is_null() {
            true => Client::new(guarded.guard.address, &guarded.nobody()),
            false => guarded.client(&users[&**grant]),
        });
        let (method, path) = (line["method"].as_str().unwrap(), line["path"].as_str().unwrap());
        guarded.kubelet.forget();
        let code = client.ask(method, path, None).unwrap_or_else(|e| panic!("{line}: {e}")).code;
        if line["code"] != code {
            differ.push(format!("{line}: {code}"));
        }
        // Requests without credentials, and refused ones, never reach the kubelet.
        let reached = guarded.kubelet.requests();
        if matches!(code, 307 | 401 | 403) || line["grant"].is_null() {
            assert!(reached.is_empty(), "{line}: {reached:?}");
        }
        forwarded += reached.len();
    }
    assert_eq!(differ, Vec::<String>::new());
    // Everything else was the kubelet's to answer.
    let own = |line: &&Value| {
        !line["grant"].is_null() && !matches!(line["code"].as_u64(), Some(307 | 401 | 403 | 404))
    };
    let least = lines.iter().filter(own).count();
    assert!(lines.len() > 2_500 && forwarded >= least && least > 100, "{} {forwarded} {least}", lines.len());
}
