//! The kubelet's own API: which permissions on `nodes` one request to a kubelet needs (KA-25 to KA-39a).
//!
//! The sets are tried in order, and one Allow is enough (KA-54). Which paths a kubelet serves is not asked here.

use std::borrow::Cow;

use crate::features::{Feature, FeatureGates};
use crate::request::{Attributes, ResourceRequest, User};
use crate::target::Target;

/// What a request to a kubelet must be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletRequest<'a> {
    path: Cow<'a, str>,
    verb: &'static str,
    subresources: &'static [&'static str],
}

impl<'a> KubeletRequest<'a> {
    /// Maps method and target to permissions. A target that cannot be decoded never gets this far.
    pub fn new(method: &str, target: Target<'a>, gates: FeatureGates) -> Self {
        let path = target.into_path();
        let subresources = subresources(&path, gates.is_on(Feature::KubeletFineGrainedAuthz));
        Self { path, verb: verb(method), subresources }
    }

    /// The verb; empty for methods that have none (KA-25).
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// The subresources of `nodes`, the one that is tried first in front. Never empty.
    pub fn subresources(&self) -> &'static [&'static str] {
        self.subresources
    }

    /// What to ask, in order, for this user and this kubelet's node (KA-27, KA-29).
    pub fn attributes<'s>(
        &'s self,
        user: &'s User,
        node_name: &'s str,
    ) -> impl ExactSizeIterator<Item = Attributes<'s>> {
        self.subresources.iter().map(move |&subresource| Attributes {
            user,
            verb: self.verb,
            path: &self.path,
            resource: Some(ResourceRequest {
                version: "v1",
                resource: "nodes",
                subresource,
                name: node_name,
                ..ResourceRequest::default()
            }),
        })
    }
}

/// KA-25. KA-26: a WebSocket exec is a plain `get`.
fn verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// KA-30 to KA-39a.
fn subresources(path: &str, fine_grained: bool) -> &'static [&'static str] {
    let under =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if under("/stats") {
        return &["stats"];
    }
    if under("/metrics") {
        return &["metrics"];
    }
    if under("/logs") {
        return &["log"];
    }
    if under("/checkpoint") {
        return &["checkpoint"];
    }
    if under("/statusz") {
        return &["statusz"];
    }
    if under("/flagz") {
        return &["configz"];
    }
    if !fine_grained {
        return &["proxy"];
    }
    if under("/pods") || under("/runningpods") {
        return &["pods", "proxy"];
    }
    if under("/healthz") {
        return &["healthz", "proxy"];
    }
    if under("/configz") {
        return &["configz", "proxy"];
    }
    &["proxy"]
}

#[cfg(test)]
mod tests {
    use portcullis_testkit::recorded;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn of(method: &str, path: &'static str, fine_grained: bool) -> &'static [&'static str] {
        let gates = FeatureGates::default().with(Feature::KubeletFineGrainedAuthz, fine_grained);
        KubeletRequest::new(method, Target::from_wire(path).unwrap(), gates).subresources()
    }

    #[test]
    fn every_recorded_request_needs_what_the_kubelet_asks_for() {
        let user = User::default();
        for line in recorded::lines("kubelet-request-attributes.jsonl") {
            let (method, url) = (line["method"].as_str().unwrap(), line["url"].as_str().unwrap());
            let target = Target::from_reference(url).unwrap();
            let request = KubeletRequest::new(method, target, FeatureGates::default());
            let attributes: Vec<Value> = request
                .attributes(&user, "node-1")
                .map(|a| {
                    let r = a.resource.unwrap();
                    json!({
                        "group": r.group, "name": r.name, "namespace": r.namespace, "path": a.path,
                        "resource": r.resource, "resourceRequest": true, "subresource": r.subresource,
                        "verb": a.verb, "version": r.version,
                    })
                })
                .collect();
            assert_eq!(Value::Array(attributes), line["attributes"], "{method} {url}");
        }
    }

    #[test]
    fn ka_30_to_39a_the_table_with_the_gate_on_and_off() {
        for (path, on, off) in [
            ("/pods", &["pods", "proxy"][..], &["proxy"][..]),
            ("/pods/", &["pods", "proxy"], &["proxy"]),
            ("/runningpods/", &["pods", "proxy"], &["proxy"]),
            ("/healthz/syncloop", &["healthz", "proxy"], &["proxy"]),
            ("/configz", &["configz", "proxy"], &["proxy"]),
            ("/stats/summary", &["stats"], &["stats"]),
            ("/metrics/slis", &["metrics"], &["metrics"]),
            ("/logs/", &["log"], &["log"]),
            ("/checkpoint/ns/p/c", &["checkpoint"], &["checkpoint"]),
            ("/statusz", &["statusz"], &["statusz"]),
            ("/flagz", &["configz"], &["configz"]),
            ("/exec/ns/p/c", &["proxy"], &["proxy"]),
            ("/podsfoo", &["proxy"], &["proxy"]),
            ("/healthzx", &["proxy"], &["proxy"]),
            ("/runningPods/", &["proxy"], &["proxy"]),
            ("/debug/pprof/profile", &["proxy"], &["proxy"]),
            ("//pods", &["proxy"], &["proxy"]),
            ("/./pods", &["proxy"], &["proxy"]),
            ("/%70ods", &["pods", "proxy"], &["proxy"]),
            ("/healthz%2Fping", &["healthz", "proxy"], &["proxy"]),
        ] {
            assert_eq!(of("GET", path, true), on, "{path}");
            assert_eq!(of("GET", path, false), off, "{path}");
        }
    }

    #[test]
    fn ka_25_methods_without_a_verb_have_the_empty_verb() {
        for method in ["HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "X"] {
            let target = Target::from_wire("/pods").unwrap();
            assert_eq!(KubeletRequest::new(method, target, FeatureGates::default()).verb(), "", "{method}");
        }
    }

    proptest! {
        #[test]
        fn a_path_that_names_no_known_word_needs_the_proxy_permission(path in "/[a-z/%]{0,16}", on: bool) {
            const WORDS: [&str; 10] = [
                "pods", "runningpods", "healthz", "configz", "stats", "metrics", "logs", "checkpoint", "statusz",
                "flagz",
            ];
            let gates = FeatureGates::default().with(Feature::KubeletFineGrainedAuthz, on);
            let Ok(target) = Target::from_wire(&path) else { return Ok(()) };
            let word = target.path().split('/').nth(1).unwrap_or_default().to_owned();
            let subresources = KubeletRequest::new("GET", target, gates).subresources();
            prop_assert!(!subresources.is_empty());
            prop_assert!(WORDS.contains(&&*word) || subresources == ["proxy"]);
        }
    }
}
