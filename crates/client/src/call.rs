//! Single API requests: reads and writes objects as JSON, in types of the caller.
//!
//! Nothing is retried: only the caller knows whether a repetition is harmless.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::{Connection, describe};

/// The request timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The response is not what was expected.
    #[error("{path}: the response cannot be decoded: {why}")]
    Answer {
        /// The path of the request.
        path: String,
        /// The error. Never the response itself, which may contain a secret.
        why: String,
    },
    /// The server refused the request.
    #[error("{message} ({code})")]
    Refused {
        /// The status code.
        code: u16,
        /// The reason in one word, such as `AlreadyExists`; empty if none was given.
        reason: String,
        /// The message for people.
        message: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach {server}: {why}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// Why.
        why: String,
    },
}

impl CallError {
    /// Returns the status code, if there was a response.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The name is taken.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// Returns whether the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason != "AlreadyExists")
    }
}

/// An API resource, in all namespaces or in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural resource name in lower case.
    pub plural: &'static str,
    /// The namespace; none for all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
}

impl Resource {
    /// Creates a resource, in all namespaces or cluster-scoped.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self { group, version, plural, namespace: None }
    }

    /// Returns the resource in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Returns the path of the collection. Names need no escaping: none of their characters ends a path segment.
    pub fn path(&self) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let within =
            self.namespace.as_ref().map(|n| format!("/namespaces/{}", segment(n))).unwrap_or_default();
        format!("{root}/{}{within}/{}", self.version, self.plural)
    }

    /// Returns the path of one object.
    pub fn object(&self, name: &str) -> String {
        format!("{}/{}", self.path(), segment(name))
    }
}

/// CertificateSigningRequests.
pub(crate) const REQUESTS: Resource =
    Resource::new("certificates.k8s.io", "v1", "certificatesigningrequests");
/// Nodes.
pub(crate) const NODES: Resource = Resource::new("", "v1", "nodes");

/// The characters that are escaped in a segment of a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Escapes a value in the query of a URL.
pub(crate) fn query_value(value: &str) -> String {
    utf8_percent_encode(value, ENCODED).to_string()
}

/// Escapes a name as one path segment.
pub(crate) fn segment(name: &str) -> String {
    // Browsers and servers would resolve such a name. No object has one, so the response is 404.
    if matches!(name, "" | "." | "..") {
        return format!("%00{name}");
    }
    utf8_percent_encode(name, ENCODED).to_string()
}

impl Connection {
    /// Sends one request and decodes the response.
    ///
    /// # Errors
    /// No response within 30 seconds, a refusal, or a response that cannot be decoded.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<T, CallError> {
        decoded(path, &self.text(method, path, body).await?)
    }

    /// Sends one request as another user, whom the caller must be allowed to impersonate, and decodes the response.
    ///
    /// # Errors
    /// See [`Connection::call`].
    pub async fn call_as<T: DeserializeOwned>(
        &self,
        user: &str,
        groups: &[&str],
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<T, CallError> {
        let request = Request::builder().method(method).uri(path).header("Impersonate-User", user);
        let request =
            groups.iter().fold(request, |request, group| request.header("Impersonate-Group", *group));
        decoded(path, &self.send(request, path, body).await?)
    }

    /// Sends one request and returns the response as text.
    ///
    /// # Errors
    /// No response within 30 seconds, or a refusal.
    pub async fn text(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<String, CallError> {
        self.send(Request::builder().method(method).uri(path), path, body).await
    }

    /// Sends one request and returns the response as text, in the form that the request accepts; without one as JSON.
    ///
    /// # Errors
    /// See [`Connection::text`].
    pub(crate) async fn send(
        &self,
        mut request: http::request::Builder,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<String, CallError> {
        let unreachable = |why: String| CallError::Unreachable { server: self.server(), why };
        if request.headers_ref().is_none_or(|headers| !headers.contains_key(ACCEPT)) {
            request = request.header(ACCEPT, "application/json");
        }
        if let Some((content_type, _)) = body {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request
            .body(body.map(|(_, bytes)| bytes).unwrap_or_default())
            .map_err(|e| CallError::Answer { path: path.to_owned(), why: format!("no such path: {e}") })?;
        let client = self.client();
        match tokio::time::timeout(TIMEOUT, client.request_text(request)).await {
            Err(_) => Err(unreachable(format!("no answer in {} s", TIMEOUT.as_secs()))),
            Ok(Ok(text)) => Ok(text),
            Ok(Err(kube::Error::Api(status))) => Err(CallError::Refused {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            }),
            Ok(Err(error)) => Err(unreachable(describe(&error))),
        }
    }

    /// Reads one object.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn get<T: DeserializeOwned>(&self, resource: &Resource, name: &str) -> Result<T, CallError> {
        self.call(Method::GET, &resource.object(name), None).await
    }

    /// Reads one object; none if it does not exist.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn find<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        name: &str,
    ) -> Result<Option<T>, CallError> {
        found(self.get(resource, name).await)
    }

    /// Creates an object, and returns it as the server stored it.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn create<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        object: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(Method::POST, &resource.path(), Some(json(object)?)).await
    }

    /// Replaces an object; with a resourceVersion, only that version. `path` is that of the object, or of a subresource
    /// such as `/status`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn replace<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(Method::PUT, path, Some(json(object)?)).await
    }

    /// Changes an object by a JSON merge patch.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn merge<T: DeserializeOwned>(
        &self,
        path: &str,
        patch: &impl Serialize,
    ) -> Result<T, CallError> {
        let (_, body) = json(patch)?;
        self.call(Method::PATCH, path, Some(("application/merge-patch+json", body))).await
    }
}

fn decoded<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, CallError> {
    let unreadable = |e| CallError::Answer { path: path.to_owned(), why: without_content(&e) };
    serde_json::from_str(text).map_err(unreadable)
}

/// Converts the error that something does not exist to none.
pub(crate) fn found<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

fn json(object: &impl Serialize) -> Result<(&'static str, Vec<u8>), CallError> {
    let unwritable = |e: serde_json::Error| CallError::Answer { path: String::new(), why: e.to_string() };
    Ok(("application/json", serde_json::to_vec(object).map_err(unwritable)?))
}

/// Describes where JSON is invalid, without quoting it.
pub(crate) fn without_content(error: &serde_json::Error) -> String {
    let what = if error.is_data() { "it does not have the expected fields" } else { "it is not JSON" };
    format!("{what} at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_and_no_name_leaves_its_segment() {
        let nodes = Resource::new("", "v1", "nodes");
        assert_eq!(nodes.object("node-1"), "/api/v1/nodes/node-1");
        let leases = Resource::new("coordination.k8s.io", "v1", "leases").within("kube-system");
        assert_eq!(leases.path(), "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
        for name in ["../secrets/x", "a/b", "a?watch=1", "a#b", "..", ".", "", "a%2fb", "é"] {
            let path = nodes.object(name);
            let last = path.strip_prefix("/api/v1/nodes/").unwrap();
            assert!(!last.contains(['/', '?', '#']) && !matches!(last, "" | "." | ".."), "{path}");
        }
    }
}
