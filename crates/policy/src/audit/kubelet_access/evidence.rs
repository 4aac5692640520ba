//! Evidence of permissions in use, from the logs of a guard or of an API server.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::target::Target;
use serde::Serialize;
use serde_json::Value;

use crate::audit::Subject;
use crate::kubelet_api::{Answer, ENDPOINTS, KubeletRequest, Route, Router, Settings};

/// One use of a permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The verb that grants it; `*` where no single verb does (KA-25).
    pub verb: String,
    /// The smallest subresource of `nodes` that grants it.
    pub subresource: String,
    /// The way to the kubelet.
    pub way: Way,
}

/// A way of a request to a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// Directly.
    Kubelet,
    /// Through the API server, which requires `nodes/proxy` for every path (KA-82).
    ApiServer,
    /// Unknown: a kubelet checked `proxy` after it had checked a finer subresource. The finer one is enough for that
    /// request, but the same log may hide an endpoint that only `proxy` grants (KA-57, KA-60).
    Fallback,
}

/// The permissions seen in use.
#[derive(Clone, Debug)]
pub struct Evidence {
    settings: Settings,
    uses: BTreeSet<Use>,
    /// The subresource that a kubelet last checked, by node, user and verb.
    asked: BTreeMap<[String; 3], String>,
}

impl Evidence {
    /// Creates empty evidence. The settings determine the available subresources, and whether access to containers also
    /// needs `create`.
    pub fn new(settings: Settings) -> Self {
        Self { settings, uses: BTreeSet::new(), asked: BTreeMap::new() }
    }

    /// The uses by a subject.
    pub fn of<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = &'a Use> {
        self.uses.iter().filter(|seen| subject.means(&seen.user, &seen.groups))
    }

    /// Adds a line of a guard's access log. Refused requests do not count as use.
    ///
    /// # Errors
    /// The field that is missing or of the wrong type.
    pub fn take_access(&mut self, line: &Value) -> Result<(), String> {
        let code = line.get("code").and_then(Value::as_u64).ok_or("code: is missing, or no number")?;
        if is_refused(code) {
            return Ok(());
        }
        let (method, path) = (text(line, "method")?, text(line, "path")?);
        let (user, groups) = (text(line, "user")?, texts(line, "groups")?);
        self.used(user, &groups, method, path, Way::Kubelet);
        Ok(())
    }

    /// Adds an event of an API server's audit log: an access review by a kubelet, or a request that was proxied to a
    /// kubelet. Other events are ignored. Returns whether it was one of the two.
    ///
    /// # Errors
    /// The event is not of `audit.k8s.io/v1`, or lacks required fields. Access reviews need audit level Request.
    pub fn take_audit(&mut self, event: &Value) -> Result<bool, String> {
        if text(event, "kind")? != "Event" || text(event, "apiVersion")? != "audit.k8s.io/v1" {
            return Err("kind: must be Event of apiVersion audit.k8s.io/v1".to_owned());
        }
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        if text(event, "stage")? == "RequestReceived" || code.is_some_and(is_refused) {
            return Ok(false);
        }
        let of_object =
            |field: &str| event.pointer("/objectRef").and_then(|o| o.get(field)).and_then(Value::as_str);
        let caller = event.get("user").ok_or("user: is missing")?;
        match (of_object("resource"), of_object("subresource"), text(event, "verb")?) {
            (Some("subjectaccessreviews"), None, "create") => self.asked(text(caller, "username")?, event),
            (Some("nodes"), Some("proxy"), verb) => {
                let (user, groups) = (text(caller, "username")?, texts(caller, "groups")?);
                let target = behind_proxy(text(event, "requestURI")?);
                self.used(user, &groups, method_of(verb), &target, Way::ApiServer);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Handles an access review by a kubelet (KA-52). A check that is denied first and then allowed by `proxy` counts
    /// as use of the first subresource.
    fn asked(&mut self, kubelet: &str, event: &Value) -> Result<bool, String> {
        if !kubelet.starts_with("system:node:") {
            return Ok(false);
        }
        let spec = event.pointer("/requestObject/spec").ok_or(
            "requestObject.spec: is missing: subjectaccessreviews need the audit level Request or RequestResponse",
        )?;
        let part = |field| {
            let attributes = spec.get("resourceAttributes");
            attributes
                .and_then(|attributes| attributes.get(field))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if part("resource") != "nodes" || part("subresource").is_empty() {
            return Ok(false);
        }
        let (user, groups) = (text(spec, "user")?, texts(spec, "groups")?);
        let (verb, subresource) = (part("verb"), part("subresource"));
        // At level RequestResponse the event has the decision too. A request that was denied twice does not count as
        // use.
        let is_refused =
            event.pointer("/responseObject/status/allowed").and_then(Value::as_bool) == Some(false);
        let before = self.asked.insert([kubelet, user, verb].map(str::to_owned), subresource.to_owned());
        if is_refused {
            return Ok(true);
        }
        match before.filter(|before| subresource == "proxy" && falls_back(before)) {
            Some(finer) => {
                self.insert(user, &groups, verb, &finer, Way::Kubelet);
                self.insert(user, &groups, verb, subresource, Way::Fallback);
            }
            None => self.insert(user, &groups, verb, subresource, Way::Kubelet),
        }
        Ok(true)
    }

    fn used(&mut self, user: &str, groups: &[String], method: &str, target: &str, way: Way) {
        let router = Router::new(true);
        let (Route::Endpoint(endpoint), Ok(decoded)) = (router.route(target), Target::from_wire(target))
        else {
            return;
        };
        if router.answer(endpoint, method, target) != Answer::Served {
            return;
        }
        for check in KubeletRequest::new(method, decoded, &self.settings).checks() {
            let subresource = check.subresources.first().copied().unwrap_or_default();
            self.insert(user, groups, check.verb, subresource, way);
        }
    }

    fn insert(&mut self, user: &str, groups: &[String], verb: &str, subresource: &str, way: Way) {
        self.uses.insert(Use {
            user: user.to_owned(),
            groups: groups.to_owned(),
            verb: if verb.is_empty() { "*" } else { verb }.to_owned(),
            subresource: subresource.to_owned(),
            way,
        });
    }
}

/// Returns whether a kubelet checks `proxy` after this subresource (KA-30 to KA-33).
fn falls_back(subresource: &str) -> bool {
    let rows = ENDPOINTS.iter().map(|row| row.permission.fine);
    rows.filter(|fine| fine.len() > 1).any(|fine| fine.first() == Some(&subresource))
}

fn is_refused(code: u64) -> bool {
    matches!(code, 307 | 401 | 403)
}

/// The target at the kubelet of a request through the API server (`/api/v1/nodes/NAME/proxy/PATH?QUERY`).
fn behind_proxy(uri: &str) -> String {
    let (path, query) = uri.split_at(uri.find('?').unwrap_or(uri.len()));
    let behind: Vec<&str> = path.split('/').skip(6).collect();
    format!("/{}{query}", behind.join("/"))
}

fn method_of(verb: &str) -> &'static str {
    match verb {
        "create" => "POST",
        "get" => "GET",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => "HEAD",
    }
}

fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str, String> {
    value.get(field).and_then(Value::as_str).ok_or_else(|| format!("{field}: is missing, or no text"))
}

/// Reads a list of strings; empty if it is missing.
fn texts(value: &Value, field: &str) -> Result<Vec<String>, String> {
    let fault = || format!("{field}: must be a list of texts");
    match value.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(fault)).collect()
        }
        Some(_) => Err(fault()),
    }
}
