//! One request, one answer: reading and writing objects as JSON, in types of the caller's own.
//!
//! Nothing is sent twice: whoever calls knows whether that would do harm.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::{Connection, describe};

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request that did not get what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The answer is not what was expected.
    #[error("{path}: the answer cannot be read: {why}")]
    Answer {
        /// What was asked.
        path: String,
        /// What is wrong with the answer. Never the answer itself, which may be a secret.
        why: String,
    },
    /// The server says no.
    #[error("{message} ({code})")]
    Refused {
        /// The status code.
        code: u16,
        /// The reason in one word, such as `AlreadyExists`; empty if none was given.
        reason: String,
        /// The reason for people.
        message: String,
    },
    /// Nobody answers.
    #[error("cannot reach {server}: {why}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// Why.
        why: String,
    },
}

impl CallError {
    /// The status code, if the server gave one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The name is taken.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// Somebody else has changed the object since it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason != "AlreadyExists")
    }
}

/// A kind of object by its place in the API, all namespaces or one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The name in paths, in the plural and in lower case.
    pub plural: Cow<'static, str>,
    /// The namespace; nothing for all of them, or for what lies in none.
    pub namespace: Option<String>,
}

impl Resource {
    /// A kind of object, in all namespaces or in none.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            namespace: None,
        }
    }

    /// The same in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The path of all of them. Names go into it as they are: no character of a name ends the segment it stands in.
    pub fn path(&self) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let within =
            self.namespace.as_ref().map(|n| format!("/namespaces/{}", segment(n))).unwrap_or_default();
        format!("{root}/{}{within}/{}", self.version, self.plural)
    }

    /// The path of one of them.
    pub fn object(&self, name: &str) -> String {
        format!("{}/{}", self.path(), segment(name))
    }
}

/// A name as one segment of a path.
fn segment(name: &str) -> String {
    // A name that browsers and servers would resolve. Nothing has such a name: the answer is 404.
    if matches!(name, "" | "." | "..") {
        return format!("%00{name}");
    }
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

impl Connection {
    /// Sends one request and reads the answer, whatever it is.
    ///
    /// # Errors
    /// Nobody answers in 30 seconds, a refusal, or an answer of another form.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<T, CallError> {
        let unreadable = |why: String| CallError::Answer { path: path.to_owned(), why };
        let text = self.text(method, path, body).await?;
        serde_json::from_str(&text).map_err(|e| unreadable(without_content(&e)))
    }

    /// Sends one request and gives the answer as text.
    ///
    /// # Errors
    /// Nobody answers in 30 seconds, or a refusal.
    pub async fn text(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<String, CallError> {
        let unreachable = |why: String| CallError::Unreachable { server: self.server(), why };
        let mut request = Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
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

    /// Creates an object, and gives what the server made of it.
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

    /// Puts an object in the place of what is there; with a resourceVersion in it, only of that version.
    /// `path` is that of the object, or of a part of it such as `/status`.
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

fn json(object: &impl Serialize) -> Result<(&'static str, Vec<u8>), CallError> {
    let unwritable = |e: serde_json::Error| CallError::Answer { path: String::new(), why: e.to_string() };
    Ok(("application/json", serde_json::to_vec(object).map_err(unwritable)?))
}

/// Where JSON is wrong, without showing what stands there.
pub(crate) fn without_content(error: &serde_json::Error) -> String {
    let what = if error.is_data() { "it is not of the expected form" } else { "it is not JSON" };
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
