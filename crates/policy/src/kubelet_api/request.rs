//! Maps a request to a kubelet to the permissions on `nodes` that it needs (KA-25 to KA-39a, KA-58).
//!
//! Whether a kubelet serves the path does not matter here: every path needs a permission.

use std::borrow::Cow;

use portcullis_apimachinery::target::Target;

use super::endpoint::{UNKNOWN, row_of};
use crate::features::{Feature, FeatureGates};
use crate::request::{Attributes, ResourceRequest, User};

/// Settings for the permissions of kubelet requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Kubernetes' gate `KubeletFineGrainedAuthz` (KA-74).
    pub fine_grained: bool,
    /// Not in Kubernetes: requests that reach into a container also need the verb `create`, whatever the method (NC-8),
    /// as at the API server (KA-83). A WebSocket is opened by a GET, so `get` alone could run commands (KA-26).
    pub exec_requires_create: bool,
    /// Not in Kubernetes: `exec`, `attach`, `run`, `portforward` and `containerlogs` are subresources that grant their
    /// endpoint. `proxy` still grants them.
    pub finer_subresources: bool,
}

impl Settings {
    /// The settings of a kubelet with these gates.
    pub fn upstream(gates: FeatureGates) -> Self {
        Self {
            fine_grained: gates.is_on(Feature::KubeletFineGrainedAuthz),
            exec_requires_create: false,
            finer_subresources: false,
        }
    }
}

impl Default for Settings {
    /// The settings of the guard, never less strict than a kubelet 1.36.
    fn default() -> Self {
        Self { fine_grained: true, exec_requires_create: true, finer_subresources: false }
    }
}

/// The permissions that a request to a kubelet needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletRequest<'a> {
    path: Cow<'a, str>,
    verb: &'static str,
    subresources: &'static [&'static str],
    needs_create: bool,
}

/// One permission check. A request may need several, and all must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// The decoded path.
    pub path: &'a str,
    /// The verb; empty for methods that have none (KA-25).
    pub verb: &'static str,
    /// The subresources of `nodes`, in the order of the checks. One is enough (KA-54). Never empty.
    pub subresources: &'static [&'static str],
}

impl<'a> KubeletRequest<'a> {
    /// Maps method and target to permissions. A target that cannot be decoded is refused earlier.
    pub fn new(method: &str, target: Target<'a>, settings: &Settings) -> Self {
        let path = target.into_path();
        let row = row_of(&path);
        let permission = row.map_or(UNKNOWN, |row| row.permission);
        let subresources = match settings {
            // Endpoints that have a subresource in Kubernetes still depend on the gate.
            Settings { finer_subresources: true, .. } if permission.fine == permission.coarse => {
                permission.finer
            }
            Settings { fine_grained: true, .. } => permission.fine,
            _ => permission.coarse,
        };
        let verb = verb(method);
        let enters_container = row.is_some_and(|row| row.effect.enters_container());
        let needs_create = settings.exec_requires_create && enters_container && verb != "create";
        Self { path, verb, subresources, needs_create }
    }

    /// The verb of the method; empty for methods that have none (KA-25).
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// The decoded path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The required checks in order: the method's own verb, and then `create` if [`Settings::exec_requires_create`]
    /// requires it.
    pub fn checks(&self) -> impl Iterator<Item = Check<'_>> {
        let own = Check { path: &self.path, verb: self.verb, subresources: self.subresources };
        [Some(own), self.needs_create.then_some(Check { verb: "create", ..own })].into_iter().flatten()
    }
}

impl<'a> Check<'a> {
    /// The attributes to authorize, in order, for this user and this kubelet's node (KA-27, KA-29).
    pub fn attributes<'s>(
        self,
        user: &'s User,
        node_name: &'s str,
    ) -> impl ExactSizeIterator<Item = Attributes<'s>>
    where
        'a: 's,
    {
        self.subresources.iter().map(move |&subresource| Attributes {
            user,
            verb: self.verb,
            path: self.path,
            resource: Some(ResourceRequest {
                version: "v1",
                resource: "nodes",
                subresource,
                name: node_name,
                ..ResourceRequest::default()
            }),
        })
    }

    /// The body of the 403 response if none of the subresources is allowed, with its trailing newline (KA-58).
    pub fn forbidden(self, user_name: &str) -> String {
        let (verb, subresources) = (self.verb, self.subresources.join(" "));
        format!(
            "Forbidden (user={user_name}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])\n"
        )
    }

    /// The body of the 500 response if the check of this subresource failed, with its trailing newline (KA-58).
    pub fn failed(self, user_name: &str, subresource: &str) -> String {
        let verb = self.verb;
        format!(
            "Authorization error (user={user_name}, verb={verb}, resource=nodes, subresource={subresource})\n"
        )
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

#[cfg(test)]
mod tests {
    use portcullis_testkit::recorded;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn of(method: &str, path: &'static str, fine_grained: bool) -> &'static [&'static str] {
        let settings = Settings { fine_grained, ..upstream() };
        subresources(&KubeletRequest::new(method, Target::from_wire(path).unwrap(), &settings))
    }

    fn upstream() -> Settings {
        Settings::upstream(FeatureGates::default())
    }

    /// The subresources of a request as Kubernetes reads it.
    fn subresources(request: &KubeletRequest<'_>) -> &'static [&'static str] {
        let checks: Vec<Check<'_>> = request.checks().collect();
        let [check] = checks.as_slice() else { panic!("KA-26: no verb is forced: {checks:?}") };
        check.subresources
    }

    #[test]
    fn every_recorded_request_needs_what_the_kubelet_asks_for() {
        let user = User::default();
        for line in recorded::lines("kubelet-request-attributes.jsonl") {
            let (method, url) = (line["method"].as_str().unwrap(), line["url"].as_str().unwrap());
            let target = Target::from_reference(url).unwrap();
            let request = KubeletRequest::new(method, target, &upstream());
            let attributes: Vec<Value> = request
                .checks()
                .flat_map(|check| check.attributes(&user, "node-1"))
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
            assert_eq!(KubeletRequest::new(method, target, &upstream()).verb(), "", "{method}");
        }
    }

    /// The checks of a request, each as verb and subresources.
    fn checks(method: &str, path: &str, settings: Settings) -> Vec<(&'static str, &'static [&'static str])> {
        let request = KubeletRequest::new(method, Target::from_wire(path).unwrap(), &settings);
        request.checks().map(|check| (check.verb, check.subresources)).collect()
    }

    #[test]
    fn nc_8_what_reaches_into_a_container_needs_create_whatever_the_method() {
        let guard = Settings::default();
        for path in ["/exec/ns/p/c", "/attach/ns/p/c", "/portForward/ns/p", "/run/ns/p/c", "/exec"] {
            assert_eq!(
                checks("GET", path, guard),
                [("get", &["proxy"][..]), ("create", &["proxy"])],
                "{path}"
            );
            assert_eq!(checks("HEAD", path, guard), [("", &["proxy"][..]), ("create", &["proxy"])], "{path}");
            assert_eq!(checks("POST", path, guard), [("create", &["proxy"][..])], "{path}");
        }
        for path in
            ["/pods", "/containerLogs/ns/p/c", "/checkpoint/ns/p/c", "/execs/ns/p/c", "/debug/pprof/heap"]
        {
            assert_eq!(checks("GET", path, guard).len(), 1, "{path}");
        }
    }

    #[test]
    fn finer_subresources_come_before_proxy_and_leave_the_others_alone() {
        let finer = Settings { finer_subresources: true, ..Settings::default() };
        let sets = |path, settings| checks("POST", path, settings).first().unwrap().1;
        for (path, subresources) in [
            ("/exec/ns/p/c", ["exec", "proxy"]),
            ("/attach/ns/p/c", ["attach", "proxy"]),
            ("/run/ns/p/c", ["run", "proxy"]),
            ("/portForward/ns/p", ["portforward", "proxy"]),
            ("/containerLogs/ns/p/c", ["containerlogs", "proxy"]),
        ] {
            assert_eq!(sets(path, finer), subresources);
            assert_eq!(sets(path, Settings { fine_grained: false, ..finer }), subresources);
            assert_eq!(sets(path, Settings::default()), ["proxy"]);
        }
        for path in ["/pods", "/stats/summary", "/checkpoint/ns/p/c", "/debug/pprof/heap", "/nosuch"] {
            for fine_grained in [true, false] {
                let finer = Settings { fine_grained, ..finer };
                assert_eq!(
                    sets(path, finer),
                    sets(path, Settings { finer_subresources: false, ..finer }),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn ka_58_the_texts_name_what_was_tried() {
        let request = KubeletRequest::new("GET", Target::from_wire("/pods").unwrap(), &upstream());
        let check = request.checks().next().unwrap();
        let forbidden = "Forbidden (user=joe, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
        assert_eq!(check.forbidden("joe"), forbidden);
        for part in ["joe", "get", "nodes", "pods"] {
            assert!(check.failed("joe", "pods").contains(part), "{part}");
        }
    }

    proptest! {
        #[test]
        fn a_path_that_names_no_known_word_needs_the_proxy_permission(path in "/[a-z/%]{0,16}", on: bool) {
            const WORDS: [&str; 10] = [
                "pods", "runningpods", "healthz", "configz", "stats", "metrics", "logs", "checkpoint", "statusz",
                "flagz",
            ];
            let settings = Settings { fine_grained: on, ..upstream() };
            let Ok(target) = Target::from_wire(&path) else { return Ok(()) };
            let word = target.path().split('/').nth(1).unwrap_or_default().to_owned();
            let subresources = subresources(&KubeletRequest::new("GET", target, &settings));
            prop_assert!(!subresources.is_empty());
            prop_assert!(WORDS.contains(&&*word) || subresources == ["proxy"]);
        }
    }
}
