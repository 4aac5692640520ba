//! The fake kubelet gives the recorded answers of a real one.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeMap;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::{FakeKubelet, Holder, Options};
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;

#[test]
fn every_recorded_answer_of_a_kubelet_is_given_again() {
    let lines = recorded::lines("kubelet-authorization.jsonl");
    let mut holders = BTreeMap::new();
    for line in &lines {
        let grant = &line["grant"];
        if let Some(resource) = grant["resource"].as_str() {
            let subresource = resource.strip_prefix("nodes/").unwrap_or("").to_owned();
            let grants = vec![(grant["verb"].as_str().unwrap().to_owned(), subresource)];
            let user = format!("user-{}", holders.len());
            // A token is a word.
            holders.insert(grant.to_string().replace(' ', ""), Holder { user, grants });
        }
    }
    assert!(holders.len() > 20, "the grants are read");
    let scratch = Scratch::new();
    // The kubelet that was recorded ran no pod.
    let options = Options { grants: Some(holders.clone()), pods: Vec::new(), ..Options::default() };
    let kubelet = FakeKubelet::start(scratch.path(), options);
    let client = |identity: Identity| Client::new(kubelet.address(), &identity);
    let mut clients: BTreeMap<String, Client> = holders
        .keys()
        .map(|token| (token.clone(), client(Identity::with_token(&kubelet.authority(), token))))
        .collect();
    clients.insert("null".to_owned(), client(Identity::anonymous(&kubelet.authority())));

    let mut differences = Vec::new();
    for line in &lines {
        let client = clients.get_mut(&line["grant"].to_string().replace(' ', "")).unwrap();
        let (method, path) = (line["method"].as_str().unwrap(), line["path"].as_str().unwrap());
        let code = client.ask(method, path, None).unwrap().code;
        if line["code"] != code {
            differences.push(format!("{line}: {code}"));
        }
    }
    assert!(differences.is_empty(), "{} of {}:\n{}", differences.len(), lines.len(), differences.join("\n"));
    assert_eq!(kubelet.requests().len(), lines.len());
    assert_eq!(kubelet.connections(), clients.len(), "connections are kept");
}
